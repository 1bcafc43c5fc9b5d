//! Sources of feeds: how each is set, what came to it, and which gifts are refunded. They do not expire with an idle feed, and
//! do not begin one.

use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote};
use crate::engine::store::Store;
use crate::engine::{Kept, Refund, StoreResult, Swapped};
use crate::metrics::labels::Operation;

impl Store {
    /// A feed's sources, by name.
    pub async fn list_sources(&self, feed: &FeedId) -> StoreResult<Vec<Kept>> {
        self.measured(Operation::Sources, Some(feed), self.parts.sources.sources(feed)).await
    }

    /// Changes a source if its version still is `was` (none: there is no such one): makes it, sets it, or with
    /// none for `to` forgets it and what came to it. [`Swapped::Full`] when it would be one more than
    /// [`crate::engine::SOURCES_MAX`].
    pub async fn swap_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<&Source>,
    ) -> StoreResult<Swapped> {
        self.measured(Operation::Sources, Some(feed), self.parts.sources.swap_source(feed, name, was, to))
            .await
    }

    /// Counts a delivery. Nothing happens when there is no such source.
    pub async fn record_delivery(
        &self,
        feed: &FeedId,
        name: &SourceId,
        note: &SourceNote,
        now: Millis,
    ) -> StoreResult<()> {
        self.measured(Operation::Sources, Some(feed), self.parts.sources.note_delivery(feed, name, note, now))
            .await
    }

    /// Remembers that a gift is refunded, also before it comes. Less than what is remembered changes nothing.
    pub async fn record_refund(
        &self,
        feed: &FeedId,
        gift: &GiftId,
        refund: Refund,
        now: Millis,
    ) -> StoreResult<()> {
        self.measured(Operation::Sources, Some(feed), self.parts.sources.note_refund(feed, gift, refund, now))
            .await
    }

    /// How much of a gift is refunded, as far as that is remembered.
    pub async fn read_refund(&self, feed: &FeedId, gift: &GiftId) -> StoreResult<Option<Refund>> {
        self.measured(Operation::Sources, Some(feed), self.parts.sources.refund_of(feed, gift)).await
    }
}
