//! Gifts that wait for a host's decision. They stand in the feed's due queue, where time decides.

use super::due::{self, DueEntry};
use super::fault::{Fault, Step};
use super::totals::{self, Given};
use super::txn::FeedTxn;
use super::{blocking, entries, gifts};
use crate::domain::answer::{CountedGift, GiftFate, Remembered};
use crate::domain::review::{REVIEWS_MAX, ReviewNote, must_review};
use crate::domain::{
    Answer, Decision, DueKind, DuePlace, Gift, GiftId, InReview, Millis, Outcome, Part, ReviewMode,
    Reviewing, Status,
};
use crate::engine::DueFate;
use crate::engine::record::{Records, push_entry, push_gift};

const KIND: char = 'r';

/// What becomes of a new gift before anything else is asked about it: it is kept from being shown, it waits for a
/// host, or (none) neither.
pub(super) fn judge(txn: &mut FeedTxn<'_>, gift: &Gift) -> Step<Option<Outcome>> {
    if blocking::is_blocked(txn, &gift.user.id)? {
        return kept_back(txn, gift, Status::Suppressed, None).map(|answer| Some(Outcome::New(answer)));
    }
    let mode = txn.policy.review;
    if mode == ReviewMode::Off || gift.test {
        return Ok(None);
    }
    let passes =
        mode == ReviewMode::Messages && gift.message.is_none() && blocking::name_passes(txn, &gift.user)?;
    let is_repeat = txn.feed.state.repeats_message(gift);
    if !must_review(gift, mode, passes, is_repeat) {
        return Ok(None);
    }
    hold(txn, gift).map(Some)
}

/// Answers, remembers and enters a gift that no row shows.
pub(super) fn kept_back(
    txn: &mut FeedTxn<'_>,
    gift: &Gift,
    status: Status,
    decided: Option<Decision>,
) -> Step<Answer> {
    let at = txn.feed.state.position();
    let answer = Answer { status, id: gift.id.clone(), at, row: None, count: None };
    let fate = GiftFate::Taken(answer.clone());
    let part = Part::nothing(gift.test);
    let counted = totals::of_kept_back(txn, gift);
    let it = Remembered { fingerprint: gift.fingerprint, fate, part, decided, counted: counted.clone() };
    gifts::remember(txn, it)?;
    let (now, status) = (txn.now, gifts::entry_status(status));
    entries::enter(txn, |out| push_entry(out, gift, status, None, None, now))?;
    if let Some(CountedGift { counted, user, .. }) = &counted {
        totals::add(txn, counted, Given { user, person: "", row: None })?;
    }
    Ok(answer)
}

fn hold(txn: &mut FeedTxn<'_>, gift: &Gift) -> Step<Outcome> {
    let id = gift.id.clone();
    if let Some(no) = txn.feed.no
        && due::count(txn.db, no, KIND)? >= REVIEWS_MAX
    {
        let first = due::after(txn.db, no, KIND, DuePlace { at: Millis(i64::MIN), order: 0 }, 1)?;
        let retry_in_ms = first.first().map_or(0, |first| first.place.at.since(txn.now));
        return Ok(Outcome::TooManyInReview { id, retry_in_ms });
    }
    let no = txn.number()?;
    let note = ReviewNote { at: txn.now, deliver_at: crate::domain::due_at(gift, &txn.policy, txn.now) };
    let mut body = format!("{note}\n");
    push_gift(&mut body, gift);
    let expires_at = txn.now.plus(txn.policy.review_timeout_ms);
    txn.common.agenda.add(txn.db, (txn.name, no), (KIND, id.as_str(), body), (expires_at, txn.now))?;
    let fate = GiftFate::InReview { id: id.clone(), expires_at };
    let it =
        Remembered { fingerprint: gift.fingerprint, fate, part: Part::Unknown, decided: None, counted: None };
    txn.feed.ids.remember(&it, expires_at);
    Ok(Outcome::InReview(id))
}

