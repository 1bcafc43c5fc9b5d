//! What a store of feeds does for the host's desk: gifts that wait for a decision, users whose gifts are not shown.
//!
//! Review and blocks.
//!
//! [`super::Publish`] keeps a gift of a blocked user from being shown, and has one wait that must be
//! reviewed ([`crate::domain::review::must_review`]). What waits stands in the feed's due queue: when its time has
//! come, [`super::RunDue`] does what the policy's default says. Nothing of it is in lists, changes or
//! snapshots before it is decided.

use super::operation::operation;
use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewing};

/// Gifts that wait for a decision, the oldest first. Those about whom time or a block has decided are not among
/// them.
#[derive(Clone, Debug)]
pub struct ListReviews {
    pub feed: FeedId,
    pub now: Millis,
}

operation!(ListReviews -> Vec<InReview>, Reviews, feed: feed, now: now, record: super::counted::waiting_reviews);

/// Decides about a gift that waits, in one step with its showing. One whose time is over is decided by the
/// policy's default first, and one of a blocked user is denied, whatever is asked for. A gift whose own time has
/// not come joins the queue of scheduled gifts. Deciding the same again answers the same.
#[derive(Clone, Debug)]
pub struct DecideReview {
    pub feed: FeedId,
    pub id: GiftId,
    pub decision: Decision,
    pub now: Millis,
}

operation!(DecideReview -> Reviewing, Review, feed: feed, now: now, record: super::counted::decided_review);

/// Keeps a user's gifts from being shown from [`Block::at`] on, in the place of a block that there is. Within a
/// second it holds on every node.
#[derive(Clone, Debug)]
pub struct BlockUser {
    pub scope: BlockScope,
    pub block: Block,
}

operation!(BlockUser -> Blocked, Block, store, now: block.at);

/// Ends a block; false when there was none.
#[derive(Clone, Debug)]
pub struct UnblockUser {
    pub scope: BlockScope,
    pub user: String,
    pub now: Millis,
}

operation!(UnblockUser -> bool, Block, store, now: now);

/// Blocks that hold, by user.
#[derive(Clone, Debug)]
pub struct ListBlocks {
    pub scope: BlockScope,
    pub now: Millis,
}

operation!(ListBlocks -> Vec<Block>, Blocks, store, now: now);

/// Whether the user's gifts are kept from being shown in the feed, by a block of the feed or of all feeds.
#[derive(Clone, Debug)]
pub struct IsBlocked {
    pub feed: FeedId,
    pub user: String,
    pub now: Millis,
}

operation!(IsBlocked -> bool, Blocks, feed: feed, now: now);
