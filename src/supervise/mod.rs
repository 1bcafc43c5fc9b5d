//! What must live as long as the gateway does: threads and tasks, registered in one place with what their
//! end means.
//!
//! A part that can begin anew is run by [`Parts::keep`]: when it panics it is started again, with a growing
//! pause, and counted. A part that cannot (its state is gone with it) holds a [`Vital`]: when that is
//! dropped by a panic, [`Parts::failed`] informs the composition root, which ends the process with a message, so
//! that the supervisor of the process starts it again.
//!
//! Ending is one way to stop working; the other is to get stuck. A part that has work says so by its
//! [`Beat`], again with every step. One that has been silent for [`STUCK_AFTER`] while it has work is named
//! by [`Parts::working`].

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use slab::Slab;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::metrics::labels::Label;
pub use crate::metrics::labels::Part;
pub(crate) use backoff::{Backoff, jitter};
pub(crate) use log_throttle::LogThrottle;

mod backoff;
pub mod faults;
pub mod lines;
mod log_throttle;
#[cfg(test)]
mod tests;

/// A part that has work and makes no step for this long is stuck. Longer than any call that writes to a store may take; who reads
/// rests meanwhile.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The pause before a part's first new start; doubled with each that follows, up to [`PAUSE_MOST`].
const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(5);

/// A part that ran for this long begins with the least pause again.
const RAN_WELL: Duration = Duration::from_secs(30);

/// The parts of one gateway.
#[derive(Debug)]
pub struct Parts {
    metrics: Arc<Metrics>,
    running: Mutex<Slab<Arc<PartState>>>,
    failure: watch::Sender<Option<String>>,
    /// Beats are milliseconds since then.
    begun: Instant,
}

#[derive(Debug)]
struct PartState {
    part: Part,
    begun: Instant,
    /// When the part last made a step of the work that it has, in milliseconds since `begun`, plus 1;
    /// 0 while it has none.
    stepped: AtomicU64,
    /// It ended and has not been started again yet.
    down: AtomicBool,
}

impl Default for Parts {
    /// Parts that count into metrics of their own.
    fn default() -> Parts {
        let (failure, _) = watch::channel(None);
        Parts { metrics: Arc::default(), running: Mutex::default(), failure, begun: Instant::now() }
    }
}

