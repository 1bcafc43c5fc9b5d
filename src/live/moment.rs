//! A point of the clock that is never set, in half the room of the standard library's.

use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the process began to count, plus one; five centuries fit. Idle watchers hold several of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(NonZeroU64);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl From<Instant> for Moment {
    /// What was before the count began is its begin.
    fn from(instant: Instant) -> Moment {
        let since = instant.saturating_duration_since(*BEGUN).as_nanos();
        let since = u64::try_from(since).unwrap_or(u64::MAX).saturating_add(1);
        Moment(NonZeroU64::new(since).unwrap_or(NonZeroU64::MIN))
    }
}

impl From<Moment> for Instant {
    fn from(moment: Moment) -> Instant {
        *BEGUN + Duration::from_nanos(moment.0.get() - 1)
    }
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        Instant::now().into()
    }

    /// As the standard library has it.
    pub fn instant(self) -> Instant {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_instant_that_it_was_made_of() {
        let begun = Moment::now();
        let later = Instant::now() + Duration::from_secs(7_000);
        assert_eq!(Moment::from(later).instant(), later);
        assert!(Moment::from(later) > begun && size_of::<Option<Moment>>() == 8);
        let before = BEGUN.checked_sub(Duration::from_secs(1)).unwrap_or(*BEGUN);
        assert_eq!(Moment::from(before).instant(), *BEGUN);
    }
}
