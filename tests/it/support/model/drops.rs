//! The oracle's drops: the contract's section 5 written down a second time, as plainly as possible.

use std::sync::Arc;

use tipcast::domain::moderate::{GiftRefunded, TakingBack};
use tipcast::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, ClaimState, ClaimStory, Claimed, Confirmed,
    Defined, DropId, DropSpec, DropView, FeedId, Hold, HoldId, Millis, Op, Pay, Phase, Policy, ReviewMode,
    Row, RowDrop, RowId, Sale, Trace, Value,
};

use super::moderation::Made;
use super::{Feed, Model, expiry};

/// How long before opening and closing it reminds; the engines' default.
const REMINDER_MS: u64 = 60_000;

pub(super) struct Drop {
    spec: DropSpec,
    /// In the order in which they were filled.
    claims: Vec<Filled>,
    said: Phase,
    told: Millis,
    stale: bool,
}

struct Filled {
    claim: Claim,
    value: Option<Value>,
    first: ClaimOutcome,
    sale: Option<Sale>,
    /// None: it stands. Else its hold ended, and is forgotten then.
    ended: Option<Millis>,
    cancelled: bool,
    at: Millis,
    refunded: u64,
    restocked: bool,
}

impl Filled {
    fn until(&self) -> Option<Millis> {
        match (&self.first, &self.sale, self.ended) {
            (ClaimOutcome::Held(until), None, None) => Some(*until),
            _ => None,
        }
    }
}

impl Drop {
    fn units(&self, which: impl Fn(&Filled) -> bool) -> u64 {
        self.claims
            .iter()
            .filter(|filled| filled.ended.is_none() && !filled.restocked && which(filled))
            .map(|f| f.claim.count)
            .sum()
    }

    fn view(&self, drop: &DropId, now: Millis) -> DropView {
        let (held, sold) = (self.units(|f| f.sale.is_none()), self.units(|f| f.sale.is_some()));
        let free = self.spec.total - held - sold;
        let phase = match () {
            () if self.spec.opens_at.is_some_and(|at| at > now) => Phase::Pending,
            () if self.spec.closes_at.is_some_and(|at| at <= now) => Phase::Closed,
            () if free == 0 => Phase::SoldOut,
            () => Phase::Open,
        };
        DropView { drop: drop.clone(), phase, spec: self.spec.clone(), free, held, sold }
    }

    fn sweep(&mut self, now: Millis, window: u64) {
        self.claims.retain(|filled| filled.ended.is_none_or(|forget| forget > now));
        for filled in &mut self.claims {
            if filled.until().is_some_and(|until| until <= now) {
                filled.ended = Some(now.plus(window));
                self.stale = true;
            }
        }
    }

    fn wants_to_tell(&self, view: &DropView, now: Millis) -> bool {
        let turned = view.phase != self.said;
        let back = self.said == Phase::SoldOut && view.phase == Phase::Open;
        let due = |at: Option<Millis>| {
            let Some(at) = at else { return false };
            let reminder = at.0 - REMINDER_MS as i64;
            (self.told.0 + 1..=now.0).contains(&reminder) && at > now
        };
        let waited = now.0 - self.told.0 >= 600 || now < self.told;
        (turned && !back)
            || due(self.spec.opens_at)
            || (view.phase != Phase::Pending && due(self.spec.closes_at))
            || ((self.stale || back) && waited)
    }
}

impl Feed {
    fn tell_drop(&mut self, name: &DropId, policy: &Policy, now: Millis) {
        let drop = self.drops.get_mut(name).unwrap();
        let view = drop.view(name, now);
        (drop.said, drop.told, drop.stale) = (view.phase, now, false);
        self.begin();
        self.shown.insert(name.clone(), Arc::new(view.clone()));
        self.record(Op::Drop(Arc::new(view)), policy);
    }

    /// Ends what is due, does something with the drop, publishes it.
    fn with_drop<T>(
        &mut self,
        name: &DropId,
        policy: &Policy,
        now: Millis,
        act: impl FnOnce(&mut Feed) -> T,
    ) -> Option<T> {
        self.drops.get_mut(name)?.sweep(now, policy.idempotency_window_ms);
        let result = act(self);
        let drop = &self.drops[name];
        if drop.wants_to_tell(&drop.view(name, now), now) {
            self.tell_drop(name, policy, now);
        }
        Some(result)
    }

