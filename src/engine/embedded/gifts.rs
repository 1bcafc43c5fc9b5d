//! Gifts: taken now, or kept for later.

use std::sync::Arc;

use super::due::{self, DueEntry};
use super::entries;
use super::fault::{Fault, Step};
use super::totals::{self, Given};
use super::txn::FeedTxn;
use crate::domain::answer::{CountedGift, GiftFate, Remembered};
use crate::domain::{
    Answer, Decision, DueKind, DuePlace, EntryStatus, Gift, GiftId, Millis, Outcome, Part, Policy, Scheduled,
    Status,
};
use crate::engine::record::{Records, push_entry, push_gift, push_started};
use crate::engine::{PolicyChange, ScheduledGift, ScheduledPage, Snapshot, Unscheduled};

/// What an entry says of such an answer.
pub(super) fn entry_status(status: Status) -> EntryStatus {
    match status {
        Status::Accepted => EntryStatus::Accepted,
        Status::Merged => EntryStatus::Merged,
        Status::Suppressed => EntryStatus::Suppressed,
        Status::Denied => EntryStatus::Denied,
    }
}

/// Takes a gift that is not for later, or no longer, and remembers the answer, with what was decided about it. A masked
/// one is entered as it was given.
pub(super) fn take(txn: &mut FeedTxn<'_>, gift: &Gift, decided: Option<Decision>) -> Step<Answer> {
    let masked = (decided == Some(Decision::Mask)).then(|| gift.masked());
    let (answer, part) = txn.change(|state, policy, now, effects| {
        let answer = state.publish(masked.as_ref().unwrap_or(gift), policy, now, effects);
        (answer, effects.part.take().map_or(Part::Unknown, Part::Added))
    })?;
    let counted = match &part {
        Part::Added(part) => totals::of_gift(txn, gift, (&answer, masked.is_none()), part),
        Part::Unknown | Part::TakenBack => None,
    };
    let fate = GiftFate::Taken(answer.clone());
    remember(
        txn,
        Remembered { fingerprint: gift.fingerprint, fate, part, decided, counted: counted.clone() },
    )?;
    let Answer { status, at, row, .. } = &answer;
    let seq = (*status != Status::Suppressed).then_some(at.seq);
    let (now, status) = (txn.now, entry_status(*status));
    // The newest row is the one that it has started; with the gift's own texts, unless those were masked.
    let newest = txn.feed.state.list.rows.front().filter(|newest| Some(&newest.id) == row.as_ref());
    let started = newest.filter(|_| status == EntryStatus::Accepted && masked.is_none()).cloned();
    entries::enter(txn, |out| match &started {
        Some(started) => push_started(out, gift, started, now),
        None => push_entry(out, gift, status, seq, row.as_ref(), now),
    })?;
    if let Some(CountedGift { counted, user, .. }) = &counted {
        let row = answer.row.as_ref().filter(|_| answer.status != Status::Suppressed);
        totals::add(txn, counted, Given { user, person: &gift.user.to_json(), row })?;
    }
    Ok(answer)
}

/// Remembers what became of a gift's id, for a window from now.
pub(super) fn remember(txn: &mut FeedTxn<'_>, it: Remembered) -> Step<()> {
    let window = txn.now.plus(txn.policy.idempotency_window_ms);
    let until = if it.counted.is_some() { totals::keep_until(txn) } else { window };
    txn.number()?;
    txn.feed.ids.remember(&it, until);
    Ok(())
}

/// Keeps a gift that is new until `at`.
pub(super) fn schedule(txn: &mut FeedTxn<'_>, gift: &Gift, at: Millis) -> Step<Outcome> {
    let waiting = waiting(txn)?;
    if waiting >= txn.common.scheduled_max {
        let first = txn.feed.no.map(|no| due::next(txn.db, no)).transpose()?.flatten();
        let retry_in_ms = first.map_or(0, |first| first.since(txn.now));
        return Ok(Outcome::TooManyScheduled { id: gift.id.clone(), retry_in_ms });
    }
    Ok(Outcome::Scheduled(keep_until(txn, gift, at, None)?))
}

/// Puts a gift into the due queue, with what was decided about it.
pub(super) fn keep_until(
    txn: &mut FeedTxn<'_>,
    gift: &Gift,
    at: Millis,
    decided: Option<Decision>,
) -> Step<Scheduled> {
    let waiting = waiting(txn)?;
    let no = txn.number()?;
    let mut body = String::with_capacity(512);
    push_gift(&mut body, gift);
    let entry = (DueKind::Gift.letter(), gift.id.as_str(), body);
    txn.common.agenda.add(txn.db, (txn.name, no), entry, (at, txn.now))?;
    let scheduled = Scheduled { id: gift.id.clone(), deliver_at: at };
    let fate = GiftFate::Waits(scheduled.clone());
    let it = Remembered { fingerprint: gift.fingerprint, fate, part: Part::Unknown, decided, counted: None };
    txn.feed.ids.remember(&it, at);
    txn.feed.waiting = Some(waiting + 1);
    Ok(scheduled)
}

