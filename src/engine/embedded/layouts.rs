//! The tables, as each layout of the file changed the one before: docs/STORAGE.md says what they hold.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::id_lines::Columns;
use super::seal::{self, Found};
use crate::domain::{Fingerprint, Millis};

/// Marks the file as ours in its header ("TIPC").
pub(super) const APPLICATION_ID: i64 = 0x5449_5043;

/// The layout that this build writes.
pub(super) const NEWEST: i64 = LAYOUTS.len() as i64;

/// What each layout adds to the one before. A file of an older layout is brought up to the last one.
const LAYOUTS: [&str; 16] = [
    FEEDS, CLOSER, DUE, DROPS, REPORTS, MODERATION, SOURCES, PROBE, REVOKED, REVIEW, TALLIES, LOCKS, LOG,
    IDS, JOURNAL, ID_CHUNKS,
];

/// From this layout on every row ends with its seal; later tables are made with it.
const SEALED: i64 = 8;

/// From this layout on locks stand in chunks.
const LOCKS_IN_CHUNKS: i64 = 12;

/// From this layout on changes are logged beside entries.
const LOGGED: i64 = 13;

/// From this layout on ids are logged too.
const IDS_LOGGED: i64 = 14;

/// From this layout on ids stand in chunks.
const IDS_IN_CHUNKS: i64 = 16;

const FEEDS: &str = "
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

const DUE: &str = "
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

