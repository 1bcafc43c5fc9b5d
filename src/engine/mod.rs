//! Where feeds are stored. [`Store`] has a method for each operation, in the folder of its subject in `store`, beside its script's call. Its
//! scripts run in Redis or in this process. One suite of tests runs every case against both.
//!
//! - Every operation is one atomic step: it happened whole, or not at all.
//! - An `Ok` of one that writes means durable, to what the store states (embedded: on disk; Redis: the script returned).
//! - Every operation ends within the store's time-out. After [`StoreError::Unavailable`] a write may or may not have
//!   happened; writing it again with the same gift id is safe.
//! - Nobody sees a change, by any operation or subscription, before it is durable.
//! - `now` is the caller's clock. A store with a clock of its own may prefer that one (several nodes share
//!   it, and their clocks differ). No store remembers it.
//! - A feed whose stored records cannot be read answers [`StoreError::FeedDamaged`] to every operation that needs them;
//!   no other feed notices.

use std::fmt;
use std::sync::Arc;

use crate::domain::Change;
use crate::metrics::labels::Failure;

mod counted;
mod due;
pub mod embedded;
mod feeds;
mod folder;
mod moderation;
pub mod nodes;
mod notices;
pub mod presence;
pub mod protocol;
mod redis;
mod reports;
mod requests;
mod sources;
pub mod store;
mod totals;
mod viewers;
mod writes;

pub use due::*;
pub use feeds::*;
pub use moderation::*;
pub use notices::{MAX_QUEUED_NOTICES, Notices, Subscription};
pub use presence::{Count, Presence};
pub use reports::*;
pub use requests::*;
pub use sources::*;
pub use store::Store;
#[cfg(any(test, feature = "faults"))]
pub use store::test_store;
pub use totals::*;
pub use viewers::*;

/// Gifts of one feed that may wait to be shown, unless the operator says otherwise.
pub const SCHEDULED_MAX: u64 = 100_000;

/// The parts of a store that fail by themselves: one for an embedded store or a single Redis, as many as it has
/// primaries for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    /// Those that answer.
    pub up: usize,
    /// Those that do not.
    pub down: usize,
}

impl Shards {
    /// A store that works or fails as a whole, and works.
    pub const WHOLE: Shards = Shards { up: 1, down: 0 };
}

/// What a subscription receives.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Changes of one feed, in order.
    Changes(Arc<[Change]>),
    /// The feed's policy is another now; the store says which.
    Policy,
    /// Something may have been missed: compare positions with the store.
    Lost,
}

/// What the store answers.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store could not do its work. Never the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The store does not answer, or refuses to write. Says why, for the log and `/readyz`.
    Unavailable(String),
    /// The store has the write, but not on as many replicas as the operator wants. Says why. Asking again with
    /// the same id is safe.
    NotReplicated(String),
    /// The store's memory is full, so nothing was written. The text says what to do, for the log and `/readyz`.
    StoreFull(String),
    /// More is waiting than the store will hold; says what is full.
    Overloaded(&'static str),
    /// The stored records of this feed cannot be read. Says which record and why, for the log. No other feed
    /// is touched, and asking again does not help until an operator restored it.
    FeedDamaged(String),
    /// The store cannot be opened; says why and what to do.
    Open(String),
}

impl StoreError {
    /// The kind under which it is counted.
    pub fn failure(&self) -> Failure {
        match self {
            StoreError::Overloaded(_) => Failure::Overloaded,
            StoreError::FeedDamaged(_) => Failure::Damaged,
            StoreError::NotReplicated(_) => Failure::NotReplicated,
            StoreError::StoreFull(_) => Failure::Full,
            StoreError::Unavailable(_) | StoreError::Open(_) => Failure::Unavailable,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            StoreError::NotReplicated(why) => write!(f, "too few replicas have it: {why}"),
            StoreError::StoreFull(why) => write!(f, "the store is full: {why}"),
            StoreError::Overloaded(what) => write!(f, "the {what} is full; try again shortly"),
            StoreError::FeedDamaged(why) => write!(f, "the feed's stored records are damaged: {why}"),
            StoreError::Open(why) => write!(f, "the store cannot be opened: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}
