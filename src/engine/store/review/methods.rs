//! Gifts that wait for a host's decision, and users whose gifts are not shown.
//!
//! [`Store::publish`] keeps a gift of a blocked user from being shown, and has one wait that must be
//! reviewed (`lua/feed/screening.lua`). What waits is in the feed's due queue: when its time has
//! come, [`Store::run_due`] does what the policy's default says. Nothing of it is in lists, changes or
//! snapshots before it is decided.

use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewing};
use crate::engine::store::Store;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Lists the gifts that wait for a decision, the oldest first, without those that time or a block has
    /// decided.
    pub async fn list_reviews(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<InReview>> {
        let reply =
            self.measured(Operation::Reviews, Some(feed), self.parts.queue.in_review(feed, now)).await?;
        counted::waiting_reviews(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Decides about a gift that waits, and shows it in the same step. If its time has passed, the policy's
    /// default decides first; a gift of a blocked user is denied, whatever is asked for. A gift whose own
    /// time is in the future joins the queue of scheduled gifts. A repeat answers the same.
    pub async fn decide_review(
        &self,
        feed: &FeedId,
        id: &GiftId,
        decision: Decision,
        now: Millis,
    ) -> StoreResult<Reviewing> {
        let reply = self
            .measured(Operation::Review, Some(feed), self.parts.reviews.review(feed, id, decision, now))
            .await?;
        counted::decided_review(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Keeps a user's gifts from being shown from [`Block::at`] on, in the place of a block that there is. Within a
    /// second it holds on every node.
    pub async fn block_user(&self, scope: &BlockScope, block: &Block) -> StoreResult<Blocked> {
        self.measured(Operation::Block, None, self.parts.blocks.block(scope, block)).await
    }

    /// Ends a block; false when there was none.
    pub async fn unblock_user(&self, scope: &BlockScope, user: &str, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::Block, None, async {
            if *scope == BlockScope::All {
                self.parts.walks.end(user, now).await?;
            }
            StoreResult::Ok(self.parts.blocks.unblock(scope, user, now).await?)
        })
        .await
    }

    /// Blocks that hold, by user.
    pub async fn list_blocks(&self, scope: &BlockScope, now: Millis) -> StoreResult<Vec<Block>> {
        self.measured(Operation::Blocks, None, self.parts.blocks.list(scope, now)).await
    }

    /// Whether the user's gifts are kept from being shown in the feed, by a block of the feed or of all feeds.
    pub async fn is_blocked(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::Blocks, Some(feed), self.parts.blocks.is_blocked(feed, user, now)).await
    }
}
