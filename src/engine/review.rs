//! What a store of feeds does for the host's desk: gifts that wait for a decision, users whose gifts are not shown.

use super::Wait;
use crate::domain::{Block, BlockScope, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewing};

/// Review and blocks.
///
/// [`super::FeedStore::publish`] keeps a gift of a blocked user from being shown, and has one wait that must be
/// reviewed ([`crate::domain::review::must_review`]). What waits stands in the feed's due queue: when its time has
/// come, [`super::DueStore::run_due`] does what the policy's default says. Nothing of it is in lists, changes or
/// snapshots before it is decided.
pub trait ReviewStore: Send + Sync + 'static {
    /// Gifts that wait for a decision, the oldest first. Those about whom time or a block has decided are not among
    /// them.
    fn reviews<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<InReview>>;

    /// Decides about a gift that waits, in one step with its showing. One whose time is over is decided by the
    /// policy's default first, and one of a blocked user is denied, whatever is asked for. A gift whose own time has
    /// not come joins the queue of scheduled gifts. Deciding the same again answers the same.
    fn review<'a>(
        &'a self,
        feed: &'a FeedId,
        id: &'a GiftId,
        decision: Decision,
        now: Millis,
    ) -> Wait<'a, Reviewing>;

    /// Keeps a user's gifts from being shown from [`Block::at`] on, in the place of a block that there is. Within a
    /// second it holds on every node.
    fn block<'a>(&'a self, scope: &'a BlockScope, block: Block) -> Wait<'a, Blocked>;

    /// Ends a block; false when there was none.
    fn unblock<'a>(&'a self, scope: &'a BlockScope, user: &'a str, now: Millis) -> Wait<'a, bool>;

    /// Blocks that hold, by user.
    fn blocks<'a>(&'a self, scope: &'a BlockScope, now: Millis) -> Wait<'a, Vec<Block>>;

    /// Whether the user's gifts are kept from being shown in the feed, by a block of the feed or of all feeds.
    fn is_blocked<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, bool>;
}
