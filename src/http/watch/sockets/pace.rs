//! Evenness: a thread that is busy writing rests in between, so that changes gather and the next
//! round is one larger write each, and so that requests get their share of the core.

use std::time::{Duration, Instant};

/// Rounds shorter than this are not worth a rest.
const SHORT: Duration = Duration::from_millis(2);

/// A round's rest: this part of the time it took.
const REST: f64 = 0.25;

/// The longest rest; the contract of `flush_ms` is stretched by no more.
const REST_MOST: Duration = Duration::from_millis(100);

/// When the next round may begin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rest_until: Option<Instant>,
    /// The time from the begin of the last round to the end of its rest.
    stretch: Duration,
}

impl Pace {
    /// A round ended that took `busy`.
    pub fn round(&mut self, busy: Duration, now: Instant) {
        if busy < SHORT {
            (self.rest_until, self.stretch) = (None, Duration::ZERO);
            return;
        }
        let rest = busy.mul_f64(REST).min(REST_MOST);
        (self.rest_until, self.stretch) = (Some(now + rest), busy + rest);
    }

    /// Until when the thread rests; none: it may begin.
    pub fn resting(&self, now: Instant) -> Option<Instant> {
        self.rest_until.filter(|until| *until > now)
    }

    /// How far apart rounds are now; zero while the thread keeps up.
    pub fn stretch(&self) -> Duration {
        self.stretch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_round_is_followed_by_a_rest_and_a_short_one_ends_the_stretch() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let ms = Duration::from_millis;
        pace.round(ms(1), now);
        assert_eq!((pace.resting(now), pace.stretch()), (None, ms(0)));
        pace.round(ms(40), now);
        assert_eq!((pace.resting(now), pace.stretch()), (Some(now + ms(10)), ms(50)));
        assert_eq!(pace.resting(now + ms(10)), None);
        pace.round(ms(9_000), now);
        assert_eq!(pace.resting(now), Some(now + REST_MOST));
        pace.round(ms(1), now);
        assert_eq!((pace.resting(now), pace.stretch()), (None, ms(0)));
    }
}
