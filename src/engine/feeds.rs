//! Lists of feeds: gifts in, changes out.
//!
//! Rows whose time is over are removed before any operation looks at the list.

use std::sync::Arc;

use super::EngineError;
use super::notices::Subscription;
use super::operation::operation;
use crate::domain::list::Goals;
use crate::domain::tally::TotalsView;
use crate::domain::{
    Change, Controls, Drops, FeedId, FeedList, Gift, Millis, Outcome, Policy, PolicyPatch, Position, Row,
    RowId, Tag,
};

/// Takes gifts in order, at most 128 of them, as one step. An outcome each, in the same order.
///
/// For each gift: its remembered id is decided first; then whether its giver is blocked or it waits for a host
/// ([`super::DecideReview`]); then whether it is for later
/// (its own time replaces the policy's delay, and one that is not in the future is at once), when it joins the feed's due queue unless that is full; then its
/// combo or dedup lock; then it is a new row. Reading or refusing writes nothing. A gift that waits
/// does not begin the feed.
#[derive(Clone, Debug)]
pub struct Publish {
    pub feed: FeedId,
    pub gifts: Vec<Gift>,
    pub now: Millis,
}

operation!(Publish -> Vec<Outcome>, Publish, feed: feed, now: now, record: super::counted::gifts);

/// Takes a row back. The position after it, or none when the row is not in the list.
#[derive(Clone, Debug)]
pub struct RetractRow {
    pub feed: FeedId,
    pub row: RowId,
    pub now: Millis,
}

operation!(RetractRow -> Option<Position>, Retract, feed: feed, now: now, record: super::counted::retracted_row);

/// The policy in force.
#[derive(Clone, Debug)]
pub struct ReadPolicy {
    pub feed: FeedId,
}

operation!(ReadPolicy -> Policy, Policy, feed: feed);

/// Changes the policy and answers the one now in force. A changed capacity takes a seq
/// ([`crate::domain::Op::Reset`]) unless nobody wrote to the feed yet.
#[derive(Clone, Debug)]
pub struct SetPolicy {
    pub feed: FeedId,
    pub change: PolicyChange,
    pub now: Millis,
}

operation!(SetPolicy -> Policy, SetPolicy, feed: feed, now: now);

/// The list as it stands. When the store has gone back behind, or forked from, what this process
/// saw of it ([`super::Engine::known`]), the feed gets a new epoch first. Of a feed that nobody wrote to: empty, at [`Position::start`], and
/// nothing is written.
#[derive(Clone, Debug)]
pub struct ReadSnapshot {
    pub feed: FeedId,
    pub now: Millis,
}

operation!(ReadSnapshot -> Snapshot, Snapshot, feed: feed, now: now);

/// The changes after `since`, oldest first, at most `max` (≥ 1) of them; none when `since` is
/// where the feed stands.
#[derive(Clone, Debug)]
pub struct ReadChanges {
    pub feed: FeedId,
    pub since: Position,
    pub max: usize,
}

operation!(ReadChanges -> Missed, Changes, feed: feed);

/// Where feeds stand, in the order asked. Cheap: for comparing, every second or two.
/// Does not sweep. Each feed has an answer of its own, for they may live in parts of the store that fail by
/// themselves.
#[derive(Clone, Debug)]
pub struct ReadHeads {
    pub feeds: Vec<FeedId>,
}

operation!(ReadHeads -> Vec<Result<Head, EngineError>>, Heads, store);

/// From the moment this returns, every change of the feed reaches the subscription, or
/// [`super::Notice::Lost`] does. So does, as a notice without changes, what makes no change and yet is new for
/// those who read the feed's ledger ([`super::ClaimEntries`]). Dropping it ends it.
#[derive(Clone, Debug)]
pub struct Subscribe {
    pub feed: FeedId,
}

operation!(Subscribe -> Subscription, Subscribe, store);

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
    /// As watchers were told of them at this position; see [`super::ClaimDrop`].
    pub drops: Drops,
    /// What overlays were told to do.
    pub controls: Controls,
    /// What watchers were told of totals and leaders at this position; see [`super::ReadTotals`].
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

/// What [`ReadChanges`] found.
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
