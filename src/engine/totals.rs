//! What a store of feeds does with totals, leaders, sessions and goals.

use super::Wait;
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};

/// What feeds count ([`crate::domain::tally`]).
///
/// - A gift is counted in the step that takes it, and taken back in the step that takes it back: whatever dies, it
///   counts once. Every answer here counts what was acknowledged before it was asked.
/// - What watchers were told is part of the feed ([`crate::domain::Op::Totals`], [`crate::domain::Op::Goal`],
///   [`super::Snapshot::totals`]) and may be behind by [`crate::domain::tally::TELL_EVERY_MS`]; a goal that is reached
///   is told at once, and is an entry of the ledger.
/// - Nothing of it expires with an idle feed. A feed that counts nothing has nothing of it.
pub trait TotalsStore: Send + Sync + 'static {
    /// What each period that is counted has, or had in its last run that ended; without leaders. None when nothing
    /// is counted.
    fn totals<'a>(&'a self, feed: &'a FeedId, back: bool, now: Millis) -> Wait<'a, Option<TotalsView>>;

    /// A ranking. None when the period is not counted, or did not end yet where the one that ended is asked for.
    fn leaders<'a>(&'a self, feed: &'a FeedId, ask: LeadersAsk, now: Millis)
    -> Wait<'a, Option<LeadersView>>;

    /// Begins a session, unless it is the present one; and whether it is new. What counts by session begins anew.
    fn begin_session<'a>(&'a self, feed: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)>;

    /// Every goal of a feed, by name.
    fn goals<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<GoalView>>;

    /// Defines a goal, or changes it: then it stays reached only if it would be by what is counted.
    fn put_goal<'a>(
        &'a self,
        feed: &'a FeedId,
        goal: &'a GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> Wait<'a, GoalPut>;

    /// Deletes a goal. False when there is none of this name.
    fn delete_goal<'a>(&'a self, feed: &'a FeedId, goal: &'a GoalId, now: Millis) -> Wait<'a, bool>;
}

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
