//! Operations on gifts that wait for a host, and on blocks.

use super::super::engine::RedisEngine;
use crate::domain::{Block, BlockScope, Blocked, InReview, Reviewing};
use crate::engine::{
    BlockUser, DecideReview, EngineError, IsBlocked, ListBlocks, ListReviews, Run, UnblockUser,
};

impl Run<RedisEngine> for ListReviews {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<InReview>, EngineError> {
        Ok(redis.queue.in_review(&self.feed, self.now).await?)
    }
}

impl Run<RedisEngine> for DecideReview {
    async fn run_on(self, redis: &RedisEngine) -> Result<Reviewing, EngineError> {
        Ok(redis.queue.reviews.review(&self.feed, &self.id, self.decision, self.now).await?)
    }
}

impl Run<RedisEngine> for BlockUser {
    async fn run_on(self, redis: &RedisEngine) -> Result<Blocked, EngineError> {
        Ok(redis.feeds.blocks.block(&self.scope, &self.block).await?)
    }
}

impl Run<RedisEngine> for UnblockUser {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        if self.scope == BlockScope::All {
            redis.walks.end(&self.user, self.now).await?;
        }
        Ok(redis.feeds.blocks.unblock(&self.scope, &self.user, self.now).await?)
    }
}

impl Run<RedisEngine> for ListBlocks {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<Block>, EngineError> {
        Ok(redis.feeds.blocks.list(&self.scope, self.now).await?)
    }
}

impl Run<RedisEngine> for IsBlocked {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        Ok(redis.feeds.blocks.is_blocked(&self.feed, &self.user, self.now).await?)
    }
}
