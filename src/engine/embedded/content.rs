//! Everything that a folder holds which no gateway uses, in memory.

use std::path::Path;

use super::file::{self, open_to_read};
use super::keyspace::Keyspace;
use super::reading;
use super::steady::Steady;
use crate::engine::folder::{self, Folder};
use crate::engine::protocol::owner::{Owners, feed_of};

/// What a folder holds. No gateway starts on the folder while this is there, and nothing is changed in it.
pub struct FolderContent {
    /// All keys, and what they hold.
    pub space: Keyspace,
    /// Names this content: another word when anything was written.
    pub name: String,
    clock: Steady,
    _folder: Folder,
}

impl FolderContent {
    /// Reads a folder that is not in use.
    ///
    /// # Errors
    /// What is wrong and what to do: also where anything in it is damaged.
    pub fn read(data_dir: &Path, owners: Owners) -> Result<FolderContent, String> {
        let path = folder::database(data_dir);
        // In front of the lock, for which a folder that is not there would be made.
        let conn = open_to_read(&path)?;
        let folder = Folder::own(data_dir)?;
        if folder.unfinished().exists() {
            return Err(format!(
                "a `tipcast store restore` or `recover` in the data folder {} was interrupted; run it again first",
                data_dir.display()
            ));
        }
        let explain = |error: rusqlite::Error| format!("{}: {}", path.display(), file::sentence(&error));
        let clock = Steady::of(&conn).map_err(explain)?;
        let found = reading::read(&conn, owners, clock.now()).map_err(explain)?;
        let damaged = found.damaged.iter().map(|(owner, what)| match feed_of(owner) {
            Some(feed) => format!("feed {}: {what}", String::from_utf8_lossy(feed)),
            None => what.clone(),
        });
        if let Some(what) = found.shared.iter().cloned().chain(damaged).next() {
            return Err(format!(
                "{} is damaged ({what}); `tipcast store check` says more, and `tipcast store recover` copies what can be read into \
                 a new file, from which this can go on",
                path.display()
            ));
        }
        let life = file::known_life(&conn).map_err(explain)?.unwrap_or_default();
        let name = format!("{life} {}", found.number);
        Ok(FolderContent { space: found.space, name, clock, _folder: folder })
    }

    /// The time by which its keys expire, in milliseconds since 1970.
    pub fn now(&self) -> i64 {
        self.clock.now()
    }
}
