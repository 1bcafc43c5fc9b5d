//! Operations on sources and refunds.

use super::super::engine::RedisEngine;
use crate::engine::{
    EngineError, IsRefunded, Kept, ListSources, RecordDelivery, RecordRefund, Run, SwapSource, Swapped,
};

impl Run<RedisEngine> for ListSources {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Kept>, EngineError> {
        Ok(redis.sources.sources(&self.feed).await?)
    }
}

impl Run<RedisEngine> for SwapSource {
    async fn run_on(self, redis: &RedisEngine) -> Result<Swapped, EngineError> {
        Ok(redis.sources.swap_source(&self.feed, &self.name, self.was, self.to.as_ref()).await?)
    }
}

impl Run<RedisEngine> for RecordDelivery {
    async fn run_on(self, redis: &RedisEngine) -> Result<(), EngineError> {
        Ok(redis.sources.note_delivery(&self.feed, &self.name, &self.note, self.now).await?)
    }
}

impl Run<RedisEngine> for RecordRefund {
    async fn run_on(self, redis: &RedisEngine) -> Result<(), EngineError> {
        Ok(redis.sources.note_refund(&self.feed, &self.gift, self.now).await?)
    }
}

impl Run<RedisEngine> for IsRefunded {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        Ok(redis.sources.is_refunded(&self.feed, &self.gift).await?)
    }
}
