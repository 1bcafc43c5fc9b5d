//! What a store of feeds does with totals, leaders, sessions and goals.
//!
//! What feeds count ([`crate::domain::tally`]).
//!
//! - A gift is counted in the step that takes it, and taken back in the step that takes it back: whatever dies, it
//!   counts once. Every answer here counts what was acknowledged before it was asked.
//! - What watchers were told is part of the feed ([`crate::domain::Op::Totals`], [`crate::domain::Op::Goal`],
//!   [`super::Snapshot::totals`]) and may be behind by 0.6 s (`lua/totals/notices.lua`); watchers
//!   learn of a goal that is reached at once, and the ledger has an entry of it.
//! - Nothing of it expires with an idle feed. A feed that counts nothing has nothing of it.

use super::operation::operation;
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};

/// What each period that is counted has, or had in its last run that ended; without leaders. None when nothing
/// is counted.
#[derive(Clone, Debug)]
pub struct ReadTotals {
    pub feed: FeedId,
    pub back: bool,
    pub now: Millis,
}

operation!(ReadTotals -> Option<TotalsView>, Totals, feed: feed, now: now);

/// A ranking. None when the period is not counted, or did not end yet where the one that ended is asked for.
#[derive(Clone, Debug)]
pub struct ReadLeaders {
    pub feed: FeedId,
    pub ask: LeadersAsk,
    pub now: Millis,
}

operation!(ReadLeaders -> Option<LeadersView>, Leaders, feed: feed, now: now);

/// Begins a session, unless it is the present one; and whether it is new. What counts by session begins anew.
#[derive(Clone, Debug)]
pub struct BeginSession {
    pub feed: FeedId,
    pub id: String,
    pub now: Millis,
}

operation!(BeginSession -> (Session, bool), BeginSession, feed: feed, now: now);

/// Every goal of a feed, by name.
#[derive(Clone, Debug)]
pub struct ListGoals {
    pub feed: FeedId,
    pub now: Millis,
}

operation!(ListGoals -> Vec<GoalView>, Goals, feed: feed, now: now);

/// Defines a goal, or changes it: then it stays reached only if it would be by what is counted.
#[derive(Clone, Debug)]
pub struct PutGoal {
    pub feed: FeedId,
    pub goal: GoalId,
    pub spec: GoalSpec,
    pub now: Millis,
}

operation!(PutGoal -> GoalPut, PutGoal, feed: feed, now: now);

/// Deletes a goal. False when there is none of this name.
#[derive(Clone, Debug)]
pub struct DeleteGoal {
    pub feed: FeedId,
    pub goal: GoalId,
    pub now: Millis,
}

operation!(DeleteGoal -> bool, DeleteGoal, feed: feed, now: now);

/// What became of a goal's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalPut {
    /// It is new.
    New(GoalView),
    /// It was there; this is what it is now.
    Changed(GoalView),
    /// The feed has [`crate::domain::tally::MAX_GOALS`] already. Nothing changed.
    TooMany,
    /// Its period is not counted. Nothing changed.
    NotCounted,
}
