//! A point of the clock that is never set, in half the room of the standard library's, and in one number: watchers compare
//! several of these with each gift, and the standard library's arithmetic on seconds and nanoseconds was a tenth of what a
//! gift cost.

use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the process began to count, plus one; five centuries fit, and what lies outside is the nearest that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonoTime(NonZeroU64);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl MonoTime {
    /// Now.
    pub fn now() -> MonoTime {
        MonoTime::after(nanos(BEGUN.elapsed()))
    }

    /// As the standard library has it, for those that wait.
    pub fn instant(self) -> Instant {
        *BEGUN + Duration::from_nanos(self.0.get() - 1)
    }

    /// How long it has been since `earlier`; nothing when that is still to come.
    #[inline]
    pub fn since(self, earlier: MonoTime) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    #[inline]
    fn after(nanos: u64) -> MonoTime {
        MonoTime(NonZeroU64::MIN.saturating_add(nanos))
    }
}

impl Add<Duration> for MonoTime {
    type Output = MonoTime;

    #[inline]
    fn add(self, time: Duration) -> MonoTime {
        MonoTime(self.0.saturating_add(nanos(time)))
    }
}

impl Sub<Duration> for MonoTime {
    type Output = MonoTime;

    #[inline]
    fn sub(self, time: Duration) -> MonoTime {
        MonoTime::after((self.0.get() - 1).saturating_sub(nanos(time)))
    }
}

#[inline]
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_far_apart_as_they_were_said_to_be() {
        let now = MonoTime::now();
        let later = now + Duration::from_secs(7_000);
        assert_eq!(later.since(now), Duration::from_secs(7_000));
        assert_eq!(later.instant() - now.instant(), Duration::from_secs(7_000));
        assert_eq!((later - Duration::from_secs(7_000), now.since(later)), (now, Duration::ZERO));
        assert_eq!(size_of::<Option<MonoTime>>(), 8);
    }

    #[test]
    fn times_out_of_range_become_the_first_or_last_moment() {
        let (first, last) = (MonoTime::now() - Duration::MAX, MonoTime::now() + Duration::MAX);
        assert_eq!((first - Duration::from_secs(1), last + Duration::from_secs(1)), (first, last));
        assert!(first.instant() <= Instant::now() && Instant::now() < last.instant());
    }
}
