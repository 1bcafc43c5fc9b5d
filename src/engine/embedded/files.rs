//! What an operator does with the file of an engine: looks whether it is whole, copies it, and brings a copy back.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::db::Db;
use super::fault::{Fault, Step};
use super::feed::Feed;
use super::frames::Part;
use super::ids::Ids;
use super::journal::Reading;
use super::log::Log;
use super::scan::{self, Damage};
use super::{ledger, log, open, seal};
use crate::domain::{FeedId, Policy};
use crate::engine::folder::{self, Folder};

/// What was found in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Feeds that the file holds.
    pub feeds: usize,
    /// What of it is damaged, each feed once.
    pub damage: Vec<Damage>,
}

/// Looks at everything that is stored in a data folder, also while a gateway runs on it. The error is a sentence.
pub fn check(data_dir: &Path) -> Result<Report, String> {
    let path = folder::database(data_dir);
    let conn = open::open_to_read(&path)?;
    let journal = Reading::begin(&path)?;
    conn.execute_batch("BEGIN").map_err(|e| open::damaged(&path, &e))?;
    examine(conn, Some(journal)).map_err(|e| open::damaged(&path, &e))
}

fn examine(conn: Connection, journal: Option<Reading>) -> rusqlite::Result<Report> {
    let rot = open::rot(&conn, 20)?;
    let mut damage: Vec<_> = rot.into_iter().map(|what| Damage { feed: None, what }).collect();
    match scan::scan(&conn) {
        Ok(found) => damage.extend(found.damage),
        Err(error) => damage.push(Damage { feed: None, what: error.to_string() }),
    }
    let journal = journal.map_or(Ok(Vec::new()), |mut journal| journal.parts(&conn));
    let journal = journal.unwrap_or_else(|what| {
        damage.push(Damage { feed: None, what });
        Vec::new()
    });
    let db = Db::new(conn);
    let (feeds, deeper) = match read_all(&db, journal) {
        Ok(read) => read,
        Err(fault) => (0, vec![Damage { feed: None, what: format!("feeds: {fault:?}") }]),
    };
    damage.extend(deeper);
    let mut each = BTreeMap::new();
    for Damage { feed, what } in damage {
        let key = feed.as_ref().map_or_else(|| what.clone(), FeedId::to_string);
        each.entry((feed.is_none(), key)).or_insert(Damage { feed, what });
    }
    Ok(Report { feeds, damage: each.into_values().collect() })
}

/// Reads every feed back; how many there are, and those that cannot be.
fn read_all(db: &Db, journal: Vec<Part>) -> Step<(usize, Vec<Damage>)> {
    let names = ledger::names(db, "SELECT name FROM feeds ORDER BY name", [])?;
    let (mut damage, log) = (Vec::new(), Log::read(db, journal)?);
    for name in &names {
        // One whose own record is not as it was written was told of by the scan, under the name that it had.
        let own = db.one("SELECT * FROM feeds WHERE name = ?1", [name.as_str()], |_| Ok(()));
        if own.is_ok()
            && let Err(fault) = Feed::load(db, name, &Arc::default(), &log)
        {
            damage.push(Damage { feed: Some(name.clone()), what: fault.why() });
        }
    }
    Ok((names.len(), damage))
}

/// Copies the database of a data folder to a new file, also while a gateway runs on the folder: everything that was
/// acknowledged before it began. The copy is for its owner alone, and is there whole or not at all.
pub fn backup(data_dir: &Path, to: &Path) -> Result<Report, String> {
    let path = folder::database(data_dir);
    let conn = open::open_to_read(&path)?;
    let shown = to.display();
    if to.exists() {
        return Err(format!("{shown} is there already; name a file that is not, or move that one away"));
    }
    let unfinished = to.with_added_extension("unfinished");
    let wrong = |e: &dyn std::fmt::Display| {
        let _ = std::fs::remove_file(&unfinished);
        format!("{shown} cannot be written: {e}")
    };
    // SQLite writes into an empty file, and leaves its rights as they are.
    folder::private(OpenOptions::new().create(true).write(true).truncate(true))
        .open(&unfinished)
        .map_err(|e| format!("{shown} cannot be written: {e}"))?;
    let name = unfinished.to_str().ok_or_else(|| wrong(&"its name is not Unicode"))?;
    let mut journal = Reading::begin(&path).map_err(|e| wrong(&e))?;
    conn.execute("VACUUM INTO ?1", [name]).map_err(|e| wrong(&e))?;
    join(&unfinished, &mut journal).map_err(|e| wrong(&e))?;
    drop(journal);
    let copy = open::open_to_read(&unfinished).map_err(|e| wrong(&e))?;
    let report = examine(copy, None).map_err(|e| wrong(&e))?;
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(|e| wrong(&e))?;
    std::fs::rename(&unfinished, to).map_err(|e| wrong(&e))?;
    sync_folder_of(to);
    Ok(report)
}

