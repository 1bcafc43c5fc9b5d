//! What commits brought to feeds, side by side in the table `log`, until it is brought to the tables of each.
//!
//! A commit that brings one gift to each of a hundred feeds would touch a page of `changes` and one of `ledger` for
//! each. Here it touches a few in all. Memory keeps what is logged (see [`super::feed`], [`super::ledger`]), so the table is
//! read only when the engine starts, and after a group that failed. A record that stands in the feed's own tables too
//! is passed over, by its numbers, so bringing it there twice does no harm.
//!
//! Every record says whose it is and has its seal: one that is damaged concerns its feed alone. Of a page that cannot
//! be read the index `log_places`, which stands elsewhere, says whose records are on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::seal::{self, Found};
use crate::domain::{FeedId, Millis};

/// Gifts that are logged at most, of all feeds together.
const LOGGED_MOST: u64 = 4096;

/// What one commit brought to one feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The seq of the last of its changes; 0 without any.
    pub(super) seq: u64,
    /// Its changes.
    pub(super) changes: String,
    /// Its dedup locks.
    pub(super) locks: String,
    /// Its ids.
    pub(super) ids: String,
    /// The number of the last of its entries of the ledger; 0 without any.
    pub(super) last: u64,
    /// How many they are.
    pub(super) count: u64,
    /// The time of the last of them.
    pub(super) at: Millis,
    /// Its entries.
    pub(super) entries: String,
}

/// See the module.
#[derive(Default)]
pub(super) struct Log {
    /// Gifts that are logged.
    gifts: u64,
    /// Feeds of which something is logged, with their numbers.
    feeds: BTreeMap<FeedId, i64>,
    /// By the feed's number, what was logged when the table was read the last time; or why that cannot be read.
    found: HashMap<i64, Result<Vec<Record>, String>>,
    /// Numbers of feeds whose records stay for whoever restores them.
    damaged: BTreeSet<i64>,
    /// The last place that was taken.
    last: i64,
    /// True when memory may not know what is logged: nothing is read back before the table was.
    pub(super) must_be_read: bool,
}

impl Log {
    /// As the table says.
    pub(super) fn read(db: &Db) -> Step<Log> {
        let sql = "SELECT max(place) FROM log INDEXED BY log_places WHERE place > 0";
        let mut log = Log { last: db.value(sql, [])?.unwrap_or(0), ..Log::default() };
        if !log.read_all(db)? {
            log.found.clear();
            log.read_each(db)?;
        }
        for (no, records) in &log.found {
            let name = db.value::<String>("SELECT name FROM feeds WHERE no = ?1", [no]).unwrap_or_default();
            match name.and_then(|name| name.parse().ok()) {
                Some(name) => drop(log.feeds.insert(name, *no)),
                None => drop(log.damaged.insert(*no)),
            }
            log.gifts += records.iter().flatten().map(Record::gifts).sum::<u64>();
        }
        Ok(log)
    }

