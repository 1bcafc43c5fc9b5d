//! What every thousand entries of a ledger add up to, kept once they were read: entries never change, so what is asked of a long
//! ledger costs its ends only. And whose turn it is to have a ledger read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::domain::ledger::{LedgerPart, LedgerSum};
use crate::domain::{Cursor, Entry, FeedId, Millis};
use crate::engine::StoreError;
use crate::http::door::Caller;
use crate::http::door::caller::Identity;
use crate::http::problem::ApiError;
use crate::http::{Gate, READ_TIMEOUT};

/// Entries of one step. A step begins at a multiple of it.
pub(super) const ENTRIES_PER_STEP: u64 = 1_000;

/// Steps that are kept of all feeds, some megabytes. Where there would be more, all are forgotten.
const MAX_STEPS: usize = 10_000;

/// A step of a ledger.
#[derive(Clone)]
pub(super) struct Step {
    pub sum: Arc<LedgerSum>,
    /// Its last entry: a ledger that was lost, and another that was restored, have others.
    last: Arc<Entry>,
}

/// The steps of a ledger, by their first cursors.
pub(super) type Known = BTreeMap<u64, Step>;

/// The last steps of readers, as this node knows them.
#[derive(Default)]
pub(in crate::http) struct Steps {
    kept: Mutex<HashMap<FeedId, Known>>,
    turns: Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>,
}

impl Steps {
    /// Waits for the caller's turn: of one key a node reads one ledger at a time.
    pub(super) async fn turn(&self, caller: &Caller) -> Result<OwnedMutexGuard<()>, ApiError> {
        let name = match &caller.identity {
            Identity::Key(key) => key.name.clone(),
            _ => "".into(),
        };
        let turn = self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone();
        let full = |_| ApiError::from(StoreError::Overloaded("other long reads of this key"));
        tokio::time::timeout(READ_TIMEOUT, turn.lock_owned()).await.map_err(full)
    }

    /// What is known of a feed's ledger from `base` on, if it is still the ledger that was read then.
    pub(super) async fn known(&self, gate: &Gate, feed: &FeedId, base: Cursor) -> Result<Known, ApiError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(feed).cloned();
        let mut known = kept.unwrap_or_default();
        if let Some(newest) = known.last_key_value().map(|(_, step)| step.last.clone()) {
            let there = read_part(gate, feed, newest.cursor, 1).await?.entries;
            if there.first() != Some(&*newest) {
                known.clear();
            }
        }
        known.retain(|first, _| *first >= base.0);
        Ok(known)
    }

    /// Adds a step up and keeps it; `entries` are all of it.
    pub(super) fn add(known: &mut Known, entries: Vec<Entry>) {
        let mut sum = LedgerSum::default();
        entries.iter().for_each(|entry| sum.add(entry));
        let first = entries.first().map(|entry| entry.cursor.0);
        if let (Some(first), Some(last)) = (first, entries.into_iter().next_back()) {
            known.insert(first, Step { sum: sum.into(), last: last.into() });
        }
    }

    /// Keeps these steps for the next who asks.
    pub(super) fn keep(&self, feed: &FeedId, known: Known) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(feed);
        if kept.values().map(BTreeMap::len).sum::<usize>() + known.len() > MAX_STEPS {
            kept.clear();
        }
        if !known.is_empty() {
            kept.insert(feed.clone(), known);
        }
    }
}

/// Some entries, from one on.
pub(super) async fn read_part(
    gate: &Gate,
    feed: &FeedId,
    from: Cursor,
    max: usize,
) -> Result<LedgerPart, ApiError> {
    gate.read(gate.store.read_ledger(feed, from, max, Millis::now())).await
}
