//! How many watch a feed, over all nodes.
//!
//! Counts of watchers, one for each feed and node and never one for each watcher: a node that dies takes its
//! counts along, all at once.

use super::operation::operation;
use crate::domain::FeedId;

/// How long a node that says nothing is counted, in milliseconds: what a node that died had told is gone then.
pub const NODE_LEASE_MS: u64 = 12_000;

/// Says how many watch these feeds on `node` from now on, and that the node lives; to be called at least every
/// third of [`NODE_LEASE_MS`], also with nothing. False when the store did not know that the node lives: what
/// it was told before may be lost, so all counts are to be told again.
#[derive(Clone, Debug)]
pub struct ReportPresence {
    pub node: String,
    pub counts: Vec<(FeedId, Count)>,
}

operation!(ReportPresence -> bool, Attend, store);

/// How many watch these feeds, in the order asked.
#[derive(Clone, Debug)]
pub struct ReadPresence {
    pub feeds: Vec<FeedId>,
}

operation!(ReadPresence -> Vec<Presence>, Presence, store);

/// How many watch a feed on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub watchers: u64,
    /// Those among them that say that they are overlays.
    pub overlays: u64,
}

/// Who watches a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// On all nodes together.
    pub watchers: u64,
    /// Those among them that are overlays.
    pub overlays: u64,
    /// Nodes with watchers.
    pub nodes: u64,
}
