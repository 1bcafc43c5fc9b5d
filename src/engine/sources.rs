//! What a store of feeds keeps of sources: how each was set, what came to it, and which gifts are refunded.
//!
//! Sources of feeds. They do not expire with an idle feed, and do not begin one.

use crate::domain::{Source, SourceId, SourceTally};

/// Sources of one feed at most.
pub const SOURCES_MAX: usize = 16;

/// Refunds that are remembered for each feed; the oldest make room.
pub const REFUNDS_MAX: usize = 1_000;

/// A source and what came to it.
pub type Kept = (SourceId, Source, SourceTally);

/// How much of a gift is refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refund {
    /// All of it.
    Whole,
    /// A part of its value: all that is refunded so far, in minor units.
    Part(u64),
}
