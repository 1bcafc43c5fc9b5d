//! Why a step of the writer could not be done: the disk, or one feed's records. The two have nothing in common: the
//! first fails every write of its commit group, the second concerns nobody but that feed.

use rusqlite::{Error, ErrorCode, ffi};

/// The outcome of a step that reads or writes the file.
pub(super) type Step<T> = Result<T, Fault>;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file cannot be read or written; a sentence for the operator. Nothing of the commit group happened.
    Disk(String),
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

    /// Of a commit, which concerns all feeds: whatever it is, it is the disk's.
    pub(super) fn of_commit(error: &Error) -> Fault {
        Fault::Disk(sentence(error))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match &error {
            // A page that cannot be read concerns those whose records stand on it.
            Error::SqliteFailure(ffi::Error { code: ErrorCode::DatabaseCorrupt, .. }, _)
            | Error::SqliteFailure(
                ffi::Error { extended_code: ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ, .. },
                _,
            )
            | Error::FromSqlConversionFailure(..)
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
