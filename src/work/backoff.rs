//! What a loop does while the store does not answer: it tries again after longer and longer pauses, and says
//! so once in a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::EngineError;

/// The pauses while the store does not answer grow from this ...
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// ... to this. A store that comes back wakes the loop before it is over.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often trouble that goes on is logged again.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// The pauses of one loop, and what is logged about the trouble.
pub(super) struct Backoff {
    /// What is logged when the store does not answer, such as "what is due waits".
    waits: &'static str,
    /// What is logged when it answers again.
    again: &'static str,
    pause: Duration,
    /// When the trouble was last logged; none while there is none.
    told: Option<Instant>,
}

impl Backoff {
    /// None yet.
    pub(super) fn new(waits: &'static str, again: &'static str) -> Backoff {
        Backoff { waits, again, pause: SHORTEST_PAUSE, told: None }
    }

    /// The store answers: the next pause is the shortest again.
    pub(super) fn over(&mut self) {
        self.pause = SHORTEST_PAUSE;
        if self.told.take().is_some() {
            tracing::info!("{}", self.again);
        }
    }

    /// The store does not answer. Logged when it begins, and once in a while.
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
