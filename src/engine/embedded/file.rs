//! The file of the store: whose it is, which form it has, and what SQLite says of it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, OptionalExtension};

use super::wal;
use crate::random;

/// "TipC": whose file it is.
const APPLICATION_ID: i64 = 0x5469_7043;

/// The form of the tables.
const STORED_FORM: i64 = 119;

/// The tables, as SQLite keeps their text. Nothing else may be in the file: a trigger could take away what was acknowledged.
const TABLES: [&str; 6] = [
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE log (number INTEGER PRIMARY KEY, frame BLOB NOT NULL)",
    "CREATE TABLE soon (number INTEGER PRIMARY KEY, frame BLOB NOT NULL)",
    "CREATE TABLE later (number INTEGER PRIMARY KEY, frame BLOB NOT NULL)",
    "CREATE TABLE elements (key BLOB, element BLOB, value BLOB NOT NULL, PRIMARY KEY (key, element)) WITHOUT ROWID",
    "CREATE TABLE damaged (owner BLOB PRIMARY KEY, what TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID",
];

/// How long a statement waits for another connection to the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Files up to this size in bytes are checked page by page at start: a page that claims fewer rows than it holds is read without
/// an error.
const CHECK_BYTES: u64 = 512 << 20;

/// What an operator does about damage that no feed has alone.
pub(super) const WHAT_TO_DO: &str = "Nothing was changed. `tipcast store check` says more. Look at the disk, then: `tipcast store recover` \
                          copies what can be read into a new file and lists what is lost; or move the folder away, and `tipcast \
                          store restore` a backup in its place";

/// What an operator can do about an error.
pub(super) fn sentence(error: &Error) -> String {
    use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure};
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "the disk of the data folder is full; free some room",
        Some(ReadOnly) => "the data folder is read-only; make it writable",
        Some(DatabaseBusy) => "another program holds the database; close it",
        Some(DatabaseCorrupt | NotADatabase) => {
            "the database is damaged; stop, and run `tipcast store check`, which says what to do"
        }
        Some(SystemIoFailure) => "the disk of the data folder fails; look at the system's log",
        _ => "the database refused",
    };
    format!("{advice} ({error})")
}

/// Opens the file, or makes it, for the thread that writes to it.
///
/// # Errors
/// What is wrong and what to do, for the operator.
pub(super) fn open(path: &Path) -> Result<Connection, String> {
    let explain = |error: Error| format!("{}: {}", path.display(), sentence(&error));
    inspect(path)?;
    let begin = |is_alone| -> rusqlite::Result<Result<Connection, String>> {
        let conn = Connection::open(path)?;
        if is_alone {
            conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        Ok(prepare(&conn, path)?.map(|()| conn))
    };
    match begin(false) {
        // A full disk has no room for the file by which SQLite shares the log with other processes. Alone it needs none.
        Err(error) if is_without_room(&error) => {
            let conn = begin(true).map_err(explain)??;
            tracing::warn!(
                why = sentence(&error),
                "the store is opened for this process alone: `tipcast store check` and `backup` work beside it after a restart"
            );
            Ok(conn)
        }
        opened => opened.map_err(explain)?,
    }
}

fn is_without_room(error: &Error) -> bool {
    use ErrorCode::{CannotOpen, DiskFull, SystemIoFailure};
    matches!(error.sqlite_error_code(), Some(DiskFull | SystemIoFailure | CannotOpen))
}

/// What epochs end with that begin on this data.
pub(super) fn life(conn: &Connection) -> rusqlite::Result<String> {
    match known_life(conn)? {
        Some(life) => Ok(life),
        None => begin_life(conn),
    }
}

/// [`life`] of a file that is only read. `None` if it has not begun.
pub(super) fn known_life(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let known = "SELECT value FROM meta WHERE name = 'life'";
    let digits = |life: &String| {
        life.len() == 5 && life.bytes().all(|it| it.is_ascii_digit() || it.is_ascii_lowercase())
    };
    let known =
        conn.query_row(known, [], |row| Ok(row.get_ref(0)?.as_str().map(str::to_owned).unwrap_or_default()));
    Ok(known.optional()?.filter(digits))
}

/// Has every feed begin a new epoch.
pub(super) fn begin_life(conn: &Connection) -> rusqlite::Result<String> {
    let mut life = String::new();
    while life.len() < 5 {
        life.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(random::number() % 36) as usize]));
    }
    conn.execute("INSERT OR REPLACE INTO meta VALUES ('life', ?1)", [&life])?;
    Ok(life)
}

/// Opens the file beside a gateway that may be at work on it, for reading.
///
/// # Errors
/// What is wrong and what to do, for the operator.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, String> {
    if !path.exists() {
        return Err(format!("{} is not there; --data-dir names the folder it is in", path.display()));
    }
    inspect(path)?;
    let explain = |error: Error| format!("{}: {}", path.display(), sentence(&error));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(explain)?;
    conn.busy_timeout(Duration::from_secs(5)).map_err(explain)?;
    if is_fresh(&conn, path).map_err(explain)?? {
        return Err(format!(
            "{} is empty; --data-dir names the folder of a gateway that has run",
            path.display()
        ));
    }
    Ok(conn)
}

