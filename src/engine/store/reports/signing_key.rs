//! `lua/ledger/signing_key.lua`.

use std::sync::Arc;

use crate::domain::signature::SigningKey;
use crate::engine::StoreResult;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// The key with which this installation signs what it sends to webhooks; made when it is asked for first.
    pub async fn read_signing_key(&self) -> StoreResult<Arc<SigningKey>> {
        self.measured(Operation::Hooks, None, self.parts.signing.key()).await
    }
}
