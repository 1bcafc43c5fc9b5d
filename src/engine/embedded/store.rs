//! The tables on disk.
//!
//! `feeds` holds a feed's list as of its last checkpoint; `changes` what came after, and the
//! history that watchers resume over, in chunks, each with the dedup locks of its commit; `locks` those
//! that held at the checkpoint; `ids` what was answered to each gift id; `due` what waits for its time. A
//! feed is its checkpoint with the later changes folded in. What was reported of it, and to whom, is in the
//! tables of `reports`.
//!
//! What a commit costs is the pages it touches, so a commit touches one page of `changes` per feed, and
//! ids lie side by side in the order of their names, whatever their feed: most are made in order of time.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use super::super::record::{Records, push_change, push_row};
use super::claims;
use crate::domain::answer::{Fate, Remembered};
use crate::domain::feed::Lock;
use crate::domain::{
    Answer, Change, Controls, Drops, Epoch, FeedList, FeedState, Fingerprint, GiftId, Millis, Part, Policy,
    Position, Scheduled, Status,
};

mod due;
mod hooks;
mod moderation;
mod reports;
mod sources;

pub use due::DueEntry;
pub use reports::{InHand, Kept, Standing};

/// Marks the file as ours in its header ("TIPC").
const APPLICATION_ID: i64 = 0x5449_5043;

/// What each layout of the tables changes in the one before. A file of an older layout is brought up to
/// the last one; one of a newer layout is refused.
const LAYOUTS: [&str; 7] =
    [TABLES, CLOSER, due::TABLES, claims::TABLES, reports::TABLES, moderation::TABLES, sources::TABLES];

/// Changes in one stored chunk: what a resuming reader decodes at once.
const CHUNK: usize = 256;

/// Files up to this size are checked page by page at start: about a second on a slow disk.
const CHECK_BYTES: u64 = 512 << 20;

