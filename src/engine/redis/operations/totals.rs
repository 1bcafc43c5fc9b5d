//! Operations on totals, leaders, sessions and goals.

use super::super::engine::RedisEngine;
use crate::domain::tally::{GoalView, LeadersView, Session, TotalsView};
use crate::engine::{
    BeginSession, DeleteGoal, EngineError, GoalPut, ListGoals, PutGoal, ReadLeaders, ReadTotals, Run,
};

impl Run<RedisEngine> for ReadTotals {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<TotalsView>, EngineError> {
        Ok(redis.rounds.read_totals(&self.feed, self.back, self.now).await?)
    }
}

impl Run<RedisEngine> for ReadLeaders {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<LeadersView>, EngineError> {
        Ok(redis.rounds.read_leaders(&self.feed, self.ask, self.now).await?)
    }
}

impl Run<RedisEngine> for BeginSession {
    async fn run_on(self, redis: &RedisEngine) -> Result<(Session, bool), EngineError> {
        Ok(redis.rounds.begin_session(&self.feed, self.id, self.now).await?)
    }
}

impl Run<RedisEngine> for ListGoals {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<GoalView>, EngineError> {
        Ok(redis.rounds.read_goals(&self.feed, self.now).await?)
    }
}

impl Run<RedisEngine> for PutGoal {
    async fn run_on(self, redis: &RedisEngine) -> Result<GoalPut, EngineError> {
        Ok(redis.rounds.put_goal(&self.feed, &self.goal, self.spec, self.now).await?)
    }
}

impl Run<RedisEngine> for DeleteGoal {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        Ok(redis.rounds.delete_goal(&self.feed, &self.goal, self.now).await?)
    }
}
