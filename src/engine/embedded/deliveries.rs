//! What a webhook has to send in one feed, and how far it has come there.

use super::entries::{reread, standing_of};
use super::fault::Step;
use super::ledger::{self, Kept, Known};
use super::readers::{self, Standing};
use super::txn::FeedTxn;
use crate::domain::{Job, Millis, Reader};
use crate::engine::{Death, Save, Want, Work};

/// See [`crate::engine::OpenJob`].
pub(super) fn open(txn: &mut FeedTxn<'_>, job: &Job, want: Want) -> Step<Option<Work>> {
    match stands(txn, job)? {
        Some((no, known, standing)) => work(txn, job, (no, &known, standing), want).map(Some),
        None => {
            txn.common.jobs.remove(job);
            Ok(None)
        }
    }
}

/// See [`crate::engine::SaveJob`].
pub(super) fn save(txn: &mut FeedTxn<'_>, job: &Job, save: &Save, want: Want) -> Step<Option<Work>> {
    let Some((no, known, mut standing)) = stands(txn, job)? else {
        txn.common.jobs.remove(job);
        return Ok(None);
    };
    if standing.progress != save.was {
        return Ok(None);
    }
    txn.touch()?;
    let (db, reader) = (txn.db, &job.reader);
    for death in &save.dead {
        let found = deceased(txn, no, reader, death, save)?;
        let unread = |kept: &Kept| kept.no > known.handed(standing.handed);
        if let Some(kept) = found.filter(|kept| save.again.contains(&death.cursor) || unread(kept)) {
            let fate = (txn.now, death.attempts, &*death.reason);
            readers::write_letter(db, no, reader, &kept, fate, txn.common.limits.dead_max)?;
        }
    }
    for cursor in &save.again {
        readers::let_go(db, no, reader, cursor.0)?;
    }
    let through = save.through.map_or(0, |through| through.0.min(known.last()));
    standing.handed = known.handed(standing.handed).max(through);
    standing.progress.clone_from(&save.progress);
    readers::stand(db, no, reader, &standing)?;
    work(txn, job, (no, &known, standing), want).map(Some)
}

/// The number of the job's feed, its ledger, and how far the webhook has come there.
fn stands(txn: &mut FeedTxn<'_>, job: &Job) -> Step<Option<(i64, Known, Standing)>> {
    match job.reader {
        Reader::Group(_) => Ok(None),
        _ => standing_of(txn, &job.reader),
    }
}

/// What there is to send. A job without any is none.
fn work(
    txn: &mut FeedTxn<'_>,
    job: &Job,
    (no, known, standing): (i64, &Known, Standing),
    want: Want,
) -> Step<Work> {
    let handed = known.handed(standing.handed);
    let backlog = known.last().saturating_sub(handed);
    let entries = match backlog {
        0 => Vec::new(),
        _ => ledger::entries(txn.db, no, handed + 1, want.most)?,
    };
    let again = readers::again(txn.db, no, &job.reader, want.most)?;
    if backlog == 0 && again.is_empty() {
        txn.common.jobs.remove(job);
    }
    Ok(Work {
        progress: standing.progress,
        entries: entries.iter().map(Kept::entry).collect::<Step<_>>()?,
        backlog,
        again: again.iter().map(Kept::entry).collect::<Step<_>>()?,
        now: txn.now,
        look_ms: None,
    })
}

/// The entry that is given up, from among those that are sent again or from the ledger.
fn deceased(txn: &FeedTxn<'_>, no: i64, reader: &Reader, death: &Death, save: &Save) -> Step<Option<Kept>> {
    let number = death.cursor.0;
    if save.again.contains(&death.cursor) {
        let again = readers::in_hand(txn.db, no, reader, number)?;
        return Ok(again.and_then(|it| Some(Kept { no: number, body: it.body? })));
    }
    let found = ledger::entries(txn.db, no, number, 1)?.pop();
    Ok(found.filter(|kept| kept.no == number && save.through.is_some_and(|through| number <= through.0)))
}

/// Makes a webhook of this feed a reader of it, from the ledger's end on.
pub(super) fn begin(txn: &mut FeedTxn<'_>, reader: &Reader) -> Step<()> {
    txn.number()?;
    if let Some((no, known)) = super::entries::ledger_of(txn)? {
        readers::stand(txn.db, no, reader, &Standing { handed: known.last(), ..Standing::default() })?;
    }
    reread(txn)
}

/// Forgets a webhook as a reader of this feed.
pub(super) fn end(txn: &mut FeedTxn<'_>, reader: &Reader) -> Step<()> {
    txn.common.jobs.remove(&Job { feed: txn.name.clone(), reader: reader.clone() });
    let Some(no) = txn.feed.no else { return Ok(()) };
    reread(txn)?;
    readers::forget(txn.db, no, reader).map(drop)
}

/// Makes it a job of `at` at the latest if there is something to send.
pub(super) fn wake(txn: &mut FeedTxn<'_>, reader: &Reader, at: Millis) -> Step<()> {
    let Some((no, known, standing)) = standing_of(txn, reader)? else { return Ok(()) };
    if known.handed(standing.handed) < known.last() || readers::hands(txn.db, no, reader)? > 0 {
        let job = Job { feed: txn.name.clone(), reader: reader.clone() };
        txn.common.jobs.hurry(job, at, txn.now);
    }
    Ok(())
}
