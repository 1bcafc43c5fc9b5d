//! A timing wheel: very many deadlines that mostly move later, and one moment to wake at.
//!
//! A deadline is filed under its tick once; when it moves later nothing is touched, and it is filed
//! anew when its old tick comes. The caller keeps the tick it filed under, and so recognises stale entries.

use std::time::Duration;

use super::moment::MonoTime;

/// How exact the wheel is.
const TICK_TIME: Duration = Duration::from_millis(10);

/// One turn, 40.96 s: later deadlines are filed at its end and looked at again then.
const SLOTS: u64 = 4096;

/// Deadlines further away than this many ticks are gathered on every [`COARSE_TICKS`]th tick: a thread with
/// thousands of keepalives then wakes four times in a second, not a hundred.
const FAR_TICKS: u64 = 100;

/// See [`FAR_TICKS`].
const COARSE_TICKS: u64 = 25;

/// The tick of no deadline.
pub(super) const NEVER: u64 = u64::MAX;

/// Entries by the tick at which they are looked at.
pub(super) struct Wheel {
    start: MonoTime,
    /// Ticks before this one have ended.
    next: u64,
    slots: Vec<Vec<u32>>,
    occupied: [u64; SLOTS as usize / 64],
}

impl Wheel {
    pub(super) fn new(start: MonoTime) -> Self {
        Wheel { start, next: 0, slots: vec![Vec::new(); SLOTS as usize], occupied: [0; SLOTS as usize / 64] }
    }

    /// The tick under which a deadline belongs: never before it.
    pub(super) fn tick(&self, at: MonoTime) -> u64 {
        let since = at.since(self.start);
        let tick = since.as_nanos().div_ceil(TICK_TIME.as_nanos()) as u64;
        let tick = if tick > self.next + FAR_TICKS { tick.next_multiple_of(COARSE_TICKS) } else { tick };
        tick.clamp(self.next, self.next + SLOTS - 1)
    }

    /// Files an entry under a tick that [`Wheel::tick`] gave.
    pub(super) fn file(&mut self, entry: u32, tick: u64) {
        let slot = (tick % SLOTS) as usize;
        self.slots[slot].push(entry);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// When the next tick with an entry ends.
    pub(super) fn wake_at(&self) -> Option<MonoTime> {
        let tick = self.next_occupied()?;
        Some(self.start + Duration::from_nanos(TICK_TIME.as_nanos() as u64 * tick))
    }

    fn next_occupied(&self) -> Option<u64> {
        let begin = self.next % SLOTS;
        let words = SLOTS / 64;
        // The word in which the turn begins is looked at twice: its upper bits first, its lower last.
        for n in 0..=words {
            let word = (begin / 64 + n) % words;
            let mut bits = self.occupied[word as usize];
            let low = begin % 64;
            if n == 0 {
                bits &= u64::MAX << low;
            } else if n == words {
                bits &= !(u64::MAX << low);
            }
            if bits != 0 {
                let slot = word * 64 + u64::from(bits.trailing_zeros());
                return Some(self.next + (slot + SLOTS - begin) % SLOTS);
            }
        }
        None
    }

    /// Moves on to `now`: every tick that has ended, with its entries.
    pub(super) fn turn(&mut self, now: MonoTime) -> Vec<(u64, Vec<u32>)> {
        let since = now.since(self.start);
        let over = (since.as_nanos() / TICK_TIME.as_nanos()) as u64;
        let mut due = Vec::new();
        while let Some(tick) = self.next_occupied().filter(|tick| *tick <= over) {
            let slot = (tick % SLOTS) as usize;
            // Taken, not drained: what a burst of deadlines needed is given back.
            due.push((tick, std::mem::take(&mut self.slots[slot])));
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.next = self.next.max(over + 1);
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_entry_comes_once_and_never_early(
            deadlines in prop::collection::vec(0..60_000u64, 1..200),
            steps in prop::collection::vec(1..9_000u64, 1..60),
        ) {
            let start = MonoTime::now();
            let mut wheel = Wheel::new(start);
            for (n, at) in deadlines.iter().enumerate() {
                let tick = wheel.tick(start + Duration::from_millis(*at));
                wheel.file(n as u32, tick);
            }
            let mut seen = vec![0; deadlines.len()];
            let mut at = 0;
            for step in steps.into_iter().chain([70_000]) {
                at += step;
                let now = start + Duration::from_millis(at);
                for (_, entries) in wheel.turn(now) {
                    for n in entries {
                        seen[n as usize] += 1;
                        // Beyond one turn it is looked at early, to be filed again.
                        prop_assert!(deadlines[n as usize] <= at || deadlines[n as usize] > 40_000);
                    }
                }
                prop_assert!(wheel.wake_at().is_none_or(|wake| wake > now));
            }
            prop_assert!(seen.iter().all(|times| *times == 1));
        }
    }

    #[test]
    fn a_near_deadline_is_exact_to_a_tick_and_far_ones_come_together() {
        let start = MonoTime::now();
        let wheel = Wheel::new(start);
        let tick = |ms: u64| wheel.tick(start + Duration::from_millis(ms));
        assert_eq!((tick(1), tick(10), tick(11), tick(333)), (1, 1, 2, 34));
        assert_eq!(tick(24_001), tick(24_250));
    }
}
