//! What the trait asks of totals, leaders, sessions and goals.

use super::super::engine::RedisEngine;
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};
use crate::engine::{GoalPut, TotalsStore, Wait};

impl TotalsStore for RedisEngine {
    fn totals<'a>(&'a self, feed: &'a FeedId, back: bool, now: Millis) -> Wait<'a, Option<TotalsView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.read_totals(feed, back, now).await?)
        })
    }

    fn leaders<'a>(
        &'a self,
        feed: &'a FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> Wait<'a, Option<LeadersView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.read_leaders(feed, ask, now).await?)
        })
    }

    fn begin_session<'a>(&'a self, feed: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.begin_session(feed, id, now).await?)
        })
    }

    fn goals<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<GoalView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.read_goals(feed, now).await?)
        })
    }

    fn put_goal<'a>(
        &'a self,
        feed: &'a FeedId,
        goal: &'a GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> Wait<'a, GoalPut> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.put_goal(feed, goal, spec, now).await?)
        })
    }

    fn delete_goal<'a>(&'a self, feed: &'a FeedId, goal: &'a GoalId, now: Millis) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.rounds.delete_goal(feed, goal, now).await?)
        })
    }
}
