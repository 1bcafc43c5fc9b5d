//! Whether the store works.

use super::Shards;
use super::operation::operation;
use crate::domain::FeedId;

/// Sends a mark through the publishing path of every part of the store that can fail by itself, and waits until they
/// are back. An error when the operator would not call that ready: no part answers, or not all of them and all are
/// wanted.
#[derive(Clone, Debug)]
pub struct ProbeStore;

operation!(ProbeStore -> Shards, Probe, store);

/// [`ProbeStore`] for the part in which this feed lives.
#[derive(Clone, Debug)]
pub struct ProbeFeed {
    pub feed: FeedId,
}

operation!(ProbeFeed -> (), Probe, store);
