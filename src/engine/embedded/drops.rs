//! Drops: the rules of claims, holds and sales. What was claimed is on disk and read within the group's transaction,
//! so a claim sees the claims before it.

use super::claims::{self, State};
use super::due;
use super::entries;
use super::fault::Step;
use super::totals;
use super::txn::FeedTxn;
use crate::domain::drop::MAX_DROPS;
use crate::domain::row::{RowDrop, SoldRow};
use crate::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropId, DropSpec,
    DropView, DueKind, Hold, HoldId, Millis, Pay, ReviewMode, Sale, Stock, Trace,
};
use crate::engine::record::{SoldEntry, push_sold};

/// See [`crate::engine::DefineDrop`].
pub(super) fn define(txn: &mut FeedTxn<'_>, drop: &DropId, spec: DropSpec) -> Step<Defined> {
    let Some(mut stock) = stock(txn, drop)? else {
        if txn.feed.stocks.len() >= MAX_DROPS {
            return Ok(Defined::Full);
        }
        let mut stock = Stock::new(spec, txn.now);
        tell(txn, drop, &mut stock)?;
        let view = stock.view(drop, txn.now);
        let strikes = stock.next(txn.now, txn.common.reminder_ms);
        put(txn, drop, stock)?;
        wind(txn, drop, strikes)?;
        return Ok(Defined::New(view));
    };
    let defined = match stock.redefine(spec) {
        Err(taken) => Defined::BelowTaken(taken),
        Ok(()) => Defined::Changed(stock.view(drop, txn.now)),
    };
    settle(txn, drop, stock)?;
    Ok(defined)
}

/// Does what is due of a drop.
pub(super) fn tick(txn: &mut FeedTxn<'_>, drop: &DropId) -> Step<Option<DropView>> {
    let Some(stock) = stock(txn, drop)? else { return Ok(None) };
    let view = stock.view(drop, txn.now);
    settle(txn, drop, stock)?;
    Ok(Some(view))
}

/// See [`crate::engine::ListDrops`].
pub(super) fn all(txn: &mut FeedTxn<'_>) -> Step<Vec<DropView>> {
    let names: Vec<DropId> = txn.feed.stocks.keys().cloned().collect();
    let mut views = Vec::with_capacity(names.len());
    for name in names {
        views.extend(tick(txn, &name)?);
    }
    Ok(views)
}

/// See [`crate::engine::ClaimDrop`].
pub(super) fn claim(txn: &mut FeedTxn<'_>, drop: &DropId, claim: &Claim) -> Step<Claimed> {
    let Some(mut stock) = stock(txn, drop)? else {
        return Ok(Claimed::Refused(ClaimRefused::UnknownDrop));
    };
    let no = txn.number()?;
    let hold = HoldId { drop: drop.clone(), claim: claim.id.clone() };
    if let Some(filled) = claims::claim(txn.db, no, &hold)? {
        settle(txn, drop, stock)?;
        return Ok(match filled.fingerprint == claim.fingerprint {
            true => Claimed::Again(filled.first(hold)?),
            false => Claimed::Refused(ClaimRefused::IdReused),
        });
    }
    let record = claims::record(txn.db, no, drop, &claim.user.id, txn.now)?;
    if let Err(mut refused) = stock.take(claim, record, txn.now) {
        if let ClaimRefused::AlreadyClaimed(first) = &mut refused {
            *first = claims::standing(txn.db, no, drop, &claim.user.id)?;
        }
        settle(txn, drop, stock)?;
        return Ok(Claimed::Refused(refused));
    }
    let fate = match claim.pay {
        Pay::Later => ClaimOutcome::Held(txn.now.plus(stock.spec.hold_ttl_ms)),
        Pay::Now => {
            let (person, message) = (claim.user.to_json(), claim.message_json());
            ClaimOutcome::Sold(sell(
                txn,
                &hold,
                &stock,
                (&*person, message.as_deref(), claim.count),
                claim.trace.as_ref(),
            )?)
        }
    };
    claims::put_claim(txn.db, no, drop, claim, &fate)?;
    settle(txn, drop, stock)?;
    Ok(Claimed::New(ClaimAnswer { claim: hold, count: claim.count, fate }))
}

/// See [`crate::engine::ConfirmHold`].
pub(super) fn confirm(txn: &mut FeedTxn<'_>, hold: &HoldId, trace: Option<&Trace>) -> Step<Confirmed> {
    let Some(mut stock) = stock(txn, &hold.drop)? else { return Ok(Confirmed::Unknown) };
    let no = txn.number()?;
    let filled = claims::claim(txn.db, no, hold)?.filter(|filled| filled.expires.is_some());
    let answer = match &filled {
        None => Confirmed::Unknown,
        Some(filled) => match filled.state {
            State::Sold => Confirmed::Again(filled.sold(hold.clone())?),
            State::Held => {
                stock.sell_held(filled.count);
                let row = (&*filled.person, filled.message.as_deref(), filled.count);
                let sale = sell(txn, hold, &stock, row, trace)?;
                claims::sell(txn.db, filled, &sale)?;
                let (claim, count) = (hold.clone(), filled.count);
                Confirmed::New(ClaimAnswer { claim, count, fate: ClaimOutcome::Sold(sale) })
            }
            State::Ended => Confirmed::Ended,
        },
    };
    settle(txn, &hold.drop, stock)?;
    Ok(answer)
}

