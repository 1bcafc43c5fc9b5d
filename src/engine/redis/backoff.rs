//! Pauses between attempts to connect: they grow, and nodes do not take them all at the same moment.

use std::time::Duration;

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_millis(500);

/// The first pause after a failure that follows another.
const SHORTEST: Duration = Duration::from_millis(50);

/// Grows from nothing to half a second.
#[derive(Default)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    /// The pause before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).clamp(SHORTEST, LONGEST);
        jitter(now)
    }

    /// A connection that lasted starts the pauses from nothing again.
    pub fn after(&mut self, lasted: Duration) {
        if lasted > 4 * LONGEST {
            self.next = Duration::ZERO;
        }
    }
}

/// This pause, shorter or longer by up to a quarter, so that many nodes that lost the same server do not come back
/// to it together.
pub fn jitter(pause: Duration) -> Duration {
    let share = f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX);
    pause.mul_f64(0.75 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_after_a_connection_that_lasted() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next_pause(), Duration::ZERO);
        let longest = (0..10).map(|_| backoff.next_pause()).max().unwrap();
        assert!(longest > LONGEST / 2 && longest <= LONGEST * 5 / 4, "{longest:?}");
        backoff.after(Duration::from_secs(60));
        assert_eq!(backoff.next_pause(), Duration::ZERO);
    }
}
