//! Opening the file: whose it is, which layout it has, and whether it is whole.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::db::Db;
use super::layouts::{self, APPLICATION_ID, NEWEST};
use super::scan::{self, Found};
use super::seal;

/// Files up to this size are looked through page by page and record by record at start: a second or two.
const CHECK_BYTES: u64 = 512 << 20;

/// What SQLite says of a file in which writing one feed could overwrite another.
const FATAL: [&str; 3] = ["reelist", "2nd reference", "invalid page number"];

/// Opens or makes the file for the writer, and says what of it is damaged; the error is a sentence for the operator.
pub(super) fn open(path: &Path) -> Result<(Db, Found), String> {
    inspect(path)?;
    let conn = Connection::open(path).map_err(|e| damaged(path, &e))?;
    let found = prepare(&conn, path).map_err(|e| damaged(path, &e))??;
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

fn prepare(conn: &Connection, path: &Path) -> rusqlite::Result<Result<Found, String>> {
    conn.busy_timeout(Duration::from_secs(2))?;
    conn.set_prepared_statement_cache_capacity(128);
    seal::teach(conn)?;
    let layout = match belongs(conn, path)? {
        Ok(layout) => layout,
        Err(why) => return Ok(Err(why)),
    };
    let is_checked = layout > 0 && std::fs::metadata(path).is_ok_and(|file| file.len() <= CHECK_BYTES);
    if is_checked && let Err(why) = check_pages(conn)? {
        return Ok(Err(damaged(path, &why)));
    }
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    layouts::upgrade(conn, layout)?;
    Ok(Ok(if is_checked { scan::scan(conn)? } else { Found::default() }))
}

/// An error when writing would be dangerous. Pages that cannot be read concern those whose records stand on them, and
/// an index that does not say what its table says is made again.
pub(super) fn check_pages(conn: &Connection) -> rusqlite::Result<Result<(), String>> {
    let mut query = conn.prepare("PRAGMA integrity_check(100)")?;
    let told = query.query_map([], |r| r.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    drop(query);
    if let Some(fatal) = told.iter().find(|line| FATAL.iter().any(|word| line.contains(word))) {
        return Ok(Err(fatal.clone()));
    }
    let indexes =
        told.iter().filter(|line| line.contains(" index ")).filter_map(|line| line.split(' ').next_back());
    let indexes: std::collections::BTreeSet<&str> = indexes.collect();
    for index in indexes {
        tracing::warn!(index, "an index of the database was damaged and is made again from its table");
        // What cannot be made again is a table's own key: its rows are found damaged when they are read.
        if let Err(error) = conn.execute_batch(&format!("REINDEX \"{}\"", index.replace('"', ""))) {
            tracing::warn!(%error, index, "it could not be made again");
        }
    }
    Ok(Ok(()))
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
        "{} is damaged or cannot be used ({why}). Nothing was changed. Restore it from a backup, or move the \
         file away to start empty",
        path.display()
    )
}
