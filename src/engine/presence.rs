//! How many watch a feed, over all nodes.
//!
//! Counts of watchers, one for each feed and node and never one for each watcher: a node that dies takes its
//! counts along, all at once.

/// How long a node is counted that reports nothing, in milliseconds: the counts of a node that died are gone then.
pub const NODE_LEASE_MS: u64 = 12_000;

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
