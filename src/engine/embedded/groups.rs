//! Groups: handing entries out, taking them back, and what was given up.

use std::collections::{BTreeSet, HashMap};

use super::entries::{self, standing_of};
use super::fault::Step;
use super::ledger::{self, Kept, Known};
use super::readers::{self, InHand, Standing};
use super::txn::FeedTxn;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Handed, Job, Millis, Reader, Replay, Start, Taken,
};
use crate::engine::{LISTED, READERS_MAX};

/// Entries that are looked at beside those that are handed out, in one claim: those that turn out to be dead.
const DEAD_AT_ONCE: usize = 1_000;

/// See [`crate::engine::ClaimEntries`].
pub(super) fn take(txn: &mut FeedTxn<'_>, group: &GroupId, ask: Ask) -> Step<Option<Taken>> {
    let reader = Reader::Group(group.clone());
    if txn.feed.no.is_none() {
        txn.number()?;
    }
    let Some((no, known)) = entries::ledger_of(txn)? else { return Ok(None) };
    let mut standing = match readers::standing(txn.db, no, &reader)? {
        Some(standing) => standing,
        None if known.own >= READERS_MAX => return Ok(None),
        None => begin(txn, (no, &known), &reader, ask.from)?,
    };
    let mut taken = take_over(txn, (no, &reader), ask)?;
    let handed = known.handed(standing.handed);
    if taken.len() < ask.max && handed < known.last() {
        txn.touch()?;
        for kept in ledger::entries(txn.db, no, handed + 1, ask.max - taken.len())? {
            let it = InHand { no: kept.no, until: txn.now.plus(ask.lease_ms), attempts: 1, body: None };
            readers::hand(txn.db, no, &reader, &it)?;
            standing.handed = kept.no;
            taken.push(Handed { entry: kept.entry()?, attempt: 1 });
        }
        readers::stand(txn.db, no, &reader, &standing)?;
    }
    let first_over = readers::first_over(txn.db, no, &reader)?;
    Ok(Some(Taken { entries: taken, next_in_ms: first_over.map(|at| at.since(txn.now)) }))
}

fn begin(txn: &mut FeedTxn<'_>, (no, known): (i64, &Known), reader: &Reader, from: Start) -> Step<Standing> {
    let first = match from {
        Start::Start => known.base.max(known.next.saturating_sub(txn.common.limits.ledger_max)),
        Start::Now => known.next,
    };
    let standing = Standing { handed: first.saturating_sub(1), ..Standing::default() };
    entries::reread(txn)?;
    readers::stand(txn.db, no, reader, &standing)?;
    Ok(standing)
}

/// Hands out again what nobody holds any more; what was handed out too often becomes a dead letter.
fn take_over(txn: &mut FeedTxn<'_>, (no, reader): (i64, &Reader), ask: Ask) -> Step<Vec<Handed>> {
    let (db, now) = (txn.db, txn.now);
    let mut taken = Vec::new();
    let mut dead = 0;
    while taken.len() < ask.max && dead < DEAD_AT_ONCE {
        let asked = ask.max - taken.len();
        let over = readers::over(db, no, reader, now, asked)?;
        let all = over.len() < asked;
        if !over.is_empty() {
            txn.touch()?;
        }
        let mut bodies = bodies(txn, no, &over)?;
        for it in over {
            let Some(body) = it.body.clone().or_else(|| bodies.remove(&it.no)) else {
                // No entry, no reader's.
                readers::let_go(db, no, reader, it.no)?;
                continue;
            };
            let kept = Kept { no: it.no, body };
            if it.attempts >= txn.common.limits.max_attempts {
                let reason = format!("it was handed out {} times and not acknowledged", it.attempts);
                let most = txn.common.limits.dead_max;
                readers::let_go(db, no, reader, it.no)?;
                readers::write_letter(db, no, reader, &kept, (now, it.attempts, &reason), most)?;
                dead += 1;
                continue;
            }
            let attempt = it.attempts + 1;
            let it = InHand { until: now.plus(ask.lease_ms), attempts: attempt, ..it };
            readers::hand(db, no, reader, &it)?;
            taken.push(Handed { entry: kept.entry()?, attempt });
        }
        if all {
            break;
        }
    }
    Ok(taken)
}

/// The records of those that are in the ledger; numbers side by side are read together.
fn bodies(txn: &FeedTxn<'_>, no: i64, over: &[InHand]) -> Step<HashMap<u64, String>> {
    let mut found = HashMap::new();
    let in_ledger: Vec<u64> = over.iter().filter(|it| it.body.is_none()).map(|it| it.no).collect();
    for run in in_ledger.chunk_by(|a, b| a + 1 == *b) {
        let kept = ledger::entries(txn.db, no, run[0], run.len())?;
        found.extend(kept.into_iter().filter(|kept| run.contains(&kept.no)).map(|it| (it.no, it.body)));
    }
    Ok(found)
}

