//! Which rankings feeds are known to have.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::keys::Keys;
use super::scripts::Call;
use crate::domain::FeedId;

/// Feeds whose rankings are known; all are forgotten when there are more, and learned again.
const FEEDS: usize = 65_536;

/// A ranking of each of these runs by each of these measures, both with blanks between.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRankings {
    pub runs: String,
    pub measures: String,
}

impl KnownRankings {
    /// KEYS and ARGV of them.
    pub fn push(&self, call: &mut Call, keys: &Keys, feed: &FeedId) {
        call.arg("runs", &self.runs).arg("measures", &self.measures);
        call.last_keys(keys.rankings(feed, &self.runs, &self.measures));
    }
}

/// What a script asked for last. A hint: scripts know, and say so.
#[derive(Default)]
pub(super) struct KnownRankingsOfFeeds(Mutex<HashMap<FeedId, KnownRankings>>);

impl KnownRankingsOfFeeds {
    /// Those of a feed.
    pub fn of(&self, feed: &FeedId) -> KnownRankings {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(feed).cloned().unwrap_or_default()
    }

    /// Takes in what a script asked for.
    pub fn learn(&self, feed: &FeedId, rankings: &KnownRankings) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FEEDS && !known.contains_key(feed) {
            known.clear();
        }
        known.insert(feed.clone(), rankings.clone());
    }
}
