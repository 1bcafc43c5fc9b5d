//! The calls about viewers, counted.

use super::Metered;
use crate::domain::Millis;
use crate::engine::{Revocation, RevokedAt, RevokedPage, ViewerStore, Wait, Wakes};
use crate::metrics::labels::Operation;

impl ViewerStore for Metered {
    fn revoke(&self, what: Revocation, now: Millis) -> Wait<'_, Millis> {
        self.call(Operation::Revoke, self.engine.revoke(what, now))
    }

    fn revoked<'a>(&'a self, after: &'a RevokedAt, max: usize) -> Wait<'a, RevokedPage> {
        self.call(Operation::Revoked, self.engine.revoked(after, max))
    }

    fn revocation_wakes(&self) -> Option<Wakes> {
        self.engine.revocation_wakes()
    }
}
