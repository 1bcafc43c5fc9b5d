//! At most one line per key and period, about something that may happen with every gift or request.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines about a key, unless another is set.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Keys with a line within that time; what happens to further ones is in the metrics only.
const MAX_KEYS: usize = 1_024;

/// When each key had its last line, and what has happened to it since.
pub(crate) struct LogThrottle<K> {
    every: Duration,
    keys: Mutex<HashMap<K, (Instant, u64)>>,
}

impl<K> Default for LogThrottle<K> {
    fn default() -> Self {
        LogThrottle::every(LINE_INTERVAL)
    }
}

impl<K> LogThrottle<K> {
    /// With this time between two lines about a key.
    pub(crate) fn every(every: Duration) -> Self {
        LogThrottle { every, keys: Mutex::default() }
    }
}

impl LogThrottle<()> {
    /// Counts one thing that happened. If it is time for a line, gives how many happened without one since the last line.
    pub(crate) fn allow_more(&self) -> Option<u64> {
        self.allow(&(), 1, Instant::now()).map(|count| count - 1)
    }
}

impl<K: Eq + Hash + Clone> LogThrottle<K> {
    /// Counts `count` things that happened to a key. If it is time for a line, gives how many happened since the last one.
    pub(crate) fn allow(&self, key: &K, count: u64, now: Instant) -> Option<u64> {
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= self.every;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, unsaid)) = keys.get_mut(key) {
            *unsaid += count;
            if !is_over(at) {
                return None;
            }
            *at = now;
            return Some(std::mem::take(unsaid));
        }
        if keys.len() >= MAX_KEYS {
            keys.retain(|_, (at, _)| !is_over(at));
        }
        if keys.len() >= MAX_KEYS {
            return None;
        }
        keys.insert(key.clone(), (now, 0));
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_warned_about_once_a_minute_and_nothing_is_left_uncounted() {
        let (throttle, begun) = (LogThrottle::<String>::default(), Instant::now());
        let (one, other) = ("one".to_owned(), "other".to_owned());
        let at = |s: u64| begun + Duration::from_secs(s);
        assert_eq!(throttle.allow(&one, 3, at(0)), Some(3));
        for s in 1..60 {
            assert_eq!(throttle.allow(&one, 2, at(s)), None);
        }
        assert_eq!(throttle.allow(&other, 5, at(59)), Some(5));
        assert_eq!(throttle.allow(&one, 1, at(60)), Some(119));
        assert_eq!(throttle.allow(&one, 1, at(61)), None);
    }

    #[test]
    fn suppressed_log_lines_are_counted() {
        let every = Duration::from_secs(3_600);
        let throttle = LogThrottle::every(every);
        assert_eq!(
            (throttle.allow_more(), throttle.allow_more(), throttle.allow_more()),
            (Some(0), None, None)
        );
        assert_eq!(throttle.allow(&(), 1, Instant::now() + every), Some(3), "this one, and two before");
    }

    #[test]
    fn many_feeds_take_no_more_room_than_few() {
        let (throttle, begun) = (LogThrottle::<String>::default(), Instant::now());
        let feed = |n: usize| format!("f{n}");
        let warned = (0..5_000).filter(|n| throttle.allow(&feed(*n), 1, begun).is_some()).count();
        assert_eq!((warned, throttle.keys.lock().unwrap().len()), (MAX_KEYS, MAX_KEYS));
        assert!(
            throttle.allow(&feed(4_999), 1, begun + LINE_INTERVAL).is_some(),
            "a minute later there is room again"
        );
    }
}
