use serde::{Deserialize, Serialize};

/// The dedup lock of a user and a kind of gift (`lua/feed/lock.lua`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupLock {
    /// When it runs out, by the steady time in milliseconds.
    pub until: i64,
    /// The epoch in which the list began to which it belongs.
    pub list: String,
    /// The row that the same gift joins, or by which it is suppressed.
    pub row: String,
}
