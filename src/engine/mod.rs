//! Where feeds live. [`Engine`] is the contract; [`embedded`] and [`redis`] keep it, and one suite
//! of tests runs every case of it against both.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::list::Goals;
use crate::domain::tally::TotalsView;
use crate::domain::{
    Change, Controls, Drops, FeedId, FeedList, Gift, Millis, Outcome, Policy, PolicyPatch, Position, Row,
    RowId, Tag,
};

mod drops;
mod due;
pub mod embedded;
mod log_throttle;
pub mod metered;
mod moderation;
mod notices;
pub mod presence;
pub mod record;
pub mod redis;
mod reports;
mod requests;
mod review;
mod sources;
mod totals;
mod viewers;

pub use drops::DropStore;
pub use due::{
    DEAD_KEPT, DUE_BATCH, DUE_TRIES, DeadDue, DueDone, DueFate, DueFeed, DueHandled, DueRun, DueStore,
    DueTurn, ScheduledGift, ScheduledPage, Unscheduled, Wakes, rest_after,
};

pub use moderation::{FeedsShowing, ModerationStore, Walk};
pub use notices::{NOTICES, Notices, Subscription};
pub use presence::{Count, Presence, PresenceStore};

pub use reports::{
    Death, HOOKS_OF_ALL_MAX, JobDone, JobLease, JobStore, JobTurn, LISTED, LedgerStore, READERS_MAX,
    ReportLimits, ReportStore, Save, Swapped, Want, WebhookStore, Work,
};
pub use requests::{REQUEST_KEPT_MS, RequestStore, RequestUse};
pub use review::ReviewStore;
pub use sources::{Kept, REFUNDS_MAX, SOURCES_MAX, SourceStore};
pub use totals::{GoalPut, TotalsStore};
pub use viewers::{REVOKED_MAX, Revocation, RevokedAt, RevokedPage, ViewerStore};

/// What an engine call gives back: boxed, so that engines can stand behind `dyn`.
pub type Wait<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Gifts of one feed that may wait to be shown, unless the operator says otherwise.
pub const SCHEDULED_MAX: u64 = 100_000;

/// A whole store: its parts by thing, and what concerns all of them.
///
/// - Every call is one atomic step: it happened whole, or not at all.
/// - An `Ok` of a writing call means durable, to what the engine states (embedded: on disk; Redis:
///   the script returned).
/// - Every call ends within the engine's time-out. After [`EngineError::Unavailable`] a write may
///   or may not have happened; writing it again with the same gift id is safe.
/// - Nobody sees a change, by any call or subscription, before it is durable.
/// - `now` is the caller's clock. An engine whose store has a clock of its own may prefer that one
///   (several nodes share the store, and their clocks differ). No engine remembers it.
/// - A feed whose stored records cannot be read answers [`EngineError::FeedDamaged`] to every call that
///   needs them; no other feed notices.
pub trait Engine:
    FeedStore
    + DueStore
    + DropStore
    + ModerationStore
    + ReviewStore
    + PresenceStore
    + ReportStore
    + SourceStore
    + ViewerStore
    + RequestStore
    + TotalsStore
{
    /// Sends a mark through the publishing path of every part of the store that can fail by itself, and
    /// waits until they are back. An error when the operator would not call that ready: no part answers, or
    /// not all of them and all are wanted.
    fn probe(&self) -> Wait<'_, Shards>;

    /// [`Engine::probe`] for the part in which this feed lives.
    fn probe_feed<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, ()>;

    /// Finishes what was accepted and lets the store go. Later calls are
    /// [`EngineError::Unavailable`].
    fn close(&self) -> Wait<'_, ()>;

    /// What an operator should change though the store works; `None` when there is nothing to say.
    fn warning(&self) -> Option<String> {
        None
    }

    /// How often to probe while nobody asks whether the store is ready: each probe costs it something.
    fn probe_every(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// `"embedded"` or `"redis"`.
    fn name(&self) -> &'static str;

    /// Another number after each call through this handle that may have changed what the feed counts. It says nothing of
    /// other nodes' calls, and stays 0 where calls are not counted.
    fn writes(&self, _feed: &FeedId) -> u64 {
        0
    }
}

/// Lists of feeds: gifts in, changes out.
///
/// Rows whose time is over are removed before any call looks at the list.
pub trait FeedStore: Send + Sync + 'static {
    /// Takes gifts in order, at most 128 of them, as one step. An outcome each, in the same order.
    ///
    /// For each gift: its remembered id is decided first; then whether its giver is blocked or it waits for a host
    /// ([`ReviewStore`]); then whether it is for later
    /// ([`crate::domain::due_at`]), when it joins the feed's due queue unless that is full; then its
    /// combo or dedup lock; then it is a new row. Reading or refusing writes nothing. A gift that waits
    /// does not begin the feed.
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>>;

    /// Takes a row back. The position after it, or none when the row is not in the list.
    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>>;

    /// The policy in force.
    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy>;

    /// Changes the policy and answers the one now in force. A changed capacity takes a seq
    /// ([`crate::domain::Op::Reset`]) unless nobody wrote to the feed yet.
    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy>;

    /// The list as it stands. When the store has gone back behind, or forked from, what this process
    /// saw of it ([`FeedStore::known`]), the feed gets a new epoch first. Of a feed that nobody wrote to: empty, at [`Position::start`], and
    /// nothing is written.
    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot>;

    /// The changes after `since`, oldest first, at most `max` (≥ 1) of them; none when `since` is
    /// where the feed stands.
    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed>;

    /// Where feeds stand, in the order asked. Cheap: for comparing, every second or two.
    /// Does not sweep. Each feed has an answer of its own, for they may live in parts of the store that fail by
    /// themselves.
    fn heads<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>>;

    /// From the moment this returns, every change of the feed reaches the subscription, or
    /// [`Notice::Lost`] does. So does, as a notice without changes, what makes no change and yet is new for
    /// those who read the feed's ledger ([`ReportStore`]). Dropping it ends it.
    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription>;

    /// The furthest position of the feed that this process has seen acknowledged, if it remembers
    /// one. Never waits. What is shown to a newcomer must not be older.
    fn known(&self, feed: &FeedId) -> Option<Position>;
}

