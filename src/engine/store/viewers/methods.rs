//! Viewers: whose tokens are revoked, how many watch, and which signed requests came.

use crate::domain::{FeedId, Millis};
use crate::engine::store::Store;
use crate::engine::{
    Count, Presence, RequestUse, Revocation, RevokedAt, RevokedPage, StoreError, StoreResult,
};
use crate::metrics::labels::Operation;

impl Store {
    /// Has tokens of a viewer refused that were issued before a time; gives the time that holds, which never moves
    /// back.
    pub async fn revoke_viewer(&self, revocation: &Revocation, now: Millis) -> StoreResult<Millis> {
        self.measured(Operation::Revoke, None, async {
            let before = self.parts.viewers.revoke(revocation, now).await?;
            before.ok_or(StoreError::Overloaded("list of revoked viewers"))
        })
        .await
    }

    /// Lists revocations after those that were read, at most `max`. A reader that read in another life of the
    /// store begins anew. A viewer who is revoked again comes again, after the others.
    pub async fn list_revocations(&self, after: &RevokedAt, max: usize) -> StoreResult<RevokedPage> {
        self.measured(Operation::Revoked, None, self.parts.viewers.revoked(after, max)).await
    }

    /// Reports the watchers of these feeds on `node`, and that the node lives. Call it at least every third
    /// of [`crate::engine::presence::NODE_LEASE_MS`], also without counts. Returns false if the store did not
    /// know the node: what it reported before may be lost, so all counts are to be reported again.
    pub async fn report_presence(&self, node: &str, counts: &[(FeedId, Count)]) -> StoreResult<bool> {
        self.measured(Operation::Attend, None, self.parts.feeds.attend(node, counts)).await
    }

    /// How many watch these feeds, in the order asked.
    pub async fn read_presence(&self, feeds: &[FeedId]) -> StoreResult<Vec<Presence>> {
        self.measured(Operation::Presence, None, self.parts.feeds.presence(feeds)).await
    }

    /// Records that a request is for `target`, unless it is recorded for a target already. `request` identifies it: at most 64
    /// ASCII letters and digits, evenly spread. A record lasts [`crate::engine::REQUEST_KEPT_MS`], restarts included, and all nodes of a store
    /// share it.
    pub async fn claim_request(&self, request: &str, target: &str, now: Millis) -> StoreResult<RequestUse> {
        self.measured(Operation::ClaimRequest, None, self.parts.requests.claim(request, target, now)).await
    }
}
