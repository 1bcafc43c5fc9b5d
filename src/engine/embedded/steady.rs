//! Notices steps of the clock, so that a wrong clock deletes nothing.
//!
//! Nothing here is ever taken for the time: a comparison uses the `now` of the call that asks. What is forgotten
//! by age alone, however, cannot be had back, so that waits until the callers' clock has run as evenly as the
//! monotonic one for a while.
//!
//! A process that is started again goes on where the one before it was, if the machine's uptime, which nobody sets,
//! shows that the clock was not set meanwhile. That stands in a file beside the database, `tipcast.clock`; without it, or
//! when it does not fit, the wait begins anew.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::domain::Millis;
use crate::engine::folder::private;

/// How far the two clocks may drift apart between two calls. A call may have waited for a few seconds.
const DRIFT_MS: i64 = 60_000;

/// Two calls further apart than this prove nothing: the machine may have slept.
const GAP: Duration = Duration::from_secs(60);

/// How often the file is written, while there are calls.
const KEPT_EVERY: Duration = Duration::from_secs(60);

/// How evenly the callers' clock runs.
pub(super) struct Steady {
    wanted: Duration,
    since: Instant,
    /// For how long it had run evenly before that, in processes that went before.
    before: Duration,
    last: Option<(Millis, Instant)>,
    logged: Option<Instant>,
    file: PathBuf,
    kept: Instant,
    /// The machine's present life and how long it lasts already, in milliseconds; none where that cannot be known.
    uptime: fn() -> Option<(String, i64)>,
}

impl Steady {
    /// A clock that is steady once it has run evenly for `wanted`, with what is known of it in this folder.
    pub(super) fn new(wanted: Duration, at: Instant, dir: &Path) -> Steady {
        Steady {
            wanted,
            since: at,
            before: Duration::ZERO,
            last: None,
            logged: None,
            file: dir.join("tipcast.clock"),
            kept: at,
            uptime: machine,
        }
    }

    /// A caller says it is `now`, at `at` of the monotonic clock. By how many milliseconds its clock went back
    /// meanwhile, if it did.
    pub(super) fn heard(&mut self, now: Millis, at: Instant) -> Option<u64> {
        let Some((before, then)) = self.last.replace((now, at)) else {
            self.before = self.read(now).unwrap_or_default();
            return None;
        };
        let passed = at.saturating_duration_since(then);
        let step = now.0.saturating_sub(before.0).saturating_sub(passed.as_millis() as i64);
        if step.abs() <= DRIFT_MS && passed <= GAP {
            return None;
        }
        (self.since, self.before) = (at, Duration::ZERO);
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
        at.saturating_duration_since(self.since) + self.before >= self.wanted
    }

    /// For how long the clock had run evenly when `now` is its first reading in this process.
    fn read(&self, now: Millis) -> Option<Duration> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let (boot, up) = (self.uptime)()?;
        let [its_boot, ahead, since] = text.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let (ahead, since) = (ahead.parse::<i64>().ok()?, since.parse::<i64>().ok()?);
        let step = now.0.checked_sub(up)?.checked_sub(ahead)?;
        let evenly = u64::try_from(up.checked_sub(since)?).ok()?;
        (its_boot == boot && step.abs() <= DRIFT_MS).then_some(Duration::from_millis(evenly))
    }

    /// Writes down since when the clock has run evenly, if it is time for that. That it cannot be written is no harm.
    pub(super) fn keep(&mut self, at: Instant) {
        if at.saturating_duration_since(self.kept) >= KEPT_EVERY {
            self.kept = at;
            if let Err(error) = self.write(at) {
                tracing::debug!(%error, "how evenly the clock runs could not be written down");
            }
        }
    }

    fn write(&self, at: Instant) -> std::io::Result<()> {
        let (Some((boot, up)), Some((now, then))) = ((self.uptime)(), self.last) else { return Ok(()) };
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let evenly = ms(at.saturating_duration_since(self.since) + self.before);
        let ahead = now.0.saturating_add(ms(at.saturating_duration_since(then))).saturating_sub(up);
        let new = self.file.with_extension("clock.new");
        let mut file = private(OpenOptions::new().create(true).write(true).truncate(true)).open(&new)?;
        writeln!(file, "{boot} {ahead} {}", up.saturating_sub(evenly))?;
        std::fs::rename(&new, &self.file)
    }
}

/// See [`Steady::uptime`]. Linux tells it; it goes on while the machine sleeps.
fn machine() -> Option<(String, i64)> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let up = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = up.split_whitespace().next()?.parse().ok()?;
    Some((boot.trim().to_owned(), (seconds * 1e3) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_has_run_evenly_may_forget() {
        let begun = Instant::now();
        let at = |s: u64| begun + Duration::from_secs(s);
        let mut steady = Steady::new(Duration::from_secs(100), begun, Path::new("nowhere"));
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

    #[test]
    fn what_is_known_of_the_clock_outlives_the_process_unless_it_was_set_or_the_machine_began_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (begun, wall) = (Instant::now(), Millis(1_800_000_000_000));
        let at = |s: u64| begun + Duration::from_secs(s);
        let starts = |uptime| {
            let steady = Steady::new(Duration::from_secs(100), begun, dir.path());
            Steady { uptime, ..steady }
        };
        let mut first = starts(|| Some(("boot".into(), 5_000_000)));
        first.heard(wall, at(0));
        first.heard(wall.plus(50_000), at(50));
        first.keep(at(50));
        assert!(!first.file.exists(), "once a minute");
        first.heard(wall.plus(60_000), at(60));
        first.keep(at(60));
        // Forty seconds later, by the machine.
        let next: fn() -> _ = || Some(("boot".into(), 5_040_000));
        let heard = |uptime, now: i64, s: u64| {
            let mut second = starts(uptime);
            second.heard(Millis(now), at(s));
            second
        };
        let second = heard(next, wall.0 + 100_000, 0);
        assert_eq!(second.before, Duration::from_secs(100));
        assert!(second.may_forget(at(0)));
        for step in [-86_400_000, 86_400_000] {
            assert!(!heard(next, wall.0 + 100_000 + step, 0).may_forget(at(99)), "the clock was set");
        }
        let another: fn() -> _ = || Some(("another".into(), 5_040_000));
        assert!(!heard(another, wall.0 + 100_000, 0).may_forget(at(99)));
        assert!(!heard(|| None, wall.0 + 100_000, 0).may_forget(at(99)));
        std::fs::write(&first.file, "boot 17").unwrap();
        assert!(!heard(next, wall.0 + 100_000, 0).may_forget(at(99)), "half a file");
        let mut set = heard(next, wall.0, 0);
        set.before = Duration::from_secs(100);
        set.heard(Millis(wall.0 + 86_400_000), at(1));
        assert!(!set.may_forget(at(2)), "what was known is worth nothing once the clock is set");
    }
}
