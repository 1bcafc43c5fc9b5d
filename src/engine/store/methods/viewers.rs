//! Viewers whose tokens were revoked, of all feeds together. Each is remembered until no token that it concerns lives.

use crate::domain::Millis;
use crate::engine::store::Store;
use crate::engine::{EngineError, Revocation, RevokedAt, RevokedPage, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Has tokens of a viewer refused that were issued before a time; gives the time that holds, which never moves
    /// back.
    pub async fn revoke_viewer(&self, revocation: &Revocation, now: Millis) -> StoreResult<Millis> {
        self.measured(Operation::Revoke, None, async {
            let before = self.parts.viewers.revoke(revocation, now).await?;
            before.ok_or(EngineError::Overloaded("list of revoked viewers"))
        })
        .await
    }

    /// Revocations after those that were read, at most so many. Who read in another life of the store begins anew.
    /// One that is made again comes again, after the others.
    pub async fn list_revocations(&self, after: &RevokedAt, max: usize) -> StoreResult<RevokedPage> {
        self.measured(Operation::Revoked, None, self.parts.viewers.revoked(after, max)).await
    }
}
