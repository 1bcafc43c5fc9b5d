//! Whether the engine works.

use super::super::engine::Store;
use crate::engine::{EngineError, ProbeFeed, ProbeStore, Run, Shards};

impl Run<Store> for ProbeStore {
    async fn run_on(self, store: &Store) -> Result<Shards, EngineError> {
        store.probe().await
    }
}

impl Run<Store> for ProbeFeed {
    async fn run_on(self, store: &Store) -> Result<(), EngineError> {
        store.probe_feed(&self.feed).await
    }
}
