//! Operations on the counts of watchers.

use super::super::EmbeddedEngine;
use crate::engine::{EngineError, Presence, ReadPresence, ReportPresence, Run};

impl Run<EmbeddedEngine> for ReportPresence {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<bool, EngineError> {
        engine.attendance.attend(&self.node, &self.counts);
        Ok(true)
    }
}

impl Run<EmbeddedEngine> for ReadPresence {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<Vec<Presence>, EngineError> {
        Ok(engine.attendance.presence(&self.feeds))
    }
}
