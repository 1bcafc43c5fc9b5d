//! Operations on signed requests.

use super::super::engine::RedisEngine;
use crate::engine::{ClaimRequest, EngineError, RequestUse, Run};

impl Run<RedisEngine> for ClaimRequest {
    async fn run_on(self, redis: &RedisEngine) -> Result<RequestUse, EngineError> {
        Ok(redis.requests.claim(&self.request, &self.target, self.now).await?)
    }
}
