//! What waits for its time in feeds, and whose turn it is.

use crate::domain::{DuePlace, FeedId, GiftId, Millis};
use crate::engine::store::Store;
use crate::engine::{DeadDue, DueDone, DueRun, DueTurn, ScheduledPage, StoreResult, Unscheduled, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Lists the gifts of the feed that wait, in the order in which they will be shown: those after `after`,
    /// at most `max` (≥ 1).
    pub async fn list_scheduled(
        &self,
        feed: &FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> StoreResult<ScheduledPage> {
        self.measured(Operation::Scheduled, Some(feed), self.parts.queue.scheduled(feed, after, max.max(1)))
            .await
    }

    /// Cancels a gift that waits. Its id stays used, for a window from now.
    pub async fn cancel_scheduled(
        &self,
        feed: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> StoreResult<Unscheduled> {
        self.measured(Operation::Unschedule, Some(feed), self.parts.queue.unschedule(feed, id, now)).await
    }

    /// Lists entries of the feed's due queue that failed after all retries, the newest first, at most
    /// [`crate::engine::DEAD_KEPT`].
    pub async fn list_dead_due(&self, feed: &FeedId) -> StoreResult<Vec<DeadDue>> {
        self.measured(Operation::Dead, Some(feed), self.parts.queue.dead(feed)).await
    }

    /// Releases leases, and leases at most `max` feeds whose time has come, those that wait longest first. A
    /// feed with more due than one step takes goes behind the others.
    ///
    /// While a lease lasts, no other caller gets the feed, unless something new comes into its queue. A lease
    /// that is not released ends by itself well within a second. Two callers that run one feed do no harm:
    /// every step of [`Store::run_due`] is atomic.
    pub async fn claim_due(&self, over: Vec<DueDone>, max: usize, now: Millis) -> StoreResult<DueTurn> {
        let reply = self.measured(Operation::ClaimDue, None, self.parts.due.claim(over, max, now)).await?;
        counted::claimed_due(&reply, self.metrics());
        Ok(reply)
    }

    /// Handles what is due in the feed, at most [`crate::engine::DUE_BATCH`] entries, by time, then arrival.
    /// Each entry leaves the queue in the step that handles it. A gift is taken like one that comes now, and
    /// the answer becomes what is remembered of its id, for a window from now. An entry that cannot be
    /// handled is retried later ([`crate::engine::rest_after`]) and holds up no other; after
    /// [`crate::engine::DUE_TRIES`] it is dead.
    pub async fn run_due(&self, feed: &FeedId, now: Millis) -> StoreResult<DueRun> {
        let reply = self.measured(Operation::RunDue, Some(feed), self.parts.queue.run_due(feed, now)).await?;
        counted::handled_due(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Repairs what was scheduled while the clock was ahead: it waits as long as it was to wait then, from
    /// `now` on, and webhooks are looked at once. Call it at start and after the clock was set back; an extra
    /// call does no harm. Does nothing where times are the store's own. Returns how many entries were
    /// repaired.
    pub async fn rewind(&self, now: Millis) -> StoreResult<u64> {
        self.measured(Operation::Rewind, None, async {
            let Some(now) = self.parts.runner.clock(Some(now)) else { return Ok(0) };
            let entries = self.parts.queue.rewind(now).await?;
            self.parts.job_index.look_at_all(now).await?;
            StoreResult::Ok(entries)
        })
        .await
    }
}
