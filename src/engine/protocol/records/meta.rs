use serde::Deserialize;

use crate::domain::Epoch;

/// The position of a feed (`lua/feed/feed.lua`), as far as it is read without a script.
#[derive(Debug, Deserialize)]
pub struct FeedMeta {
    /// The feed's epoch.
    pub epoch: Epoch,
    /// The seq of its last change.
    pub seq: u64,
    /// The tag of the call that made it.
    pub tag: String,
}
