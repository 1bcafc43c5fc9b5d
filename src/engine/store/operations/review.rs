//! Operations on gifts that wait for a host, and on blocks.

use super::super::engine::Store;
use crate::domain::{Block, BlockScope, Blocked, InReview, Reviewing};
use crate::engine::{
    BlockUser, DecideReview, EngineError, IsBlocked, ListBlocks, ListReviews, Run, UnblockUser,
};

impl Run<Store> for ListReviews {
    async fn run_on(self, store: &Store) -> Result<Vec<InReview>, EngineError> {
        Ok(store.queue.in_review(&self.feed, self.now).await?)
    }
}

impl Run<Store> for DecideReview {
    async fn run_on(self, store: &Store) -> Result<Reviewing, EngineError> {
        Ok(store.queue.reviews.review(&self.feed, &self.id, self.decision, self.now).await?)
    }
}

impl Run<Store> for BlockUser {
    async fn run_on(self, store: &Store) -> Result<Blocked, EngineError> {
        Ok(store.feeds.blocks.block(&self.scope, &self.block).await?)
    }
}

impl Run<Store> for UnblockUser {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        if self.scope == BlockScope::All {
            store.walks.end(&self.user, self.now).await?;
        }
        Ok(store.feeds.blocks.unblock(&self.scope, &self.user, self.now).await?)
    }
}

impl Run<Store> for ListBlocks {
    async fn run_on(self, store: &Store) -> Result<Vec<Block>, EngineError> {
        Ok(store.feeds.blocks.list(&self.scope, self.now).await?)
    }
}

impl Run<Store> for IsBlocked {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        Ok(store.feeds.blocks.is_blocked(&self.feed, &self.user, self.now).await?)
    }
}