const TABLES: &str = "
CREATE TABLE feeds (
    no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epoch TEXT NOT NULL, seq INTEGER NOT NULL,
    covered_from INTEGER NOT NULL, capacity INTEGER NOT NULL, overrides TEXT NOT NULL, rows TEXT NOT NULL
) STRICT;
CREATE TABLE changes (
    feed INTEGER NOT NULL, last INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (feed, last)
) STRICT, WITHOUT ROWID;
CREATE TABLE locks (
    feed INTEGER NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (feed, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE ids (
    feed INTEGER NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
    epoch TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, count INTEGER, until INTEGER NOT NULL,
    PRIMARY KEY (feed, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ids_until ON ids (until);
";

/// Fewer pages per commit.
const CLOSER: &str = "
ALTER TABLE changes ADD COLUMN locks TEXT NOT NULL DEFAULT '';
ALTER TABLE ids RENAME TO ids_by_feed;
CREATE TABLE ids (
    feed INTEGER NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
    epoch TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, count INTEGER, until INTEGER NOT NULL,
    PRIMARY KEY (id, feed)
) STRICT, WITHOUT ROWID;
INSERT INTO ids SELECT * FROM ids_by_feed ORDER BY id, feed;
DROP TABLE ids_by_feed;
";

/// An open file. Every method's error leaves the transaction to be rolled back.
pub struct Store {
    pub(super) db: Connection,
    sweep: Sweep,
}

/// A feed as the store has it.
pub struct Stored {
    /// Its key in the other tables.
    pub no: i64,
    /// Checkpoint and later changes together.
    pub state: FeedState,
    /// The capacity its rows were cut to.
    pub capacity: u64,
    /// The seq of the checkpoint.
    pub checkpoint: u64,
    /// Keys of the locks that came after the checkpoint.
    pub later_locks: Vec<String>,
}

impl Store {
    /// Opens or makes the file; the error is a sentence for the operator.
    pub fn open(path: &Path) -> Result<Store, String> {
        inspect(path)?;
        let db = Connection::open(path).map_err(|e| damaged(path, &e))?;
        Self::prepare(&db, path).map_err(|e| damaged(path, &e))??;
        Ok(Store { db, sweep: Sweep::default() })
    }

    fn prepare(db: &Connection, path: &Path) -> rusqlite::Result<Result<(), String>> {
        db.busy_timeout(std::time::Duration::from_secs(2))?;
        db.set_prepared_statement_cache_capacity(128);
        let fresh = db.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get::<_, i64>(0))? == 0;
        let owner: i64 = db.query_row("PRAGMA application_id", [], |r| r.get(0))?;
        let layout: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
        let newest = LAYOUTS.len() as i64;
        if !fresh && owner != APPLICATION_ID {
            return Ok(Err(format!(
                "{} is another program's database; choose another folder",
                path.display()
            )));
        }
        if layout > newest {
            return Ok(Err(format!(
                "{} was written by a newer tipcast (layout {layout}, this one knows {newest}); run that one",
                path.display()
            )));
        }
        if !fresh && std::fs::metadata(path).is_ok_and(|m| m.len() <= CHECK_BYTES) {
            let verdict: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0))?;
            if verdict != "ok" {
                return Ok(Err(damaged(path, &verdict)));
            }
        }
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -65_536)?;
        db.pragma_update(None, "journal_size_limit", 64 << 20)?;
        db.pragma_update(None, "wal_autocheckpoint", 4000)?;
        if layout < newest {
            let missing = LAYOUTS[layout.max(0) as usize..].concat();
            db.execute_batch(&format!(
                "BEGIN;{missing}PRAGMA application_id={APPLICATION_ID};PRAGMA user_version={newest};COMMIT;"
            ))?;
        }
        Ok(Ok(()))
    }

    /// Starts a transaction unless one is open.
    pub fn begin(&self) -> rusqlite::Result<()> {
        if self.db.is_autocommit() {
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        Ok(())
    }

    /// Makes everything since [`Store::begin`] durable; false when there was nothing.
    pub fn commit(&self) -> rusqlite::Result<bool> {
        let begun = !self.db.is_autocommit();
        if begun {
            self.db.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(begun)
    }

    /// Takes everything since [`Store::begin`] back.
    pub fn rollback(&self) {
        if !self.db.is_autocommit() {
            // SQLite rolls back by itself on some errors; then this one has nothing to do.
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }

    /// Reads a feed; none when nobody wrote to it or set its policy. Its locks come along whether they
    /// still hold or not: only what is in memory is ever purged.
    pub fn feed(&self, name: &str, defaults: &Policy) -> rusqlite::Result<Option<Stored>> {
        let sql = "SELECT no, epoch, seq, covered_from, capacity, overrides, rows, controls FROM feeds WHERE name = ?1";
        let mut query = self.db.prepare_cached(sql)?;
        let Some(mut stored) = query.query_row([name], read_feed).optional()? else {
            return Ok(None);
        };
        let state = &mut stored.state;
        for change in self.changes(stored.no, &state.list.at.epoch, stored.checkpoint, usize::MAX)? {
            state.fold(&change, stored.capacity).map_err(|e| unreadable(6, e))?;
        }
        let history = defaults.with(&state.overrides).history;
        state.covered_from = state.covered_from.max(state.list.at.seq.saturating_sub(history));
        let mut query = self.db.prepare_cached("SELECT key, row, until FROM locks WHERE feed = ?1")?;
        let mut rows = query.query([stored.no])?;
        while let Some(r) = rows.next()? {
            let lock = Lock { row: parsed(r, 1)?, until: Millis(r.get(2)?) };
            state.locks.insert(r.get(0)?, lock);
        }
        let sql = "SELECT locks FROM changes WHERE feed = ?1 AND last > ?2 ORDER BY last";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query(params![stored.no, stored.checkpoint])?;
        while let Some(r) = rows.next()? {
            for (key, lock) in r.get_ref(0)?.as_str()?.lines().filter_map(read_lock) {
                stored.later_locks.push(key.to_owned());
                state.locks.insert(key.to_owned(), lock);
            }
        }
        Ok(Some(stored))
    }

    /// Writes a feed's checkpoint; gives its number.
    pub fn checkpoint(&self, name: &str, state: &FeedState, capacity: u64) -> rusqlite::Result<i64> {
        let sql = "INSERT INTO feeds (name, epoch, seq, covered_from, capacity, overrides, rows, controls)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
            ON CONFLICT (name) DO UPDATE SET epoch = ?2, seq = ?3, covered_from = ?4, capacity = ?5,
            overrides = ?6, rows = ?7, controls = ?8 RETURNING no";
        let overrides = serde_json::json!(state.overrides).to_string();
        let mut rows = String::with_capacity(512 * state.list.rows.len());
        state.list.rows.iter().for_each(|row| push_row(&mut rows, row));
        let controls = state.list.controls;
        let controls = u8::from(controls.paused) + 2 * u8::from(controls.muted);
        let fields = params![
            name,
            state.list.at.epoch.as_str(),
            state.list.at.seq,
            state.covered_from,
            capacity,
            overrides,
            rows,
            controls
        ];
        self.db.prepare_cached(sql)?.query_row(fields, |r| r.get(0))
    }

    /// Appends changes of one feed, in order, and beside the last of them `locks` as [`push_lock`] spells
    /// them; no locks without changes.
    pub fn append(&self, feed: i64, changes: &[Change], locks: &str) -> rusqlite::Result<()> {
        let sql = "INSERT INTO changes (feed, last, body, locks) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.db.prepare_cached(sql)?;
        let mut chunks = changes.chunks(CHUNK).peekable();
        while let Some(chunk) = chunks.next() {
            let mut body = String::with_capacity(512 * chunk.len());
            chunk.iter().for_each(|change| push_change(&mut body, change));
            let locks = if chunks.peek().is_some() { "" } else { locks };
            if let Some(last) = chunk.last() {
                insert.execute(params![feed, last.seq, body, locks])?;
            }
        }
        Ok(())
    }

    /// Changes after `seq`, at most `max`.
    pub fn changes(&self, feed: i64, epoch: &Epoch, seq: u64, max: usize) -> rusqlite::Result<Vec<Change>> {
        let sql = "SELECT body FROM changes WHERE feed = ?1 AND last > ?2 ORDER BY last";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query(params![feed, seq])?;
        let mut changes = Vec::new();
        while let Some(r) = rows.next()? {
            let mut records = Records::new(r.get_ref(0)?.as_str()?);
            let read = std::iter::from_fn(|| records.change(epoch));
            changes.extend(read.filter(|change| change.seq > seq).take(max - changes.len()));
            if changes.len() == max {
                break;
            }
        }
        Ok(changes)
    }

    /// Forgets chunks that end at or before `seq`.
    pub fn forget_changes(&self, feed: i64, seq: u64) -> rusqlite::Result<()> {
        let sql = "DELETE FROM changes WHERE feed = ?1 AND last <= ?2";
        self.db.prepare_cached(sql)?.execute(params![feed, seq]).map(drop)
    }

    /// Writes one lock.
    pub fn lock(&self, feed: i64, key: &str, Lock { row, until }: &Lock) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO locks (feed, key, row, until) VALUES (?1, ?2, ?3, ?4)";
        self.db.prepare_cached(sql)?.execute(params![feed, key, row.as_str(), until.0]).map(drop)
    }

    /// Forgets a feed's locks that do not hold any more.
    pub fn forget_locks(&self, feed: i64, now: Millis) -> rusqlite::Result<()> {
        let sql = "DELETE FROM locks WHERE feed = ?1 AND until <= ?2";
        self.db.prepare_cached(sql)?.execute(params![feed, now.0]).map(drop)
    }

    /// What was answered to a gift id, if it is still remembered.
    pub fn remembered(&self, feed: i64, id: &GiftId, now: Millis) -> rusqlite::Result<Option<Remembered>> {
        let sql = "SELECT fingerprint, status, epoch, seq, row, count, part FROM ids
            WHERE feed = ?1 AND id = ?2 AND until > ?3";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_row(params![feed, id.as_str(), now.0], |r| read_id(r, id)).optional()
    }

    /// Remembers what became of a gift id. Until when does not matter while it waits.
    pub fn remember(&mut self, feed: i64, it: &Remembered, until: Millis) -> rusqlite::Result<()> {
        let sql =
            "INSERT OR REPLACE INTO ids (feed, id, fingerprint, status, epoch, seq, row, count, until, part)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        // The sweep may rest, or have passed here: either way it must not rest longer than this.
        self.sweep.hold = self.sweep.hold.min(until);
        self.sweep.rest = self.sweep.rest.min(until);
        let mut insert = self.db.prepare_cached(sql)?;
        let fingerprint = it.fingerprint.0;
        match &it.fate {
            Fate::Taken(Answer { status, id, at, row, count }) => {
                let (status, id) = (*status as u8, id.as_str());
                let (epoch, row) = (at.epoch.as_str(), row.as_str());
                let part = it.part.to_string();
                insert.execute(params![
                    feed,
                    id,
                    fingerprint,
                    status,
                    epoch,
                    at.seq,
                    row,
                    count,
                    until.0,
                    part
                ])
            }
            Fate::Waits(Scheduled { id, deliver_at }) => {
                let (id, forever) = (id.as_str(), i64::MAX);
                insert.execute(params![feed, id, fingerprint, WAITS, "", 0, "", deliver_at.0, forever, ""])
            }
            Fate::Cancelled(Scheduled { id, deliver_at }) => {
                let id = id.as_str();
                insert.execute(params![
                    feed,
                    id,
                    fingerprint,
                    CANCELLED,
                    "",
                    0,
                    "",
                    deliver_at.0,
                    until.0,
                    ""
                ])
            }
        }
        .map(drop)
    }

    /// A gift that is remembered was taken back. Until when it is remembered stays.
    pub fn part_taken_back(&self, feed: i64, id: &GiftId) -> rusqlite::Result<()> {
        let sql = "UPDATE ids SET part = ?3 WHERE id = ?2 AND feed = ?1";
        let part = Part::TakenBack.to_string();
        self.db.prepare_cached(sql)?.execute(params![feed, id.as_str(), part]).map(drop)
    }

    /// Looks at the next `most` ids, in turn through the whole table, and forgets those whose window is
    /// over. (An index by time would cost every id as much as writing it does.) After a turn in which all
    /// still held, it rests until the first does not.
    pub fn forget_ids(&mut self, now: Millis, most: usize) -> rusqlite::Result<()> {
        if now < self.sweep.rest {
            return Ok(());
        }
        let from = std::mem::take(&mut self.sweep.looked_at);
        let sql = "SELECT max(id), min(until), count(*) FROM
            (SELECT id, until FROM ids WHERE id > ?1 ORDER BY id LIMIT ?2)";
        let read = |r: &SqlRow<'_>| {
            let until: Option<i64> = r.get(1)?;
            Ok((r.get::<_, Option<String>>(0)?, until.map_or(Millis::MAX, Millis), r.get::<_, usize>(2)?))
        };
        let (last, first_over, looked) =
            self.db.prepare_cached(sql)?.query_row(params![from, most as i64], read)?;
        if first_over <= now {
            let sql = "DELETE FROM ids WHERE id > ?1 AND id <= ?2 AND until <= ?3";
            self.db.prepare_cached(sql)?.execute(params![from, last, now.0])?;
        }
        self.sweep.hold = self.sweep.hold.min(first_over);
        if looked == most {
            self.sweep.looked_at = last.unwrap_or_default();
        } else {
            self.sweep = Sweep { rest: self.sweep.hold, ..Sweep::default() };
        }
        Ok(())
    }
}

/// How far [`Store::forget_ids`] has come.
struct Sweep {
    /// The last id it looked at in this turn.
    looked_at: String,
    /// All ids that it saw in this turn, or that came since it began, hold until then.
    hold: Millis,
    /// Until then nothing can be forgotten.
    rest: Millis,
}

impl Default for Sweep {
    fn default() -> Sweep {
        Sweep { looked_at: String::new(), hold: Millis::MAX, rest: Millis(i64::MIN) }
    }
}

/// Appends a lock as `changes` keeps it: a line.
pub fn push_lock(out: &mut String, key: &str, Lock { row, until }: &Lock) {
    use std::fmt::Write;
    let _ = writeln!(out, "{} {row} {key}", until.0);
}

fn read_lock(line: &str) -> Option<(&str, Lock)> {
    let (until, rest) = line.split_once(' ')?;
    let (row, key) = rest.split_once(' ')?;
    Some((key, Lock { row: row.parse().ok()?, until: Millis(until.parse().ok()?) }))
}

fn read_feed(r: &SqlRow<'_>) -> rusqlite::Result<Stored> {
    let mut records = Records::new(r.get_ref(6)?.as_str()?);
    let overrides = serde_json::from_str(r.get_ref(5)?.as_str()?).map_err(|e| unreadable(5, e))?;
    let checkpoint: u64 = r.get(2)?;
    let state = FeedState {
        list: FeedList {
            at: Position { epoch: parsed(r, 1)?, seq: checkpoint },
            rows: std::iter::from_fn(|| records.row()).map(Into::into).collect(),
            drops: Drops::new(),
            controls: Controls { paused: r.get::<_, u8>(7)? & 1 > 0, muted: r.get::<_, u8>(7)? & 2 > 0 },
        },
        overrides,
        covered_from: r.get(3)?,
        ..FeedState::default()
    };
    Ok(Stored { no: r.get(0)?, state, capacity: r.get(4)?, checkpoint, later_locks: Vec::new() })
}

/// How `ids` spells that a gift waits, or was cancelled: its `count` is the time for which it was
/// scheduled. The other numbers are those of [`Status`].
const WAITS: u8 = 3;
const CANCELLED: u8 = 4;

fn read_id(r: &SqlRow<'_>, id: &GiftId) -> rusqlite::Result<Remembered> {
    let fingerprint = Fingerprint(r.get(0)?);
    let part: Part = r.get_ref(6)?.as_str()?.parse().unwrap_or_default();
    let status = match r.get::<_, u8>(1)? {
        0 => Status::Accepted,
        1 => Status::Merged,
        WAITS => return Ok(Remembered { fingerprint, fate: Fate::Waits(scheduled(r, id)?), part }),
        CANCELLED => return Ok(Remembered { fingerprint, fate: Fate::Cancelled(scheduled(r, id)?), part }),
        _ => Status::Suppressed,
    };
    let at = Position { epoch: parsed(r, 2)?, seq: r.get(3)? };
    let answer = Answer { status, id: id.clone(), at, row: parsed(r, 4)?, count: r.get(5)? };
    Ok(Remembered { fingerprint, fate: Fate::Taken(answer), part })
}

fn scheduled(r: &SqlRow<'_>, id: &GiftId) -> rusqlite::Result<Scheduled> {
    Ok(Scheduled { id: id.clone(), deliver_at: Millis(r.get(5)?) })
}

pub(super) fn parsed<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    r: &SqlRow<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    r.get_ref(column)?.as_str()?.parse().map_err(|e| unreadable(column, e))
}

pub(super) fn unreadable(
    column: usize,
    why: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(why))
}

/// Refuses what SQLite would take for a new database and overwrite, or fail on unclearly.
fn inspect(path: &Path) -> Result<(), String> {
    use std::io::Read;
    let Ok(mut file) = std::fs::File::open(path) else {
        return Ok(());
    };
    let mut magic = Vec::new();
    let read = file.by_ref().take(16).read_to_end(&mut magic);
    read.map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let log = path.with_extension("db-wal");
    let log_has_data = std::fs::metadata(log).is_ok_and(|m| m.len() > 0);
    match magic.is_empty() {
        true if !log_has_data => Ok(()),
        false if magic == b"SQLite format 3\0" => Ok(()),
        _ => Err(damaged(path, &"it is not an SQLite database")),
    }
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!(
        "{} is damaged or cannot be used ({why}). Nothing was changed. Restore it from a backup, or move the \
         file away to start empty",
        path.display()
    )
}

#[cfg(test)]
mod tests;
