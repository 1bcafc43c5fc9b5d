//! Operations on revoked viewers.

use super::super::engine::RedisEngine;
use crate::domain::Millis;
use crate::engine::{EngineError, ListRevocations, RevokeViewer, RevokedPage, Run};

impl Run<RedisEngine> for RevokeViewer {
    async fn run_on(self, redis: &RedisEngine) -> Result<Millis, EngineError> {
        let before = redis.viewers.revoke(&self.revocation, self.now).await?;
        before.ok_or(EngineError::Overloaded("list of revoked viewers"))
    }
}

impl Run<RedisEngine> for ListRevocations {
    async fn run_on(self, redis: &RedisEngine) -> Result<RevokedPage, EngineError> {
        Ok(redis.viewers.revoked(&self.after, self.max).await?)
    }
}
