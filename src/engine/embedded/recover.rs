//! What can be read of a damaged file, in a new one. The damaged file stays beside it, as it was.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::effect::Effect;
use super::element::seal;
use super::file::{begin_life, form, prepare, rot, sentence};
use super::files::{examine, private_file, put_in_place};
use super::frame;
use super::keyspace::Keyspace;
use super::moving::{Step, Stretch};
use super::reading::{Found, read_broken};
use super::wal;
use crate::engine::folder::{self, Folder};
use crate::engine::protocol::owner::{Owner, Owners, feed_of, shown};

/// Strings that expire in one row.
const STRINGS_PER_ROW: usize = 512;

/// Whether a list that may have lost items at an end is all that its feed says it is: its key, how many items it has, and how to
/// look up a string. What it refuses is left out.
pub type Fits = fn(&[u8], usize, &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> bool;

/// What was saved, and what was not.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Feeds that are in the new file.
    pub feeds: usize,
    /// What is lost of a feed, by its name.
    pub lost: Vec<(String, String)>,
    /// What is lost and belongs to an unknown feed.
    pub shared: Vec<String>,
    /// Where the damaged file is now.
    pub aside: PathBuf,
}

/// Copies what can be read into a new file, in which every feed begins a new epoch and none is damaged. The folder must not be in
/// use. What was there stays beside it under another name; a run that was killed is finished by the next. `None`: nothing is
/// damaged, and nothing was changed.
///
/// # Errors
/// What is wrong and what to do.
pub fn recover(data_dir: &Path, owners: Owners, fits: Fits) -> Result<Option<Recovered>, String> {
    let database = folder::database(data_dir);
    let last = asides(&database).take_while(|aside| aside.exists()).last();
    // One that was killed between its two renames has put the damaged file aside already.
    let source = match (database.exists(), last) {
        (true, _) => database.clone(),
        (false, Some(aside)) => aside,
        (false, None) => {
            return Err(format!("{} is not there; --data-dir names the folder it is in", database.display()));
        }
    };
    let folder = Folder::own(data_dir)?;
    if source == database && !folder.unfinished().exists() {
        // Without proof of damage SQLite's own reading of the log is right, and the next start does that.
        let report = examine(&database, owners, true);
        if report.is_ok_and(|it| it.damaged.is_empty() && it.shared.is_empty()) {
            return Ok(None);
        }
    }
    let explain = |e: &dyn std::fmt::Display| format!("{} cannot be recovered: {e}", source.display());
    let mut recovered = Recovered::default();
    let unfinished = folder.unfinished();
    let done = salvaged(&source, &unfinished.with_added_extension("image"), owners, &mut recovered).and_then(
        |found| {
            let (space, number) = keep_what_fits(found, owners, fits, &mut recovered);
            folder.remove_unfinished();
            write(&unfinished, &space, number + 1, owners)
        },
    );
    done.inspect_err(|_| folder.remove_unfinished()).map_err(|why| explain(&why))?;
    recovered.aside = match source == database {
        true => put_aside(&database).map_err(|e| explain(&e))?,
        false => source.clone(),
    };
    put_in_place(&unfinished, &database).map_err(|e| explain(&e))?;
    Ok(Some(recovered))
}

/// How many feeds in this folder [`recover`] would find something of, if it can read the file at all. Changes nothing.
pub(super) fn would_save(folder: &Folder, owners: Owners) -> Option<usize> {
    let image = folder.unfinished().with_added_extension("image");
    let found = salvaged(&folder.database(), &image, owners, &mut Recovered::default());
    folder.remove_unfinished();
    Some(found.ok()?.feeds().count())
}

/// Names for damaged files, in order.
fn asides(database: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    (1..)
        .map(|n| database.with_added_extension(if n == 1 { "damaged".into() } else { format!("damaged{n}") }))
}

/// Gives the file and its log another name; the log first, since it is worth nothing without its file.
fn put_aside(database: &Path) -> std::io::Result<PathBuf> {
    let free = asides(database).find(|aside| !aside.exists()).unwrap_or_default();
    for end in ["-wal", "-shm", ""] {
        match std::fs::rename(wal::beside(database, end), wal::beside(&free, end)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound || end.is_empty() => return Err(e),
            _ => {}
        }
    }
    Ok(free)
}

