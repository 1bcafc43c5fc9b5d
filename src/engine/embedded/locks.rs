//! Dedup locks on disk, a line each: beside the changes of the commit that touched them, and in chunks in the table
//! `locks`, which holds what was touched before the feed was written whole the last time. Of two lines of one key the
//! later one counts.

use std::collections::HashMap;

use rusqlite::params;

use super::db::{Db, text};
use super::fault::{Fault, Step};
use crate::domain::Millis;
use crate::domain::feed::Lock;
use crate::domain::json::push_number;

/// Lines in one chunk.
const CHUNK: usize = 1024;

/// Lines that a feed's table may hold beside twice as many as count.
const SLACK: usize = 256;

/// What the table holds of one feed.
#[derive(Default)]
pub(super) struct StoredLocks {
    lines: usize,
    /// Its chunks. A row of a damaged feed may stand under this one's number, and is neither read nor touched.
    places: Vec<i64>,
}

impl StoredLocks {
    /// Reads a feed's chunks into `locks`.
    pub(super) fn read(db: &Db, feed: i64, locks: &mut HashMap<String, Lock>) -> Step<StoredLocks> {
        let mut stored = StoredLocks::default();
        let sql = "SELECT * FROM locks WHERE feed = ?1 ORDER BY place";
        for (place, chunk) in db.all(sql, [feed], |r| Ok((r.get(1)?, read_locks(text(r, 2)?)?)))? {
            stored.places.push(place);
            stored.lines += chunk.len();
            locks.extend(chunk);
        }
        Ok(stored)
    }

    /// Stores the locks under `keys`, as far as they hold at `now`. When most lines count no more, all of the feed's
    /// are written anew, and what is over is dropped from `locks` too.
    pub(super) fn put(
        &mut self,
        db: &Db,
        feed: i64,
        keys: &[String],
        locks: &mut HashMap<String, Lock>,
        now: Millis,
    ) -> Step<()> {
        if self.lines + keys.len() <= 2 * locks.len() + SLACK {
            let held = keys.iter().filter_map(|key| locks.get(key).map(|lock| (key, lock)));
            return self.append(db, feed, held, now);
        }
        locks.retain(|_, lock| lock.until > now);
        for place in std::mem::take(&mut self.places) {
            db.run("DELETE FROM locks WHERE feed = ?1 AND place = ?2", [feed, place])?;
        }
        self.lines = 0;
        self.append(db, feed, locks.iter(), now)
    }

    fn append<'a>(
        &mut self,
        db: &Db,
        feed: i64,
        locks: impl Iterator<Item = (&'a String, &'a Lock)>,
        now: Millis,
    ) -> Step<()> {
        let mut held = locks.filter(|(_, lock)| lock.until > now).peekable();
        if held.peek().is_none() {
            return Ok(());
        }
        let mut place = db.value::<i64>("SELECT max(place) FROM locks WHERE feed = ?1", [feed])?.unwrap_or(0);
        while held.peek().is_some() {
            let mut chunk = String::with_capacity(8192);
            for (key, lock) in held.by_ref().take(CHUNK) {
                push_lock(&mut chunk, key, lock);
                self.lines += 1;
            }
            place += 1;
            self.places.push(place);
            db.put("INSERT INTO locks VALUES (?1, ?2, ?3, ?4)", params![feed, place, chunk])?;
        }
        Ok(())
    }
}

/// Each lock under these keys once, a line each.
pub(super) fn spell_locks(keys: &mut Vec<String>, locks: &HashMap<String, Lock>) -> String {
    keys.sort_unstable();
    keys.dedup();
    let mut lines = String::with_capacity(96 * keys.len());
    keys.iter()
        .filter_map(|key| locks.get_key_value(key))
        .for_each(|(key, lock)| push_lock(&mut lines, key, lock));
    lines
}

/// Appends a lock: a line.
fn push_lock(out: &mut String, key: &str, Lock { row, until }: &Lock) {
    push_number(out, until.0);
    out.push(' ');
    out.push_str(row.as_str());
    out.push(' ');
    out.push_str(key);
    out.push('\n');
}

/// Reads what [`push_lock`] wrote.
pub(super) fn read_locks(lines: &str) -> Step<Vec<(String, Lock)>> {
    let read = |line: &str| {
        let (until, rest) = line.split_once(' ')?;
        let (row, key) = rest.split_once(' ')?;
        Some((key.to_owned(), Lock { row: row.parse().ok()?, until: Millis(until.parse().ok()?) }))
    };
    let locks = lines.lines().map(read).collect::<Option<_>>();
    locks.ok_or_else(|| Fault::garbled("its locks cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_holds_and_never_much_more() {
        let dir = tempfile::tempdir().unwrap();
        let (db, _) = super::super::open::open(&dir.path().join("tipcast.db")).unwrap();
        db.begin().unwrap();
        let (mut stored, mut locks) = (StoredLocks::default(), HashMap::new());
        // Each step takes some of 3 000 keys for 400 steps.
        for now in 0..2_000_i64 {
            let keys: Vec<String> = (0..32).map(|n| format!("key {}", (now * 37 + n * 91) % 3_000)).collect();
            for key in &keys {
                let row = format!("e-{now}").parse().unwrap();
                locks.insert(key.clone(), Lock { row, until: Millis(now + 400) });
            }
            stored.put(&db, 7, &keys, &mut locks, Millis(now)).unwrap();
            if now % 97 == 0 {
                let mut read = HashMap::new();
                let again = StoredLocks::read(&db, 7, &mut read).unwrap();
                assert_eq!((again.lines, again.places), (stored.lines, stored.places.clone()));
                for (key, lock) in locks.iter().filter(|(_, lock)| lock.until.0 > now) {
                    assert_eq!(read.get(key), Some(lock), "{key} at {now}");
                }
                assert!(stored.lines <= 2 * 3_000 + SLACK + 32, "{}", stored.lines);
            }
        }
        stored.put(&db, 7, &[], &mut locks, Millis(9_000)).unwrap();
        assert!(locks.len() <= 3_000);
        let later = Lock { row: "e-1".parse().unwrap(), until: Millis(9_999) };
        locks.retain(|_, _| false);
        locks.insert("later".into(), later.clone());
        stored.put(&db, 7, &["later".into()], &mut locks, Millis(9_000)).unwrap();
        let mut read = HashMap::new();
        assert_eq!(StoredLocks::read(&db, 7, &mut read).unwrap().lines, 1, "the rest is over and went");
        assert_eq!(read.get("later"), Some(&later));
    }
}