const DROPS: &str = "
CREATE TABLE drops (
    feed INTEGER NOT NULL, name TEXT NOT NULL, stock TEXT NOT NULL, shown TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE claims (
    no INTEGER PRIMARY KEY, feed INTEGER NOT NULL, drop_name TEXT NOT NULL, id TEXT NOT NULL,
    fingerprint BLOB NOT NULL, user TEXT NOT NULL, person TEXT NOT NULL, message TEXT, count INTEGER NOT NULL,
    state INTEGER NOT NULL, expires INTEGER NOT NULL, epoch TEXT, seq INTEGER, row TEXT, until INTEGER,
    UNIQUE (feed, drop_name, id)
) STRICT;
CREATE INDEX claims_user ON claims (feed, drop_name, user);
CREATE INDEX claims_held ON claims (feed, drop_name, expires) WHERE state = 1;
CREATE INDEX claims_unpaid ON claims (feed, user, expires) WHERE state = 1;
CREATE INDEX claims_over ON claims (feed, drop_name, until) WHERE state = 2;
";

const REPORTS: &str = "
CREATE TABLE ledger (
    feed INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (feed, last)
) STRICT, WITHOUT ROWID;
CREATE TABLE jots (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL,
    at INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE readers (
    feed INTEGER NOT NULL, name TEXT NOT NULL, handed INTEGER NOT NULL, lost INTEGER NOT NULL,
    progress TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE pending (
    feed INTEGER NOT NULL, reader TEXT NOT NULL, no INTEGER NOT NULL, until INTEGER NOT NULL,
    attempts INTEGER NOT NULL, body TEXT, PRIMARY KEY (feed, reader, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_until ON pending (feed, reader, until);
CREATE TABLE letters (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, reader TEXT NOT NULL, no INTEGER NOT NULL,
    died_at INTEGER NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX letters_reader ON letters (reader, feed, place);
CREATE TABLE hooks (
    scope TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
";

/// What each feed's and each id's row has beside what the first layouts know.
const MODERATION: &str = "
ALTER TABLE ids ADD COLUMN part TEXT NOT NULL DEFAULT '';
ALTER TABLE feeds ADD COLUMN controls INTEGER NOT NULL DEFAULT 0;
";

/// By the feed's name and not its number: a source does not begin a feed.
const SOURCES: &str = "
CREATE TABLE sources (
    feed TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, came TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE refunds (
    feed TEXT NOT NULL, gift TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (feed, gift)
) STRICT, WITHOUT ROWID;
";

/// What readiness writes to know that writing is possible.
const PROBE: &str = "
CREATE TABLE probe (one INTEGER PRIMARY KEY, count INTEGER NOT NULL, filler BLOB NOT NULL) STRICT;
INSERT INTO probe VALUES (1, 0, x'');
";

/// By viewer. The numbers only grow: whoever has read up to one asks for those behind it.
const REVOKED: &str = "
CREATE TABLE revoked (
    no INTEGER PRIMARY KEY, sub TEXT NOT NULL UNIQUE, before INTEGER NOT NULL, until INTEGER NOT NULL,
    seal INTEGER NOT NULL DEFAULT 0
) STRICT;
";

/// Blocks by the feed's name, `*` for all feeds; names that were approved by its number.
const REVIEW: &str = "
CREATE TABLE blocks (
    feed TEXT NOT NULL, user TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER, seal INTEGER NOT NULL,
    PRIMARY KEY (feed, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE approved (
    feed INTEGER NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, until INTEGER NOT NULL, seal INTEGER NOT NULL,
    PRIMARY KEY (feed, user, name)
) STRICT, WITHOUT ROWID;
";

/// What is counted.
const TALLIES: &str = "
CREATE TABLE tallies (
    feed INTEGER PRIMARY KEY, state TEXT NOT NULL, segments TEXT NOT NULL, seal INTEGER NOT NULL
) STRICT;
CREATE TABLE told (
    feed INTEGER PRIMARY KEY, totals TEXT NOT NULL, goals TEXT NOT NULL, seal INTEGER NOT NULL
) STRICT;
CREATE TABLE gifters (
    feed INTEGER NOT NULL, user TEXT NOT NULL, body TEXT NOT NULL, seal INTEGER NOT NULL,
    PRIMARY KEY (feed, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE undone (
    feed INTEGER NOT NULL, row TEXT NOT NULL, until INTEGER NOT NULL, seal INTEGER NOT NULL,
    PRIMARY KEY (feed, row)
) STRICT, WITHOUT ROWID;
";

/// What locks cost: a row for each was as dear as the gift's id.
const LOCKS: &str = "
ALTER TABLE locks RENAME TO locks_by_key;
CREATE TABLE locks (
    feed INTEGER NOT NULL, place INTEGER NOT NULL, body TEXT NOT NULL, seal INTEGER NOT NULL,
    PRIMARY KEY (feed, place)
) STRICT, WITHOUT ROWID;
";

/// Entries that are logged have their changes beside them. The index says whose records stand on a page that cannot
/// be read.
const LOG: &str = "
CREATE TABLE log (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, seq INTEGER NOT NULL, changes TEXT NOT NULL,
    locks TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
    entries TEXT NOT NULL, seal INTEGER NOT NULL
) STRICT;
CREATE INDEX log_places ON log (place, feed);
";

/// Ids come to their table from the log, feed by feed, so they stand by feed: a page that cannot be read concerns few.
const IDS: &str = "
ALTER TABLE ids RENAME TO ids_by_id;
CREATE TABLE ids (
    feed INTEGER NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
    epoch TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, count INTEGER, until INTEGER NOT NULL,
    part TEXT NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (feed, id)
) STRICT, WITHOUT ROWID;
INSERT INTO ids SELECT * FROM ids_by_id ORDER BY feed, id;
DROP TABLE ids_by_id;
ALTER TABLE log RENAME TO log_without_ids;
DROP INDEX log_places;
CREATE TABLE log (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, seq INTEGER NOT NULL, changes TEXT NOT NULL,
    locks TEXT NOT NULL, ids TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
    entries TEXT NOT NULL, seal INTEGER NOT NULL
) STRICT;
CREATE INDEX log_places ON log (place, feed);
";

/// Which frames of the file beside this one are in force.
const JOURNAL: &str = "
CREATE TABLE journal (one INTEGER PRIMARY KEY, generation INTEGER NOT NULL, seal INTEGER NOT NULL) STRICT;
";

/// What ids cost: a row for each was the dearest part of a gift.
const ID_CHUNKS: &str = "
ALTER TABLE ids RENAME TO ids_one_by_one;
CREATE TABLE ids (
    feed INTEGER NOT NULL, first TEXT NOT NULL, count INTEGER NOT NULL, least INTEGER NOT NULL, body TEXT NOT NULL,
    seal INTEGER NOT NULL, PRIMARY KEY (feed, first)
) STRICT, WITHOUT ROWID;
";

/// The tables of a file, by name.
pub(super) fn tables(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    conn.prepare(sql)?.query_map([], |r| r.get(0))?.collect()
}

/// Brings a file of `layout` (0: a new one) up to the newest, or leaves it as it is.
pub(super) fn upgrade(conn: &Connection, layout: i64) -> rusqlite::Result<()> {
    if layout >= NEWEST {
        return Ok(());
    }
    let done = conn.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
        for at in layout.max(0)..NEWEST {
            conn.execute_batch(LAYOUTS[at as usize])?;
            // Tables that came later have their seals from the beginning.
            if at + 1 == SEALED {
                seal_all(conn)?;
            }
            if at + 1 == LOCKS_IN_CHUNKS {
                gather_locks(conn)?;
            }
            if at + 1 == LOGGED {
                log_jots(conn)?;
            }
            if at + 1 == IDS_LOGGED {
                log_again(conn)?;
            }
            if at + 1 == IDS_IN_CHUNKS {
                gather_ids(conn)?;
            }
        }
        conn.execute_batch(&format!(
            "PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={NEWEST}; COMMIT;"
        ))
    });
    if done.is_err() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    done
}

/// Gives every row of every table its seal. What came before there were any is taken as it is.
fn seal_all(conn: &Connection) -> rusqlite::Result<()> {
    for table in tables(conn)? {
        let mut info = conn.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        let columns = info.query_map([], |r| r.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        conn.execute_batch(&format!(
            "ALTER TABLE {table} ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
            UPDATE {table} SET seal = seal({});",
            columns.join(", ")
        ))?;
    }
    Ok(())
}

/// Brings locks that have a row each into one chunk for each feed. What is damaged stays damaged.
fn gather_locks(conn: &Connection) -> rusqlite::Result<()> {
    let mut chunks: BTreeMap<i64, (String, bool)> = BTreeMap::new();
    let mut query = conn.prepare("SELECT * FROM locks_by_key ORDER BY feed, key")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let feed: i64 = row.get(0)?;
        match seal::check(row) {
            Ok(Found::Whole) => {
                let (key, shown, until): (String, String, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
                chunks.entry(feed).or_default().0 += &format!("{until} {shown} {key}\n");
            }
            Ok(Found::Stray(feed)) => chunks.entry(feed).or_default().1 = true,
            Err(_) => chunks.entry(feed).or_default().1 = true,
        }
    }
    drop(rows);
    drop(query);
    for (feed, (body, is_damaged)) in chunks {
        let sql = "INSERT INTO locks VALUES (?1, 1, ?2, seal(?1, 1, ?2) + ?3)";
        conn.execute(sql, rusqlite::params![feed, body, i64::from(is_damaged)])?;
    }
    conn.execute_batch("DROP TABLE locks_by_key")
}

/// Whose a record is whose feed stands in its second column, and whether it is damaged.
fn owner(row: &Row<'_>) -> rusqlite::Result<(i64, bool)> {
    Ok(match seal::check(row) {
        Ok(Found::Whole) => (row.get(1)?, false),
        Ok(Found::Stray(feed)) => (feed, true),
        Err(_) => (row.get(1)?, true),
    })
}

/// Brings entries of the table before the log into it. What is damaged stays damaged.
fn log_jots(conn: &Connection) -> rusqlite::Result<()> {
    let mut query = conn.prepare("SELECT * FROM jots ORDER BY place")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (feed, is_damaged) = owner(row)?;
        let (place, last, count): (i64, i64, i64) = (row.get(0)?, row.get(2)?, row.get(3)?);
        let (at, entries): (i64, String) = (row.get(4)?, row.get(5)?);
        let sql = "INSERT INTO log VALUES
            (?1, ?2, 0, '', '', ?3, ?4, ?5, ?6, seal(?1, ?2, 0, '', '', ?3, ?4, ?5, ?6) + ?7)";
        let values = rusqlite::params![place, feed, last, count, at, entries, i64::from(is_damaged)];
        conn.execute(sql, values)?;
    }
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE jots")
}

/// Brings what is logged without ids to the table that has them. What is damaged stays damaged.
fn log_again(conn: &Connection) -> rusqlite::Result<()> {
    let mut query = conn.prepare("SELECT * FROM log_without_ids ORDER BY place")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (feed, is_damaged) = owner(row)?;
        let sql = "INSERT INTO log SELECT place, ?2, seq, changes, locks, '', last, count, at, entries,
            seal(place, ?2, seq, changes, locks, '', last, count, at, entries) + ?3
            FROM log_without_ids WHERE place = ?1";
        conn.execute(sql, rusqlite::params![row.get::<_, i64>(0)?, feed, i64::from(is_damaged)])?;
    }
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE log_without_ids")
}

/// Brings ids that have a row each into chunks. What is damaged stays damaged, with those that stand beside it.
fn gather_ids(conn: &Connection) -> rusqlite::Result<()> {
    const FULL: usize = 900;
    // The feed, the key, how many they are, the least of their times, their lines, and whether one of them is damaged.
    let put = |(feed, first, count, least, body, is_damaged): &(i64, String, i64, i64, String, bool)| {
        let sql = "INSERT OR REPLACE INTO ids VALUES (?1, ?2, ?3, ?4, ?5, seal(?1, ?2, ?3, ?4, ?5) + ?6)";
        let values = rusqlite::params![feed, first, count, least, body, i64::from(*is_damaged)];
        conn.prepare_cached(sql)?.execute(values).map(drop)
    };
    let mut open: Option<(i64, String, i64, i64, String, bool)> = None;
    let mut query = conn.prepare("SELECT * FROM ids_one_by_one ORDER BY feed, id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let feed: i64 = row.get(0)?;
        if let Some(last) = open.take_if(|chunk| chunk.0 != feed) {
            put(&last)?;
        }
        let mut chunk = open.take();
        match seal::check(row) {
            Ok(Found::Whole) => {
                let id: String = row.get(1)?;
                if let Some(full) = chunk.take_if(|chunk| chunk.4.len() >= FULL) {
                    put(&full)?;
                }
                let chunk =
                    chunk.get_or_insert_with(|| (feed, id.clone(), 0, i64::MAX, String::new(), false));
                let (epoch, at, part): (String, String, String) = (row.get(4)?, row.get(6)?, row.get(9)?);
                let (status, seq, count) = (row.get(3)?, row.get(5)?, row.get(7)?);
                let until: i64 = row.get(8)?;
                let words = Columns { id: &id, status, epoch: &epoch, seq, row: &at, count };
                words.push_with(&mut chunk.4, Fingerprint(row.get(2)?), Millis(until), &part);
                (chunk.2, chunk.3) = (chunk.2 + 1, chunk.3.min(until));
            }
            Ok(Found::Stray(owner)) => put(&(owner, String::new(), 0, 0, String::new(), true))?,
            // Its id may be another than it was: it says nothing of where it stood.
            Err(_) => chunk.get_or_insert_with(|| (feed, String::new(), 0, 0, String::new(), false)).5 = true,
        }
        open = chunk;
    }
    open.iter().try_for_each(put)?;
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE ids_one_by_one")
}

/// Makes an empty file of an older layout, as its version would have.
#[cfg(test)]
pub(super) fn make(conn: &Connection, layout: usize) -> rusqlite::Result<()> {
    LAYOUTS[..layout].iter().try_for_each(|sql| conn.execute_batch(sql))?;
    conn.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={layout};"))
}
