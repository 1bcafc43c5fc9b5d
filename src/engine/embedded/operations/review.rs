//! Operations on gifts that wait for a host, and on blocks.

use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::rule::{FeedRule, Rule};
use super::super::txn::FeedTxn;
use super::super::{blocking, reviews};
use crate::domain::{Block, Blocked, InReview, Reviewing};
use crate::engine::{BlockUser, DecideReview, IsBlocked, ListBlocks, ListReviews, UnblockUser};

impl FeedRule for ListReviews {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<InReview>> {
        reviews::list(txn)
    }
}

impl FeedRule for DecideReview {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Reviewing> {
        reviews::decide(txn, &self.id, self.decision)
    }
}

impl Rule for BlockUser {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Blocked> {
        blocking::put(feeds, &self.scope, &self.block)
    }
}

impl Rule for UnblockUser {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<bool> {
        blocking::remove(feeds, &self.scope, &self.user, self.now)
    }
}

impl Rule for ListBlocks {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Vec<Block>> {
        blocking::list(feeds, &self.scope, self.now)
    }
}

impl FeedRule for IsBlocked {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<bool> {
        blocking::is_blocked(txn, &self.user)
    }
}