    /// False when a page cannot be read, or a record does not even say whose it is.
    fn read_all(&mut self, db: &Db) -> Step<bool> {
        let mut query = db.conn.prepare("SELECT * FROM log ORDER BY place")?;
        let mut rows = query.query([])?;
        loop {
            let taken = match rows.next() {
                Ok(Some(row)) => self.take(row),
                Ok(None) => return Ok(true),
                Err(error) => Err(error.into()),
            };
            match taken {
                Ok(()) => {}
                Err(Fault::Garbled(_) | Fault::Unreadable(_)) => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
    }

    fn read_each(&mut self, db: &Db) -> Step<()> {
        for (place, feed) in places(&db.conn)? {
            let mut query = db.conn.prepare_cached("SELECT * FROM log WHERE place = ?1")?;
            let mut rows = query.query([place])?;
            let taken = match rows.next() {
                Ok(Some(row)) => self.take(row),
                Ok(None) => Err(Fault::garbled("a record of it is not in the log")),
                Err(error) => Err(error.into()),
            };
            match taken {
                Ok(()) => {}
                Err(Fault::Garbled(why) | Fault::Unreadable(why)) => self.damage(feed, &why),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn take(&mut self, row: &SqlRow<'_>) -> Step<()> {
        match seal::check(row) {
            Ok(Found::Whole) => {
                let record = Record {
                    seq: row.get(2)?,
                    changes: text(row, 3)?.to_owned(),
                    locks: text(row, 4)?.to_owned(),
                    ids: text(row, 5)?.to_owned(),
                    last: row.get(6)?,
                    count: row.get(7)?,
                    at: Millis(row.get(8)?),
                    entries: text(row, 9)?.to_owned(),
                };
                if let Ok(records) = self.found.entry(row.get(1)?).or_insert(Ok(Vec::new())) {
                    records.push(record);
                }
            }
            Ok(Found::Stray(feed)) => self.damage(feed, "a record of it in the log is not as it was written"),
            Err(_) => self.damage(row.get(1)?, "a record of it in the log is not as it was written"),
        }
        Ok(())
    }

    fn damage(&mut self, feed: i64, why: &str) {
        self.found.insert(feed, Err(why.to_owned()));
    }

    /// What was logged of a feed when the table was read. It may be in the feed's own tables since.
    pub(super) fn records(&self, feed: i64) -> Step<&[Record]> {
        match self.found.get(&feed) {
            None => Ok(&[]),
            Some(Ok(records)) => Ok(records),
            Some(Err(why)) => Err(Fault::garbled(why.clone())),
        }
    }

    /// Logs what a commit brought to a feed.
    pub(super) fn put(&mut self, db: &Db, (name, feed): (&FeedId, i64), record: &Record) -> Step<()> {
        self.last += 1;
        let Record { seq, changes, locks, ids, last, count, at, entries } = record;
        let sql = "INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        db.put(sql, params![self.last, feed, seq, changes, locks, ids, last, count, at.0, entries])?;
        self.gifts += record.gifts();
        if !self.feeds.contains_key(name) {
            self.feeds.insert(name.clone(), feed);
        }
        Ok(())
    }

    /// True when there is so much that it is to be brought to the feeds' own tables.
    pub(super) fn is_long(&self) -> bool {
        self.gifts > LOGGED_MOST
    }

    /// Feeds of which something is logged.
    pub(super) fn feeds(&self) -> Vec<FeedId> {
        self.feeds.keys().cloned().collect()
    }

    /// The records of this feed stay: it is damaged.
    pub(super) fn keep(&mut self, name: &FeedId) {
        if let Some(no) = self.feeds.remove(name) {
            self.damaged.insert(no);
        }
    }

    /// Forgets everything but what is kept: it is in the feeds' own tables.
    pub(super) fn clear(&mut self, db: &Db) -> Step<()> {
        (self.gifts, self.feeds) = (0, BTreeMap::new());
        self.found.clear();
        if self.damaged.is_empty() {
            return db.run("DELETE FROM log", []).map(drop);
        }
        let kept = serde_json::json!(self.damaged).to_string();
        db.run("DELETE FROM log WHERE feed NOT IN (SELECT value FROM json_each(?1))", [kept]).map(drop)
    }
}

impl Record {
    /// True when there is nothing to log.
    pub(super) fn is_empty(&self) -> bool {
        self.seq == 0 && self.count == 0 && self.ids.is_empty()
    }

    fn gifts(&self) -> u64 {
        // A change is fifteen lines or more; without entries the commit was of a feed that somebody reads.
        let least = self.count.max(self.ids.len() as u64 / 256);
        if self.entries.is_empty() { least.max(self.changes.len() as u64 / 256 + 1) } else { least }
    }
}

/// Every record's place, and the number of its feed; 0, which is nobody's, where that is no number.
fn places(conn: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let sql = "SELECT place, feed FROM log INDEXED BY log_places WHERE place > 0 ORDER BY place";
    conn.prepare(sql)?.query_map([], |r| Ok((r.get(0)?, r.get(1).unwrap_or(0))))?.collect()
}

/// Numbers of the feeds whose records stand on a page that cannot be read.
pub(super) fn unreadable(conn: &Connection) -> rusqlite::Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    let mut query = conn.prepare("SELECT * FROM log WHERE place = ?1")?;
    for (place, feed) in places(conn)? {
        let readable = query.query([place]).and_then(|mut rows| Ok(rows.next()?.is_some()));
        if !readable.unwrap_or(false) {
            found.insert(feed);
        }
    }
    Ok(found)
}