    fn sell(
        &mut self,
        name: &DropId,
        (claim, value): (&Claim, &Option<Value>),
        policy: &Policy,
        now: Millis,
        left: u64,
    ) -> Sale {
        self.sweep(policy, now);
        self.begin();
        let seq = self.at.seq + 1;
        let id = RowId::of(&self.at.epoch, seq);
        let row = Arc::new(Row {
            id: id.clone(),
            rev: 1,
            seq,
            at: now,
            updated_at: now,
            expires_at: expiry(policy, now),
            count: claim.count,
            value: value.clone(),
            combo: None,
            drop: Some(RowDrop { drop: name.clone(), left }),
            test: false,
            user: claim.user.to_json().into(),
            gift: self.drops[name].spec.gift.clone(),
            message: claim
                .message
                .as_ref()
                .filter(|_| policy.review == ReviewMode::Off)
                .map(|text| serde_json::to_string(text).unwrap().into()),
            tier: None,
            meta: None,
        });
        self.rows.insert(0, row.clone());
        self.rows.truncate(policy.capacity as usize);
        self.record(Op::Add(row), policy);
        let sale = Sale { at: self.at.clone(), row: id };
        self.enter_sale(name, (claim, value), &sale, now);
        sale
    }

    pub(super) fn gift_of(&self, name: &DropId) -> String {
        self.drops[name].spec.gift.to_string()
    }

    fn unpaid(&self, user: &str, now: Millis) -> Vec<Hold> {
        let mut holds = vec![];
        for (name, drop) in &self.drops {
            for filled in drop.claims.iter().filter(|filled| filled.claim.user.id == user) {
                let Some(expires_at) = filled.until().filter(|until| *until > now) else { continue };
                let hold = HoldId { drop: name.clone(), claim: filled.claim.id.clone() };
                holds.push(Hold { hold, count: filled.claim.count, expires_at });
            }
        }
        holds.sort_by_key(|hold| (hold.expires_at, hold.hold.to_string()));
        holds
    }

    fn fill(&mut self, name: &DropId, claim: &Claim, policy: &Policy, now: Millis) -> Claimed {
        let own = |claim: &Claim| HoldId { drop: name.clone(), claim: claim.id.clone() };
        let answer = |filled: &Filled| {
            let (claim, count) = (own(&filled.claim), filled.claim.count);
            ClaimAnswer { claim, count, value: filled.value.clone(), fate: filled.first.clone() }
        };
        let drop = &self.drops[name];
        if let Some(known) = drop.claims.iter().find(|known| known.claim.id == claim.id) {
            return match known.claim == *claim {
                true => Claimed::Again(answer(known)),
                false => Claimed::Refused(ClaimRefused::IdReused),
            };
        }
        let view = drop.view(name, now);
        let mine = |filled: &Filled| filled.claim.user.id == claim.user.id;
        let unpaid = self.unpaid(&claim.user.id, now);
        let refused = match () {
            () if claim.count > drop.spec.per_user => ClaimRefused::AbovePerUser(drop.spec.per_user),
            () if matches!(view.phase, Phase::Pending | Phase::Closed) => ClaimRefused::NotOpen(view.phase),
            () if drop.units(mine) + claim.count > drop.spec.per_user => {
                let first = drop
                    .claims
                    .iter()
                    .find(|filled| filled.ended.is_none() && !filled.restocked && mine(filled));
                ClaimRefused::AlreadyClaimed(first.map(answer))
            }
            () if view.free < claim.count => ClaimRefused::SoldOut(view.free),
            () if claim.pay == Pay::Later && unpaid.len() as u64 >= drop.spec.max_holds_per_user => {
                ClaimRefused::TooManyHolds(unpaid[0].expires_at.since(now))
            }
            () => {
                let price = drop.spec.value.clone();
                let value = price.map(|each| Value { amount: each.amount * claim.count, ..each });
                let (first, sale) = match claim.pay {
                    Pay::Later => (ClaimOutcome::Held(now.plus(drop.spec.hold_ttl_ms)), None),
                    Pay::Now => {
                        let sale = self.sell(name, (claim, &value), policy, now, view.free - claim.count);
                        (ClaimOutcome::Sold(sale.clone()), Some(sale))
                    }
                };
                let filled = Filled {
                    claim: claim.clone(),
                    value,
                    first,
                    sale,
                    ended: None,
                    cancelled: false,
                    at: now,
                    refunded: 0,
                    restocked: false,
                };
                let answer = answer(&filled);
                let drop = self.drops.get_mut(name).unwrap();
                drop.claims.push(filled);
                drop.stale = true;
                return Claimed::New(answer);
            }
        };
        Claimed::Refused(refused)
    }

