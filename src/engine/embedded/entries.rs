//! What comes into a ledger, who is told of it, and what is forgotten.
//!
//! Entries gather in memory and are written with the rest of the group, or before somebody reads them in the same
//! group. Those of a feed that nobody reads are only logged by their group, and stay in memory until much is logged: then, or when somebody reads the feed, they are written to its ledger.

use std::time::Instant;

use super::fault::Step;
use super::hooks;
use super::ledger::{self, Known};
use super::readers::{self, Standing};
use super::txn::FeedTxn;
use crate::domain::{HookScope, Job, Millis, Reader};
use crate::engine::ReportLimits;

/// Adds what `push` appends, if anything, as an entry.
pub(super) fn enter(txn: &mut FeedTxn<'_>, push: impl FnOnce(&mut String)) -> Step<()> {
    if txn.feed.ledger.enter(txn.now, push) { txn.touch() } else { Ok(()) }
}

/// Writes what was entered to the ledger if somebody reads there. What is new otherwise is logged by the group.
pub(super) fn keep(txn: &mut FeedTxn<'_>) -> Step<()> {
    if txn.feed.ledger.new_entries() == 0 {
        return Ok(());
    }
    let no = txn.number()?;
    let known = know(txn, no)?;
    let is_read = known.own > 0 || !known.joined.is_empty() || !txn.common.hooks_of_all.is_empty();
    if is_read { write(txn) } else { Ok(()) }
}

/// Brings what is logged of the feed, and what it has in memory, to its own tables.
pub(super) fn settle(txn: &mut FeedTxn<'_>) -> Step<()> {
    let Some(no) = txn.feed.no else { return Ok(()) };
    txn.touch()?;
    know(txn, no)?;
    write(txn)?;
    txn.feed.ids.settle((txn.db, &mut txn.common.ids, no))?;
    txn.feed.write_logged(txn.db)
}

/// Writes what was entered and is not written. Readers of the same group do so first.
pub(super) fn write(txn: &mut FeedTxn<'_>) -> Step<()> {
    if !txn.feed.ledger.is_unwritten() {
        return Ok(());
    }
    let no = txn.number()?;
    know(txn, no)?;
    let first_at = txn.feed.ledger.write(txn.db, no)?;
    join_hooks(txn, no)?;
    make_jobs(txn, first_at);
    trim(txn, no)
}

/// Reads what the tables say of the feed's ledger, unless it is known.
fn know(txn: &mut FeedTxn<'_>, no: i64) -> Step<Known> {
    if let Some(known) = &txn.feed.ledger.known {
        return Ok(known.clone());
    }
    let found = std::mem::take(&mut txn.feed.ledger.found);
    if !found.is_empty() {
        txn.touch()?;
        ledger::gather(txn.db, no, &found)?;
    }
    let (base, next) = ledger::ends(txn.db, no)?.unwrap_or_default();
    let mut known = Known { base, next, ..Known::default() };
    for reader in readers::of_feed(txn.db, no)? {
        match reader {
            Reader::Group(_) | Reader::Hook(_) => known.own += 1,
            Reader::HookOfAll(hook) => known.joined.push(hook),
        }
    }
    if known.own > 0 {
        let hooks = hooks::of_feed(txn.db, &HookScope::Feed(txn.name.clone()))?;
        known.hooks = hooks.into_iter().map(|(hook, it)| (hook, it.spec.batch_ms)).collect();
    }
    txn.feed.ledger.known = Some(known.clone());
    Ok(known)
}

/// The number of a feed that is known, and its ledger as it stands in this group.
pub(super) fn ledger_of(txn: &mut FeedTxn<'_>) -> Step<Option<(i64, Known)>> {
    let Some(no) = txn.feed.no else { return Ok(None) };
    write(txn)?;
    Ok(Some((no, know(txn, no)?)))
}

/// The feed's number, its ledger, and how far the reader has come; none when there is no such reader.
pub(super) fn standing_of(txn: &mut FeedTxn<'_>, reader: &Reader) -> Step<Option<(i64, Known, Standing)>> {
    let Some((no, known)) = ledger_of(txn)? else { return Ok(None) };
    Ok(readers::standing(txn.db, no, reader)?.map(|standing| (no, known, standing)))
}

/// Has what the tables say of the ledger read again, because its readers are others now.
pub(super) fn reread(txn: &mut FeedTxn<'_>) -> Step<()> {
    txn.feed.ledger.known = None;
    txn.touch()
}

