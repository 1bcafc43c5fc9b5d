//! `lua/totals/goal.lua`.

use crate::domain::tally::{GoalSpec, GoalView, MAX_GOALS};
use crate::domain::{FeedId, GoalId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::{goal_spec, read_goal};
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::runner::Reply;
use crate::engine::store::writer::{FeedWriter, Preconditions};
use crate::engine::{GoalPut, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Every goal of a feed, by name.
    pub async fn list_goals(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<GoalView>> {
        self.measured(Operation::Goals, Some(feed), async {
            let texts = self.parts.writer.read_all(feed, "goals", now).await?;
            let mut goals = texts[1..].iter().map(|text| goal_view(text)).collect::<Result<Vec<_>, _>>()?;
            goals.sort_by(|a, b| a.goal.cmp(&b.goal));
            Ok(goals)
        })
        .await
    }

    /// Defines a goal, or changes it: then it stays reached only if it would be by what is counted.
    pub async fn put_goal(
        &self,
        feed: &FeedId,
        goal: &GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> StoreResult<GoalPut> {
        self.measured(Operation::PutGoal, Some(feed), async {
            let reply = self.parts.writer.change_goal(feed, goal, &goal_spec(goal, &spec), now).await?;
            let view = || goal_view(reply.text(1)?).map_err(Fault::from);
            Ok(match reply.text(0)? {
                "new" => GoalPut::New(view()?),
                "changed" => GoalPut::Changed(view()?),
                "full" => GoalPut::TooMany,
                "not_counted" => GoalPut::NotCounted,
                _ => return Err(Corrupt("what became of a goal").into()),
            })
        })
        .await
    }

    /// Deletes a goal. False when there is none of this name.
    pub async fn delete_goal(&self, feed: &FeedId, goal: &GoalId, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::DeleteGoal, Some(feed), async {
            Ok(self.parts.writer.change_goal(feed, goal, "", now).await?.text(0)? == "deleted")
        })
        .await
    }
}

impl FeedWriter {
    async fn change_goal(&self, feed: &FeedId, id: &GoalId, spec: &str, now: Millis) -> Result<Reply, Fault> {
        let own = |call: &mut Call, _: &Preconditions| {
            call.arg("goal", id).arg("spec", spec).arg("goals_max", MAX_GOALS);
            if !spec.is_empty() {
                call.bounded();
            }
        };
        self.turn(&scripts::TOTALS_GOAL, feed, Some(now), own).await
    }
}

fn goal_view(text: &str) -> Result<GoalView, Corrupt> {
    read_goal(text).ok_or(Corrupt("a goal"))
}
