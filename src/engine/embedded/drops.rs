//! Drops in memory, and what the next commit will write of them. What was claimed is on disk and read
//! within the group's transaction, so a claim sees the claims before it.

use super::EmbeddedEngine;
use super::claims::State;
use super::feeds::{Feeds, Step};
use crate::domain::drop::MAX_DROPS;
use crate::domain::row::{RowDrop, SoldRow};
use crate::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropId, DropSpec,
    DropView, FeedId, Hold, HoldId, Millis, Pay, Sale, Stock,
};
use crate::engine::record::{SoldEntry, push_sold};
use crate::engine::{DropStore, Wait};

impl Feeds {
    fn define_drop(&mut self, feed: &FeedId, drop: &DropId, spec: DropSpec, now: Millis) -> Step<Defined> {
        let known = self.stock(feed, drop, now)?;
        let Some(mut stock) = known else {
            if self.look(feed, |feed, _| feed.drops.len())? >= MAX_DROPS {
                return Ok(Defined::Full);
            }
            let mut stock = Stock::new(spec, now);
            self.tell(feed, drop, &mut stock, now)?;
            let view = stock.view(drop, now);
            let strikes = stock.next(now, self.reminder_ms);
            self.put_stock(feed, drop, stock)?;
            self.wind(feed, drop, strikes)?;
            return Ok(Defined::New(view));
        };
        let defined = match stock.redefine(spec) {
            Err(taken) => Defined::BelowTaken(taken),
            Ok(()) => Defined::Changed(stock.view(drop, now)),
        };
        self.settle(feed, drop, stock, now)?;
        Ok(defined)
    }

    /// Does what is due of a drop.
    pub(super) fn tick(&mut self, feed: &FeedId, drop: &DropId, now: Millis) -> Step<Option<DropView>> {
        let Some(stock) = self.stock(feed, drop, now)? else { return Ok(None) };
        let view = stock.view(drop, now);
        self.settle(feed, drop, stock, now)?;
        Ok(Some(view))
    }

    fn drops(&mut self, feed: &FeedId, now: Millis) -> Step<Vec<DropView>> {
        let names: Vec<DropId> = self.look(feed, |feed, _| feed.drops.keys().cloned().collect())?;
        let mut views = Vec::with_capacity(names.len());
        for name in names {
            views.extend(self.tick(feed, &name, now)?);
        }
        Ok(views)
    }

    fn claim(&mut self, feed: &FeedId, drop: &DropId, claim: &Claim, now: Millis) -> Step<Claimed> {
        let Some(mut stock) = self.stock(feed, drop, now)? else {
            return Ok(Claimed::Refused(ClaimRefused::UnknownDrop));
        };
        let no = self.number(feed)?;
        let hold = HoldId { drop: drop.clone(), claim: claim.id.clone() };
        if let Some(filled) = self.store.claim(no, &hold)? {
            self.settle(feed, drop, stock, now)?;
            return Ok(match filled.first(hold).filter(|_| filled.fingerprint == claim.fingerprint) {
                Some(first) => Claimed::Again(first),
                None => Claimed::Refused(ClaimRefused::IdReused),
            });
        }
        let record = self.store.record(no, drop, &claim.user.id, now)?;
        if let Err(mut refused) = stock.take(claim, record, now) {
            if let ClaimRefused::AlreadyClaimed(first) = &mut refused {
                *first = self.store.standing(no, drop, &claim.user.id)?;
            }
            self.settle(feed, drop, stock, now)?;
            return Ok(Claimed::Refused(refused));
        }
        let fate = match claim.pay {
            Pay::Later => ClaimOutcome::Held(now.plus(stock.spec.hold_ttl_ms)),
            Pay::Now => {
                let (person, message) = (claim.user.to_json(), claim.message_json());
                let row = (&*person, message.as_deref(), claim.count);
                ClaimOutcome::Sold(self.sell(feed, &hold, &stock, row, now)?)
            }
        };
        self.store.begin()?;
        self.store.put_claim(no, drop, claim, &fate)?;
        self.settle(feed, drop, stock, now)?;
        Ok(Claimed::New(ClaimAnswer { claim: hold, count: claim.count, fate }))
    }

    fn confirm(&mut self, feed: &FeedId, hold: &HoldId, now: Millis) -> Step<Confirmed> {
        let Some(mut stock) = self.stock(feed, &hold.drop, now)? else { return Ok(Confirmed::Unknown) };
        let no = self.number(feed)?;
        let filled = self.store.claim(no, hold)?.filter(|filled| filled.expires.is_some());
        let answer = match &filled {
            None => Confirmed::Unknown,
            Some(filled) => match (filled.state, filled.sold(hold.clone())) {
                (State::Sold, Some(first)) => Confirmed::Again(first),
                (State::Held, _) => {
                    stock.sell_held(filled.count);
                    let row = (&*filled.person, filled.message.as_deref(), filled.count);
                    let sale = self.sell(feed, hold, &stock, row, now)?;
                    self.store.begin()?;
                    self.store.sell_claim(filled, &sale)?;
                    let (claim, count) = (hold.clone(), filled.count);
                    Confirmed::New(ClaimAnswer { claim, count, fate: ClaimOutcome::Sold(sale) })
                }
                _ => Confirmed::Ended,
            },
        };
        self.settle(feed, &hold.drop, stock, now)?;
        Ok(answer)
    }

