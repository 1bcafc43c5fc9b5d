//! SCAN, a step of which is one call.

use redis::{Cmd, Value};

use crate::engine::protocol::keys::literal;

/// What one step of a walk through a shard's keys found.
pub struct Scanned {
    /// Where the walk goes on; 0 when it is through.
    pub cursor: u64,
    pub keys: Vec<String>,
    /// The process that gave the cursor, which means nothing to another one.
    pub process: String,
}

/// One step of SCAN through the keys that match `pattern`.
pub fn scan_command(cursor: u64, pattern: &str, count: u32) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
    scan
}

/// The pattern of all keys with this prefix, as SCAN takes it.
pub fn all_under(prefix: &str) -> String {
    format!("{}{{*", literal(prefix))
}

impl Scanned {
    /// Parses a reply of SCAN. `None` if it is not one.
    pub fn read(said: Value, process: String) -> Option<Scanned> {
        let (cursor, keys) = redis::from_redis_value::<(String, Vec<String>)>(said).ok()?;
        Some(Scanned { cursor: cursor.parse().ok()?, keys, process })
    }
}
