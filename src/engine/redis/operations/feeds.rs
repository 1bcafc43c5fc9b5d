//! Operations on lists.

use super::super::engine::RedisEngine;
use crate::domain::{Outcome, Policy, Position};
use crate::engine::{
    EngineError, Head, Missed, Publish, ReadChanges, ReadHeads, ReadPolicy, ReadSnapshot, RetractRow, Run,
    SetPolicy, Snapshot, Subscribe, Subscription,
};

impl Run<RedisEngine> for Publish {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Outcome>, EngineError> {
        if self.gifts.is_empty() {
            return Ok(Vec::new());
        }
        redis.feeds.publish(&self.feed, self.gifts, self.now).await
    }
}

impl Run<RedisEngine> for RetractRow {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Position>, EngineError> {
        Ok(redis.feeds.retract(&self.feed, &self.row, self.now).await?)
    }
}

impl Run<RedisEngine> for ReadPolicy {
    async fn run_on(self, redis: &RedisEngine) -> Result<Policy, EngineError> {
        Ok(redis.feeds.policy(&self.feed).await?)
    }
}

impl Run<RedisEngine> for SetPolicy {
    async fn run_on(self, redis: &RedisEngine) -> Result<Policy, EngineError> {
        Ok(redis.feeds.set_policy(&self.feed, &self.change, self.now).await?)
    }
}

impl Run<RedisEngine> for ReadSnapshot {
    async fn run_on(self, redis: &RedisEngine) -> Result<Snapshot, EngineError> {
        Ok(redis.feeds.snapshot(&self.feed, self.now).await?)
    }
}

impl Run<RedisEngine> for ReadChanges {
    async fn run_on(self, redis: &RedisEngine) -> Result<Missed, EngineError> {
        Ok(redis.feeds.changes(&self.feed, &self.since, self.max).await?)
    }
}

impl Run<RedisEngine> for ReadHeads {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Result<Head, EngineError>>, EngineError> {
        Ok(redis.feeds.heads(&self.feeds).await)
    }
}

impl Run<RedisEngine> for Subscribe {
    async fn run_on(self, redis: &RedisEngine) -> Result<Subscription, EngineError> {
        Ok(redis.feeds.subscribe(&self.feed).await?)
    }
}
