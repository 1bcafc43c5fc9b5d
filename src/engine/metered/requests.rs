//! The call about signed requests, counted.

use super::Metered;
use crate::domain::Millis;
use crate::engine::{RequestStore, RequestUse, Wait};
use crate::metrics::labels::Operation;

impl RequestStore for Metered {
    fn claim_request<'a>(&'a self, request: &'a str, target: &'a str, now: Millis) -> Wait<'a, RequestUse> {
        self.call(Operation::ClaimRequest, self.engine.claim_request(request, target, now))
    }
}
