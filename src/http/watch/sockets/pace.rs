//! Evenness: a thread that is busy writing rests in between, so that changes gather and the next
//! round is one larger write each, and so that requests get their share of the core.

use crate::live::moment::Moment;
use std::time::Duration;

/// Rounds shorter than this are not worth a rest.
const SHORT: Duration = Duration::from_millis(2);

/// A round's rest, as a part of the time it took.
const REST: f64 = 0.25;

/// The longest rest; the contract of `flush_ms` is stretched by no more.
const REST_MOST: Duration = Duration::from_millis(100);

/// Up to this, a rest is half of its round, and as long as it when it carried [`MANY`] changes to each socket: then
/// more of the same burst come while the clients read.
const BRIEF: Duration = Duration::from_millis(8);

/// See [`BRIEF`].
const MANY: f64 = 3.0;

/// When the next round may begin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rest_until: Option<Moment>,
    /// The time from the begin of the last round to the end of its rest.
    stretch: Duration,
}

impl Pace {
    /// A round ended that took `busy`, and carried so many changes to each socket.
    pub fn round(&mut self, busy: Duration, carried: f64, now: Moment) {
        if busy < SHORT {
            (self.rest_until, self.stretch) = (None, Duration::ZERO);
            return;
        }
        let brief = busy.mul_f64((carried / MANY).clamp(0.5, 1.0)).min(BRIEF);
        let rest = busy.mul_f64(REST).min(REST_MOST).max(brief);
        (self.rest_until, self.stretch) = (Some(now + rest), busy + rest);
    }

    /// Until when the thread rests; none: it may begin.
    pub fn resting(&self, now: Moment) -> Option<Moment> {
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
        let (mut pace, now) = (Pace::default(), Moment::now());
        let ms = Duration::from_millis;
        pace.round(ms(1), 1.0, now);
        assert_eq!((pace.resting(now), pace.stretch()), (None, ms(0)));
        pace.round(ms(40), 1.0, now);
        assert_eq!((pace.resting(now), pace.stretch()), (Some(now + ms(10)), ms(50)));
        assert_eq!(pace.resting(now + ms(10)), None);
        pace.round(ms(9_000), 1.0, now);
        assert_eq!(pace.resting(now), Some(now + REST_MOST));
        pace.round(ms(1), 1.0, now);
        assert_eq!((pace.resting(now), pace.stretch()), (None, ms(0)));
    }

    #[test]
    fn a_brief_rest_is_half_of_its_round_and_all_of_it_in_a_burst() {
        let (mut pace, now) = (Pace::default(), Moment::now());
        let ms = Duration::from_millis;
        let cases = [
            (6, 1.0, 3),
            (6, 2.0, 4),
            (6, 3.0, 6),
            (6, 50.0, 6),
            (12, 1.0, 6),
            (12, 50.0, 8),
            (40, 50.0, 10),
        ];
        for (busy, carried, rest) in cases {
            pace.round(ms(busy), carried, now);
            assert_eq!(
                pace.resting(now).map(|until| until.since(now).as_millis()),
                Some(rest),
                "{busy} {carried}"
            );
        }
    }
}
