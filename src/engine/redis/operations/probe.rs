//! Whether the engine works.

use super::super::engine::RedisEngine;
use crate::engine::{EngineError, ProbeFeed, ProbeStore, Run, Shards};

impl Run<RedisEngine> for ProbeStore {
    async fn run_on(self, redis: &RedisEngine) -> Result<Shards, EngineError> {
        redis.probe().await
    }
}

impl Run<RedisEngine> for ProbeFeed {
    async fn run_on(self, redis: &RedisEngine) -> Result<(), EngineError> {
        redis.probe_feed(&self.feed).await
    }
}
