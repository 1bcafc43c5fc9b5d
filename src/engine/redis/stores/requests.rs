//! What the trait asks of signed requests.

use super::super::engine::RedisEngine;
use crate::domain::Millis;
use crate::engine::{RequestStore, RequestUse, Wait};

impl RequestStore for RedisEngine {
    fn claim_request<'a>(&'a self, request: &'a str, target: &'a str, now: Millis) -> Wait<'a, RequestUse> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.requests.claim(request, target, now).await?)
        })
    }
}
