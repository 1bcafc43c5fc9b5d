//! Texts of ledgers, readers and webhooks as Redis holds them.

use crate::domain::{Cursor, Entry, FeedId, Hook, Reader};
use crate::engine::protocol::keys::Keys;
use crate::engine::protocol::records::read_entry;
use crate::engine::protocol::scripts::Call;
use crate::engine::protocol::wire::Corrupt;

/// What one reader has, as the scripts name it.
pub const READER_KEYS: [&str; 6] = ["pending", "leases", "tries", "again", "dead", "deaths"];

/// The KEYS of a script about a reader.
pub fn reader_keys(call: &mut Call, keys: &Keys, feed: &FeedId, reader: &Reader) {
    let [ledger, reports, readers] = keys.ledger(feed);
    call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
    call.keys(READER_KEYS.map(|what| (what, keys.of_reader(feed, what, reader))));
}

/// A number as members and fields have it.
pub fn padded(cursor: &Cursor) -> String {
    format!("{:016}", cursor.0)
}

/// An entry as the ledger has it.
pub fn entry(number: u64, text: &[u8]) -> Result<Entry, Corrupt> {
    read_entry(Cursor(number), text).ok_or(Corrupt("an entry of a ledger"))
}

/// A webhook as it is stored: its version, a blank, and it as JSON.
pub fn stored_hook(hook: &Hook) -> Result<String, Corrupt> {
    let json = serde_json::to_string(hook).map_err(|_| Corrupt("a webhook"))?;
    Ok(format!("{} {json}", hook.version))
}

/// See [`stored_hook`].
pub fn read_hook(text: &str) -> Result<Hook, Corrupt> {
    let (_, json) = text.split_once(' ').ok_or(Corrupt("a webhook"))?;
    serde_json::from_str(json).map_err(|_| Corrupt("a webhook"))
}

/// Words of a sentence that is kept in one line.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
