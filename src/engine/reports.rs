//! What stores say of reports: the ledger, who reads it, and whose turn it is to be sent.
//!
//! Ledgers of feeds and those who read them.
//!
//! - Every gift that is accepted, merged or suppressed and no test, and every sale of a drop, is an entry of
//!   its feed's ledger, once, in the very step in which that happens. Entries are numbered without holes.
//! - A ledger keeps its newest `ledger_max` entries, and everything that any reader has not acknowledged, up to
//!   the bounds of [`ReportLimits`]. It does not expire with an idle feed.
//! - A reader's dead letters and what is sent again are kept beside the ledger: trimming does not touch them.
//!
//! Webhooks: where deliveries go, and how. A webhook reads one feed or all of them.
//!
//! Which webhook has something to send in which feed, and whose turn it is to send it.

use crate::domain::{Cursor, Entry, Job, Millis};

/// Readers of one feed at most, groups and webhooks together. Each publish that trims looks at them all.
pub const READERS_MAX: usize = 64;

/// Webhooks of all feeds at most: each is a reader of every feed.
pub const HOOKS_OF_ALL_MAX: usize = 16;

/// Attempts kept of each webhook.
pub const ATTEMPTS_KEPT: usize = 50;

/// How long they are kept, in milliseconds.
pub const ATTEMPTS_KEPT_MS: u64 = crate::domain::limits::WEEK_MS;

/// Readers or webhooks in one listing.
pub const MAX_LISTED: usize = 1_000;

/// How much is kept of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Entries that every ledger keeps, read or not.
    pub ledger_max: u64,
    /// Entries that a ledger keeps for readers that have not acknowledged them. What has to be cut beyond
    /// is counted as lost for each, logged, and in the metrics.
    pub backlog_max: u64,
    /// Unacknowledged entries that are older are cut in the same way; milliseconds, 0 never. Looked at when
    /// a ledger is trimmed.
    pub max_age_ms: u64,
    /// How often a group's entry is handed out before it is dead.
    pub max_attempts: u64,
    /// Dead letters that are kept for each reader of a feed beyond those whose entries the ledger has. The oldest make room, and count
    /// as lost.
    pub dead_max: u64,
}

impl Default for ReportLimits {
    fn default() -> ReportLimits {
        ReportLimits {
            ledger_max: 10_000,
            backlog_max: 1_000_000,
            max_age_ms: crate::domain::limits::WEEK_MS,
            max_attempts: 16,
            dead_max: 1_000,
        }
    }
}

/// What became of the wish to change a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is done.
    Done,
    /// It is not as the caller thought; nothing was changed.
    Stale,
    /// There are as many as there may be.
    Full,
}

/// A job whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLease {
    /// Which one.
    pub job: Job,
    /// To be given back in [`JobDone`].
    pub token: String,
}

/// A lease that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDone {
    /// As it was in [`JobLease`].
    pub job: Job,
    /// As it was in [`JobLease`].
    pub token: String,
    /// Milliseconds until the job is to be looked at again; `None` if it is idle or deleted.
    pub next_in_ms: Option<u64>,
}

/// The answer to [`crate::engine::Store::claim_jobs`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTurn {
    /// Jobs whose time has come.
    pub jobs: Vec<JobLease>,
    /// Milliseconds until the next one is due; `None` if there is no job.
    pub next_in_ms: Option<u64>,
    /// Jobs that there are.
    pub waiting: u64,
}

/// What the caller of [`crate::engine::Store::open_job`] can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Entries at most, of each kind.
    pub most: usize,
    /// The webhook's.
    pub batch_ms: u64,
}

/// What a webhook has to send in a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// As it was saved last; `""` before the first time.
    pub progress: String,
    /// The oldest entries that are not done with, in the ledger's order, without holes.
    pub entries: Vec<Entry>,
    /// How many there are in all.
    pub backlog: u64,
    /// Entries that are sent again, the oldest first.
    pub again: Vec<Entry>,
    /// The store's clock.
    pub now: Millis,
    /// When there is nothing: in how many milliseconds it is to be looked at again, because it does not rest
    /// yet; `None` if it is idle from now on. So a webhook that is busy off and on costs its publishers less.
    pub look_ms: Option<u64>,
}

/// What was done for a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Save {
    /// The progress that this goes on from.
    pub was: String,
    /// The progress from now on: a line of text, for the caller alone.
    pub progress: String,
    /// Entries of the ledger up to here are done with.
    pub through: Option<Cursor>,
    /// Entries that were sent again and are done with.
    pub again: Vec<Cursor>,
    /// Those among both that become dead letters.
    pub dead: Vec<Death>,
}

/// An entry that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which one.
    pub cursor: Cursor,
    /// How often it was sent.
    pub attempts: u64,
    /// Why.
    pub reason: String,
}
