//! Opening the file: whose it is, which layout it has, and whether it is whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::db::Db;
use super::fault::is_unreadable;
use super::layouts::{self, APPLICATION_ID, NEWEST};
use super::log;
use super::mend::{self, Mended, Unmended};
use super::scan::{self, Found};
use super::seal;
use crate::domain::FeedId;

/// Files up to this size are looked through page by page and record by record at start: a second or two.
const CHECK_BYTES: u64 = 512 << 20;

/// Why a file cannot be opened.
enum Trouble {
    /// A sentence for the operator.
    Refused(String),
    /// Pages of it are damaged; what SQLite says.
    Rotten(String),
}

/// Opens or makes the file for the writer, and says what of it is damaged; the error is a sentence for the operator. A
/// file with damaged pages is mended first.
pub(super) fn open(path: &Path) -> Result<(Db, Found), String> {
    inspect(path)?;
    match attempt(path, CHECK_BYTES) {
        Err(Trouble::Rotten(why)) => {
            mend(path, &why).map_err(|why| damaged(path, &why.why()))?;
            attempt(path, CHECK_BYTES).map_err(|trouble| trouble.sentence(path))
        }
        done => done.map_err(|trouble| trouble.sentence(path)),
    }
}

/// Opens a file that was open a moment ago, without looking through it.
pub(super) fn reopen(path: &Path) -> Result<Db, String> {
    attempt(path, 0).map(|(db, _)| db).map_err(|trouble| trouble.sentence(path))
}

/// Puts a file without damaged pages in the place of this one, which nobody has open to write. The feeds of which
/// something is lost, and of what.
pub(super) fn mend(path: &Path, why: &str) -> Result<BTreeMap<FeedId, String>, Unmended> {
    let Mended { lost, kept } = mend::mend(path)?;
    let damaged = kept.map_or("no room among those kept".to_owned(), |kept| kept.display().to_string());
    tracing::error!(
        why,
        damaged,
        feeds_hurt = lost.len(),
        "the database had pages that cannot be read: it was copied without them, and the damaged file is kept. Look at \
         the disk; a feed of which something is lost answers 503, all others go on"
    );
    Ok(lost)
}

impl Trouble {
    fn sentence(self, path: &Path) -> String {
        match self {
            Trouble::Refused(why) => why,
            Trouble::Rotten(why) => damaged(path, &why),
        }
    }
}

/// Files of up to so many bytes are looked through.
fn attempt(path: &Path, check_bytes: u64) -> Result<(Db, Found), Trouble> {
    let told = |error: rusqlite::Error| match is_unreadable(&error) {
        true => Trouble::Rotten(error.to_string()),
        false => Trouble::Refused(damaged(path, &error)),
    };
    let conn = Connection::open(path).map_err(told)?;
    let found = prepare(&conn, path, check_bytes).map_err(told)??;
    Ok((Db::new(conn), found))
}

/// Opens the file beside a writer that may be at work, for reading.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, String> {
    if !path.exists() {
        return Err(format!("{} is not there; --data-dir names the folder it is in", path.display()));
    }
    inspect(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|e| damaged(path, &e))?;
    conn.busy_timeout(Duration::from_secs(5)).map_err(|e| damaged(path, &e))?;
    let layout = belongs(&conn, path).map_err(|e| damaged(path, &e))??;
    if layout < NEWEST {
        return Err(format!(
            "{} was written by an older tipcast (layout {layout}); start this one on it once, which brings it up to \
             date, or use that one",
            path.display()
        ));
    }
    seal::teach(&conn).map_err(|e| damaged(path, &e))?;
    Ok(conn)
}

/// The layout of a file of ours; 0 of one that is empty.
fn belongs(conn: &Connection, path: &Path) -> rusqlite::Result<Result<i64, String>> {
    let fresh = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get::<_, i64>(0))? == 0;
    let owner: i64 = conn.query_row("PRAGMA application_id", [], |r| r.get(0))?;
    let layout: i64 = conn.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if !fresh && owner != APPLICATION_ID {
        return Ok(Err(format!("{} is another program's database; choose another folder", path.display())));
    }
    if layout > NEWEST {
        return Ok(Err(format!(
            "{} was written by a newer tipcast (layout {layout}, this one knows {NEWEST}); run that one",
            path.display()
        )));
    }
    Ok(Ok(if fresh { 0 } else { layout }))
}

fn prepare(conn: &Connection, path: &Path, check_bytes: u64) -> rusqlite::Result<Result<Found, Trouble>> {
    conn.busy_timeout(Duration::from_secs(2))?;
    conn.set_prepared_statement_cache_capacity(128);
    // Else a statement that compares a column with a parameter is planned anew each time it is used, in case the value says more.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    seal::teach(conn)?;
    let layout = match belongs(conn, path)? {
        Ok(layout) => layout,
        Err(why) => return Ok(Err(Trouble::Refused(why))),
    };
    let is_checked = layout > 0 && std::fs::metadata(path).is_ok_and(|file| file.len() <= check_bytes);
    if is_checked && let Some(why) = rot(conn, 1)?.pop() {
        return Ok(Err(Trouble::Rotten(why)));
    }
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    layouts::upgrade(conn, layout)?;
    // A file that is opened again is that of a journal in use.
    if check_bytes > 0
        && let Err(why) = log::bring_in(conn, path)?
    {
        return Ok(Err(Trouble::Refused(damaged(path, &why))));
    }
    Ok(Ok(if is_checked { scan::scan(conn)? } else { Found::default() }))
}

/// What SQLite says of pages and indexes that are not as they should be, so many lines at most.
pub(super) fn rot(conn: &Connection, most: u32) -> rusqlite::Result<Vec<String>> {
    let mut query = conn.prepare(&format!("PRAGMA integrity_check({most})"))?;
    let mut told = Vec::new();
    for line in query.query_map([], |r| r.get::<_, String>(0))? {
        match line {
            Ok(line) if line == "ok" => {}
            Ok(line) => told.push(line),
            Err(error) if is_unreadable(&error) => {
                told.push(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(told)
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

/// What an operator is told of a file that cannot be used.
pub(super) fn damaged(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!(
        "{} is damaged or cannot be used ({why}). Nothing was changed. `tipcast store check` says more. Move the \
         folder away, then `tipcast store restore` a backup in its place, or start empty",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::{StatementStatus, params};

    use super::*;

    #[test]
    fn a_statement_is_planned_once_however_often_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let (db, _) = open(&dir.path().join("tipcast.db")).unwrap();
        let planned_again = || {
            let sql = "SELECT * FROM changes WHERE feed = ?1 AND last > ?2 ORDER BY last";
            for feed in 0..5 {
                let mut query = db.conn.prepare_cached(sql).unwrap();
                assert!(query.query(params![feed, 7]).unwrap().next().unwrap().is_none());
            }
            db.conn.prepare_cached(sql).unwrap().get_status(StatementStatus::RePrepare)
        };
        assert_eq!(planned_again(), 0);
        db.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, false).unwrap();
        db.conn.flush_prepared_statement_cache();
        assert!(planned_again() > 0);
    }
}
