//! What the trait asks of viewers.

use super::super::engine::RedisEngine;
use crate::domain::Millis;
use crate::engine::{EngineError, Revocation, RevokedAt, RevokedPage, ViewerStore, Wait, Wakes};

impl ViewerStore for RedisEngine {
    fn revoke(&self, what: Revocation, now: Millis) -> Wait<'_, Millis> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let before = self.viewers.revoke(&what, now).await?;
            before.ok_or(EngineError::Overloaded("list of revoked viewers"))
        })
    }

    fn revoked<'a>(&'a self, after: &'a RevokedAt, max: usize) -> Wait<'a, RevokedPage> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.viewers.revoked(after, max).await?)
        })
    }

    fn revocation_wakes(&self) -> Option<Wakes> {
        Some(Wakes::new(self.viewers.wakes.subscribe()))
    }
}
