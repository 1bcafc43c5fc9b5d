//! What engines say of reports: the ledger, who reads it, and whose turn it is to be sent.
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

use std::sync::Arc;

use super::operation::operation;
use crate::domain::ledger::LedgerPart;
use crate::domain::pull::Seek;
use crate::domain::signature::SigningKey;
use crate::domain::story::{EntryState, GiftMemory};
use crate::domain::{
    Ask, Cursor, DeadLetter, Entry, FeedId, GiftId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis,
    Reader, Replay, Taken,
};

/// Readers of one feed at most, groups and webhooks together. Each publish that trims looks at them all.
pub const READERS_MAX: usize = 64;

/// Webhooks of all feeds at most: each is a reader of every feed.
pub const HOOKS_OF_ALL_MAX: usize = 16;

/// Readers or webhooks in one listing.
pub const LISTED: usize = 1_000;

/// How much is kept of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Entries that every ledger keeps, whoever has read them.
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

/// Hands entries to a claimer; none when the group would be one reader too many. Makes the group when
/// there is none, with at most `ledger_max` entries to read.
///
/// First those whose lease ran out or that were given back, then those never handed out, all together in
/// the ledger's order. An entry that was handed out `max_attempts` times becomes a dead letter instead.
#[derive(Clone, Debug)]
pub struct ClaimEntries {
    pub feed: FeedId,
    pub group: GroupId,
    pub ask: Ask,
    pub now: Millis,
}

operation!(ClaimEntries -> Option<Taken>, TakeEntries, feed: feed, now: now);

/// Acknowledges entries that are pending, also when their lease ran out or moved on. How many were; none
/// when there is no such group. Other cursors change nothing.
#[derive(Clone, Debug)]
pub struct AckEntries {
    pub feed: FeedId,
    pub group: GroupId,
    pub cursors: Vec<Cursor>,
    pub now: Millis,
}

operation!(AckEntries -> Option<u64>, AckEntries, feed: feed, now: now);

/// Gives entries that are pending back, for the next claimer, after a pause of 1, 2, 4 … 60 s by attempt; one that was handed out
/// `max_attempts` times is a dead letter. Subscriptions of the feed are notified.
/// How many were; none when there is no such group.
#[derive(Clone, Debug)]
pub struct NackEntries {
    pub feed: FeedId,
    pub group: GroupId,
    pub cursors: Vec<Cursor>,
    pub now: Millis,
}

operation!(NackEntries -> Option<u64>, NackEntries, feed: feed, now: now);

/// Entries of a feed's ledger from `from` on, or from the oldest that is kept; nobody is handed them.
#[derive(Clone, Debug)]
pub struct ReadLedger {
    pub feed: FeedId,
    pub from: Cursor,
    pub max: usize,
    pub now: Millis,
}

operation!(ReadLedger -> LedgerPart, Readers, feed: feed, now: now);

/// Moves a group. What it has pending is dropped from it. Returns the number of the entry that it is handed next, or `None`
/// when there is no such group.
#[derive(Clone, Debug)]
pub struct SeekGroup {
    pub feed: FeedId,
    pub group: GroupId,
    pub to: Seek,
    pub now: Millis,
}

operation!(SeekGroup -> Option<Cursor>, Readers, feed: feed, now: now);

/// How a group stands; none when there is no such group.
#[derive(Clone, Debug)]
pub struct ReadGroup {
    pub feed: FeedId,
    pub group: GroupId,
    pub now: Millis,
}

operation!(ReadGroup -> Option<GroupView>, Readers, feed: feed, now: now);

/// Reads what is remembered of a gift. `None`: its id is unknown, or was forgotten.
#[derive(Clone, Debug)]
pub struct ReadGift {
    pub feed: FeedId,
    pub id: GiftId,
    pub now: Millis,
}

operation!(ReadGift -> Option<GiftMemory>, Readers, feed: feed, now: now);

/// Reads what a reader has done with an entry of its feed's ledger. `None`: it does not read there, or began after that entry.
#[derive(Clone, Debug)]
pub struct ReadEntryState {
    pub feed: FeedId,
    pub reader: Reader,
    pub cursor: Cursor,
    pub now: Millis,
}

operation!(ReadEntryState -> Option<EntryState>, Readers, feed: feed, now: now);

/// Forgets a group with all it has; false when there is no such group.
#[derive(Clone, Debug)]
pub struct DeleteGroup {
    pub feed: FeedId,
    pub group: GroupId,
}

operation!(DeleteGroup -> bool, Readers, feed: feed);

