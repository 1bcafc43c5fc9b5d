//! The calls of the host's desk, counted.

use super::Metered;
use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewed};
use crate::engine::{ReviewStore, Wait};
use crate::metrics::labels::Operation;

impl ReviewStore for Metered {
    fn reviews<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<InReview>> {
        self.call(Operation::Reviews, self.engine.reviews(feed, now))
    }

    fn review<'a>(
        &'a self,
        feed: &'a FeedId,
        id: &'a GiftId,
        decision: Decision,
        now: Millis,
    ) -> Wait<'a, Reviewed> {
        self.call(Operation::Review, self.engine.review(feed, id, decision, now))
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
