//! Which signed requests were accepted, so that a captured one is not accepted for something else.

use crate::domain::Millis;
use crate::engine::store::Store;
use crate::engine::{RequestUse, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Records that a request is for `target`, unless it is recorded for a target already. `request` identifies it: at most 64
    /// ASCII letters and digits, evenly spread. A record lasts [`crate::engine::REQUEST_KEPT_MS`], restarts included, and all nodes of a store
    /// share it.
    pub async fn claim_request(&self, request: &str, target: &str, now: Millis) -> StoreResult<RequestUse> {
        self.measured(Operation::ClaimRequest, None, self.parts.requests.claim(request, target, now)).await
    }
}
