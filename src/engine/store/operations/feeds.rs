//! Operations on lists.

use super::super::engine::Store;
use crate::domain::{Outcome, Policy, Position};
use crate::engine::{
    EngineError, Head, Missed, Publish, ReadChanges, ReadHeads, ReadPolicy, ReadSnapshot, RetractRow, Run,
    SetPolicy, Snapshot, Subscribe, Subscription,
};

impl Run<Store> for Publish {
    async fn run_on(self, store: &Store) -> Result<Vec<Outcome>, EngineError> {
        if self.gifts.is_empty() {
            return Ok(Vec::new());
        }
        store.feeds.publish(&self.feed, self.gifts, self.now).await
    }
}

impl Run<Store> for RetractRow {
    async fn run_on(self, store: &Store) -> Result<Option<Position>, EngineError> {
        Ok(store.feeds.retract(&self.feed, &self.row, self.now).await?)
    }
}

impl Run<Store> for ReadPolicy {
    async fn run_on(self, store: &Store) -> Result<Policy, EngineError> {
        Ok(store.feeds.policy(&self.feed).await?)
    }
}

impl Run<Store> for SetPolicy {
    async fn run_on(self, store: &Store) -> Result<Policy, EngineError> {
        Ok(store.feeds.set_policy(&self.feed, &self.change, self.now).await?)
    }
}

impl Run<Store> for ReadSnapshot {
    async fn run_on(self, store: &Store) -> Result<Snapshot, EngineError> {
        Ok(store.feeds.snapshot(&self.feed, self.now).await?)
    }
}

impl Run<Store> for ReadChanges {
    async fn run_on(self, store: &Store) -> Result<Missed, EngineError> {
        Ok(store.feeds.changes(&self.feed, &self.since, self.max).await?)
    }
}

impl Run<Store> for ReadHeads {
    async fn run_on(self, store: &Store) -> Result<Vec<Result<Head, EngineError>>, EngineError> {
        Ok(store.feeds.heads(&self.feeds).await)
    }
}

impl Run<Store> for Subscribe {
    async fn run_on(self, store: &Store) -> Result<Subscription, EngineError> {
        Ok(store.feeds.subscribe(&self.feed).await?)
    }
}
