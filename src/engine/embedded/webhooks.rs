//! Webhooks as they are set, and the feeds they read.

use super::deliveries;
use super::fault::{Fault, Step};
use super::feeds::Feeds;
use super::{entries, hooks, ledger, readers};
use crate::domain::{FeedId, Hook, HookKey, HookScope, HookState, Millis, Reader};
use crate::engine::{HOOKS_OF_ALL_MAX, READERS_MAX, Swapped};

/// See [`crate::engine::ReadWebhook`].
pub(super) fn get(feeds: &mut Feeds, key: &HookKey, now: Millis) -> Step<Option<Hook>> {
    match &key.scope {
        HookScope::All => hooks::get(&feeds.db, key),
        HookScope::Feed(feed) => feeds.on(feed, now, |txn| hooks::get(txn.db, key)),
    }
}

/// See [`crate::engine::SwapWebhook`].
pub(super) fn swap(
    feeds: &mut Feeds,
    key: &HookKey,
    was: Option<u64>,
    to: Option<&Hook>,
    now: Millis,
) -> Step<Swapped> {
    let old = get(feeds, key, now)?;
    if old.as_ref().map(|hook| hook.version) != was {
        return Ok(Swapped::Stale);
    }
    if old.is_none() && to.is_some() && has_enough_readers(feeds, key, now)? {
        return Ok(Swapped::Full);
    }
    feeds.db.begin()?;
    match &key.scope {
        HookScope::Feed(feed) => feeds.on(feed, now, |txn| {
            // So that a group that fails is taken back in this feed as well.
            txn.touch()?;
            hooks::put(txn.db, key, to)
        })?,
        HookScope::All => {
            hooks::put(&feeds.db, key, to)?;
            match to {
                Some(hook) => drop(feeds.common.hooks_of_all.insert(key.name.clone(), hook.into())),
                None => drop(feeds.common.hooks_of_all.remove(&key.name)),
            }
        }
    }
    match (&old, to) {
        (None, Some(hook)) => begin(feeds, key, hook, now)?,
        (Some(_), None) => on_readings(feeds, key, now, deliveries::end)?,
        (Some(old), Some(hook)) => {
            if let HookScope::Feed(feed) = &key.scope {
                feeds.on(feed, now, entries::reread)?;
            }
            if old.state == HookState::Disabled && hook.state == HookState::Active {
                // What waited while it was disabled is sent.
                on_readings(feeds, key, now, |txn, reader| deliveries::wake(txn, reader, now))?;
            }
        }
        (None, None) => {}
    }
    Ok(Swapped::Done)
}

fn has_enough_readers(feeds: &mut Feeds, key: &HookKey, now: Millis) -> Step<bool> {
    match &key.scope {
        HookScope::All => Ok(feeds.common.hooks_of_all.len() >= HOOKS_OF_ALL_MAX),
        HookScope::Feed(feed) => feeds.on(feed, now, |txn| {
            Ok(entries::ledger_of(txn)?.is_some_and(|(_, known)| known.own >= READERS_MAX))
        }),
    }
}

/// A webhook of one feed begins at the ledger's end. One of all feeds joins the feeds to which something came since
/// at once, and the others when something comes.
fn begin(feeds: &mut Feeds, key: &HookKey, hook: &Hook, now: Millis) -> Step<()> {
    let reader = key.reader();
    match &key.scope {
        HookScope::Feed(feed) => feeds.on(feed, now, |txn| deliveries::begin(txn, &reader)),
        HookScope::All => {
            let since = Millis(hook.since);
            // What this group brought, and what is only logged, is not in the tables yet.
            feeds.settle_log()?;
            for feed in feeds.common.touched.clone() {
                spared(feeds.on(&feed, now, entries::write))?;
            }
            for feed in ledger::entered_since(&feeds.db, since)? {
                spared(feeds.on(&feed, now, |txn| {
                    if let Some((no, _)) = entries::ledger_of(txn)? {
                        entries::join_hooks(txn, no)?;
                    }
                    deliveries::wake(txn, &reader, since.plus(hook.spec.batch_ms))
                }))?;
            }
            Ok(())
        }
    }
}

/// Does something in every feed that a webhook reads.
fn on_readings(
    feeds: &mut Feeds,
    key: &HookKey,
    now: Millis,
    each: impl Fn(&mut super::txn::FeedTxn<'_>, &Reader) -> Step<()>,
) -> Step<()> {
    let reader = key.reader();
    let readings: Vec<FeedId> = match &key.scope {
        HookScope::All => readers::feeds_of(&feeds.db, &reader)?,
        HookScope::Feed(feed) => vec![feed.clone()],
    };
    for feed in readings {
        spared(feeds.on(&feed, now, |txn| each(txn, &reader)))?;
    }
    Ok(())
}

/// A feed that is damaged is no reason for the others to go without.
fn spared(done: Step<()>) -> Step<()> {
    match done {
        Err(Fault::Damaged(_)) => Ok(()),
        done => done,
    }
}
