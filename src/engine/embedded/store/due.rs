//! The table of due queues, and that of entries that were given up.

use rusqlite::{OptionalExtension, Row as SqlRow, params};

use super::{Store, parsed};
use crate::domain::{DuePlace, FeedId, Millis};
use crate::engine::{DEAD_KEPT, DeadDue};

/// What layout 2 adds.
pub(super) const TABLES: &str = "
CREATE TABLE due (
    feed INTEGER NOT NULL, at INTEGER NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    body TEXT NOT NULL, tries INTEGER NOT NULL, PRIMARY KEY (feed, at, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX due_id ON due (feed, kind, id);
CREATE TABLE dead (
    no INTEGER PRIMARY KEY, feed INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, due INTEGER NOT NULL,
    at INTEGER NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX dead_feed ON dead (feed, no);
";

/// An entry of a feed's due queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEntry {
    /// When it is due, and its place among those of the same time.
    pub place: DuePlace,
    /// See [`crate::domain::DueKind::letter`]; as it stands in the table, so that it can be one that this
    /// version does not know.
    pub kind: char,
    /// What it is about.
    pub id: String,
    /// What is needed to handle it; of a gift, its record.
    pub body: String,
    /// How often it could not be handled.
    pub tries: u64,
}

const COLUMNS: &str = "at, place, kind, id, body, tries";

impl Store {
    /// When each feed has something due first; and a place after every place there is.
    pub fn due_heads(&self) -> rusqlite::Result<(Vec<(FeedId, Millis)>, u64)> {
        let sql = "SELECT f.name, d.at FROM (SELECT feed, min(at) AS at FROM due GROUP BY feed) d
            JOIN feeds f ON f.no = d.feed";
        let mut query = self.db.prepare(sql)?;
        let heads = query.query_map([], |r| Ok((parsed(r, 0)?, Millis(r.get(1)?))))?;
        let heads = heads.collect::<rusqlite::Result<_>>()?;
        let last =
            self.db.query_row("SELECT coalesce(max(place), 0) FROM due", [], |r| r.get::<_, u64>(0))?;
        Ok((heads, last + 1))
    }

    /// Adds an entry.
    pub fn add_due(&self, feed: i64, entry: &DueEntry) -> rusqlite::Result<()> {
        let sql =
            "INSERT INTO due (feed, at, place, kind, id, body, tries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let DueEntry { place, kind, id, body, tries } = entry;
        let fields = params![feed, place.at.0, place.order, kind.to_string(), id, body, tries];
        self.db.prepare_cached(sql)?.execute(fields).map(drop)
    }

    /// Takes an entry out.
    pub fn remove_due(&self, feed: i64, place: DuePlace) -> rusqlite::Result<()> {
        let sql = "DELETE FROM due WHERE feed = ?1 AND at = ?2 AND place = ?3";
        self.db.prepare_cached(sql)?.execute(params![feed, place.at.0, place.order]).map(drop)
    }

    /// The entry of this kind about this.
    pub fn find_due(&self, feed: i64, kind: char, id: &str) -> rusqlite::Result<Option<DueEntry>> {
        let sql = format!("SELECT {COLUMNS} FROM due WHERE feed = ?1 AND kind = ?2 AND id = ?3");
        let mut query = self.db.prepare_cached(&sql)?;
        query.query_row(params![feed, kind.to_string(), id], read).optional()
    }

    /// Entries that are due at `now`, in order, at most `max`.
    pub fn due(&self, feed: i64, now: Millis, max: usize) -> rusqlite::Result<Vec<DueEntry>> {
        let sql =
            format!("SELECT {COLUMNS} FROM due WHERE feed = ?1 AND at <= ?2 ORDER BY at, place LIMIT ?3");
        self.db.prepare_cached(&sql)?.query_map(params![feed, now.0, max as i64], read)?.collect()
    }

    /// Entries of this kind after a place, in order, at most `max`.
    pub fn due_after(
        &self,
        feed: i64,
        kind: char,
        after: DuePlace,
        max: usize,
    ) -> rusqlite::Result<Vec<DueEntry>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM due WHERE feed = ?1 AND (at, place) > (?2, ?3) AND kind = ?4
            ORDER BY at, place LIMIT ?5"
        );
        let fields = params![feed, after.at.0, after.order, kind.to_string(), max as i64];
        self.db.prepare_cached(&sql)?.query_map(fields, read)?.collect()
    }

    /// When the feed's first entry is due.
    pub fn next_due(&self, feed: i64) -> rusqlite::Result<Option<Millis>> {
        let sql = "SELECT at FROM due WHERE feed = ?1 ORDER BY at LIMIT 1";
        self.db.prepare_cached(sql)?.query_row([feed], |r| r.get(0).map(Millis)).optional()
    }

    /// How many entries of this kind wait.
    pub fn count_due(&self, feed: i64, kind: char) -> rusqlite::Result<u64> {
        let sql = "SELECT count(*) FROM due INDEXED BY due_id WHERE feed = ?1 AND kind = ?2";
        self.db.prepare_cached(sql)?.query_row(params![feed, kind.to_string()], |r| r.get(0))
    }

    /// Keeps an entry that was given up; the oldest of too many goes.
    pub fn bury(&self, feed: i64, dead: &DeadDue, body: &str) -> rusqlite::Result<()> {
        let sql =
            "INSERT INTO dead (feed, kind, id, due, at, reason, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let DeadDue { kind, id, due, at, reason } = dead;
        let fields = params![feed, kind.to_string(), id, due.0, at.0, reason, body];
        self.db.prepare_cached(sql)?.execute(fields)?;
        let sql = "DELETE FROM dead WHERE feed = ?1 AND no <= (
            SELECT no FROM dead WHERE feed = ?1 ORDER BY no DESC LIMIT 1 OFFSET ?2)";
        self.db.prepare_cached(sql)?.execute(params![feed, DEAD_KEPT as i64]).map(drop)
    }

    /// What was given up, the newest first.
    pub fn dead(&self, feed: i64) -> rusqlite::Result<Vec<DeadDue>> {
        let sql = "SELECT kind, id, due, at, reason FROM dead WHERE feed = ?1 ORDER BY no DESC";
        let mut query = self.db.prepare_cached(sql)?;
        let read = |r: &SqlRow<'_>| {
            let (due, at) = (Millis(r.get(2)?), Millis(r.get(3)?));
            Ok(DeadDue { kind: letter(r, 0)?, id: r.get(1)?, due, at, reason: r.get(4)? })
        };
        query.query_map([feed], read)?.collect()
    }
}

fn letter(r: &SqlRow<'_>, column: usize) -> rusqlite::Result<char> {
    Ok(r.get_ref(column)?.as_str()?.chars().next().unwrap_or('?'))
}

fn read(r: &SqlRow<'_>) -> rusqlite::Result<DueEntry> {
    let place = DuePlace { at: Millis(r.get(0)?), order: r.get(1)? };
    Ok(DueEntry { place, kind: letter(r, 2)?, id: r.get(3)?, body: r.get(4)?, tries: r.get(5)? })
}
