//! What a store of feeds keeps of sources: how each was set, what came to it, and which gifts are refunded.
//!
//! Sources of feeds. They do not expire with an idle feed, and do not begin one.

use super::Swapped;
use super::operation::operation;
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};

/// Sources of one feed at most.
pub const SOURCES_MAX: usize = 16;

/// Refunds that are remembered for each feed; the oldest make room.
pub const REFUNDS_MAX: usize = 1_000;

/// A source and what came to it.
pub type Kept = (SourceId, Source, SourceTally);

/// A feed's sources, by name.
#[derive(Clone, Debug)]
pub struct ListSources {
    pub feed: FeedId,
}

operation!(ListSources -> Vec<Kept>, Sources, feed: feed);

/// Changes a source if its version still is `was` (none: there is no such one): makes it, sets it, or with
/// none for `to` forgets it and what came to it. [`Swapped::Full`] when it would be one more than
/// [`SOURCES_MAX`].
#[derive(Clone, Debug)]
pub struct SwapSource {
    pub feed: FeedId,
    pub name: SourceId,
    pub was: Option<u64>,
    pub to: Option<Source>,
}

operation!(SwapSource -> Swapped, Sources, feed: feed);

/// Counts a delivery. Nothing happens when there is no such source.
#[derive(Clone, Debug)]
pub struct RecordDelivery {
    pub feed: FeedId,
    pub name: SourceId,
    pub note: SourceNote,
    pub now: Millis,
}

operation!(RecordDelivery -> (), Sources, feed: feed, now: now);

/// How much of a gift is refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refund {
    /// All of it.
    Whole,
    /// A part of its value: all that is refunded so far, in minor units.
    Part(u64),
}

/// Remembers that a gift is refunded, also before it comes. Less than what is remembered changes nothing.
#[derive(Clone, Debug)]
pub struct RecordRefund {
    pub feed: FeedId,
    pub gift: GiftId,
    pub refund: Refund,
    pub now: Millis,
}

operation!(RecordRefund -> (), Sources, feed: feed, now: now);

/// How much of a gift is refunded, as far as that is remembered.
#[derive(Clone, Debug)]
pub struct ReadRefund {
    pub feed: FeedId,
    pub gift: GiftId,
}

operation!(ReadRefund -> Option<Refund>, Sources, feed: feed);
