//! Operations on revoked viewers.

use super::super::engine::Store;
use crate::domain::Millis;
use crate::engine::{EngineError, ListRevocations, RevokeViewer, RevokedPage, Run};

impl Run<Store> for RevokeViewer {
    async fn run_on(self, store: &Store) -> Result<Millis, EngineError> {
        let before = store.viewers.revoke(&self.revocation, self.now).await?;
        before.ok_or(EngineError::Overloaded("list of revoked viewers"))
    }
}

impl Run<Store> for ListRevocations {
    async fn run_on(self, store: &Store) -> Result<RevokedPage, EngineError> {
        Ok(store.viewers.revoked(&self.after, self.max).await?)
    }
}
