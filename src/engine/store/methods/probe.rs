//! Whether the store works.

use crate::domain::FeedId;
use crate::engine::store::Store;
use crate::engine::{Shards, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Sends a mark through the publishing path of every part of the store that can fail by itself, and waits until they
    /// are back. An error when the operator would not call that ready: no part answers, or not all of them and all are
    /// wanted.
    pub async fn probe_store(&self) -> StoreResult<Shards> {
        self.measured(Operation::Probe, None, self.parts.probe()).await
    }

    /// [`Store::probe_store`] for the part in which this feed lives.
    pub async fn probe_feed(&self, feed: &FeedId) -> StoreResult<()> {
        self.measured(Operation::Probe, None, self.parts.probe_feed(feed)).await
    }
}
