//! The calls of the host's desk, counted.

use super::{Metered, status_of};
use crate::domain::answer::GiftFate;
use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewing};
use crate::engine::{ReviewStore, Wait};
use crate::metrics::labels::{GiftStatus, Operation};

impl ReviewStore for Metered {
    fn reviews<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<InReview>> {
        Box::pin(async move {
            let waiting = self.time(Operation::Reviews, self.engine.reviews(feed, now)).await?;
            self.metrics.reviews_waiting.note(feed.as_str(), waiting.len());
            Ok(waiting)
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
            let reviewed = self.time(Operation::Review, self.engine.review(feed, id, decision, now)).await?;
            match &reviewed.done {
                Some(GiftFate::Taken(answer)) => drop(self.metrics.gifts[status_of(answer.status)].inc()),
                Some(GiftFate::Waits(_)) => drop(self.metrics.gifts[GiftStatus::Scheduled].inc()),
                Some(GiftFate::Cancelled(_) | GiftFate::InReview { .. }) | None => {}
            }
            Ok(reviewed)
        })
    }

    fn block<'a>(&'a self, scope: &'a BlockScope, block: Block) -> Wait<'a, Blocked> {
        self.call(Operation::Block, self.engine.block(scope, block))
    }

    fn unblock<'a>(&'a self, scope: &'a BlockScope, user: &'a str, now: Millis) -> Wait<'a, bool> {
        self.call(Operation::Block, self.engine.unblock(scope, user, now))
    }

    fn blocks<'a>(&'a self, scope: &'a BlockScope, now: Millis) -> Wait<'a, Vec<Block>> {
        self.call(Operation::Blocks, self.engine.blocks(scope, now))
    }

    fn is_blocked<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, bool> {
        self.call(Operation::Blocks, self.engine.is_blocked(feed, user, now))
    }
}
