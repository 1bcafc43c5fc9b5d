//! What gifts brought to feeds, commit by commit, in a file of its own: one append and one flush for a commit, and no
//! page of the database. [`super::frames`] has its bytes.
//!
//! The file holds what came after the last commit to the database, and nothing else. A commit that writes to the
//! database brings what the file holds to the table `log` in the same transaction, or to the feeds' own tables when
//! the log is settled, and counts up the *generation*, a number in the table `journal`: from then on the frames in the file,
//! which have the number before, are old, and are written over. So it is one transaction that says where a record is, a kill
//! before it leaves the file in force and a kill after it the tables. When the engine is opened or closed, the file
//! comes to the table `log` in the same way.
//!
//! Other programs that read a folder while a gateway runs on it hold a shared lock on the file. As long as one does,
//! frames are appended and none is written over, so whatever they saw of the database they find the frames that belong to it.

use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::fault::{Fault, Step};
use super::frames::{self, Draft, Part, Recent};
use super::seal::{self, Found};
use crate::engine::folder::private;
use crate::supervise::faults;

/// When the file is this long and somebody reads it, commits go to the database instead.
const MOST: u64 = 256 << 20;

/// A file of more than this is cut when it begins anew.
const KEPT: u64 = 64 << 20;

/// What stands behind the head of a frame is copied behind it up to this; of more a second write costs less.
const COPIED: usize = 16 << 10;

/// What cannot be read of a file is passed over in pieces of this.
const PAGE: usize = 4096;

/// How long a reader waits for its lock: the writer has it for a moment when the file begins anew.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// The journal of a database.
pub(super) fn path(database: &Path) -> PathBuf {
    database.with_extension("journal")
}

/// The file as its writer has it. See the module.
pub(super) struct Journal {
    file: File,
    generation: u64,
    /// Where frames of this generation begin, and where the next is to stand.
    begin: u64,
    end: u64,
    /// How many they are.
    frames: u64,
    recent: Recent,
    most: u64,
}

impl Journal {
    /// Opens or makes the file. What it held is in the database: see [`left`].
    pub(super) fn open(database: &Path, conn: &Connection) -> Result<Journal, String> {
        let path = path(database);
        let wrong = |e: &dyn std::fmt::Display| format!("{} cannot be used: {e}", path.display());
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        let options = private(options.create(true).read(true).write(true).truncate(false));
        let file = options.open(&path).map_err(|e| wrong(&e))?;
        if is_new && let Some(folder) = path.parent() {
            // Where a folder cannot be synced, the file is.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        let end = file.metadata().map_err(|e| wrong(&e))?.len();
        let generation = generation(conn).map_err(|e| wrong(&e))?.unwrap_or(1);
        let mut journal =
            Journal { file, generation, begin: end, end, frames: 0, recent: Recent::new(), most: MOST };
        journal.begin_anew();
        Ok(journal)
    }

    /// True when everything is in the database.
    pub(super) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// False when it must not become longer.
    pub(super) fn has_room(&mut self) -> bool {
        if self.end >= self.most && self.is_empty() {
            self.begin_anew();
        }
        self.end < self.most
    }

    /// The number that its frames have.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes what a commit brings durable.
    pub(super) fn append(&mut self, draft: &Draft) -> Step<()> {
        if faults::fails("disk") {
            return Err(Fault::Disk("the disk of the data folder is full; a test says so".into()));
        }
        let (mut frame, mut body) = draft.spell((self.generation, self.frames), &self.recent);
        let len = frame.len() + body.len();
        if body.len() < COPIED {
            frame.extend_from_slice(body);
            body = &[];
        }
        // After a failure the next one takes its place.
        self.write(&frame, body).map_err(|e| refused(&e))?;
        self.end += len as u64;
        draft.note(self.frames, self.end, &mut self.recent);
        self.frames += 1;
        Ok(())
    }

    /// Proves that so much can be written behind what is in force, and gives the room back.
    pub(super) fn prove(&mut self, filler: &[u8]) -> Step<()> {
        let mut prove = || -> io::Result<()> {
            let len = self.file.metadata()?.len();
            let done = self.write(filler, &[]);
            self.file.set_len(len.max(self.end))?;
            done
        };
        prove().map_err(|e| refused(&e))
    }

    fn write(&mut self, bytes: &[u8], behind: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(bytes)?;
        self.file.write_all(behind)?;
        self.file.sync_data()
    }

    /// What is in force, as it was written.
    pub(super) fn parts(&mut self) -> Step<Vec<Part>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = read(&mut self.file, self.begin, self.end).map_err(|e| refused(&e))?;
        frames::read(&bytes, self.generation, self.frames).map_err(Fault::Disk)
    }

    /// What it held is in the database, which says so with the next generation.
    pub(super) fn went(&mut self) {
        self.generation += 1;
        (self.begin, self.frames) = (self.end, 0);
        self.recent.clear();
        self.begin_anew();
    }

    /// Writes over what is old, unless somebody reads it.
    fn begin_anew(&mut self) {
        if self.end == 0 || matches!(self.file.try_lock(), Err(TryLockError::WouldBlock)) {
            return;
        }
        if self.end > KEPT {
            // It stays as long as it is when that cannot be done.
            let _ = self.file.set_len(0);
        }
        (self.begin, self.end) = (0, 0);
        let _ = self.file.unlock();
    }

