//! Operations on totals, leaders, sessions and goals.

use super::super::fault::Step;
use super::super::rule::FeedRule;
use super::super::totals;
use super::super::txn::FeedTxn;
use crate::domain::tally::{GoalView, LeadersView, Session, TotalsView};
use crate::engine::{BeginSession, DeleteGoal, GoalPut, ListGoals, PutGoal, ReadLeaders, ReadTotals};

impl FeedRule for ReadTotals {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<TotalsView>> {
        totals::totals(txn, self.back)
    }
}

impl FeedRule for ReadLeaders {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<LeadersView>> {
        totals::leaders(txn, &self.ask)
    }
}

impl FeedRule for BeginSession {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<(Session, bool)> {
        totals::begin_session(txn, &self.id)
    }
}

impl FeedRule for ListGoals {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<GoalView>> {
        totals::goals(txn)
    }
}

impl FeedRule for PutGoal {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<GoalPut> {
        totals::put_goal(txn, &self.goal, &self.spec)
    }
}

impl FeedRule for DeleteGoal {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<bool> {
        totals::delete_goal(txn, &self.goal)
    }
}
