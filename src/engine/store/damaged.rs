//! Feeds of which something was met that cannot be read: counted, and said once each.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::FeedId;
use crate::engine::protocol::faults::Fault;
use crate::metrics::Metrics;

/// Feeds that are remembered; more are not counted, so that a store full of them costs no more.
const MAX_FEEDS: usize = 10_000;

/// Feeds that are known to be damaged.
pub(super) struct Damaged {
    feeds: Mutex<HashSet<FeedId>>,
    metrics: Arc<Metrics>,
}

impl Damaged {
    pub fn new(metrics: Arc<Metrics>) -> Damaged {
        Damaged { feeds: Mutex::default(), metrics }
    }

    /// Notes that a call about the feed failed like this.
    pub fn note(&self, feed: &FeedId, fault: &Fault) {
        if !fault.is_data() {
            return;
        }
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        if feeds.len() < MAX_FEEDS && feeds.insert(feed.clone()) {
            tracing::error!(
                %feed, why = fault.why,
                "what is stored of this feed is damaged; it answers 503 until its keys are restored or removed, all \
                 others work"
            );
            self.metrics.feeds_damaged.set(feeds.len() as i64);
        }
    }

    /// All of the feed's list was read: it is not damaged any more.
    pub fn clear(&self, feed: &FeedId) {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        if !feeds.is_empty() && feeds.remove(feed) {
            self.metrics.feeds_damaged.set(feeds.len() as i64);
        }
    }
}
