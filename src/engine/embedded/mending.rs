//! When the file is to be mended, because a page of it cannot be read, and the file as it is closed for that and opened again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::db::Db;
pub(super) use super::mend::Unmended;
use super::open;
use crate::domain::FeedId;

/// How soon after it was mended the file may be mended again.
const EVERY: Duration = Duration::from_secs(600);

/// Feeds of which something is lost, and of what.
pub(super) type Lost = BTreeMap<FeedId, String>;

/// See the module.
pub(super) struct Mending {
    file: PathBuf,
    /// Why the file must be mended before the group that is committed next can go on, if it must.
    wanted: Option<String>,
    /// When the file was mended last, or could not be.
    done: Option<Instant>,
    /// True while the file is closed because it could not be opened again.
    is_closed: bool,
}

impl Mending {
    /// Of a file that is open.
    pub(super) fn new(file: PathBuf) -> Mending {
        Mending { file, wanted: None, done: None, is_closed: false }
    }

    /// The group cannot go on before the file was mended.
    pub(super) fn wants(&mut self, why: &str) {
        self.wanted = Some(why.to_owned());
    }

    /// Why the group cannot go on before, if that is so.
    pub(super) fn wanted(&self) -> Option<String> {
        self.wanted.clone()
    }

    /// The group was taken back.
    pub(super) fn taken_back(&mut self) {
        self.wanted = None;
    }

    /// False for a while after the file was mended, or could not be.
    pub(super) fn may(&self) -> bool {
        self.done.is_none_or(|at| at.elapsed() >= EVERY)
    }

    /// It was mended, or could not be.
    pub(super) fn is_done(&mut self) {
        self.done = Some(Instant::now());
    }

    /// Closes the file and mends it: of which feeds something is lost, or why it stays as it is. It is to be opened again.
    pub(super) fn mend(&mut self, db: &mut Db, why: &str) -> Result<Result<Lost, Unmended>, String> {
        let nothing = Connection::open_in_memory().map_err(|e| e.to_string())?;
        drop(std::mem::replace(db, Db::new(nothing)));
        self.is_closed = true;
        Ok(open::mend(&self.file, why))
    }

    /// Opens the file again if it had to be closed.
    pub(super) fn reopen(&mut self, db: &mut Db) -> Result<(), String> {
        if std::mem::take(&mut self.is_closed) {
            let reopened = open::reopen(&self.file);
            self.is_closed = reopened.is_err();
            *db = reopened?;
        }
        Ok(())
    }
}
