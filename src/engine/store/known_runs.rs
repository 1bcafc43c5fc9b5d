//! Which runs feeds are known to have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::FeedId;

/// Feeds that are known to count something; all are forgotten when there are more, and learned again.
const FEEDS: usize = 65_536;

/// The open runs of feeds, by number. A hint: scripts know, and say so.
#[derive(Default)]
pub(super) struct KnownRuns(Mutex<HashMap<FeedId, Arc<str>>>);

impl KnownRuns {
    /// The numbers of a feed's open runs, with blanks between.
    pub fn of(&self, feed: &FeedId) -> Arc<str> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(feed).cloned().unwrap_or_default()
    }

    /// Takes in what a script said.
    pub fn learn(&self, feed: &FeedId, runs: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FEEDS && !known.contains_key(feed) {
            known.clear();
        }
        known.insert(feed.clone(), runs.into());
    }
}
