//! Pauses between attempts: they grow, and nodes do not take them all at the same moment.

use std::time::Duration;

use crate::random;

/// The pauses of one loop: none before the first attempt, then from the shortest to the longest, doubled with each.
pub(crate) struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(shortest: Duration, longest: Duration) -> Backoff {
        Backoff { shortest, longest, next: Duration::ZERO }
    }

    /// The pause before the next attempt.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).clamp(self.shortest, self.longest);
        jitter(now)
    }

    /// The next attempt is made at once.
    pub(crate) fn reset(&mut self) {
        self.next = Duration::ZERO;
    }

    /// A connection that lasted starts the pauses from nothing again.
    pub(crate) fn after(&mut self, lasted: Duration) {
        if lasted > 4 * self.longest {
            self.next = Duration::ZERO;
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
        const LONGEST: Duration = Duration::from_millis(500);
        let mut backoff = Backoff::new(Duration::from_millis(50), LONGEST);
        assert_eq!(backoff.next_pause(), Duration::ZERO);
        let longest = (0..10).map(|_| backoff.next_pause()).max().unwrap();
        assert!(longest > LONGEST / 2 && longest <= LONGEST * 5 / 4, "{longest:?}");
        backoff.after(Duration::from_secs(60));
        assert_eq!(backoff.next_pause(), Duration::ZERO);
    }
}