    fn hold(&mut self, hold: &HoldId) -> Option<&mut Filled> {
        let claims = &mut self.drops.get_mut(&hold.drop)?.claims;
        claims
            .iter_mut()
            .find(|filled| filled.claim.id == hold.claim && matches!(filled.first, ClaimOutcome::Held(_)))
    }

    fn confirm(&mut self, hold: &HoldId, policy: &Policy, now: Millis) -> Confirmed {
        let Some(filled) = self.hold(hold) else { return Confirmed::Unknown };
        let (claim, value) = (filled.claim.clone(), filled.value.clone());
        let answer = |sale| ClaimAnswer {
            claim: hold.clone(),
            count: claim.count,
            value: value.clone(),
            fate: ClaimOutcome::Sold(sale),
        };
        if let Some(sale) = filled.sale.clone() {
            return Confirmed::Again(answer(sale));
        }
        if filled.ended.is_some() {
            return Confirmed::Ended;
        }
        let free = self.drops[&hold.drop].view(&hold.drop, now).free;
        let sale = self.sell(&hold.drop, (&claim, &value), policy, now, free);
        self.hold(hold).unwrap().sale = Some(sale.clone());
        self.drops.get_mut(&hold.drop).unwrap().stale = true;
        Confirmed::New(answer(sale))
    }

    fn cancel(&mut self, hold: &HoldId, policy: &Policy, now: Millis) -> Cancelled {
        let Some(filled) = self.hold(hold) else { return Cancelled::Unknown };
        if filled.sale.is_some() || filled.ended.is_some() {
            return Cancelled::Ended;
        }
        filled.ended = Some(now.plus(policy.idempotency_window_ms));
        filled.cancelled = true;
        self.drops.get_mut(&hold.drop).unwrap().stale = true;
        Cancelled::Done
    }
}

impl Feed {
    fn filled(&mut self, claim: &HoldId) -> Option<&mut Filled> {
        self.drops.get_mut(&claim.drop)?.claims.iter_mut().find(|filled| filled.claim.id == claim.claim)
    }

    fn look_up(&mut self, claim: &HoldId, now: Millis) -> Option<ClaimStory> {
        let filled = self.filled(claim)?;
        let (until, cancelled, sale) = (filled.until(), filled.cancelled, filled.sale.clone());
        let fate = sale.clone().map_or(filled.first.clone(), ClaimOutcome::Sold);
        let expires_at = match filled.first {
            ClaimOutcome::Held(at) => Some(at),
            ClaimOutcome::Sold(_) => None,
        };
        let story = ClaimStory {
            state: ClaimState::Sold,
            answer: ClaimAnswer {
                claim: claim.clone(),
                count: filled.claim.count,
                value: filled.value.clone(),
                fate,
            },
            user: serde_json::value::RawValue::from_string(filled.claim.user.to_json()).unwrap(),
            at: filled.at,
            expires_at,
            refunded: filled.refunded,
        };
        let state = match sale {
            Some(sale) if self.made.contains_key(&sale.row) => ClaimState::Sold,
            Some(_) => ClaimState::Retracted,
            None if cancelled => ClaimState::Cancelled,
            None if until.is_some_and(|until| now < until) => ClaimState::Held,
            None => ClaimState::Expired,
        };
        Some(ClaimStory { state, ..story })
    }

    fn reverse(&mut self, claim: &HoldId, what: &TakingBack, policy: &Policy, now: Millis) -> GiftRefunded {
        let Some(filled) = self.filled(claim) else { return GiftRefunded::Unknown };
        let Some(Sale { row, .. }) = filled.sale.clone() else {
            if what.refunded.is_some() {
                return GiftRefunded::Waits;
            }
            if filled.ended.is_none() {
                self.cancel(claim, policy, now);
            }
            return GiftRefunded::Done { whole: true, refunded: 0, row: None };
        };
        let before = filled.refunded;
        let money = match self.made.get(&row).map(|made| &made[..]) {
            Some([Made::Sale(_, _, left)]) => left.value.clone(),
            _ => {
                self.restock(claim, what);
                return GiftRefunded::Done { whole: true, refunded: before, row: Some(row) };
            }
        };
        if let Some(refunded) = what.refunded {
            let Some((left, currency)) = money else { return GiftRefunded::NoValue };
            let value = left as u64 + before;
            if refunded > value {
                return GiftRefunded::Above(value);
            }
            if refunded > before {
                self.filled(claim).unwrap().refunded = refunded;
            }
            if refunded <= before || refunded < value {
                if refunded > before {
                    self.refund_sale(&row, ((refunded - before) as i64, currency), what, policy, now);
                }
                return GiftRefunded::Done { whole: false, refunded: refunded.max(before), row: Some(row) };
            }
        }
        self.retract_sale(&row, what.reason.as_deref(), policy, now);
        self.restock(claim, what);
        let refunded = self.filled(claim).unwrap().refunded;
        GiftRefunded::Done { whole: true, refunded, row: Some(row) }
    }