/// See [`crate::engine::ListReviews`].
pub(super) fn list(txn: &mut FeedTxn<'_>) -> Step<Vec<InReview>> {
    let Some(no) = txn.feed.no else { return Ok(Vec::new()) };
    let from = DuePlace { at: Millis(i64::MIN), order: 0 };
    let mut all = Vec::new();
    for entry in due::after(txn.db, no, KIND, from, REVIEWS_MAX as usize)? {
        let (note, gift) = read(&entry)?;
        // What time or a block has decided is no longer to be decided, also while it was not done yet.
        if entry.place.at > txn.now && !blocking::is_blocked(txn, &gift.user.id)? {
            all.push((entry.place.order, InReview { at: note.at, expires_at: entry.place.at, gift }));
        }
    }
    all.sort_by_key(|(order, it)| (it.at, *order));
    Ok(all.into_iter().map(|(_, it)| it).collect())
}

/// See [`crate::engine::DecideReview`].
pub(super) fn decide(txn: &mut FeedTxn<'_>, id: &GiftId, wish: Decision) -> Step<Reviewing> {
    let Some(no) = txn.feed.no else { return Ok(Reviewing::UNKNOWN) };
    let held = due::find(txn.db, no, KIND, id.as_str())?;
    if let Some(entry) = &held {
        let over = entry.place.at <= txn.now;
        settle(txn, no, entry, if over { None } else { Some(wish) })?;
    }
    let Some(known) = txn.remembered(id)? else { return Ok(Reviewing::UNKNOWN) };
    Ok(match known.decided {
        Some(decided) => Reviewing::of(wish, decided, known.fate, held.is_some()),
        None => Reviewing::UNKNOWN,
    })
}

/// Does what time does to an entry that is out of the queue.
pub(super) fn time_out(txn: &mut FeedTxn<'_>, entry: &DueEntry) -> Step<Result<DueFate, &'static str>> {
    match read(entry) {
        Ok((note, gift)) => Ok(Ok(match act(txn, &note, &gift, None)? {
            Some(answer) => DueFate::Shown(answer),
            None => DueFate::PutOff,
        })),
        Err(Fault::Garbled(_)) => Ok(Err("what is stored of the gift cannot be read")),
        Err(fault) => Err(fault),
    }
}

/// Takes an entry out of the queue with what was decided, or with none what time decides.
fn settle(txn: &mut FeedTxn<'_>, no: i64, entry: &DueEntry, wish: Option<Decision>) -> Step<()> {
    let (note, gift) = read(entry)?;
    txn.touch()?;
    due::remove(txn.db, no, entry.place)?;
    act(txn, &note, &gift, wish)?;
    txn.common.agenda.set(txn.name, due::next(txn.db, no)?, txn.now);
    Ok(())
}

/// Does what was decided about a gift that is out of the queue: its answer, or none when its own time has not come.
fn act(
    txn: &mut FeedTxn<'_>,
    note: &ReviewNote,
    gift: &Gift,
    wish: Option<Decision>,
) -> Step<Option<Answer>> {
    let is_blocked = blocking::is_blocked(txn, &gift.user.id)?;
    let decision = match wish {
        _ if is_blocked => Decision::Deny,
        Some(wish) => wish,
        None => txn.policy.review_default.decision(),
    };
    if decision == Decision::Deny {
        return kept_back(txn, gift, Status::Denied, Some(decision)).map(Some);
    }
    if wish == Some(Decision::Approve) {
        blocking::approve_name(txn, &gift.user)?;
    }
    if let Some(at) = note.deliver_at.filter(|at| *at > txn.now) {
        gifts::keep_until(txn, gift, at, Some(decision))?;
        return Ok(None);
    }
    gifts::take(txn, gift, Some(decision)).map(Some)
}

/// Denies a gift that is in review, unless time has decided about it. What was decided; none when it is not in review.
pub(super) fn deny(txn: &mut FeedTxn<'_>, id: &GiftId) -> Step<Option<Decision>> {
    let Some(no) = txn.feed.no else { return Ok(None) };
    let Some(entry) = due::find(txn.db, no, KIND, id.as_str())? else { return Ok(None) };
    let over = entry.place.at <= txn.now;
    settle(txn, no, &entry, (!over).then_some(Decision::Deny))?;
    Ok(txn.remembered(id)?.and_then(|known| known.decided))
}

/// What an entry of this kind holds.
fn read(entry: &DueEntry) -> Step<(ReviewNote, Gift)> {
    debug_assert_eq!(DueKind::of(entry.kind), Some(DueKind::Review));
    let read = || {
        let (note, record) = entry.body.split_once('\n')?;
        Some((note.parse().ok()?, Records::new(record).gift()?))
    };
    read().ok_or_else(|| Fault::garbled(format!("the gift {} in review cannot be read", entry.id)))
}