/// Brings what the journal holds to a copy of the database, which has all of it in one file then.
fn join(copy: &Path, journal: &mut Reading) -> Result<(), String> {
    let told = |e: rusqlite::Error| e.to_string();
    let mut conn = Connection::open(copy).map_err(told)?;
    seal::teach(&conn).map_err(told)?;
    let parts = journal.parts(&conn)?;
    let whole = conn.transaction().map_err(told)?;
    log::store(&whole, &parts).and_then(|()| whole.commit()).map_err(told)
}

/// Brings a copy back into a data folder that is empty and not in use. Every feed begins a new epoch, because watchers
/// may have seen more than the copy holds; one that is damaged stays as it is. `defaults` is the policy of feeds that
/// set none.
pub fn restore(data_dir: &Path, from: &Path, defaults: &Policy) -> Result<Report, String> {
    let owned = Folder::own(data_dir)?;
    let held = owned.holds().map_err(|e| format!("{} cannot be read: {e}", data_dir.display()))?;
    if let Some(held) = held {
        return Err(format!(
            "the data folder {} is not empty ({} is in it); move what it holds away, or name another with --data-dir",
            data_dir.display(),
            held.display()
        ));
    }
    if !from.is_file() {
        return Err(format!("{} is no file; name one that `tipcast store backup` wrote", from.display()));
    }
    let unfinished = data_dir.join("tipcast.db.unfinished");
    let done = bring_back(from, &unfinished, &Arc::new(defaults.clone()));
    // The damaged file that was mended is the one that the copy was made of.
    let beside =
        ["tipcast.db.unfinished-wal", "tipcast.db.unfinished-shm", "tipcast.db.unfinished.damaged-1"];
    beside.iter().for_each(|name| drop(std::fs::remove_file(data_dir.join(name))));
    let report = done.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))?;
    std::fs::rename(&unfinished, owned.database())
        .map_err(|e| format!("{} cannot be put in place: {e}", owned.database().display()))?;
    sync_folder_of(&owned.database());
    Ok(report)
}

fn bring_back(from: &Path, to: &Path, defaults: &Arc<Policy>) -> Result<Report, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{} cannot be brought back: {e}", from.display());
    let mut source = File::open(from).map_err(|e| wrong(&e))?;
    let mut copy =
        folder::private(OpenOptions::new().create_new(true).write(true)).open(to).map_err(|e| wrong(&e))?;
    if std::io::copy(&mut source, &mut copy).map_err(|e| wrong(&e))? == 0 {
        return Err(wrong(&"it is empty"));
    }
    drop(copy);
    let (db, _) =
        open::open(to).map_err(|e| e.replace(&to.display().to_string(), &from.display().to_string()))?;
    let told = |fault: Fault| wrong(&fault.why());
    let names = ledger::names(&db, "SELECT name FROM feeds ORDER BY name", []).map_err(told)?;
    let log = Log::read(&db, Vec::new()).map_err(told)?;
    db.begin().map_err(told)?;
    let mut ids = Ids::default();
    for name in &names {
        match Feed::load(&db, name, defaults, &log) {
            Ok(Some(mut feed)) => feed.begin_epoch(&db, &mut ids, name).map_err(told)?,
            Ok(None) => {}
            // It is named in the report.
            Err(Fault::Garbled(_) | Fault::Damaged(_) | Fault::Unreadable(_)) => {}
            Err(fault) => return Err(told(fault)),
        }
    }
    db.commit().map_err(told)?;
    // All of it in one file, which takes its place with one rename.
    db.conn
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE;")
        .map_err(|e| wrong(&e))?;
    drop(db);
    File::open(to).and_then(|file| file.sync_all()).map_err(|e| wrong(&e))?;
    open::open_to_read(to).and_then(|copy| examine(copy, None).map_err(|e| wrong(&e)))
}

/// Makes a name durable.
fn sync_folder_of(file: &Path) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where a folder cannot be synced, the file is.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}