    fn restock(&mut self, claim: &HoldId, what: &TakingBack) {
        let filled = self.filled(claim).unwrap();
        if what.restock && !std::mem::replace(&mut filled.restocked, true) {
            self.drops.get_mut(&claim.drop).unwrap().stale = true;
        }
    }
}

impl Model {
    pub(crate) fn look_up_claim(&self, feed: &FeedId, claim: &HoldId, now: Millis) -> Option<ClaimStory> {
        self.on(feed, |f, _| f.look_up(claim, now))
    }

    pub(crate) fn reverse_sale(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        what: &TakingBack,
        now: Millis,
    ) -> GiftRefunded {
        self.on(feed, |f, policy| {
            let reversed = f.with_drop(&claim.drop, &policy, now, |f| f.reverse(claim, what, &policy, now));
            reversed.unwrap_or(GiftRefunded::Unknown)
        })
    }

    pub(crate) fn define_drop(&self, feed: &FeedId, drop: &DropId, spec: DropSpec, now: Millis) -> Defined {
        self.on(feed, |f, policy| {
            let changed = f.with_drop(drop, &policy, now, |f| {
                let known = f.drops.get_mut(drop).unwrap();
                let taken = known.units(|_| true);
                if spec.total < taken {
                    return Defined::BelowTaken(taken);
                }
                known.stale |= known.spec != spec;
                known.spec = spec.clone();
                Defined::Changed(known.view(drop, now))
            });
            changed.unwrap_or_else(|| {
                let new = Drop { spec, claims: vec![], said: Phase::Open, told: now, stale: false };
                let view = new.view(drop, now);
                f.drops.insert(drop.clone(), new);
                f.tell_drop(drop, &policy, now);
                Defined::New(view)
            })
        })
    }

    pub(crate) fn tick(&self, feed: &FeedId, drop: &DropId, now: Millis) -> Option<DropView> {
        self.on(feed, |f, policy| f.with_drop(drop, &policy, now, |f| f.drops[drop].view(drop, now)))
    }

    pub(crate) fn drops(&self, feed: &FeedId, now: Millis) -> Vec<DropView> {
        self.on(feed, |f, policy| {
            let names: Vec<DropId> = f.drops.keys().cloned().collect();
            let one = |name: &DropId| f.with_drop(name, &policy, now, |f| f.drops[name].view(name, now));
            names.iter().filter_map(one).collect()
        })
    }

    pub(crate) fn claim(&self, feed: &FeedId, drop: &DropId, claim: Claim, now: Millis) -> Claimed {
        self.on(feed, |f, policy| {
            let claimed = f.with_drop(drop, &policy, now, |f| f.fill(drop, &claim, &policy, now));
            claimed.unwrap_or(Claimed::Refused(ClaimRefused::UnknownDrop))
        })
    }

    pub(crate) fn confirm(&self, feed: &FeedId, hold: &HoldId, _: Option<Trace>, now: Millis) -> Confirmed {
        self.on(feed, |f, policy| {
            let confirmed = f.with_drop(&hold.drop, &policy, now, |f| f.confirm(hold, &policy, now));
            confirmed.unwrap_or(Confirmed::Unknown)
        })
    }

    pub(crate) fn cancel(&self, feed: &FeedId, hold: &HoldId, now: Millis) -> Cancelled {
        self.on(feed, |f, policy| {
            let cancelled = f.with_drop(&hold.drop, &policy, now, |f| f.cancel(hold, &policy, now));
            cancelled.unwrap_or(Cancelled::Unknown)
        })
    }

    pub(crate) fn holds(&self, feed: &FeedId, user: &str, now: Millis) -> Vec<Hold> {
        self.on(feed, |f, _| f.unpaid(user, now))
    }
}