/// SQLite's complaints about damaged pages, at most `most` of them; empty when the file is whole.
pub(super) fn rot(conn: &Connection, most: u32) -> rusqlite::Result<Vec<String>> {
    let mut query = conn.prepare(&format!("PRAGMA integrity_check({most})"))?;
    let lines = query.query_map([], |row| row.get::<_, String>(0))?;
    let mut explain = Vec::new();
    for line in lines {
        match line {
            Ok(line) if line == "ok" => {}
            Ok(line) => explain.push(line),
            Err(error) if is_unreadable(&error) => {
                explain.push(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(explain)
}

fn is_unreadable(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Refuses what SQLite would take for a new database and overwrite, or fail on unclearly.
fn inspect(path: &Path) -> Result<(), String> {
    use std::io::Read;
    let Ok(file) = std::fs::File::open(path) else { return Ok(()) };
    let mut magic = Vec::new();
    let read = file.take(16).read_to_end(&mut magic);
    read.map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let log_has_data = std::fs::metadata(path.with_extension("db-wal")).is_ok_and(|it| it.len() > 0);
    match magic.is_empty() {
        true if !log_has_data => Ok(()),
        false if magic == b"SQLite format 3\0" => match wal::damage(path)? {
            None => Ok(()),
            Some(what) => Err(format!("{} is damaged: {what}. {WHAT_TO_DO}", path.display())),
        },
        _ => Err(format!("{} is damaged: it is not an SQLite database. {WHAT_TO_DO}", path.display())),
    }
}

/// An error for a file that is not ours, or of another form.
pub(super) fn form(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), String>> {
    Ok(is_fresh(conn, path)?.map(drop))
}

/// Whether nothing is in it yet; an error for a file that is not ours, or of another form.
fn is_fresh(conn: &Connection, path: &Path) -> rusqlite::Result<Result<bool, String>> {
    let fresh = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0;
    let owner: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let form: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(match (fresh, owner, form) {
        (true, ..) => Ok(true),
        (false, APPLICATION_ID, STORED_FORM) => Ok(false),
        (false, APPLICATION_ID, _) => Err(format!(
            "{} has form {form}, and this tipcast knows form {STORED_FORM} alone: another version wrote it. Run that one, or name \
             another folder with --data-dir",
            path.display()
        )),
        _ => Err(format!(
            "{} is another program's database; name another folder with --data-dir",
            path.display()
        )),
    })
}

/// Begins on a file for the threads of a store. Makes the tables where there are none.
pub(super) fn prepare(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), String>> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(64);
    let fresh = match is_fresh(conn, path)? {
        Ok(fresh) => fresh,
        Err(why) => return Ok(Err(why)),
    };
    if !fresh
        && std::fs::metadata(path).is_ok_and(|file| file.len() <= CHECK_BYTES)
        && let Some(why) = rot(conn, 1)?.pop()
    {
        return Ok(Err(format!("{} is damaged ({why}). {WHAT_TO_DO}", path.display())));
    }
    if let Some(what) = foreign(conn)? {
        return Ok(Err(format!("{} is damaged: it holds {what}", path.display())));
    }
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -32_768)?;
    conn.pragma_update(None, "journal_size_limit", 32 << 20)?;
    // Small ones: a large log is never caught up with while commits go on.
    conn.pragma_update(None, "wal_autocheckpoint", 2_000)?;
    if fresh {
        let tables = TABLES.join(";\n");
        conn.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             {tables};
             PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {STORED_FORM};
             COMMIT;"
        ))?;
    }
    Ok(Ok(()))
}

/// What is in the file beside the tables, if anything is, and what to do about it.
pub(super) fn foreign(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let mut query =
        conn.prepare("SELECT type, name, sql FROM sqlite_schema WHERE substr(name, 1, 7) <> 'sqlite_'")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name, sql): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if !sql.is_some_and(|sql| TABLES.contains(&&*sql)) {
            return Ok(Some(format!(
                "the {kind} `{name}`, which Tipcast did not make and which could change what is stored; `tipcast store recover` copies \
                 everything else into a new file"
            )));
        }
    }
    Ok(None)
}

/// Copies the rows of a backup into the tables of this file, and nothing else that is in it. False where it lacks a table.
pub(super) fn copy_rows(conn: &Connection, backup: &Path) -> rusqlite::Result<bool> {
    conn.execute("ATTACH ?1 AS backup", [backup.to_string_lossy()])?;
    for table in TABLES {
        let name = table.split(' ').nth(2).unwrap_or_default();
        // A view of the same name could make up rows.
        let is_ours = "SELECT count(*) FROM backup.sqlite_schema WHERE sql = ?1";
        if conn.query_row(is_ours, [table], |row| row.get::<_, i64>(0))? != 1 {
            return Ok(false);
        }
        conn.execute_batch(&format!("INSERT INTO main.{name} SELECT * FROM backup.{name}"))?;
    }
    conn.execute_batch("DETACH backup")?;
    Ok(true)
}

/// How a write-ahead log begins anew, once the database has all of it.
pub(super) enum NewLog {
    /// Its file is cut to nothing.
    Truncated,
    /// Its file keeps its size, and the next commit writes over it: on a full disk, room that was given back would let a few more
    /// gifts in and then fail again.
    Restarted,
}

/// Writes all of the write-ahead log to the database, so that the next commit begins a new log, with other salts. False while
/// another connection still reads the log.
///
/// # Errors
/// When the disk does not take it.
pub(super) fn begin_log(conn: &Connection, new: &NewLog) -> rusqlite::Result<bool> {
    let mode = match new {
        NewLog::Truncated => "TRUNCATE",
        NewLog::Restarted => "RESTART",
    };
    // A reader (`store backup`) may take minutes, and the checkpoint does not wait for it.
    conn.busy_timeout(Duration::ZERO)?;
    let is_busy = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, bool>(0));
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(!is_busy?)
}
