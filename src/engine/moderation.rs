//! What a store says of walks through all feeds.

/// What one step of [`crate::engine::Store::continue_walk`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Whose rows were looked for; `None` if this node had nothing to do.
    pub user: Option<String>,
    /// Feeds that were looked at.
    pub feeds: u64,
    /// Rows that were taken back.
    pub rows: u64,
    /// All feeds have been looked at.
    pub is_over: bool,
}
