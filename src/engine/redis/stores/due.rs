//! What the trait asks of due queues.

use super::super::engine::RedisEngine;
use crate::domain::{DuePlace, FeedId, GiftId, Millis};
use crate::engine::{DeadDue, DueDone, DueRun, DueStore, DueTurn, ScheduledPage, Unscheduled, Wait, Wakes};

impl DueStore for RedisEngine {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.scheduled(feed, after, max.max(1)).await?)
        })
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, Unscheduled> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.unschedule(feed, id, now).await?)
        })
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.dead(feed).await?)
        })
    }

    fn claim_due(&self, over: Vec<DueDone>, max: usize, now: Millis) -> Wait<'_, DueTurn> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.queue.rounds.due.claim(over, max, now).await?)
        })
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, DueRun> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.run_due(feed, now).await?)
        })
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.queue.rounds.due.turns.wakes.subscribe())
    }
}
