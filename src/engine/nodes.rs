//! The nodes of a gateway, and what they did lately.
//!
//! Each node reports its state with one small write every five seconds, and its samples of an hour once a minute. Nodes
//! never call each other.

/// How long a node is listed that reports nothing, in milliseconds.
pub const NODE_STATE_LEASE_MS: u64 = 12_000;

/// How long samples are kept of a node that has left, in milliseconds.
pub const SERIES_KEPT_MS: u64 = 3_600_000;

/// What one run of a node reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Names this run of the node.
    pub run: String,
    /// Its state, as text.
    pub state: String,
    /// All of its samples, as text; `None` if those that were reported before stay.
    pub series: Option<String>,
    /// It has not been in the list of nodes, or not for long.
    pub is_new: bool,
}

/// What was reported of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedNode {
    /// Names this run of the node.
    pub run: String,
    /// Its state; `None` if it does not live any more.
    pub state: Option<String>,
    /// Its samples, as far as they were asked for.
    pub series: Option<String>,
}
