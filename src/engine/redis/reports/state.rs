//! What this process knows of reports beside what the store has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use super::hooks::OfAll;
use crate::domain::FeedId;
use crate::engine::Wakes;

/// Feeds of which it is remembered that this node appended to them lately.
const RECENT: usize = 4096;

/// How long that is. Nodes learn of a new webhook of all feeds well within this.
const LATELY: Duration = Duration::from_secs(60);

/// See the module.
pub(in super::super) struct ReportState {
    pub wakes: broadcast::Sender<u64>,
    of_all: Mutex<(u64, Vec<OfAll>)>,
    recent: Mutex<HashMap<FeedId, Instant>>,
}

impl Default for ReportState {
    fn default() -> ReportState {
        ReportState { wakes: Wakes::sender(), of_all: Mutex::default(), recent: Mutex::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReportState {
    /// The version of the set of webhooks of all feeds; 0 without any.
    pub(super) fn version(&self) -> u64 {
        lock(&self.of_all).0
    }

    /// It, and these.
    pub(super) fn of_all(&self) -> (u64, Vec<OfAll>) {
        lock(&self.of_all).clone()
    }

    pub(super) fn learn(&self, version: u64, hooks: Vec<OfAll>) {
        *lock(&self.of_all) = (version, hooks);
    }

    /// This node appended to the feed's ledger.
    pub(in super::super) fn appended(&self, feed: &FeedId) {
        let (mut recent, now) = (lock(&self.recent), Instant::now());
        if let Some(at) = recent.get_mut(feed) {
            *at = now;
            return;
        }
        if recent.len() >= RECENT {
            recent.retain(|_, at| now.duration_since(*at) < LATELY);
        }
        if recent.len() < RECENT {
            recent.insert(feed.clone(), now);
        }
    }

    /// Feeds that this node appended to lately.
    pub(super) fn recent(&self) -> Vec<FeedId> {
        let mut recent = lock(&self.recent);
        recent.retain(|_, at| at.elapsed() < LATELY);
        recent.keys().cloned().collect()
    }
}