    /// Leaves nothing that is old behind: everything is in the database.
    pub(super) fn close(&mut self) {
        if self.end == 0 {
            let _ = self.file.set_len(0);
        }
    }

    /// As if it could hold no more than this.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most: u64) {
        self.most = most;
    }

    /// Has every write fail, or work again.
    #[cfg(test)]
    pub(super) fn swap(&mut self, file: File) -> File {
        std::mem::replace(&mut self.file, file)
    }
}

fn refused(error: &io::Error) -> Fault {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "the disk of the data folder is full; free some room"
        }
        ErrorKind::ReadOnlyFilesystem => "the data folder is read-only; make it writable",
        _ => "the disk of the data folder fails; look at the system's log",
    };
    Fault::Disk(format!("{advice} ({error})"))
}

/// The bytes from `begin` to `end`, with zeros where they cannot be read; fewer when the file is shorter.
fn read(file: &mut File, begin: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    if Read::by_ref(file).take(end - begin).read_to_end(&mut bytes).is_ok() {
        return Ok(bytes);
    }
    bytes.clear();
    let mut page = [0; PAGE];
    while begin + (bytes.len() as u64) < end {
        file.seek(SeekFrom::Start(begin + bytes.len() as u64))?;
        let most = (end - begin - bytes.len() as u64).min(PAGE as u64) as usize;
        let some = match file.read(&mut page[..most]) {
            Ok(0) => break,
            Ok(some) => some,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => {
                page[..most].fill(0);
                most
            }
        };
        bytes.extend_from_slice(&page[..some]);
    }
    Ok(bytes)
}

/// The generation that is in force; none when that cannot be read.
fn generation(conn: &Connection) -> rusqlite::Result<Option<u64>> {
    let read = conn.prepare("SELECT * FROM journal WHERE one = 1")?.query_row([], |r| {
        let is_whole = seal::check(r).is_ok_and(|found| found == Found::Whole);
        if is_whole { r.get(1).map(Some) } else { Ok(None) }
    });
    Ok(read.optional()?.flatten())
}

/// Says that this generation is in force, in the transaction that is open.
pub(super) fn put_generation(conn: &Connection, generation: u64) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO journal VALUES (1, ?1, seal(1, ?1))";
    conn.prepare_cached(sql)?.execute([generation]).map(drop)
}

/// What a process that was killed left in the file of a database, and the generation that says that it is in the
/// tables; none when there is nothing to say.
pub(super) fn left(conn: &Connection, database: &Path) -> rusqlite::Result<Result<Option<Left>, String>> {
    let (known, path) = (generation(conn)?, path(database));
    let bytes = match File::open(&path).and_then(|mut file| read(&mut file, 0, u64::MAX)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Ok(Err(format!("{} cannot be read: {error}", path.display()))),
    };
    Ok(match known {
        Some(known) => match frames::read(&bytes, known, 0) {
            // Of a frame that was cut short nothing is in force, and none that comes may be taken for it.
            Ok(parts) => Ok((!bytes.is_empty()).then_some((parts, known + 1))),
            Err(why) => Err(format!("{}: {why}", path.display())),
        },
        // What of it is in force is not known: whoever has something in it may lack it.
        None => {
            let feeds = frames::anybodys(&bytes).into_iter();
            // Any number that no frame has: none of another folder's either, should one come here.
            let next = RandomState::new().hash_one(0) >> 2;
            Ok(Some((feeds.map(|feed| Part { feed, record: None }).collect(), next)))
        }
    })
}

/// See [`left`].
pub(super) type Left = (Vec<Part>, u64);

/// The file as another program reads it, while a gateway may be at work. From here on no frame is written over.
pub(super) struct Reading(Option<File>);

impl Reading {
    /// Begins before anything of the database is read.
    pub(super) fn begin(database: &Path) -> Result<Reading, String> {
        let path = path(database);
        let wrong = |e: &dyn std::fmt::Display| format!("{} cannot be read: {e}", path.display());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reading(None)),
            Err(error) => return Err(wrong(&error)),
        };
        let patience = Instant::now() + LOCK_WITHIN;
        loop {
            match file.try_lock_shared() {
                Ok(()) => return Ok(Reading(Some(file))),
                Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(wrong(&"another program holds it")),
                Err(TryLockError::Error(error)) => return Err(wrong(&error)),
            }
        }
    }

    /// What belongs to the state of the database that this connection sees.
    pub(super) fn parts(&mut self, conn: &Connection) -> Result<Vec<Part>, String> {
        let known = generation(conn).map_err(|e| e.to_string())?;
        let Some(file) = &mut self.0 else { return Ok(Vec::new()) };
        let bytes = read(file, 0, u64::MAX).map_err(|e| e.to_string())?;
        match known {
            Some(known) => frames::read(&bytes, known, 0),
            None if bytes.is_empty() => Ok(Vec::new()),
            None => Err("what of the journal is in force cannot be read".into()),
        }
    }
}
