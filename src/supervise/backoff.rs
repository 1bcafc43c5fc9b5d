//! Pauses between attempts: they grow, and nodes do not take them all at the same moment.

use std::time::Duration;

use crate::random;

/// The pause after one that is shorter.
const SHORTEST: Duration = Duration::from_millis(50);

/// The pauses of one loop: the first, then from 50 ms to the longest, doubled with each.
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, next: first }
    }

    /// The pause before the next attempt.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).clamp(SHORTEST, self.longest);
        jitter(now)
    }

    /// The next pause is the first again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Resets the pauses after a connection that lasted.
    pub(crate) fn after(&mut self, lasted: Duration) {
        if lasted > 4 * self.longest {
            self.reset();
        }
    }
}

/// This pause, shorter or longer by up to a quarter, so that many nodes that lost the same server do not come back
/// to it together.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + random::share() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_after_a_connection_that_lasted() {
        const MAX_PAUSE: Duration = Duration::from_millis(500);
        let mut backoff = Backoff::new(Duration::ZERO, MAX_PAUSE);
        assert_eq!(backoff.next_pause(), Duration::ZERO);
        let longest = (0..10).map(|_| backoff.next_pause()).max().unwrap();
        assert!(longest > MAX_PAUSE / 2 && longest <= MAX_PAUSE * 5 / 4, "{longest:?}");
        backoff.after(Duration::from_secs(60));
        assert_eq!(backoff.next_pause(), Duration::ZERO);
    }

    #[test]
    fn a_loop_may_pause_before_its_first_retry_too() {
        let first = Duration::from_millis(50);
        let mut backoff = Backoff::new(first, Duration::from_secs(2));
        for _ in 0..2 {
            let pause = backoff.next_pause();
            assert!(pause >= first * 3 / 4 && pause <= first * 5 / 4, "{pause:?}");
            assert!(backoff.next_pause() > first, "the second is longer");
            backoff.reset();
        }
    }
}