/// How many gifts of the feed wait. Counted once, and then kept in memory.
pub(super) fn waiting(txn: &FeedTxn<'_>) -> Step<u64> {
    match (txn.feed.waiting, txn.feed.no) {
        (Some(waiting), _) => Ok(waiting),
        (None, Some(no)) => due::count(txn.db, no, DueKind::Gift.letter()),
        (None, None) => Ok(0),
    }
}

/// See [`crate::engine::CancelScheduled`].
pub(super) fn unschedule(txn: &mut FeedTxn<'_>, id: &GiftId) -> Step<Unscheduled> {
    let Some(no) = txn.feed.no else { return Ok(Unscheduled::Unknown) };
    let known = txn.remembered(id)?;
    let Some(entry) = due::find(txn.db, no, DueKind::Gift.letter(), id.as_str())? else {
        return Ok(match known.map(|known| known.fate) {
            Some(GiftFate::Taken(_)) => Unscheduled::Shown,
            _ => Unscheduled::Unknown,
        });
    };
    let waiting = waiting(txn)?;
    txn.touch()?;
    due::remove(txn.db, no, entry.place)?;
    txn.common.agenda.set(txn.name, due::next(txn.db, no)?, txn.now);
    txn.feed.waiting = Some(waiting.saturating_sub(1));
    let deliver_at = entry.place.at;
    if let Some(known) = known {
        let fate = GiftFate::Cancelled(Scheduled { id: id.clone(), deliver_at });
        remember(txn, Remembered { fate, counted: None, ..known })?;
    }
    Ok(Unscheduled::Cancelled(deliver_at))
}

/// See [`crate::engine::ListScheduled`].
pub(super) fn scheduled(txn: &FeedTxn<'_>, after: Option<DuePlace>, max: usize) -> Step<ScheduledPage> {
    let Some(no) = txn.feed.no else { return Ok(ScheduledPage::default()) };
    let after = after.unwrap_or(DuePlace { at: Millis(i64::MIN), order: 0 });
    let mut entries = due::after(txn.db, no, DueKind::Gift.letter(), after, max + 1)?;
    let more = entries.len() > max;
    entries.truncate(max);
    let next = entries.last().filter(|_| more).map(|entry| entry.place);
    let gifts =
        entries.into_iter().map(|entry| Ok(ScheduledGift { place: entry.place, gift: gift_of(&entry)? }));
    Ok(ScheduledPage { gifts: gifts.collect::<Step<_>>()?, next })
}

/// The gift of an entry.
pub(super) fn gift_of(entry: &DueEntry) -> Step<Gift> {
    let gift = Records::new(&entry.body).gift();
    gift.ok_or_else(|| Fault::garbled(format!("the gift {} that waits cannot be read", entry.id)))
}

/// See [`crate::engine::SetPolicy`].
pub(super) fn set_policy(txn: &mut FeedTxn<'_>, change: &PolicyChange) -> Step<Policy> {
    // Written even when nothing else changed: a policy alone is worth keeping.
    txn.number()?;
    let defaults = txn.common.defaults.clone();
    let policy = txn.change(|state, _, now, effects| {
        let overrides = match change {
            PolicyChange::Replace(patch) => state.overrides.replaced(patch),
            PolicyChange::Merge(patch) => state.overrides.merged(patch),
        };
        state.set_policy(overrides, &defaults, now, effects)
    })?;
    txn.policy = Arc::new(policy.clone());
    txn.feed.set_policy(txn.policy.clone());
    totals::tick(txn)?;
    Ok(policy)
}

/// See [`crate::engine::ReadSnapshot`]. While nothing can be written, rows whose time is over stay.
pub(super) fn snapshot(txn: &mut FeedTxn<'_>) -> Step<Snapshot> {
    if !txn.db.is_refusing() {
        txn.change(|state, policy, now, effects| state.sweep(policy, now, effects))?;
    }
    let state = &txn.feed.state;
    Ok(Snapshot {
        at: state.position(),
        tag: 0,
        policy: Policy::clone(&txn.policy),
        rows: state.list.rows.iter().cloned().collect(),
        drops: state.list.drops.clone(),
        controls: state.list.controls,
        totals: state.list.totals.clone(),
        goals: state.list.goals.clone(),
        now: txn.now,
    })
}