/// See [`crate::engine::CancelHold`].
pub(super) fn cancel(txn: &mut FeedTxn<'_>, hold: &HoldId) -> Step<Cancelled> {
    let Some(mut stock) = stock(txn, &hold.drop)? else { return Ok(Cancelled::Unknown) };
    let no = txn.number()?;
    let filled = claims::claim(txn.db, no, hold)?.filter(|filled| filled.expires.is_some());
    let answer = match &filled {
        None => Cancelled::Unknown,
        Some(filled) if filled.state == State::Held => {
            stock.give_back(filled.count);
            let until = forget_at(txn);
            stock.heed(until);
            claims::end(txn.db, filled, until)?;
            Cancelled::Done
        }
        Some(_) => Cancelled::Ended,
    };
    settle(txn, &hold.drop, stock)?;
    Ok(answer)
}

/// See [`crate::engine::ListHolds`].
pub(super) fn holds(txn: &FeedTxn<'_>, user: &str) -> Step<Vec<Hold>> {
    match txn.feed.no {
        Some(no) => claims::holds(txn.db, no, user, txn.now),
        None => Ok(Vec::new()),
    }
}

/// A drop without what is over now. Whoever gets it must [`settle`] it.
fn stock(txn: &mut FeedTxn<'_>, drop: &DropId) -> Step<Option<Stock>> {
    let Some(mut stock) = txn.feed.stocks.get(drop).cloned() else { return Ok(None) };
    // While nothing can be written, what is over ends later.
    if stock.soonest.is_some_and(|at| at <= txn.now) && !txn.db.is_refusing() {
        let no = txn.number()?;
        let forget = (forget_at(txn), txn.common.may_forget);
        let (units, soonest) = claims::end_overdue(txn.db, no, drop, txn.now, forget)?;
        if units > 0 {
            stock.give_back(units);
        }
        stock.soonest = soonest;
    }
    Ok(Some(stock))
}

/// Tells watchers if they are to be told, keeps the drop, and winds its clock.
fn settle(txn: &mut FeedTxn<'_>, drop: &DropId, mut stock: Stock) -> Step<()> {
    if txn.db.is_refusing() && txn.feed.stocks.get(drop) == Some(&stock) {
        return Ok(());
    }
    if stock.must_tell(txn.now, txn.common.reminder_ms) {
        tell(txn, drop, &mut stock)?;
    }
    let strikes = stock.next(txn.now, txn.common.reminder_ms);
    if txn.feed.stocks.get(drop) != Some(&stock) {
        put(txn, drop, stock)?;
    }
    wind(txn, drop, strikes)
}

fn put(txn: &mut FeedTxn<'_>, drop: &DropId, stock: Stock) -> Step<()> {
    txn.number()?;
    txn.feed.put_stock(drop, stock);
    Ok(())
}

fn tell(txn: &mut FeedTxn<'_>, drop: &DropId, stock: &mut Stock) -> Step<()> {
    stock.tell(txn.now);
    let view = stock.view(drop, txn.now);
    txn.change(|state, policy, _, effects| state.tell_drop(view, policy, effects))
}

/// Sees to it that a drop's clock strikes at `at`, and at no other time.
fn wind(txn: &mut FeedTxn<'_>, drop: &DropId, at: Option<Millis>) -> Step<()> {
    let Some(no) = txn.feed.no else { return Ok(()) };
    let kind = DueKind::Drop.letter();
    let wound = due::find(txn.db, no, kind, drop.as_str())?;
    if wound.as_ref().map(|entry| entry.place.at) == at {
        return Ok(());
    }
    txn.touch()?;
    if let Some(entry) = wound {
        due::remove(txn.db, no, entry.place)?;
        txn.common.agenda.set(txn.name, due::next(txn.db, no)?, txn.now);
    }
    match at {
        Some(at) => {
            let entry = (kind, drop.as_str(), String::new());
            txn.common.agenda.add(txn.db, (txn.name, no), entry, (at, txn.now))
        }
        None => Ok(()),
    }
}

fn sell(
    txn: &mut FeedTxn<'_>,
    HoldId { drop, claim }: &HoldId,
    stock: &Stock,
    (user, message, count): (&str, Option<&str>, u64),
    trace: Option<&Trace>,
) -> Step<Sale> {
    let (gift, left) = (&stock.spec.gift, stock.free());
    // Where a host reviews what is said, a sale shows without its message.
    let shown = message.filter(|_| txn.policy.review == ReviewMode::Off);
    let row = SoldRow { user, gift, message: shown, count, drop: RowDrop { drop: drop.clone(), left } };
    let sale = txn.change(|state, policy, now, effects| state.sell(row, policy, now, effects))?;
    let drop = format!("{left} {drop}");
    let sold = SoldEntry { id: claim.sent(), count, drop: &drop, user, gift, message, trace };
    let now = txn.now;
    entries::enter(txn, |out| push_sold(out, sold, sale.at.seq, &sale.row, now))?;
    totals::count_sale(txn, user, count, &sale.row)?;
    Ok(sale)
}

/// When a hold that ends now is forgotten.
fn forget_at(txn: &FeedTxn<'_>) -> Millis {
    txn.now.plus(txn.policy.idempotency_window_ms)
}
