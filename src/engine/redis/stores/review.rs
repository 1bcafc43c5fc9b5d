//! What the trait asks for the host's desk.

use super::super::engine::RedisEngine;
use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewing};
use crate::engine::{ReviewStore, Wait};

impl ReviewStore for RedisEngine {
    fn reviews<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<InReview>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.in_review(feed, now).await?)
        })
    }

    fn review<'a>(
        &'a self,
        feed: &'a FeedId,
        id: &'a GiftId,
        decision: Decision,
        now: Millis,
    ) -> Wait<'a, Reviewing> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.queue.reviews.review(feed, id, decision, now).await?)
        })
    }

    fn block<'a>(&'a self, scope: &'a BlockScope, block: Block) -> Wait<'a, Blocked> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.blocks.block(scope, &block).await?)
        })
    }

    fn unblock<'a>(&'a self, scope: &'a BlockScope, user: &'a str, now: Millis) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            if *scope == BlockScope::All {
                self.walks.end(user, now).await?;
            }
            Ok(self.feeds.blocks.unblock(scope, user, now).await?)
        })
    }

    fn blocks<'a>(&'a self, scope: &'a BlockScope, now: Millis) -> Wait<'a, Vec<Block>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.blocks.list(scope, now).await?)
        })
    }

    fn is_blocked<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.blocks.is_blocked(feed, user, now).await?)
        })
    }
}
