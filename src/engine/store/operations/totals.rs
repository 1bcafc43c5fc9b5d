//! Operations on totals, leaders, sessions and goals.

use super::super::engine::Store;
use crate::domain::tally::{GoalView, LeadersView, Session, TotalsView};
use crate::engine::{
    BeginSession, DeleteGoal, EngineError, GoalPut, ListGoals, PutGoal, ReadLeaders, ReadTotals, Run,
};

impl Run<Store> for ReadTotals {
    async fn run_on(self, store: &Store) -> Result<Option<TotalsView>, EngineError> {
        Ok(store.rounds.read_totals(&self.feed, self.back, self.now).await?)
    }
}

impl Run<Store> for ReadLeaders {
    async fn run_on(self, store: &Store) -> Result<Option<LeadersView>, EngineError> {
        Ok(store.rounds.read_leaders(&self.feed, self.ask, self.now).await?)
    }
}

impl Run<Store> for BeginSession {
    async fn run_on(self, store: &Store) -> Result<(Session, bool), EngineError> {
        Ok(store.rounds.begin_session(&self.feed, self.id, self.now).await?)
    }
}

impl Run<Store> for ListGoals {
    async fn run_on(self, store: &Store) -> Result<Vec<GoalView>, EngineError> {
        Ok(store.rounds.read_goals(&self.feed, self.now).await?)
    }
}

impl Run<Store> for PutGoal {
    async fn run_on(self, store: &Store) -> Result<GoalPut, EngineError> {
        Ok(store.rounds.put_goal(&self.feed, &self.goal, self.spec, self.now).await?)
    }
}

impl Run<Store> for DeleteGoal {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        Ok(store.rounds.delete_goal(&self.feed, &self.goal, self.now).await?)
    }
}
