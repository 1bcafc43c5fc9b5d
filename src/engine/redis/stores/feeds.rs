//! What the trait asks of lists.

use super::super::engine::RedisEngine;
use crate::domain::{FeedId, Gift, Millis, Outcome, Policy, Position, RowId};
use crate::engine::{EngineError, FeedStore, Head, Missed, PolicyChange, Snapshot, Subscription, Wait};

impl FeedStore for RedisEngine {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        Box::pin(async move {
            if gifts.is_empty() {
                return Ok(Vec::new());
            }
            let _permit = self.permit_for(feed)?;
            self.feeds.publish(feed, gifts, now).await
        })
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.retract(feed, row, now).await?)
        })
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.policy(feed).await?)
        })
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.set_policy(feed, &change, now).await?)
        })
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.snapshot(feed, now).await?)
        })
    }

    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.changes(feed, since, max).await?)
        })
    }

    fn heads<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.heads(feeds).await)
        })
    }

    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.subscribe(feed).await?)
        })
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        Some(self.runner.known.get(feed)?.at)
    }
}
