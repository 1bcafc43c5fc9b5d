//! The calls about totals, leaders, sessions and goals, counted.

use super::Metered;
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};
use crate::engine::{GoalPut, TotalsStore, Wait};
use crate::metrics::labels::Operation;

impl TotalsStore for Metered {
    fn totals<'a>(&'a self, feed: &'a FeedId, back: bool, now: Millis) -> Wait<'a, Option<TotalsView>> {
        self.call(Operation::Totals, self.engine.totals(feed, back, now))
    }

    fn leaders<'a>(
        &'a self,
        feed: &'a FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> Wait<'a, Option<LeadersView>> {
        self.call(Operation::Leaders, self.engine.leaders(feed, ask, now))
    }

    fn begin_session<'a>(&'a self, feed: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)> {
        self.call(Operation::BeginSession, self.engine.begin_session(feed, id, now))
    }

    fn goals<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<GoalView>> {
        self.call(Operation::Goals, self.engine.goals(feed, now))
    }

    fn put_goal<'a>(
        &'a self,
        feed: &'a FeedId,
        goal: &'a GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> Wait<'a, GoalPut> {
        self.call(Operation::PutGoal, self.engine.put_goal(feed, goal, spec, now))
    }

    fn delete_goal<'a>(&'a self, feed: &'a FeedId, goal: &'a GoalId, now: Millis) -> Wait<'a, bool> {
        self.call(Operation::DeleteGoal, self.engine.delete_goal(feed, goal, now))
    }
}
