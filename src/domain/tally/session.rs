//! The session of a feed.

use crate::domain::Millis;

/// A show that began by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name, 1–64 bytes, any content.
    pub id: String,
    /// When it began.
    pub since: Millis,
}
