//! Who watches.

use serde::Serialize;

use crate::domain::{FeedId, Millis};

/// Who watches a feed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Presence {
    #[cfg_attr(test, schema(value_type = String))]
    pub feed: FeedId,
    /// On all nodes together; at most 5 s old.
    pub watchers: u64,
    /// Those among them that said `as=overlay`, as the overlay pages do.
    pub overlays: u64,
    /// Nodes with watchers. One that died is counted for at most 15 s.
    pub nodes: u64,
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub at: Millis,
}