/// What to do to a feed's overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChange {
    /// PUT: what the patch leaves out goes back to the server's default.
    Replace(PolicyPatch),
    /// PATCH: what the patch leaves out stays.
    Merge(PolicyPatch),
}

/// A feed's list at one position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which position.
    pub at: Position,
    /// The mark of the change that led here; 0 at the start.
    pub tag: Tag,
    /// The policy in force.
    pub policy: Policy,
    /// Newest first.
    pub rows: Vec<Arc<Row>>,
    /// As watchers were told of them at this position; see [`DropStore`].
    pub drops: Drops,
    /// What overlays were told to do.
    pub controls: Controls,
    /// What watchers were told of totals and leaders at this position; see [`TotalsStore`].
    pub totals: TotalsView,
    /// What they were told of goals.
    pub goals: Goals,
    /// The store's clock.
    pub now: Millis,
}

impl Snapshot {
    /// The list alone.
    pub fn into_list(self) -> FeedList {
        let Snapshot { at, rows, drops, controls, totals, goals, .. } = self;
        FeedList { at, rows: rows.into(), drops, controls, totals, goals }
    }
}

/// What [`FeedStore::changes`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The next changes, without holes. Whether the first one follows what the caller saw is for
    /// the caller to check, by its `prev`.
    Changes(Vec<Change>),
    /// History does not lead on from there: another epoch, too old, or ahead of the feed.
    NotCovered,
}

/// Where a feed stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its position.
    pub at: Position,
    /// The mark of its last change.
    pub tag: Tag,
}

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

/// What a subscription tells.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Changes of one feed, in order.
    Changes(Arc<[Change]>),
    /// The feed's policy is another now; the store says which.
    Policy,
    /// Something may have been missed: compare positions with the store.
    Lost,
}

/// Why an engine could not do its work. Never the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineError {
    /// The store does not answer, or refuses to write. Says why, for the log and `/readyz`.
    Unavailable(String),
    /// The store has the write, but not on as many replicas as the operator wants. Says why. Asking again with
    /// the same id is safe.
    NotReplicated(String),
    /// More is waiting than the engine will hold; says what is full.
    Overloaded(&'static str),
    /// The stored records of this feed cannot be read. Says which record and why, for the log. No other feed
    /// is touched, and asking again does not help until an operator restored it.
    FeedDamaged(String),
    /// The store cannot be opened; says why and what to do.
    Open(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            EngineError::NotReplicated(why) => write!(f, "too few replicas have it: {why}"),
            EngineError::Overloaded(what) => write!(f, "the {what} is full; try again shortly"),
            EngineError::FeedDamaged(why) => write!(f, "the feed's stored records are damaged: {why}"),
            EngineError::Open(why) => write!(f, "the store cannot be opened: {why}"),
        }
    }
}

impl std::error::Error for EngineError {}
