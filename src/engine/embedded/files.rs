//! What an operator does with the file: looks whether it is whole, copies it, and restores a copy.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rusqlite::Connection;

use super::file::{self, begin_life, open_to_read, rot};
use super::reading;
use crate::engine::folder::{self, Folder};
use crate::engine::protocol::owner::{Owners, feed_of};

/// What was found in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Feeds of which anything is stored.
    pub feeds: usize,
    /// Feeds of which something cannot be read, and what.
    pub damaged: Vec<(String, String)>,
    /// What is damaged and no feed's alone. A gateway does not start on it.
    pub shared: Vec<String>,
}

/// Looks at everything that is stored in a data folder, also while a gateway runs on it.
///
/// # Errors
/// What is wrong and what to do, when nothing can be looked at.
pub fn check(data_dir: &Path, owners: Owners) -> Result<Report, String> {
    examine(&folder::database(data_dir), owners, true)
}

/// `is_strict`: what Tipcast did not make counts as damage.
pub(super) fn examine(path: &Path, owners: Owners, is_strict: bool) -> Result<Report, String> {
    let explain = |error: rusqlite::Error| format!("{}: {}", path.display(), file::sentence(&error));
    let conn = open_to_read(path)?;
    // One moment of it, whatever a gateway writes meanwhile.
    conn.execute_batch("BEGIN").map_err(explain)?;
    let mut shared = rot(&conn, 20).map_err(explain)?;
    if is_strict {
        shared.extend(file::foreign(&conn).map_err(explain)?);
    }
    let found = match reading::read(&conn, owners, i64::MIN) {
        Ok(found) => found,
        // Said above, page by page.
        Err(_) if !shared.is_empty() => return Ok(Report { shared, ..Report::default() }),
        Err(error) => return Err(explain(error)),
    };
    let feeds = found.feeds().count();
    let named = |(owner, what): (&Vec<u8>, &String)| {
        Some((String::from_utf8_lossy(feed_of(owner)?).into_owned(), what.clone()))
    };
    let damaged = found.damaged.iter().filter_map(named).collect();
    shared.extend(found.shared);
    Ok(Report { feeds, damaged, shared })
}

/// Copies what a data folder holds to a new file, also while a gateway runs on it: everything that was acknowledged before it
/// began. The copy is for its owner alone, and is there whole or not at all.
///
/// # Errors
/// What is wrong and what to do.
pub fn backup(data_dir: &Path, to: &Path, owners: Owners) -> Result<Report, String> {
    let conn = open_to_read(&folder::database(data_dir))?;
    if to.exists() {
        return Err(format!(
            "{} is there already; name a file that is not, or move that one away",
            to.display()
        ));
    }
    let unfinished = to.with_added_extension("unfinished");
    let copied = copy_whole(&conn, &unfinished, to, owners);
    copied.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))
}

fn copy_whole(conn: &Connection, unfinished: &Path, to: &Path, owners: Owners) -> Result<Report, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{} cannot be written: {e}", to.display());
    private_file(unfinished).map_err(|e| wrong(&e))?;
    let name = unfinished.to_str().ok_or_else(|| wrong(&"its name is not Unicode"))?;
    conn.execute("VACUUM INTO ?1", [name]).map_err(|e| wrong(&e))?;
    let report = examine(unfinished, owners, true)?;
    put_in_place(unfinished, to).map_err(|e| wrong(&e))?;
    Ok(report)
}

/// Brings a copy back into a data folder that is empty and not in use. Every feed begins a new epoch, because watchers may have
/// seen more than the copy holds; one that is damaged stays as it is. When it refuses it leaves nothing behind; when it was killed
/// the next one begins anew.
///
/// # Errors
/// What is wrong and what to do.
pub fn restore(data_dir: &Path, from: &Path, owners: Owners) -> Result<Report, String> {
    if !from.is_file() {
        return Err(format!("{} is no file; name one that `tipcast store backup` wrote", from.display()));
    }
    let folder = Folder::own(data_dir)?;
    let done = fill(&folder, data_dir, from, owners);
    if done.is_err() {
        folder.leave();
    }
    done
}

fn fill(folder: &Folder, data_dir: &Path, from: &Path, owners: Owners) -> Result<Report, String> {
    let held = folder.holds().map_err(|e| format!("{} cannot be read: {e}", data_dir.display()))?;
    if let Some(held) = held {
        return Err(format!(
            "the data folder {} is not empty ({} is in it); move what it holds away, or name another with --data-dir",
            data_dir.display(),
            held.display()
        ));
    }
    let unfinished = folder.unfinished();
    let brought = bring_back(from, &unfinished, owners).and_then(|report| {
        put_in_place(&unfinished, &folder.database())
            .map_err(|e| format!("{} cannot be put in place: {e}", folder.database().display()))?;
        Ok(report)
    });
    brought.inspect_err(|_| folder.remove_unfinished())
}

fn bring_back(from: &Path, to: &Path, owners: Owners) -> Result<Report, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{} cannot be brought back: {e}", from.display());
    // A copy beside the new file: SQLite may have to write where it reads.
    let image = to.with_added_extension("image");
    let mut source = File::open(from).map_err(|e| wrong(&e))?;
    let mut copy = private_file(&image).map_err(|e| wrong(&e))?;
    std::io::copy(&mut source, &mut copy).map_err(|e| wrong(&e))?;
    // What is wrong with the copy is wrong with what it was made of.
    let named = |why: String| why.replace(&image.display().to_string(), &from.display().to_string());
    // What else a backup holds (triggers, views) is left behind: only its rows are copied.
    let report = examine(&image, owners, false).map_err(named)?;
    if let Some(what) = report.shared.first() {
        return Err(wrong(&format!("it is damaged ({what}); take an older one")));
    }
    private_file(to).map_err(|e| wrong(&e))?;
    let conn = Connection::open(to).map_err(|e| wrong(&e))?;
    file::prepare(&conn, to).map_err(|e| wrong(&e))??;
    let is_complete = file::copy_rows(&conn, &image).map_err(|e| wrong(&e))?;
    if !is_complete {
        return Err(wrong(&"its tables are not those of a backup; take another one"));
    }
    begin_life(&conn).map_err(|e| wrong(&e))?;
    // All of it in one file, which takes its place with one rename.
    conn.pragma_update(None, "journal_mode", "DELETE").map_err(|e| wrong(&e))?;
    drop(conn);
    std::fs::remove_file(&image).map_err(|e| wrong(&e))?;
    Ok(report)
}

/// Makes an empty file for its owner alone; SQLite leaves its rights as they are.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    folder::private(OpenOptions::new().create(true).write(true).truncate(true)).open(path)
}

/// Makes a file durable, and then its name.
pub(super) fn put_in_place(file: &Path, name: &Path) -> std::io::Result<()> {
    File::open(file)?.sync_all()?;
    std::fs::rename(file, name)?;
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where a folder cannot be synced, the file is.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}
