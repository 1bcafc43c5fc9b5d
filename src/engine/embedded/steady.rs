//! Notices steps of the clock, so that a wrong clock deletes nothing.
//!
//! Nothing here is ever taken for the time: a comparison uses the `now` of the call that asks. What is forgotten
//! by age alone, however, cannot be had back, so that waits until the callers' clock has run as evenly as the
//! monotonic one for a while.

use std::time::{Duration, Instant};

use crate::domain::Millis;

/// How far the two clocks may drift apart between two calls. A call may have waited for a few seconds.
const DRIFT_MS: i64 = 60_000;

/// Two calls further apart than this prove nothing: the machine may have slept.
const GAP: Duration = Duration::from_secs(60);

/// How evenly the callers' clock runs.
pub(super) struct Steady {
    wanted: Duration,
    since: Instant,
    last: Option<(Millis, Instant)>,
    logged: Option<Instant>,
}

impl Steady {
    /// A clock that is steady once it has run evenly for `wanted`.
    pub(super) fn new(wanted: Duration, at: Instant) -> Steady {
        Steady { wanted, since: at, last: None, logged: None }
    }

    /// A caller says it is `now`, at `at` of the monotonic clock. By how many milliseconds its clock went back
    /// meanwhile, if it did.
    pub(super) fn heard(&mut self, now: Millis, at: Instant) -> Option<u64> {
        let (before, then) = self.last.replace((now, at))?;
        let passed = at.saturating_duration_since(then);
        let step = now.0.saturating_sub(before.0).saturating_sub(passed.as_millis() as i64);
        if step.abs() <= DRIFT_MS && passed <= GAP {
            return None;
        }
        self.since = at;
        // Calls from before and after a step may come mixed: one line for all of them.
        let quiet = self.logged.is_some_and(|logged| at.saturating_duration_since(logged) < GAP);
        if step.abs() > DRIFT_MS && !quiet {
            self.logged = Some(at);
            let steady_for_s = self.wanted.as_secs();
            tracing::warn!(
                step_ms = step,
                steady_for_s,
                "the clock was set; nothing is forgotten by age until it has run evenly for a while"
            );
        }
        u64::try_from(step.saturating_neg()).ok().filter(|back| *back > DRIFT_MS.unsigned_abs())
    }

    /// True when what is over by age may be forgotten for good.
    pub(super) fn may_forget(&self, at: Instant) -> bool {
        at.saturating_duration_since(self.since) >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_has_run_evenly_may_forget() {
        let begun = Instant::now();
        let at = |s: u64| begun + Duration::from_secs(s);
        let mut steady = Steady::new(Duration::from_secs(100), begun);
        let day = 86_400_000;
        for s in 0..=100 {
            assert_eq!(steady.heard(Millis(s as i64 * 1000), at(s)), None);
            assert_eq!(steady.may_forget(at(s)), s >= 100, "{s}");
        }
        assert_eq!(steady.heard(Millis(101_000 + 2 * day), at(101)), None);
        assert!(!steady.may_forget(at(101)), "it went forward");
        assert_eq!(steady.heard(Millis(150_000 + 2 * day), at(150)), None);
        assert!(!steady.may_forget(at(150)));
        assert!(steady.may_forget(at(201)));
        assert_eq!(steady.heard(Millis(202_000), at(202)), Some(2 * day as u64));
        assert!(!steady.may_forget(at(301)), "it went back");
        assert!(steady.may_forget(at(302)));
        assert_eq!(steady.heard(Millis(310_000), at(310)), None);
        assert_eq!(steady.heard(Millis(410_000), at(410)), None);
        assert!(!steady.may_forget(at(410)), "nobody looked for a long time");
    }
}
