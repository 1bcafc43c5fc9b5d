//! Saying the same thing at most now and then: when a store is away, every request fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lets somebody speak at most once in a while.
#[derive(Debug)]
pub(super) struct Seldom {
    start: Instant,
    every_ms: u64,
    /// Milliseconds since `start` before which nobody speaks.
    quiet_until: AtomicU64,
    unsaid: AtomicU64,
}

impl Seldom {
    pub(super) fn new(every: Duration) -> Self {
        Seldom {
            start: Instant::now(),
            every_ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX),
            quiet_until: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
        }
    }

    /// True when it is time to speak, with how often it was not since the last time.
    pub(super) fn may_speak(&self) -> Option<u64> {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let quiet = self.quiet_until.load(Ordering::Relaxed);
        let until = now.saturating_add(self.every_ms);
        let mine = now >= quiet
            && self.quiet_until.compare_exchange(quiet, until, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        match mine {
            true => Some(self.unsaid.swap(0, Ordering::Relaxed)),
            false => {
                self.unsaid.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_is_counted() {
        let seldom = Seldom::new(Duration::from_secs(3600));
        assert_eq!((seldom.may_speak(), seldom.may_speak(), seldom.may_speak()), (Some(0), None, None));
        seldom.quiet_until.store(0, Ordering::Relaxed);
        assert_eq!((seldom.may_speak(), seldom.may_speak()), (Some(2), None));
    }
}