/// Reads a copy of the file and of its log as far as that goes.
fn salvaged(path: &Path, image: &Path, owners: Owners, recovered: &mut Recovered) -> Result<Found, String> {
    for suffix in ["", "-wal"] {
        let (from, to) = (wal::beside(path, suffix), wal::beside(image, suffix));
        if from.exists() {
            std::fs::copy(&from, to).map_err(|e| format!("{} cannot be copied: {e}", from.display()))?;
        }
    }
    if let Some(what) = wal::damage(path)? {
        recovered.shared.push(format!("{what}: these commits, changes of any feed, and all behind them"));
    }
    let advice = "no page of it can be read in order; bring a backup back with `tipcast store restore`";
    let unread = |e: rusqlite::Error| format!("{advice} ({})", sentence(&e));
    let conn = Connection::open(image).map_err(unread)?;
    // Without it SQLite reads nothing of a file that is shorter than its header says.
    conn.pragma_update(None, "writable_schema", true).map_err(unread)?;
    form(&conn, path).map_err(unread)??;
    // Pages that hold less than they should are read without an error: this says so.
    let pages = rot(&conn, 20).unwrap_or_else(|e| vec![e.to_string()]);
    recovered.shared.extend(pages.into_iter().map(|what| format!("SQLite says: {what}")));
    let (found, lost) = read_broken(&conn, owners).map_err(unread)?;
    recovered.shared.extend(lost);
    Ok(found)
}

/// All but lists that are not what their feeds say. With the number of the last commit.
fn keep_what_fits(found: Found, owners: Owners, fits: Fits, recovered: &mut Recovered) -> (Keyspace, i64) {
    let is_anybodys = !found.shared.is_empty() || !recovered.shared.is_empty();
    recovered.feeds = found.feeds().count();
    for (owner, what) in &found.damaged {
        match feed_of(owner) {
            Some(feed) => recovered.lost.push((String::from_utf8_lossy(feed).into_owned(), what.clone())),
            None => recovered.shared.push(format!("of {}: {what}", shown(owner))),
        }
    }
    let Found { mut space, damaged, number, shared, .. } = found;
    recovered.shared.extend(shared);
    let look_up = |key: &[u8]| space.string(key, i64::MIN).map(|it| it.value.to_vec());
    let suspect =
        |key: &[u8]| is_anybodys || owners(key).word().is_some_and(|word| damaged.contains_key(&word));
    let unfit: Vec<_> = space
        .lists()
        .filter(|(key, items)| suspect(key) && !fits(key, *items, &look_up))
        .map(|(key, items)| (key.clone(), items))
        .collect();
    for (key, items) in unfit {
        space.apply(&Effect::Deleted { key: key.clone() });
        if let Owner::Feed(feed) = owners(&key) {
            let what = format!(
                "{} with {items} entries: its numbers are not certain",
                String::from_utf8_lossy(&key)
            );
            recovered.lost.push((String::from_utf8_lossy(feed).into_owned(), what));
        }
    }
    (space, number)
}

/// Writes a new file with this data.
fn write(path: &Path, space: &Keyspace, number: i64, owners: Owners) -> Result<(), String> {
    let explain = |e: rusqlite::Error| sentence(&e);
    private_file(path).map_err(|e| e.to_string())?;
    let conn = Connection::open(path).map_err(explain)?;
    prepare(&conn, path).map_err(explain)??;
    conn.execute_batch("BEGIN IMMEDIATE").map_err(explain)?;
    let mut stretch = Stretch::default();
    let (mut strings, mut row) = (Vec::new(), number);
    let mut put = |strings: &mut Vec<Effect>| -> rusqlite::Result<()> {
        let frame = frame::write(row, strings.iter(), owners);
        strings.clear();
        if !frame.is_empty() {
            conn.execute("INSERT INTO later VALUES (?1, ?2)", params![row, frame])?;
            row += 1;
        }
        Ok(())
    };
    for effect in space.effects() {
        match effect.until() {
            Some(_) => strings.push(effect),
            None => stretch.add(&effect),
        }
        if strings.len() >= STRINGS_PER_ROW {
            put(&mut strings).map_err(explain)?;
        }
    }
    put(&mut strings).map_err(explain)?;
    let mut moving = stretch.into_moving();
    while !moving.is_empty() {
        for step in moving.take(1_000) {
            let Step::Put(key, element, value) = step else { continue };
            let sealed = seal(owners, &key, &element, &value);
            conn.prepare_cached("INSERT INTO elements VALUES (?1, ?2, ?3)")
                .and_then(|mut insert| insert.execute(params![&*key, element, sealed]))
                .map_err(explain)?;
        }
    }
    begin_life(&conn).map_err(explain)?;
    conn.execute_batch("COMMIT").map_err(explain)?;
    // All of it in one file, which takes its place with one rename.
    conn.pragma_update(None, "journal_mode", "DELETE").map_err(explain)
}
