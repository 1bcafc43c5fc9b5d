//! Operations on the counts of watchers.

use super::super::engine::RedisEngine;
use crate::engine::{EngineError, Presence, ReadPresence, ReportPresence, Run};

impl Run<RedisEngine> for ReportPresence {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        Ok(redis.feeds.attend(&self.node, &self.counts).await?)
    }
}

impl Run<RedisEngine> for ReadPresence {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Presence>, EngineError> {
        Ok(redis.feeds.presence(&self.feeds).await?)
    }
}