impl Parts {
    /// None yet; restarts are counted in `metrics`.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Parts> {
        Arc::new(Parts { metrics, ..Parts::default() })
    }

    /// Runs a part until a run returns, which means that it was stopped. A run that panics is followed
    /// by another, made by `run`, after a pause. Dropping the future (aborting its task) ends the part.
    pub async fn keep<F, Run>(self: Arc<Self>, part: Part, mut run: F)
    where
        F: FnMut(Beat) -> Run,
        Run: Future<Output = ()>,
    {
        let registered = self.register(part);
        let mut pause = PAUSE_LEAST;
        loop {
            let begun = Instant::now();
            // A run may panic before its first step, so making it is guarded too.
            let guarded = AssertUnwindSafe(async { run(registered.beat()).await });
            if guarded.catch_unwind().await.is_ok() {
                return;
            }
            registered.state.down.store(true, Ordering::Relaxed);
            registered.state.stepped.store(0, Ordering::Relaxed);
            if begun.elapsed() >= RAN_WELL {
                pause = PAUSE_LEAST;
            }
            tracing::error!(
                part = part.word(),
                again_in_ms = pause.as_millis() as u64,
                "a part of the gateway panicked and is started again; please report what the log says above"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MOST);
            self.metrics.part_restarts[part].inc();
            registered.state.down.store(false, Ordering::Relaxed);
        }
    }

    /// Counts a new start of a part that restarts itself, as threads do.
    pub fn restarted(&self, part: Part) {
        self.metrics.part_restarts[part].inc();
    }

    /// Runs a task whose state cannot be made anew: its panic is the end of the process, see
    /// [`Parts::failed`]. It may return, and its task may be aborted, because that means that it was stopped.
    pub async fn vital_task(self: Arc<Self>, part: Part, run: impl Future<Output = ()>) {
        if AssertUnwindSafe(run).catch_unwind().await.is_err() {
            self.fail(part);
        }
    }

    /// For a thread without which the process is of no use. It keeps what it gets for as long as it runs,
    /// and calls [`Vital::done`] if it ends because it was stopped.
    pub fn vital(self: &Arc<Self>, part: Part) -> Vital {
        Vital { registered: self.register(part), done: false }
    }

    /// Returns when a vital part has ended without being stopped, and says which.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await.map(|why| why.clone());
        match failed {
            Ok(why) => why.unwrap_or_default(),
            // The sender is ours.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether every part that all feeds depend on runs; else says which does not. A part of one feed only
    /// ([`Part::is_of_one_feed`]) is started again like any other, and what it cannot do meanwhile is
    /// refused for its feed alone.
    pub fn alive(&self) -> Result<(), String> {
        if let Some(why) = &*self.failure.borrow() {
            return Err(why.clone());
        }
        let down =
            |state: &Arc<PartState>| state.down.load(Ordering::Relaxed) && !state.part.is_of_one_feed();
        let down = self.locked().iter().find(|(_, state)| down(state)).map(|(_, state)| state.part);
        match down {
            Some(part) => Err(format!("{} has panicked and is about to be started again", part.about())),
            None => Ok(()),
        }
    }

    /// Whether every part runs and none is stuck at `now`; else says which.
    pub fn working(&self, now: Instant) -> Result<(), String> {
        self.alive()?;
        let now = millis(now.saturating_duration_since(self.begun));
        let silent = |state: &Arc<PartState>| {
            let stepped = state.stepped.load(Ordering::Relaxed);
            let silence = Duration::from_millis(now.saturating_sub(stepped - u64::from(stepped > 0)));
            (stepped > 0 && silence >= STUCK_AFTER).then_some((state.part, silence))
        };
        match self.locked().iter().find_map(|(_, state)| silent(state)) {
            Some((part, silence)) => Err(format!(
                "{} has work and has not made a step for {} s; if that lasts, restart the gateway",
                part.about(),
                silence.as_secs()
            )),
            None => Ok(()),
        }
    }

    fn fail(&self, part: Part) {
        let why = format!("{} has ended and cannot be started again in this process", part.about());
        // The first one is the cause of those that follow.
        self.failure.send_if_modified(|known| known.is_none() && known.replace(why).is_none());
    }

    fn register(self: &Arc<Self>, part: Part) -> Registered {
        let (stepped, down) = (AtomicU64::new(0), AtomicBool::new(false));
        let state = Arc::new(PartState { part, begun: self.begun, stepped, down });
        let key = self.locked().insert(state.clone());
        Registered { parts: self.clone(), state, key }
    }

    fn locked(&self) -> MutexGuard<'_, Slab<Arc<PartState>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part's place in the register, for as long as it runs.
#[derive(Debug)]
struct Registered {
    parts: Arc<Parts>,
    state: Arc<PartState>,
    key: usize,
}

impl Registered {
    fn beat(&self) -> Beat {
        Beat(self.state.clone())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.parts.locked().try_remove(self.key);
    }
}

/// How a part says that it goes on.
#[derive(Clone, Debug)]
pub struct Beat(Arc<PartState>);

impl Beat {
    /// There is work, and a step of it was made, or begins.
    pub fn works(&self) {
        let now = millis(self.0.begun.elapsed());
        self.0.stepped.store(now + 1, Ordering::Relaxed);
    }

    /// There is nothing to do: silence is fine until there is.
    pub fn rests(&self) {
        self.0.stepped.store(0, Ordering::Relaxed);
    }
}

/// Held by a thread that must not end; see [`Parts::vital`].
#[derive(Debug)]
pub struct Vital {
    registered: Registered,
    done: bool,
}

impl Vital {
    /// How it says that it goes on.
    pub fn beat(&self) -> Beat {
        self.registered.beat()
    }

    /// It ends because it was stopped.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if !self.done {
            self.registered.parts.fail(self.registered.state.part);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}
