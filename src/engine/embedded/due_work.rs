//! Runs what is due in a feed. This is where every kind of entry is handled.

use super::due::{self, DueEntry};
use super::fault::{Fault, Step};
use super::txn::FeedTxn;
use super::{blocking, drops, gifts, reviews, totals};
use crate::domain::{DueKind, Status};
use crate::engine::{DUE_BATCH, DUE_TRIES, DeadDue, DueFate, DueHandled, DueRun, rest_after};

/// See [`crate::engine::RunDue`].
pub(super) fn run(txn: &mut FeedTxn<'_>) -> Step<DueRun> {
    let now = txn.now;
    let Some(no) = txn.feed.no else {
        txn.common.agenda.set(txn.name, None, now);
        return Ok(DueRun::default());
    };
    // What leaves review for the queue of gifts is added to this.
    txn.feed.waiting = Some(gifts::waiting(txn)?);
    let mut shown = 0;
    let mut handled = Vec::new();
    for entry in due::due(txn.db, no, now, DUE_BATCH)? {
        txn.touch()?;
        due::remove(txn.db, no, entry.place)?;
        let (late_ms, kind) = (now.since(entry.place.at), entry.kind);
        let done = match DueKind::of(kind) {
            Some(DueKind::Gift) => show(txn, &entry)?,
            Some(DueKind::Review) => reviews::time_out(txn, &entry)?,
            Some(DueKind::Drop) => match entry.id.parse() {
                Ok(drop) => Ok(DueFate::Struck(drops::tick(txn, &drop)?.map(Box::new))),
                Err(_) => Err("this is no drop's name"),
            },
            Some(DueKind::Totals) => {
                totals::tick(txn)?;
                Ok(DueFate::Struck(None))
            }
            None => Err("this version of Tipcast does not know what it is for"),
        };
        let fate = match done {
            Ok(fate) => fate,
            Err(why) => set_aside(txn, no, entry, why)?,
        };
        shown += u64::from(kind == DueKind::Gift.letter() && !matches!(fate, DueFate::SetAside));
        handled.push(DueHandled { late_ms, fate });
    }
    txn.feed.waiting = txn.feed.waiting.map(|waiting| waiting.saturating_sub(shown));
    let next = due::next(txn.db, no)?;
    // With more to do it goes behind the feeds that became due meanwhile.
    txn.common.agenda.set(txn.name, next.map(|next| next.max(now)), now);
    Ok(DueRun { handled, next })
}

/// Takes a gift whose time has come like one that comes now. One that this version cannot read, although it is as it
/// was written, is set aside.
fn show(txn: &mut FeedTxn<'_>, entry: &DueEntry) -> Step<Result<DueFate, &'static str>> {
    match gifts::gift_of(entry) {
        Ok(gift) => {
            if blocking::is_blocked(txn, &gift.user.id)? {
                let answer = reviews::kept_back(txn, &gift, Status::Suppressed, None)?;
                return Ok(Ok(DueFate::Shown(answer)));
            }
            let decided = txn.remembered(&gift.id)?.and_then(|known| known.decided);
            Ok(Ok(DueFate::Shown(gifts::take(txn, &gift, decided)?)))
        }
        Err(Fault::Garbled(_)) => Ok(Err("what is stored of the gift cannot be read")),
        Err(fault) => Err(fault),
    }
}

/// Puts an entry that cannot be handled, and is out of the queue, back for later, or gives it up.
fn set_aside(txn: &FeedTxn<'_>, no: i64, mut entry: DueEntry, why: &str) -> Step<DueFate> {
    entry.tries += 1;
    if entry.tries < DUE_TRIES {
        entry.place.at = txn.now.plus(rest_after(entry.tries));
        due::add(txn.db, no, &entry)?;
        return Ok(DueFate::SetAside);
    }
    let DueEntry { kind, id, place, body, .. } = entry;
    let dead = DeadDue { kind, id, due: place.at, at: txn.now, reason: why.to_owned() };
    due::bury(txn.db, no, &dead, &body)?;
    Ok(DueFate::Dead(dead))
}
