//! Operations on due queues.

use super::super::engine::RedisEngine;
use crate::engine::{
    CancelScheduled, ClaimDue, DeadDue, DueRun, DueTurn, EngineError, ListDeadDue, ListScheduled, Run,
    RunDue, ScheduledPage, Unscheduled,
};

impl Run<RedisEngine> for ListScheduled {
    async fn run_on(self, redis: &RedisEngine) -> Result<ScheduledPage, EngineError> {
        Ok(redis.queue.scheduled(&self.feed, self.after, self.max.max(1)).await?)
    }
}

impl Run<RedisEngine> for CancelScheduled {
    async fn run_on(self, redis: &RedisEngine) -> Result<Unscheduled, EngineError> {
        Ok(redis.queue.unschedule(&self.feed, &self.id, self.now).await?)
    }
}

impl Run<RedisEngine> for ListDeadDue {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<DeadDue>, EngineError> {
        Ok(redis.queue.dead(&self.feed).await?)
    }
}

impl Run<RedisEngine> for ClaimDue {
    async fn run_on(self, redis: &RedisEngine) -> Result<DueTurn, EngineError> {
        Ok(redis.queue.rounds.due.claim(self.over, self.max, self.now).await?)
    }
}

impl Run<RedisEngine> for RunDue {
    async fn run_on(self, redis: &RedisEngine) -> Result<DueRun, EngineError> {
        Ok(redis.queue.run_due(&self.feed, self.now).await?)
    }
}
