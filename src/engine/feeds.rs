//! Lists of feeds: gifts in, changes out.
//!
//! Rows whose time has passed are removed before any operation looks at the list.

use std::sync::Arc;

use crate::domain::list::Goals;
use crate::domain::tally::TotalsView;
use crate::domain::{
    Change, Controls, Drops, FeedId, FeedList, Millis, Policy, PolicyPatch, Position, Row, Tag, Visibility,
};

/// Names of feeds that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRange {
    /// How they begin.
    pub begins: String,
    /// It is the whole name.
    pub is_whole: bool,
}

/// How a feed stands, in a list of feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSummary {
    /// Its name.
    pub feed: FeedId,
    /// Its newest change.
    pub at: Position,
    /// Rows of its list.
    pub rows: u64,
    /// Watchers on all nodes.
    pub watchers: u64,
    /// Who may see it.
    pub visibility: Visibility,
    /// When it changed last; `None` if it never did.
    pub last_at: Option<Millis>,
    /// What is stored of it cannot be read.
    pub is_damaged: bool,
}

/// A part of the list of feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    /// By name.
    pub feeds: Vec<FeedSummary>,
    /// Behind which name the next part begins, if there is one.
    pub next: Option<FeedId>,
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
    /// As they were announced at this position; see [`crate::engine::Store::claim_drop`].
    pub drops: Drops,
    /// Whether overlays are paused or muted.
    pub controls: Controls,
    /// Totals and leaders as they were announced at this position; see [`crate::engine::Store::read_totals`].
    pub totals: TotalsView,
    /// Goals as they were announced.
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

/// What [`crate::engine::Store::read_changes`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The next changes, without holes. Whether the first one follows what the caller saw is for
    /// the caller to check, by its `prev`.
    Changes(Vec<Change>),
    /// History does not lead on from there: another epoch, too old, or ahead of the feed.
    NotCovered,
}

/// The position of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedHead {
    /// Its position.
    pub at: Position,
    /// The mark of its last change.
    pub tag: Tag,
}
