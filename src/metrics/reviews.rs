//! How many gifts wait for a host, in the feeds in which this node lately saw some.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;

/// Feeds that are remembered at most. The one not seen for longest makes room.
pub const MAX_FEEDS: usize = 64;

/// Gifts in review, for the metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReviewsWaiting {
    seen: Arc<Mutex<Seen>>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Seen {
    /// By feed: when it was seen, counted in sightings, and how many waited then.
    feeds: HashMap<String, (u64, usize)>,
    sightings: u64,
}

impl ReviewsWaiting {
    /// The sum over the remembered feeds.
    pub(super) fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    /// This number waits in a feed. A feed in which none does is forgotten.
    pub fn note(&self, feed: &str, waiting: usize) {
        self.change(feed, |_| waiting);
    }

    /// One more began to wait.
    pub fn joined(&self, feed: &str) {
        self.change(feed, |before| before + 1);
    }

    /// The feeds in which some waited when they were last seen.
    pub fn feeds(&self) -> Vec<String> {
        self.locked().feeds.keys().cloned().collect()
    }

    fn change(&self, feed: &str, waiting: impl FnOnce(usize) -> usize) {
        let mut seen = self.locked();
        seen.sightings += 1;
        let now = seen.sightings;
        let before = seen.feeds.get(feed).map_or(0, |(_, waiting)| *waiting);
        match waiting(before) {
            0 => drop(seen.feeds.remove(feed)),
            waiting => drop(seen.feeds.insert(feed.to_owned(), (now, waiting))),
        }
        if seen.feeds.len() > MAX_FEEDS {
            let oldest = seen.feeds.iter().min_by_key(|(_, (at, _))| *at).map(|(name, _)| name.clone());
            oldest.map(|name| seen.feeds.remove(&name));
        }
        self.gauge.set(seen.feeds.values().map(|(_, waiting)| *waiting as i64).sum());
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_of_what_was_seen_last_and_a_feed_where_nothing_waits_makes_room() {
        let waiting = ReviewsWaiting::default();
        waiting.joined("a");
        waiting.joined("a");
        waiting.note("b", 7);
        assert_eq!((waiting.gauge.get(), waiting.feeds().len()), (9, 2));
        waiting.note("a", 0);
        assert_eq!((waiting.gauge.get(), waiting.feeds()), (7, vec!["b".to_owned()]));
        for n in 0..MAX_FEEDS {
            waiting.note(&format!("f{n}"), 1);
        }
        assert_eq!((waiting.gauge.get(), waiting.feeds().len()), (MAX_FEEDS as i64, MAX_FEEDS));
    }
}
