//! How often one source may be posted to. A stranger who learns a path, or a platform that repeats itself without end,
//! costs that source and nobody else.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::domain::{FeedId, SourceId};

/// Seconds' worth of deliveries that may come at once after a pause.
const BURST_S: u32 = 10;

/// After this number of deliveries, sources that have not come lately are forgotten.
const TIDY_EVERY: u32 = 4_096;

/// A bucket for each source that was posted to lately.
pub struct Pace {
    limiter: Option<DefaultKeyedRateLimiter<(FeedId, SourceId)>>,
    clock: DefaultClock,
    until_tidy: AtomicU32,
}

impl Pace {
    /// Deliveries to a source in a second in the long run; 0 is no limit.
    pub fn new(per_second: u32) -> Pace {
        let quota = NonZeroU32::new(per_second).map(|rate| {
            Quota::per_second(rate)
                .allow_burst(rate.saturating_mul(NonZeroU32::MIN.saturating_add(BURST_S - 1)))
        });
        let limiter = quota.map(RateLimiter::keyed);
        Pace { limiter, clock: DefaultClock::default(), until_tidy: AtomicU32::new(TIDY_EVERY) }
    }

    /// Takes a delivery out of a source's bucket; the error is when to come again, in whole seconds.
    pub(super) fn take(&self, feed: &FeedId, source: &SourceId) -> Result<(), u64> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.until_tidy.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.until_tidy.store(TIDY_EVERY, Ordering::Relaxed);
            limiter.retain_recent();
        }
        limiter.check_key(&(feed.clone(), source.clone())).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_a_bucket_of_its_own() {
        let pace = Pace::new(1);
        let (feed, one, other) = ("show".parse().unwrap(), "a".parse().unwrap(), "b".parse().unwrap());
        let taken = (0..50).filter(|_| pace.take(&feed, &one).is_ok()).count();
        assert!((10..=11).contains(&taken), "{taken}");
        assert!(matches!(pace.take(&feed, &one), Err(1)));
        assert_eq!(pace.take(&feed, &other), Ok(()));
        let free = Pace::new(0);
        assert!((0..10_000).all(|_| free.take(&feed, &one).is_ok()));
    }
}
