//! Operations on the counts of watchers.

use super::super::engine::Store;
use crate::engine::{EngineError, Presence, ReadPresence, ReportPresence, Run};

impl Run<Store> for ReportPresence {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        Ok(store.feeds.attend(&self.node, &self.counts).await?)
    }
}

impl Run<Store> for ReadPresence {
    async fn run_on(self, store: &Store) -> Result<Vec<Presence>, EngineError> {
        Ok(store.feeds.presence(&self.feeds).await?)
    }
}
