//! What commits brought to feeds, side by side, until it is brought to the tables of each: in the journal, as long as
//! commits bring nothing else, and in the table `log`.
//!
//! A commit that brings one gift to each of a hundred feeds would touch a page of `changes` and one of `ledger` for
//! each. Here it touches a few in all, or none. Memory keeps what is logged (see [`super::feed`], [`super::ledger`]), so it is
//! read only when the engine starts, and after a group that failed. A record that stands in the feed's own tables too
//! is passed over, by its numbers, so bringing it there twice does no harm.
//!
//! Every record says whose it is and has its seal: one that is damaged concerns its feed alone. Of a page that cannot
//! be read the index `log_places`, which stands elsewhere, says whose records are on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rusqlite::{Connection, Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::frames::{Draft, Part, Record};
use super::journal::{self, Journal};
use super::seal::{self, Found};
use crate::domain::{FeedId, Millis};

/// Gifts that are logged at most, of all feeds together.
const LOGGED_MOST: u64 = 8192;

/// See the module.
#[derive(Default)]
pub(super) struct Log {
    /// Gifts that are logged.
    gifts: u64,
    /// Feeds of which something is logged, with their numbers.
    feeds: BTreeMap<FeedId, i64>,
    /// By the feed's number, what was logged when it was read the last time; or why that cannot be read.
    found: HashMap<i64, Result<Vec<Record>, String>>,
    /// Numbers of feeds whose records stay for whoever restores them.
    damaged: BTreeSet<i64>,
    /// What the commit that is made ready logs.
    draft: Draft,
    /// What the transaction that is open did with what the journal holds.
    journal: Moved,
    /// True when memory may not know what is logged: nothing is read back before the log was.
    must_be_read: bool,
}

/// Where what the journal holds will be after the commit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Moved {
    /// Where it is.
    #[default]
    Not,
    /// In the feeds' own tables.
    Settled,
    /// In the database, which says so.
    Joined,
}

impl Log {
    /// As the table says, and behind it what the journal holds.
    pub(super) fn read(db: &Db, journal: Vec<Part>) -> Step<Log> {
        let mut log = Log::default();
        if !log.read_all(db)? {
            log.found.clear();
            log.read_each(db)?;
        }
        for Part { feed, record } in journal {
            match record {
                Some(record) => log.add(feed, record),
                None => log.damage(feed, "a record of it in the journal is not as it was written"),
            }
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
                self.add(row.get(1)?, record);
            }
            Ok(Found::Stray(feed)) => self.damage(feed, "a record of it in the log is not as it was written"),
            Err(_) => self.damage(row.get(1)?, "a record of it in the log is not as it was written"),
        }
        Ok(())
    }

    fn add(&mut self, feed: i64, record: Record) {
        if let Ok(records) = self.found.entry(feed).or_insert(Ok(Vec::new())) {
            records.push(record);
        }
    }

    fn damage(&mut self, feed: i64, why: &str) {
        self.found.insert(feed, Err(why.to_owned()));
    }

    /// True when it must be read before it is asked.
    pub(super) fn must_be_read(&self) -> bool {
        self.must_be_read
    }

    /// What was logged of a feed when the table was read. It may be in the feed's own tables since.
    pub(super) fn records(&self, feed: i64) -> Step<&[Record]> {
        match self.found.get(&feed) {
            None => Ok(&[]),
            Some(Ok(records)) => Ok(records),
            Some(Err(why)) => Err(Fault::garbled(why.clone())),
        }
    }

    /// Logs what a commit brings to a feed.
    pub(super) fn put(&mut self, (name, feed): (&FeedId, i64), record: &Record) {
        self.draft.push(feed, record);
        self.gifts += record.gifts();
        if !self.feeds.contains_key(name) {
            self.feeds.insert(name.clone(), feed);
        }
    }

    /// Makes what is logged durable, and whatever else the group wrote. False when that was nothing.
    pub(super) fn commit(&mut self, db: &Db, journal: &mut Journal) -> Step<bool> {
        if !self.draft.is_empty() && !journal.has_room() {
            db.begin()?;
        }
        if db.is_begun() {
            self.join(db, journal)?;
            db.commit()?;
            if std::mem::take(&mut self.journal) != Moved::Not {
                journal.went();
            }
        } else if self.draft.is_empty() {
            return Ok(false);
        } else {
            journal.append(&self.draft)?;
        }
        self.draft.clear();
        Ok(true)
    }

    /// Brings what the journal holds, and what this commit logs, to the table: behind a commit to the database it must
    /// hold nothing of before.
    fn join(&mut self, db: &Db, journal: &mut Journal) -> Step<()> {
        if !journal.is_empty() && self.journal != Moved::Joined {
            if self.journal == Moved::Not {
                store(&db.conn, &journal.parts()?)?;
            }
            journal::put_generation(&db.conn, journal.generation() + 1)?;
            self.journal = Moved::Joined;
        }
        Ok(store(&db.conn, &self.draft.parts())?)
    }

    /// What the group logged is not, and memory may not know what is.
    pub(super) fn take_back(&mut self) {
        self.draft.clear();
        (self.journal, self.must_be_read) = (Moved::Not, true);
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
    pub(super) fn clear(&mut self, db: &Db, journal: &mut Journal) -> Step<()> {
        (self.gifts, self.feeds) = (0, BTreeMap::new());
        self.found.clear();
        if self.journal == Moved::Not && !journal.is_empty() {
            if !self.damaged.is_empty() {
                let mut parts = journal.parts()?;
                parts.retain(|part| self.damaged.contains(&part.feed));
                store(&db.conn, &parts)?;
            }
            self.journal = Moved::Settled;
        }
        if self.damaged.is_empty() {
            return db.run("DELETE FROM log", []).map(drop);
        }
        let kept = serde_json::json!(self.damaged).to_string();
        db.run("DELETE FROM log WHERE feed NOT IN (SELECT value FROM json_each(?1))", [kept]).map(drop)
    }
}

/// Brings what a process that was killed left in the journal to the table. The inner error says why what is there
/// cannot be told; nothing was changed then.
pub(super) fn bring_in(conn: &Connection, database: &Path) -> rusqlite::Result<Result<(), String>> {
    let (parts, next) = match journal::left(conn, database)? {
        Ok(Some(left)) => left,
        Ok(None) => return Ok(Ok(())),
        Err(why) => return Ok(Err(why)),
    };
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = store(conn, &parts).and_then(|()| journal::put_generation(conn, next));
    let done = done.and_then(|()| conn.execute_batch("COMMIT"));
    if done.is_err() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    done.map(Ok)
}

/// Appends records to the table, in the transaction that is open; what is damaged stays damaged.
pub(super) fn store(conn: &Connection, parts: &[Part]) -> rusqlite::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let sql = "SELECT coalesce(max(place), 0) FROM log INDEXED BY log_places WHERE place > 0";
    let mut place: i64 = conn.prepare_cached(sql)?.query_row([], |r| r.get(0))?;
    let sql = "INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
        seal(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) + ?11)";
    let (mut insert, nothing) = (conn.prepare_cached(sql)?, Record::default());
    for Part { feed, record } in parts {
        place += 1;
        let is_damaged = i64::from(record.is_none());
        let Record { seq, changes, locks, ids, last, count, at, entries } =
            record.as_ref().unwrap_or(&nothing);
        insert.execute(params![
            place, feed, seq, changes, locks, ids, last, count, at.0, entries, is_damaged
        ])?;
    }
    Ok(())
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
