//! The tables, as each layout of the file changed the one before: docs/STORAGE.md says what they hold.

use rusqlite::Connection;

use super::upgrades;

/// Marks the file as ours in its header ("TIPC").
pub(super) const APPLICATION_ID: i64 = 0x5449_5043;

/// The layout that this build writes.
pub(super) const NEWEST: i64 = LAYOUTS.len() as i64;

/// What each layout adds to the one before. A file of an older layout is brought up to the last one.
const LAYOUTS: [&str; 18] = [
    FEEDS, CLOSER, DUE, DROPS, REPORTS, MODERATION, SOURCES, PROBE, REVOKED, REVIEW, TALLIES, LOCKS, LOG,
    IDS, JOURNAL, ID_CHUNKS, ID_RUNS, REQUESTS,
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

/// From this layout on these chunks stand in runs.
const IDS_IN_RUNS: i64 = 17;

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

/// What ids that are made at random cost: nearly each came to another page.
const ID_RUNS: &str = "
ALTER TABLE ids RENAME TO ids_in_order;
CREATE TABLE ids (
    feed INTEGER NOT NULL, run INTEGER NOT NULL, first TEXT NOT NULL, count INTEGER NOT NULL,
    least INTEGER NOT NULL, body TEXT NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (feed, run, first)
) STRICT, WITHOUT ROWID;
";

/// Signed requests that were accepted, and for what. The index finds those that may go.
const REQUESTS: &str = "
CREATE TABLE requests (
    id TEXT PRIMARY KEY, target TEXT NOT NULL, at INTEGER NOT NULL, seal INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (at);
";

/// Brings a file of `layout` (0: a new one) up to the newest, or leaves it as it is.
pub(super) fn upgrade(conn: &Connection, layout: i64) -> rusqlite::Result<()> {
    if layout >= NEWEST {
        return Ok(());
    }
    let done = conn.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
        for at in layout.max(0)..NEWEST {
            conn.execute_batch(LAYOUTS[at as usize])?;
            match at + 1 {
                // Tables that came later have their seals from the beginning.
                SEALED => upgrades::seal_all(conn)?,
                LOCKS_IN_CHUNKS => upgrades::gather_locks(conn)?,
                LOGGED => upgrades::log_jots(conn)?,
                IDS_LOGGED => upgrades::log_again(conn)?,
                IDS_IN_CHUNKS => upgrades::gather_ids(conn)?,
                IDS_IN_RUNS => upgrades::begin_runs(conn)?,
                _ => {}
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

/// Makes an empty file of an older layout, as its version would have.
#[cfg(test)]
pub(super) fn make(conn: &Connection, layout: usize) -> rusqlite::Result<()> {
    LAYOUTS[..layout].iter().try_for_each(|sql| conn.execute_batch(sql))?;
    conn.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={layout};"))
}
