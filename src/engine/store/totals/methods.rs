//! What feeds count ([`crate::domain::tally`]).
//!
//! - A gift is counted in the step that takes it, and taken back in the step that takes it back: whatever dies, it
//!   counts once. Every answer here counts what was acknowledged before it was asked.
//! - What watchers see is part of the feed ([`crate::domain::Op::Totals`], [`crate::domain::Op::Goal`],
//!   [`Snapshot::totals`](crate::engine::Snapshot::totals)) and may be behind by 0.6 s (`lua/totals/notices.lua`); watchers
//!   learn of a goal that is reached at once, and the ledger has an entry of it.
//! - Nothing of it expires with an idle feed. A feed that counts nothing has nothing of it.

use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};
use crate::engine::store::Store;
use crate::engine::{GoalPut, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// What each period that is counted has, or had in its last run that ended; without leaders. `None` if nothing
    /// is counted.
    pub async fn read_totals(
        &self,
        feed: &FeedId,
        back: bool,
        now: Millis,
    ) -> StoreResult<Option<TotalsView>> {
        self.measured(Operation::Totals, Some(feed), self.parts.writer.read_totals(feed, back, now)).await
    }

    /// A ranking. `None` if the period is not counted, or did not end yet where the one that ended is asked for.
    pub async fn read_leaders(
        &self,
        feed: &FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> StoreResult<Option<LeadersView>> {
        self.measured(Operation::Leaders, Some(feed), self.parts.writer.read_leaders(feed, ask, now)).await
    }

    /// Begins a session, unless it is the present one; and whether it is new. What counts by session begins anew.
    pub async fn begin_session(
        &self,
        feed: &FeedId,
        id: String,
        now: Millis,
    ) -> StoreResult<(Session, bool)> {
        self.measured(Operation::BeginSession, Some(feed), self.parts.writer.begin_session(feed, id, now))
            .await
    }

    /// Every goal of a feed, by name.
    pub async fn list_goals(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<GoalView>> {
        self.measured(Operation::Goals, Some(feed), self.parts.writer.read_goals(feed, now)).await
    }

    /// Defines a goal, or changes it: then it stays reached only if it would be by what is counted.
    pub async fn put_goal(
        &self,
        feed: &FeedId,
        goal: &GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> StoreResult<GoalPut> {
        self.measured(Operation::PutGoal, Some(feed), self.parts.writer.put_goal(feed, goal, spec, now)).await
    }

    /// Deletes a goal. False when there is none of this name.
    pub async fn delete_goal(&self, feed: &FeedId, goal: &GoalId, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::DeleteGoal, Some(feed), self.parts.writer.delete_goal(feed, goal, now)).await
    }
}
