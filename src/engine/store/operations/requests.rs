//! Operations on signed requests.

use super::super::engine::Store;
use crate::engine::{ClaimRequest, EngineError, RequestUse, Run};

impl Run<Store> for ClaimRequest {
    async fn run_on(self, store: &Store) -> Result<RequestUse, EngineError> {
        Ok(store.requests.claim(&self.request, &self.target, self.now).await?)
    }
}
