//! What a loop does while the store does not answer: it tries again after longer and longer pauses, and says
//! so once in a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::StoreError;
use crate::supervise::Backoff;

/// The first pause while the store does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest. A store that comes back wakes the loop earlier.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often trouble that goes on is logged again.
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// The pauses of one loop, and what is logged.
pub(super) struct StoreTrouble {
    /// What is logged when the store does not answer, such as "what is due waits".
    waits: &'static str,
    /// What is logged when it answers again.
    again: &'static str,
    pauses: Backoff,
    /// When the trouble was last logged; none while there is none.
    logged_at: Option<Instant>,
}

impl StoreTrouble {
    /// None yet.
    pub(super) fn new(waits: &'static str, again: &'static str) -> StoreTrouble {
        StoreTrouble { waits, again, pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), logged_at: None }
    }

    /// The store answers: the next pause is the shortest again.
    pub(super) fn over(&mut self) {
        self.pauses.reset();
        if self.logged_at.take().is_some() {
            tracing::info!("{}", self.again);
        }
    }

    /// The store does not answer. Logged when it begins, and once in a while.
    pub(super) fn met(&mut self, error: &StoreError) {
        if self.logged_at.is_none_or(|at| at.elapsed() >= REMIND_EVERY) {
            tracing::warn!("{}; trying again: {error}", self.waits);
            self.logged_at = Some(Instant::now());
        }
    }

    /// How long to wait before the next try.
    pub(super) fn pause(&mut self) -> Duration {
        self.pauses.next_pause()
    }
}
