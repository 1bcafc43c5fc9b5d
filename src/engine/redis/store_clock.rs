//! What the servers' clocks say: for texts that are made before a script runs and hold its time. A node's own clock, which
//! may be wrong, has no part in it: a server's answer is carried on by the time that passed since.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::net::address::Endpoint;

/// Servers remembered.
const SERVERS: usize = 1_024;

/// For how long an agreement holds. Clocks do not drift apart in that; a server that fails over, or whose clock is set, is
/// noticed after it.
const AGREED: Duration = Duration::from_secs(1);

/// How far this process' two clocks may differ on how much time passed: beyond it the process, or its machine, stood still.
const STOOD_STILL: Duration = Duration::from_millis(250);

/// A moment by both of this process' clocks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// How much time passed; none when the two clocks do not agree on it.
    fn until(self, later: Moment) -> Option<Duration> {
        let steady = later.steady.saturating_duration_since(self.steady);
        let wall = later.wall.duration_since(self.wall).ok()?;
        (steady.abs_diff(wall) <= STOOD_STILL).then_some(steady)
    }
}

/// What a server's clock says at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Milliseconds.
    pub time: u64,
    /// The server is to be asked whether it agrees.
    pub ask: bool,
}

struct Clock {
    /// What it said, and when that was heard: it is never ahead of the server, but by what clocks drift.
    said: u64,
    heard: Moment,
    agreed: Moment,
}

/// See the module.
#[derive(Default)]
pub(super) struct StoreClocks {
    clocks: Mutex<HashMap<Endpoint, Clock>>,
}

impl StoreClocks {
    fn locked(&self) -> MutexGuard<'_, HashMap<Endpoint, Clock>> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this server's clock says; none when it has not said, or this process stood still since.
    pub fn at(&self, server: &Endpoint, now: Moment) -> Option<Told> {
        let clocks = self.locked();
        let clock = clocks.get(server)?;
        let passed = clock.heard.until(now)?;
        let ask = clock.agreed.until(now).is_none_or(|passed| passed > AGREED);
        Some(Told { time: clock.said + passed.as_millis() as u64, ask })
    }

    /// It said this, in milliseconds, in an answer that was just heard.
    pub fn said(&self, server: &Endpoint, time: u64, now: Moment) {
        let mut clocks = self.locked();
        if clocks.len() >= SERVERS && !clocks.contains_key(server) {
            clocks.clear();
        }
        clocks.insert(server.clone(), Clock { said: time, heard: now, agreed: now });
    }

    /// It agreed with what was made of its clock at this moment.
    pub fn agreed(&self, server: &Endpoint, at: Moment) {
        if let Some(clock) = self.locked().get_mut(server) {
            clock.agreed = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_clock_is_carried_on_by_the_time_that_passed_and_asked_again_after_a_second() {
        let (clocks, server) = (StoreClocks::default(), Endpoint::Tcp("store".into(), 1));
        let start = Moment::now();
        let later = |steady: u64, wall: u64| Moment {
            steady: start.steady + Duration::from_millis(steady),
            wall: start.wall + Duration::from_millis(wall),
        };
        assert_eq!(clocks.at(&server, start), None);
        clocks.said(&server, 5_000, start);
        assert_eq!(clocks.at(&server, later(900, 900)), Some(Told { time: 5_900, ask: false }));
        assert_eq!(clocks.at(&server, later(1_100, 1_100)), Some(Told { time: 6_100, ask: true }));
        clocks.agreed(&server, later(1_100, 1_100));
        assert_eq!(clocks.at(&server, later(1_500, 1_600)), Some(Told { time: 6_500, ask: false }));
        assert_eq!(clocks.at(&server, later(1_500, 9_000)), None, "it stood still, or its clock was set");
        clocks.said(&server, 1_000, later(2_000, 9_000));
        assert_eq!(clocks.at(&server, later(2_001, 9_001)), Some(Told { time: 1_001, ask: false }));
    }
}
