//! What a store of feeds keeps of sources: how each was set, what came to it, and which gifts are refunded.

use super::{Swapped, Wait};
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};

/// Sources of one feed at most.
pub const SOURCES_MAX: usize = 16;

/// Refunds that are remembered for each feed; the oldest make room.
pub const REFUNDS_MAX: usize = 1_000;

/// A source and what came to it.
pub type Kept = (SourceId, Source, SourceTally);

/// Sources of feeds. They do not expire with an idle feed, and do not begin one.
pub trait SourceStore: Send + Sync + 'static {
    /// A feed's sources, by name.
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>>;

    /// Changes a source if its version still is `was` (none: there is no such one): makes it, sets it, or with
    /// none for `to` forgets it and what came to it. [`Swapped::Full`] when it would be one more than
    /// [`SOURCES_MAX`].
    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped>;

    /// Counts a delivery. Nothing happens when there is no such source.
    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()>;

    /// Remembers that a gift is refunded, also before it comes.
    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()>;

    /// Whether a gift is refunded, as far as that is remembered.
    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool>;
}