/// Groups and webhooks of one feed, or groups of all feeds, by name; at most [`LISTED`].
#[derive(Clone, Debug)]
pub struct ListReaders {
    pub feed: Option<FeedId>,
}

operation!(ListReaders -> Vec<(FeedId, Reader)>, Readers, store);

/// A reader's dead letters, the oldest first.
#[derive(Clone, Debug)]
pub struct ListDeadLetters {
    pub feed: FeedId,
    pub reader: Reader,
    /// How many of the oldest are left out.
    pub skip: usize,
    /// The most that are given.
    pub max: usize,
}

operation!(ListDeadLetters -> Vec<DeadLetter>, Letters, feed: feed);

/// Sends dead letters again: a group's next claimers get them, a webhook sends them before anything else.
/// Takes them off the list. How many there were.
#[derive(Clone, Debug)]
pub struct ReplayDeadLetters {
    pub feed: FeedId,
    pub reader: Reader,
    pub which: Replay,
    pub now: Millis,
}

operation!(ReplayDeadLetters -> u64, Letters, feed: feed, now: now);

/// Feeds in which a webhook of all feeds has, or had lately, dead letters; at most [`LISTED`].
#[derive(Clone, Debug)]
pub struct ListDeadLetterFeeds {
    pub hook: HookId,
}

operation!(ListDeadLetterFeeds -> Vec<FeedId>, Letters, store);

/// A webhook; none when there is no such one.
#[derive(Clone, Debug)]
pub struct ReadWebhook {
    pub key: HookKey,
}

operation!(ReadWebhook -> Option<Hook>, Hooks, store);

/// Every webhook in the store, by scope and name; at most [`LISTED`].
#[derive(Clone, Debug)]
pub struct ListWebhooks;

operation!(ListWebhooks -> Vec<(HookKey, Hook)>, Hooks, store);

/// The key with which this installation signs what it sends to webhooks; made when it is asked for first.
#[derive(Clone, Debug)]
pub struct ReadSigningKey;

operation!(ReadSigningKey -> Arc<SigningKey>, Hooks, store);

/// Puts `to` (none: nothing) in the place of a webhook whose version is `was` (none: there is none). A new
/// one begins to read at the ledger's end, or one of all feeds with what comes from `since` on; one that
/// goes takes all it has along.
#[derive(Clone, Debug)]
pub struct SwapWebhook {
    pub key: HookKey,
    pub was: Option<u64>,
    pub to: Option<Hook>,
    pub now: Millis,
}

operation!(SwapWebhook -> Swapped, Hooks, store, now: now);

/// Gives turns that are over back, and takes at most `max` jobs whose time has come, those that wait
/// longest first. A turn that is not given back ends by itself after `lease_ms`.
///
/// A job is there from the first entry for a webhook that rests, `batch_ms` later.
#[derive(Clone, Debug)]
pub struct ClaimJobs {
    pub over: Vec<JobDone>,
    pub max: usize,
    pub lease_ms: u64,
    pub now: Millis,
}

operation!(ClaimJobs -> JobTurn, ClaimJobs, store, now: now);

/// What a webhook has to send in a feed; none when it does not read there, or is no more. When there is
/// nothing, it rests from then on, or soon ([`Work::look_ms`]): the next entry makes it a job again,
/// `batch_ms` later.
#[derive(Clone, Debug)]
pub struct OpenJob {
    pub job: Job,
    pub want: Want,
    pub now: Millis,
}

operation!(OpenJob -> Option<Work>, OpenJob, feed: job.feed, now: now);

/// Keeps what was done, if what is known of the job's progress is still `save.was`, and answers as
/// [`super::OpenJob`] does then. None: somebody else went on, and nothing was changed.
#[derive(Clone, Debug)]
pub struct SaveJob {
    pub job: Job,
    pub save: Save,
    pub want: Want,
    pub now: Millis,
}

operation!(SaveJob -> Option<Work>, SaveJob, feed: job.feed, now: now);

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

/// A turn that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDone {
    /// As it was in [`JobLease`].
    pub job: Job,
    /// As it was in [`JobLease`].
    pub token: String,
    /// In how many milliseconds the job is to be looked at again; none when it rests, or is no more.
    pub next_in_ms: Option<u64>,
}

/// The answer to [`ClaimJobs`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTurn {
    /// Jobs whose time has come.
    pub jobs: Vec<JobLease>,
    /// When the next one will be, in milliseconds from now; none when there is none.
    pub next_in_ms: Option<u64>,
    /// Jobs that there are.
    pub waiting: u64,
}

/// What the caller of [`OpenJob`] can use.
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
    /// yet; none when it rests from now on. A webhook that is busy off and on so costs its publishers less.
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
