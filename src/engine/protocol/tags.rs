//! Marks by which changes, registrations and probes differ.

use crate::domain::{MAX_SAFE, Tag};
use crate::random;

/// 1 to 2^53−1 from the system's random source: a number that Lua holds exactly.
pub fn random() -> Tag {
    (random::number() & MAX_SAFE).max(1)
}
