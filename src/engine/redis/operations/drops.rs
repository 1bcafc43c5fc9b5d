//! Operations on drops, claims and holds.

use super::super::engine::RedisEngine;
use crate::domain::{Cancelled, Claimed, Confirmed, Defined, DropView, Hold};
use crate::engine::{
    CancelHold, ClaimDrop, ConfirmHold, DefineDrop, EngineError, ListDrops, ListHolds, Run, TickDrop,
};

impl Run<RedisEngine> for DefineDrop {
    async fn run_on(self, redis: &RedisEngine) -> Result<Defined, EngineError> {
        Ok(redis.stock.define(&self.feed, &self.drop, &self.spec, self.now).await?)
    }
}

impl Run<RedisEngine> for TickDrop {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<DropView>, EngineError> {
        Ok(redis.stock.tick(&self.feed, &self.drop, self.now).await?.view)
    }
}

impl Run<RedisEngine> for ListDrops {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<DropView>, EngineError> {
        Ok(redis.stock.all(&self.feed, self.now).await?)
    }
}

impl Run<RedisEngine> for ClaimDrop {
    async fn run_on(self, redis: &RedisEngine) -> Result<Claimed, EngineError> {
        redis.stock.claim(&self.feed, &self.drop, self.claim, self.now).await
    }
}

impl Run<RedisEngine> for ConfirmHold {
    async fn run_on(self, redis: &RedisEngine) -> Result<Confirmed, EngineError> {
        Ok(redis.stock.confirm(&self.feed, &self.hold, self.trace.as_ref(), self.now).await?)
    }
}

impl Run<RedisEngine> for CancelHold {
    async fn run_on(self, redis: &RedisEngine) -> Result<Cancelled, EngineError> {
        Ok(redis.stock.cancel(&self.feed, &self.hold, self.now).await?)
    }
}

impl Run<RedisEngine> for ListHolds {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Hold>, EngineError> {
        Ok(redis.stock.holds(&self.feed, &self.user, self.now).await?)
    }
}
