//! How many watch a feed, over all nodes.

use crate::domain::FeedId;
use crate::engine::store::Store;
use crate::engine::{Count, Presence, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Says how many watch these feeds on `node` from now on, and that the node lives; to be called at least every
    /// third of [`crate::engine::presence::NODE_LEASE_MS`], also with nothing. False when the store did not know that the node lives: what
    /// it was told before may be lost, so all counts are to be told again.
    pub async fn report_presence(&self, node: &str, counts: &[(FeedId, Count)]) -> StoreResult<bool> {
        self.measured(Operation::Attend, None, self.parts.feeds.attend(node, counts)).await
    }

    /// How many watch these feeds, in the order asked.
    pub async fn read_presence(&self, feeds: &[FeedId]) -> StoreResult<Vec<Presence>> {
        self.measured(Operation::Presence, None, self.parts.feeds.presence(feeds)).await
    }
}
