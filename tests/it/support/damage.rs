//! Damage done to the file of a store while no gateway runs on it.

use std::path::Path;

use rusqlite::Connection;

/// Flips a byte in a record of this feed: in the first one of the log that is about the feed's key of this name.
pub fn hurt(dir: &Path, feed: &str, key: &str) {
    let db = Connection::open(dir.join("tipcast.db")).unwrap();
    let text = format!("{{{feed}}}:{key}");
    let mut query = db.prepare("SELECT number, frame FROM log").unwrap();
    let rows = query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))).unwrap();
    for (number, mut frame) in rows.map(Result::unwrap) {
        if let Some(at) = frame.windows(text.len()).position(|it| it == text.as_bytes()) {
            frame[at + text.len() + 4] ^= 1;
            let changed = db.execute("UPDATE log SET frame = ?2 WHERE number = ?1", (number, frame)).unwrap();
            assert_eq!(changed, 1);
            return;
        }
    }
    panic!("nothing about {text} is in the log");
}
