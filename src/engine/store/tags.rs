//! Marks that tell one change, one registration, one probe from every other.

use crate::domain::{MAX_SAFE, Tag};

/// 1 to 2^53−1 from the system's random source: a number that Lua holds exactly.
pub fn random() -> Tag {
    loop {
        // Without a random source there is no way to tell two changes apart, and none that could be repaired here.
        let Ok(bits) = getrandom::u64() else { std::process::abort() };
        if bits & MAX_SAFE != 0 {
            return bits & MAX_SAFE;
        }
    }
}
