//! Which rankings feeds are known to have.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::domain::FeedId;
use crate::engine::protocol::keys::Keys;
use crate::engine::protocol::scripts::Call;

/// Feeds whose rankings are known; all are forgotten when there are more, and learned again.
const MAX_FEEDS: usize = 65_536;

/// Runs and measures that are remembered of a feed; beyond them what a script asked for last.
const MAX_RUNS_PER_FEED: usize = 12;
const MEASURES: usize = 16;

/// A ranking of each of these runs by each of these measures, both with blanks between.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownRankings {
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

/// The words of both texts; those of the new one alone where they would be more than `most`.
fn joined(before: &str, new: String, most: usize) -> String {
    let words: BTreeSet<&str> = before.split(' ').chain(new.split(' ')).filter(|it| !it.is_empty()).collect();
    match words.len() > most {
        true => new,
        false => words.into_iter().collect::<Vec<_>>().join(" "),
    }
}

/// What scripts asked for. A hint: scripts know, and say so.
#[derive(Default)]
pub(crate) struct KnownRankingsOfFeeds(Mutex<HashMap<FeedId, KnownRankings>>);

impl KnownRankingsOfFeeds {
    /// Those of a feed.
    pub fn of(&self, feed: &FeedId) -> KnownRankings {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(feed).cloned().unwrap_or_default()
    }

    /// Takes in what a script asked for: that, and what is known already.
    pub fn learn(&self, feed: &FeedId, asked: KnownRankings) -> KnownRankings {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_FEEDS && !known.contains_key(feed) {
            known.clear();
        }
        let before = known.entry(feed.clone()).or_default();
        before.runs = joined(&before.runs, asked.runs, MAX_RUNS_PER_FEED);
        before.measures = joined(&before.measures, asked.measures, MEASURES);
        before.clone()
    }
}
