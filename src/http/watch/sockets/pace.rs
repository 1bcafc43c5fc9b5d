//! Evenness: a thread that is busy writing rests in between, so that changes gather and the next
//! round is one larger write each, and so that requests get their share of the core.

use std::time::Duration;

use super::handler::Carried;
use crate::live::moment::MonoTime;

/// Rounds shorter than this are not worth a rest.
const MIN_ROUND: Duration = Duration::from_millis(2);

/// A round's rest, as a part of the time it took: at least.
const DELAY_SHARE: f64 = 0.25;

/// The longest rest; the contract of `flush_ms` is stretched by no more.
const REST_MOST: Duration = Duration::from_millis(100);

/// Up to this, a rest is half of its round, and as long as it when it carried [`MANY_CHANGES`] changes to each socket: then
/// more of the same burst come while the clients read.
const SHORT_DELAY: Duration = Duration::from_millis(8);

/// See [`SHORT_DELAY`].
const MANY_CHANGES: f64 = 3.0;

/// How much of what the fullest of the last rounds carried is as much again.
const AS_MUCH_SHARE: f64 = 0.95;

/// What is left, with each round, of what the fullest one carried.
const PEAK_DECAY: f64 = 0.98;

/// When the next round may begin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Deliveries of the fullest of the last rounds; it fades.
    fullest: f64,
    /// The time from the begin of the last round to the end of its rest.
    stretch: Duration,
}

/// How long a thread rests: until `least`, and on until `most` unless `enough` deliveries are owed before: then a burst that
/// waits for what it sent has come whole, and nothing more would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteDelay {
    pub least: MonoTime,
    pub most: MonoTime,
    pub enough: u64,
    /// It is later than `least`.
    pub least_is_over: bool,
}

impl Pace {
    /// A round ended that took `busy`, began when `owed` deliveries were, and wrote `carried`. None: the next may begin.
    pub fn round(
        &mut self,
        busy: Duration,
        owed: u64,
        carried: Carried,
        now: MonoTime,
    ) -> Option<WriteDelay> {
        self.fullest = (self.fullest * PEAK_DECAY).max(carried.changes as f64);
        if busy < MIN_ROUND {
            self.stretch = Duration::ZERO;
            return None;
        }
        let each = carried.changes as f64 / carried.writes.max(1) as f64;
        let brief = busy.mul_f64((each / MANY_CHANGES).clamp(0.5, 1.0)).min(SHORT_DELAY);
        let least = busy.mul_f64(DELAY_SHARE).min(REST_MOST);
        let most = least.max(brief);
        self.stretch = busy + most;
        // What came during the round and was written in it is announced, and counted, only now.
        let ahead = carried.changes.saturating_sub(owed);
        let enough = (self.fullest * AS_MUCH_SHARE) as u64 + ahead;
        Some(WriteDelay { least: now + least, most: now + most, enough, least_is_over: false })
    }

    /// How far apart rounds are now; zero while the thread keeps up.
    pub fn stretch(&self) -> Duration {
        self.stretch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn carried(each: f64) -> Carried {
        Carried { writes: 1000, changes: (each * 1000.0) as u64 }
    }

    #[test]
    fn a_long_round_is_followed_by_a_rest_and_a_short_one_ends_the_stretch() {
        let (mut pace, now) = (Pace::default(), MonoTime::now());
        assert_eq!((pace.round(MS(1), 1000, carried(1.0), now), pace.stretch()), (None, MS(0)));
        let rest = pace.round(MS(40), 1000, carried(1.0), now).unwrap();
        assert_eq!((rest.least, rest.most, pace.stretch()), (now + MS(10), now + MS(10), MS(50)));
        let rest = pace.round(MS(9_000), 1000, carried(1.0), now).unwrap();
        assert_eq!((rest.least, rest.most), (now + REST_MOST, now + REST_MOST));
        assert_eq!((pace.round(MS(1), 1000, carried(1.0), now), pace.stretch()), (None, MS(0)));
    }

    #[test]
    fn a_brief_rest_is_half_of_its_round_and_all_of_it_in_a_burst() {
        let (mut pace, now) = (Pace::default(), MonoTime::now());
        let cases = [
            (6, 1.0, 3),
            (6, 2.0, 4),
            (6, 3.0, 6),
            (6, 50.0, 6),
            (12, 1.0, 6),
            (12, 50.0, 8),
            (40, 50.0, 10),
        ];
        for (busy, each, most) in cases {
            let rest = pace.round(MS(busy), 0, carried(each), now).unwrap();
            assert_eq!((rest.least, rest.most), (now + MS(busy) / 4, now + MS(most)), "{busy} {each}");
        }
    }

    #[test]
    fn a_rest_ends_when_as_much_has_come_as_the_fullest_of_the_last_rounds_carried() {
        let (mut pace, now) = (Pace::default(), MonoTime::now());
        let mut enough = |owed, each| pace.round(MS(6), owed, carried(each), now).unwrap().enough;
        assert_eq!(enough(16_000, 16.0), 15_200);
        assert_eq!(enough(8_000, 8.0), 14_896, "a round that was less full does not make it much less");
        // Half of what it wrote came while it wrote. That is counted when the feeds announce it, so after the round.
        assert_eq!(enough(8_000, 16.0), 15_200 + 8_000);
    }
}