/// See [`crate::engine::AckEntries`].
pub(super) fn ack(txn: &mut FeedTxn<'_>, group: &GroupId, cursors: &[Cursor]) -> Step<Option<u64>> {
    let reader = Reader::Group(group.clone());
    let Some((no, ..)) = standing_of(txn, &reader)? else { return Ok(None) };
    txn.touch()?;
    let mut acked = 0;
    for cursor in cursors {
        acked += u64::from(readers::let_go(txn.db, no, &reader, cursor.0)?);
    }
    Ok(Some(acked))
}

/// See [`crate::engine::NackEntries`].
pub(super) fn nack(txn: &mut FeedTxn<'_>, group: &GroupId, cursors: &[Cursor]) -> Step<Option<u64>> {
    let reader = Reader::Group(group.clone());
    let Some((no, ..)) = standing_of(txn, &reader)? else { return Ok(None) };
    txn.touch()?;
    let mut nacked = 0;
    for cursor in cursors.iter().collect::<BTreeSet<_>>() {
        nacked += u64::from(readers::give_back(txn.db, no, &reader, cursor.0)?);
    }
    if nacked > 0 {
        entries::stir(txn)?;
    }
    Ok(Some(nacked))
}

/// See [`crate::engine::ReadGroup`].
pub(super) fn view(txn: &mut FeedTxn<'_>, group: &GroupId) -> Step<Option<GroupView>> {
    let reader = Reader::Group(group.clone());
    let Some((no, known, standing)) = standing_of(txn, &reader)? else { return Ok(None) };
    let handed = known.handed(standing.handed);
    let lag = known.last().saturating_sub(handed);
    let oldest = match readers::oldest_in_hand(txn.db, no, &reader)? {
        Some(InHand { no, body: Some(body), .. }) => Some(Kept { no, body }),
        Some(it) => ledger::entries(txn.db, no, it.no, 1)?.pop(),
        None if lag > 0 => ledger::entries(txn.db, no, handed + 1, 1)?.pop(),
        None => None,
    };
    let oldest_ms = oldest.map_or(Ok(0), |kept| kept.entry().map(|entry| txn.now.since(entry.at)))?;
    let (pending, dead) =
        (readers::hands(txn.db, no, &reader)?, readers::count_letters(txn.db, no, &reader)?);
    Ok(Some(GroupView { lag, pending, oldest_ms, dead, lost: standing.lost }))
}

/// See [`crate::engine::DeleteGroup`].
pub(super) fn delete(txn: &mut FeedTxn<'_>, group: &GroupId) -> Step<bool> {
    let reader = Reader::Group(group.clone());
    let Some((no, ..)) = standing_of(txn, &reader)? else { return Ok(false) };
    entries::reread(txn)?;
    readers::forget(txn.db, no, &reader)
}

/// Groups and webhooks of the feed.
pub(super) fn readers_of(txn: &FeedTxn<'_>) -> Step<Vec<(FeedId, Reader)>> {
    let Some(no) = txn.feed.no else { return Ok(Vec::new()) };
    let readers = readers::of_feed(txn.db, no)?.into_iter().take(LISTED);
    Ok(readers.map(|reader| (txn.name.clone(), reader)).collect())
}

/// See [`crate::engine::ListDeadLetters`].
pub(super) fn letters(txn: &FeedTxn<'_>, reader: &Reader) -> Step<Vec<DeadLetter>> {
    let Some(no) = txn.feed.no else { return Ok(Vec::new()) };
    Ok(readers::letters(txn.db, no, reader)?.into_iter().map(|(_, _, letter)| letter).collect())
}

/// See [`crate::engine::ReplayDeadLetters`].
pub(super) fn replay(txn: &mut FeedTxn<'_>, reader: &Reader, which: &Replay) -> Step<u64> {
    let Some((no, ..)) = standing_of(txn, reader)? else { return Ok(0) };
    let mut replayed = 0;
    for (place, kept, _) in readers::letters(txn.db, no, reader)? {
        if matches!(which, Replay::Only(cursors) if !cursors.contains(&Cursor(kept.no))) {
            continue;
        }
        txn.touch()?;
        readers::remove_letter(txn.db, place)?;
        let it = InHand { no: kept.no, until: Millis(0), attempts: 0, body: Some(kept.body) };
        readers::hand(txn.db, no, reader, &it)?;
        replayed += 1;
    }
    if replayed > 0 {
        entries::stir(txn)?;
        if !matches!(reader, Reader::Group(_)) {
            let job = Job { feed: txn.name.clone(), reader: reader.clone() };
            txn.common.jobs.hurry(job, txn.now, txn.now);
        }
    }
    Ok(replayed)
}
