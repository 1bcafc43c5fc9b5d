//! What a loop does while the store does not answer: it tries again after longer and longer pauses, and says
//! so once in a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::EngineError;

/// The pauses while the store does not answer grow from this ...
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// ... to this. A store that comes back wakes the loop before it is over.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often trouble that goes on is told again.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Setback {
    /// What is told of it, such as "what is due waits".
    waits: &'static str,
    /// What is told when it is over.
    again: &'static str,
    pause: Duration,
    /// When it was last told of, while there is any.
    told: Option<Instant>,
}

impl Setback {
    /// None yet.
    pub(super) fn new(waits: &'static str, again: &'static str) -> Setback {
        Setback { waits, again, pause: SHORTEST_PAUSE, told: None }
    }

    /// The store answers.
    pub(super) fn over(&mut self) {
        self.pause = SHORTEST_PAUSE;
        if self.told.take().is_some() {
            tracing::info!("{}", self.again);
        }
    }

    /// It does not.
    pub(super) fn met(&mut self, error: &EngineError) {
        if self.told.is_none_or(|told| told.elapsed() >= REMIND_EVERY) {
            tracing::warn!("{}; trying again: {error}", self.waits);
            self.told = Some(Instant::now());
        }
    }

    /// How long to wait before the next try.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}