    fn cancel(&mut self, feed: &FeedId, hold: &HoldId, now: Millis) -> Step<Cancelled> {
        let Some(mut stock) = self.stock(feed, &hold.drop, now)? else { return Ok(Cancelled::Unknown) };
        let no = self.number(feed)?;
        let filled = self.store.claim(no, hold)?.filter(|filled| filled.expires.is_some());
        let answer = match &filled {
            None => Cancelled::Unknown,
            Some(filled) if filled.state == State::Held => {
                stock.give_back(filled.count);
                let until = self.forget_at(feed, now)?;
                stock.heed(until);
                self.store.begin()?;
                self.store.end_claim(filled, until)?;
                Cancelled::Done
            }
            Some(_) => Cancelled::Ended,
        };
        self.settle(feed, &hold.drop, stock, now)?;
        Ok(answer)
    }

    fn holds(&mut self, feed: &FeedId, user: &str, now: Millis) -> Step<Vec<Hold>> {
        match self.look(feed, |feed, _| feed.no)? {
            Some(no) => self.store.holds(no, user, now),
            None => Ok(Vec::new()),
        }
    }

    /// A drop without what is over at `now`. Whoever gets it must [`Feeds::settle`] it.
    fn stock(&mut self, feed: &FeedId, drop: &DropId, now: Millis) -> Step<Option<Stock>> {
        let Some(mut stock) = self.look(feed, |feed, _| feed.drops.get(drop).cloned())? else {
            return Ok(None);
        };
        if stock.soonest.is_some_and(|at| at <= now) {
            let no = self.number(feed)?;
            let forget_at = self.forget_at(feed, now)?;
            self.store.begin()?;
            let (units, soonest) = self.store.end_overdue(no, drop, now, forget_at)?;
            if units > 0 {
                stock.give_back(units);
            }
            stock.soonest = soonest;
        }
        Ok(Some(stock))
    }

    /// Tells watchers if they are to be told, keeps the drop, and winds its clock.
    fn settle(&mut self, feed: &FeedId, drop: &DropId, mut stock: Stock, now: Millis) -> Step<()> {
        if stock.must_tell(now, self.reminder_ms) {
            self.tell(feed, drop, &mut stock, now)?;
        }
        let strikes = stock.next(now, self.reminder_ms);
        if self.look(feed, |feed, _| feed.drops.get(drop) != Some(&stock))? {
            self.put_stock(feed, drop, stock)?;
        }
        self.wind(feed, drop, strikes)
    }

    fn tell(&mut self, feed: &FeedId, drop: &DropId, stock: &mut Stock, now: Millis) -> Step<()> {
        stock.tell(now);
        let view = stock.view(drop, now);
        self.change(feed, now, |state, policy, effects| state.tell_drop(view, policy, effects))
    }

    fn sell(
        &mut self,
        feed: &FeedId,
        HoldId { drop, claim }: &HoldId,
        stock: &Stock,
        (user, message, count): (&str, Option<&str>, u64),
        now: Millis,
    ) -> Step<Sale> {
        let (gift, left) = (&stock.spec.gift, stock.free());
        let row = SoldRow { user, gift, message, count, drop: RowDrop { drop: drop.clone(), left } };
        let sale = self.change(feed, now, |state, policy, effects| state.sell(row, policy, now, effects))?;
        let drop = format!("{left} {drop}");
        let sold = SoldEntry { id: claim, count, drop: &drop, user, gift, message };
        self.enter(feed, now, |out| push_sold(out, sold, sale.at.seq, &sale.row, now));
        Ok(sale)
    }

    /// When a hold that ends now is forgotten.
    fn forget_at(&mut self, feed: &FeedId, now: Millis) -> Step<Millis> {
        let window = |defaults: crate::domain::Policy| now.plus(defaults.idempotency_window_ms);
        self.look(feed, |feed, defaults| window(defaults.with(&feed.state.overrides)))
    }
}

impl DropStore for EmbeddedEngine {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.task_at(now, move |feeds| feeds.define_drop(&feed, &drop, spec, now))
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.task_at(now, move |feeds| feeds.tick(&feed, &drop, now))
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>> {
        let feed = feed.clone();
        self.task_at(now, move |feeds| feeds.drops(&feed, now))
    }

    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.task_at(now, move |feeds| feeds.claim(&feed, &drop, &claim, now))
    }

    fn confirm<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Confirmed> {
        let (feed, hold) = (feed.clone(), hold.clone());
        self.task_at(now, move |feeds| feeds.confirm(&feed, &hold, now))
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled> {
        let (feed, hold) = (feed.clone(), hold.clone());
        self.task_at(now, move |feeds| feeds.cancel(&feed, &hold, now))
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>> {
        let (feed, user) = (feed.clone(), user.to_owned());
        self.task_at(now, move |feeds| feeds.holds(&feed, &user, now))
    }
}
