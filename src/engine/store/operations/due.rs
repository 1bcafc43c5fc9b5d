//! Operations on due queues.

use super::super::engine::Store;
use crate::engine::{
    CancelScheduled, ClaimDue, DeadDue, DueRun, DueTurn, EngineError, ListDeadDue, ListScheduled, Rewind,
    Run, RunDue, ScheduledPage, Unscheduled,
};

impl Run<Store> for ListScheduled {
    async fn run_on(self, store: &Store) -> Result<ScheduledPage, EngineError> {
        Ok(store.queue.scheduled(&self.feed, self.after, self.max.max(1)).await?)
    }
}

impl Run<Store> for CancelScheduled {
    async fn run_on(self, store: &Store) -> Result<Unscheduled, EngineError> {
        Ok(store.queue.unschedule(&self.feed, &self.id, self.now).await?)
    }
}

impl Run<Store> for ListDeadDue {
    async fn run_on(self, store: &Store) -> Result<Vec<DeadDue>, EngineError> {
        Ok(store.queue.dead(&self.feed).await?)
    }
}

impl Run<Store> for ClaimDue {
    async fn run_on(self, store: &Store) -> Result<DueTurn, EngineError> {
        Ok(store.queue.rounds.due.claim(self.over, self.max, self.now).await?)
    }
}

impl Run<Store> for RunDue {
    async fn run_on(self, store: &Store) -> Result<DueRun, EngineError> {
        Ok(store.queue.run_due(&self.feed, self.now).await?)
    }
}

impl Run<Store> for Rewind {
    async fn run_on(self, store: &Store) -> Result<u64, EngineError> {
        let Some(now) = store.runner.clock(Some(self.now)) else { return Ok(0) };
        let entries = store.queue.rewind(now).await?;
        store.groups.jobs.look_at_all(now).await?;
        Ok(entries)
    }
}