/// Has subscriptions told that there is something to read.
pub(super) fn stir(txn: &mut FeedTxn<'_>) -> Step<()> {
    txn.feed.ledger.stirred = true;
    txn.touch()
}

/// Makes webhooks of all feeds that do not read this feed yet do so, each from the first entry that came since it
/// was made.
pub(super) fn join_hooks(txn: &mut FeedTxn<'_>, no: i64) -> Step<()> {
    if txn.common.hooks_of_all.is_empty() {
        return Ok(());
    }
    let mut known = know(txn, no)?;
    let joins = txn.common.hooks_of_all.iter().filter(|(hook, _)| !known.joined.contains(hook));
    let joins: Vec<_> = joins.map(|(hook, of_all)| (hook.clone(), of_all.since)).collect();
    if joins.is_empty() {
        return Ok(());
    }
    txn.touch()?;
    for (hook, since) in joins {
        let first = ledger::first_since(txn.db, no, since)?.unwrap_or(known.next);
        let standing = Standing { handed: first.saturating_sub(1), ..Standing::default() };
        readers::stand(txn.db, no, &Reader::HookOfAll(hook.clone()), &standing)?;
        known.joined.push(hook);
    }
    txn.feed.ledger.known = Some(known);
    Ok(())
}

/// Makes a job of every webhook that rests and now has an entry of `at` to send.
fn make_jobs(txn: &mut FeedTxn<'_>, at: Millis) {
    let Some(known) = &txn.feed.ledger.known else { return };
    let common = &mut *txn.common;
    for (hook, batch_ms) in &known.hooks {
        let job = Job { feed: txn.name.clone(), reader: Reader::Hook(hook.clone()) };
        common.jobs.note(job, at.plus(*batch_ms), txn.now);
    }
    for hook in &known.joined {
        let batch_ms = common.hooks_of_all.get(hook).map_or(0, |of_all| of_all.batch_ms);
        let job = Job { feed: txn.name.clone(), reader: Reader::HookOfAll(hook.clone()) };
        common.jobs.note(job, at.plus(batch_ms), txn.now);
    }
}

/// Forgets the oldest entries when there are enough that need not be kept.
fn trim(txn: &mut FeedTxn<'_>, no: i64) -> Step<()> {
    let ReportLimits { ledger_max, backlog_max, max_age_ms, .. } = txn.common.limits;
    if !txn.feed.ledger.must_trim(ledger_max) {
        return Ok(());
    }
    let Some(known) = txn.feed.ledger.known.clone() else { return Ok(()) };
    let newest = known.next - ledger_max;
    let mut keep_from = newest;
    let mut held = Vec::new();
    for reader in readers::of_feed(txn.db, no)? {
        let standing = readers::standing(txn.db, no, &reader)?.unwrap_or_default();
        let unread = known.handed(standing.handed) + 1;
        let floor = readers::holds_from(txn.db, no, &reader)?.map_or(unread, |held| held.min(unread));
        keep_from = keep_from.min(floor);
        held.push((reader, standing, floor));
    }
    if keep_from < newest {
        let too_old = match max_age_ms {
            ms if ms > 0 && txn.common.may_forget => {
                ledger::older(txn.db, no, Millis(txn.now.0.saturating_sub_unsigned(ms)))?
            }
            _ => None,
        };
        let too_many = known.next.saturating_sub(backlog_max);
        keep_from = keep_from.max(too_many).max(too_old.map_or(0, |last| last + 1)).min(newest);
    }
    let Some(cut) = ledger::cut(txn.db, no, keep_from)? else { return Ok(()) };
    if let Some(known) = &mut txn.feed.ledger.known {
        known.base = cut + 1;
    }
    let mut unread = 0;
    for (reader, mut standing, floor) in held {
        if floor > cut {
            continue;
        }
        let handed = known.handed(standing.handed);
        let lost = readers::let_go_through(txn.db, no, &reader, cut)? + cut.saturating_sub(handed);
        standing.handed = handed.max(cut);
        standing.lost += lost;
        readers::stand(txn.db, no, &reader, &standing)?;
        txn.common.metrics.report_lost.inc_by(lost);
        unread += lost;
    }
    if unread > 0
        && let Some(unread) = txn.common.cut_warnings.allow(txn.name, unread, Instant::now())
    {
        tracing::warn!(
            feed = %txn.name, unread,
            "entries were cut from a ledger that a reader had not acknowledged: see its groups and webhooks"
        );
    }
    Ok(())
}
