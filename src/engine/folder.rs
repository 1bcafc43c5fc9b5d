//! The folder of the store: who owns it, who may look into it, and how much room there is.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another process may take to leave the folder.
const LOCK_WITHIN: Duration = Duration::from_secs(1);

/// The file that is locked.
const LOCK: &str = "tipcast.lock";

/// A copy that is being brought back, and what SQLite makes beside it.
const UNFINISHED: [&str; 8] = [
    "tipcast.db.unfinished",
    "tipcast.db.unfinished-journal",
    "tipcast.db.unfinished-wal",
    "tipcast.db.unfinished-shm",
    "tipcast.db.unfinished.image",
    "tipcast.db.unfinished.image-journal",
    "tipcast.db.unfinished.image-wal",
    "tipcast.db.unfinished.image-shm",
];

/// Less than this is no room: a large call could not be written.
const MIN_FREE_BYTES: u64 = 2 << 20;

/// A folder that is ours for as long as this value lives.
pub(in crate::engine) struct Folder {
    dir: PathBuf,
    /// The folder was not there before.
    is_new: bool,
    /// Nobody had used it before.
    is_unused: bool,
    _lock: File,
}

impl Folder {
    /// Makes the folder when it is missing, for its owner alone, and takes its lock.
    pub(in crate::engine) fn own(dir: &Path) -> Result<Folder, String> {
        let shown = dir.display();
        let (is_new, name) = (!dir.exists(), dir.join(LOCK));
        make(dir).map_err(|e| format!("the data folder {shown} cannot be made: {e}"))?;
        let is_unused = !name.exists();
        loop {
            let lock = private(OpenOptions::new().create(true).write(true).truncate(false))
                .open(&name)
                .map_err(|e| format!("the data folder {shown} cannot be written: {e}"))?;
            take(&lock, dir)?;
            // One that left the folder meanwhile took the file along: its lock means nothing.
            if is_at(&lock, &name) {
                return Ok(Folder { dir: dir.to_owned(), is_new, is_unused, _lock: lock });
            }
        }
    }

    /// Takes away what [`Folder::own`] made.
    pub(in crate::engine) fn leave(self) {
        if self.is_unused {
            let _ = std::fs::remove_file(self.dir.join(LOCK));
        }
        if self.is_new {
            // Not empty: somebody else uses it already.
            let _ = std::fs::remove_dir(&self.dir);
        }
    }

    /// Where a copy is written before it takes the place of the database.
    pub(in crate::engine) fn unfinished(&self) -> PathBuf {
        self.dir.join(UNFINISHED[0])
    }

    /// Removes what a copy that was not finished left behind.
    pub(in crate::engine) fn remove_unfinished(&self) {
        UNFINISHED.iter().for_each(|name| drop(std::fs::remove_file(self.dir.join(name))));
    }

    /// Where the database is.
    pub(in crate::engine) fn database(&self) -> PathBuf {
        database(&self.dir)
    }

    /// Makes the database's file for its owner alone: what SQLite makes beside it gets the same rights.
    pub(in crate::engine) fn make_private(&self) -> std::io::Result<()> {
        for name in ["tipcast.db", "tipcast.db-wal", "tipcast.db-shm", "tipcast.lock"] {
            close_off(&self.dir.join(name));
        }
        private(OpenOptions::new().create(true).append(true)).open(self.database()).map(drop)
    }

    /// The files that a store has open once it was opened.
    pub(in crate::engine) fn open_files(&self) -> OpenFiles {
        let paths = ["tipcast.db", "tipcast.db-wal", LOCK].map(|name| self.dir.join(name));
        let files =
            paths.into_iter().filter_map(|path| file_id(std::fs::metadata(&path)).map(|id| (path, id)));
        OpenFiles { dir: self.dir.clone(), files: files.collect() }
    }

    /// What is in the folder, but for the lock and what a copy that was not finished left behind.
    pub(in crate::engine) fn holds(&self) -> std::io::Result<Option<PathBuf>> {
        let ours = |name: &str| name == LOCK || UNFINISHED.contains(&name);
        let mut others = std::fs::read_dir(&self.dir)?.filter_map(Result::ok).map(|entry| entry.path());
        Ok(others.find(|path| !path.file_name().and_then(|name| name.to_str()).is_some_and(ours)))
    }
}

/// The database of a data folder.
pub(in crate::engine) fn database(dir: &Path) -> PathBuf {
    dir.join("tipcast.db")
}

/// Takes the folder's lock. A process that is just leaving gets a moment to do so.
fn take(lock: &File, dir: &Path) -> Result<(), String> {
    let patience = Instant::now() + LOCK_WITHIN;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another tipcast process uses the data folder {}; stop it, or give this one its own with \
                     --data-dir",
                    dir.display()
                ));
            }
            Err(TryLockError::Error(e)) => return Err(format!("{} cannot be locked: {e}", dir.display())),
        }
    }
}

/// Which files a store has open, by device and number.
pub(in crate::engine) struct OpenFiles {
    dir: PathBuf,
    files: Vec<(PathBuf, FileId)>,
}

impl OpenFiles {
    /// An error when the disk has hardly any room left.
    #[cfg(unix)]
    pub(in crate::engine) fn have_room(&self) -> Result<(), String> {
        // A file system that does not say counts as one with room.
        let Ok(disk) = rustix::fs::statvfs(&self.dir) else { return Ok(()) };
        let left = disk.f_bavail.saturating_mul(disk.f_frsize);
        match left {
            left if left < MIN_FREE_BYTES && disk.f_blocks > 0 => Err(format!(
                "the disk of the data folder {} is full: {} KiB are left; free some room",
                self.dir.display(),
                left / 1024
            )),
            _ => Ok(()),
        }
    }

    /// Nothing is known of the disk here.
    #[cfg(not(unix))]
    pub(in crate::engine) fn have_room(&self) -> Result<(), String> {
        let _ = (MIN_FREE_BYTES, &self.dir);
        Ok(())
    }

    /// An error when one of them has lost its name, or the name leads to another file.
    pub(in crate::engine) fn are_in_place(&self) -> Result<(), String> {
        let gone = self.files.iter().find(|(path, id)| file_id(std::fs::metadata(path)) != Some(*id));
        gone.map_or(Ok(()), |(path, _)| {
            Err(format!(
                "{} was removed, moved or replaced while this process had it open: what is written now would be lost. Put it back, or \
                 start the gateway again",
                path.display()
            ))
        })
    }
}

/// A file's device and number.
type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(meta: std::io::Result<std::fs::Metadata>) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    meta.ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Files have no numbers here, so this only says whether the file exists.
#[cfg(not(unix))]
fn file_id(meta: std::io::Result<std::fs::Metadata>) -> Option<FileId> {
    meta.ok().map(|_| (0, 0))
}

/// True when this open file is the one that has the name.
fn is_at(file: &File, name: &Path) -> bool {
    file_id(file.metadata()).is_some_and(|open| file_id(std::fs::metadata(name)) == Some(open))
}

#[cfg(unix)]
fn make(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// For files that only their owner may read.
#[cfg(unix)]
pub(in crate::engine) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

/// Takes everybody else's rights from a file that there is.
#[cfg(unix)]
fn close_off(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if path.exists()
        && let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
    {
        tracing::warn!(%error, file = %path.display(), "others may be able to read this file");
    }
}

#[cfg(not(unix))]
fn make(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)
}

/// Rights are the folder's here.
#[cfg(not(unix))]
pub(in crate::engine) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(not(unix))]
fn close_off(_: &Path) {}
