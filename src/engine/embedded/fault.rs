//! Why a step of the writer could not be done: the disk, a page of the file, or one feed's records. They have nothing in
//! common: the first fails every write of its commit group; after the second the file is mended, and the group is run
//! again; the third concerns nobody but that feed.

use rusqlite::{Error, ErrorCode, ffi};

/// The outcome of a step that reads or writes the file.
pub type Step<T> = Result<T, Fault>;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file cannot be read or written; a sentence for the operator. Nothing of the commit group happened.
    Disk(String),
    /// A page of the file cannot be read. Whose records are lost with it shows when the file is mended.
    Unreadable(String),
    /// What was read is not what was written; says which record and why.
    Garbled(String),
    /// The feed is known to be damaged, and by which record.
    Damaged(String),
}

impl Fault {
    /// A record whose text is not what it should be.
    pub(super) fn garbled(what: impl Into<String>) -> Fault {
        Fault::Garbled(what.into())
    }

    /// What to say of it.
    pub(super) fn why(self) -> String {
        let (Fault::Disk(why) | Fault::Unreadable(why) | Fault::Garbled(why) | Fault::Damaged(why)) = self;
        why
    }

    /// Of a commit, which concerns all feeds: it is never one record's.
    pub(super) fn of_commit(error: &Error) -> Fault {
        if is_unreadable(error) { Fault::Unreadable(error.to_string()) } else { Fault::Disk(sentence(error)) }
    }
}

/// True when this says that a page of the file cannot be read, or is not what it should be.
pub(super) fn is_unreadable(error: &Error) -> bool {
    let Error::SqliteFailure(ffi::Error { code, extended_code }, _) = error else { return false };
    *code == ErrorCode::DatabaseCorrupt
        || [ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_SHORT_READ, ffi::SQLITE_IOERR_CORRUPTFS]
            .contains(extended_code)
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match &error {
            error if is_unreadable(error) => Fault::Unreadable(error.to_string()),
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..) => Fault::Garbled(error.to_string()),
            _ => Fault::Disk(sentence(&error)),
        }
    }
}

/// What the operator can do about it.
pub(super) fn sentence(error: &Error) -> String {
    use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure};
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "the disk of the data folder is full; free some room",
        Some(ReadOnly) => "the data folder is read-only; make it writable",
        Some(DatabaseBusy) => "another program holds the database; close it",
        Some(DatabaseCorrupt | NotADatabase) => "the database is damaged; stop, and restore it from a backup",
        Some(SystemIoFailure) => "the disk of the data folder fails; look at the system's log",
        _ => "the database refused",
    };
    format!("{advice} ({error})")
}
