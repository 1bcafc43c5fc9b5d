//! Whether the engine works.

use super::super::EmbeddedEngine;
use super::super::feeds::Feeds;
use crate::engine::folder::Folder;
use crate::engine::{EngineError, ProbeFeed, ProbeStore, Run, Shards};

impl Run<EmbeddedEngine> for ProbeStore {
    /// Green means that a write is possible now: one was made since the last time, or is made for this.
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<Shards, EngineError> {
        Folder::has_room(&engine.data_dir).map_err(EngineError::Unavailable)?;
        engine.task((1, None), Feeds::probe).await?;
        Ok(Shards::WHOLE)
    }
}

impl Run<EmbeddedEngine> for ProbeFeed {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<(), EngineError> {
        ProbeStore.run_on(engine).await.map(drop)
    }
}
