//! Operations of moderators.

use super::super::EmbeddedEngine;
use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::moderation;
use super::super::rule::{FeedRule, Rule};
use super::super::txn::FeedTxn;
use crate::domain::{GiftTakenBack, Position};
use crate::engine::{
    BeginWalk, ContinueWalk, EngineError, FeedsShowing, FindFeedsShowing, RetractGift, RetractUser, Run,
    SendControl, Walk,
};

impl FeedRule for SendControl {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<Position>> {
        moderation::control(txn, &self.control)
    }
}

impl FeedRule for RetractUser {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<u64> {
        moderation::retract_user(txn, &self.user)
    }
}

impl FeedRule for RetractGift {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<GiftTakenBack> {
        moderation::retract_gift(txn, &self.id)
    }
}

impl Rule for FindFeedsShowing {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Option<FeedsShowing>> {
        moderation::feeds_showing(&feeds.db, &self.user, self.after.as_ref()).map(Some)
    }
}

impl Run<EmbeddedEngine> for BeginWalk {
    async fn run_on(self, _: &EmbeddedEngine) -> Result<bool, EngineError> {
        Ok(false)
    }
}

impl Run<EmbeddedEngine> for ContinueWalk {
    async fn run_on(self, _: &EmbeddedEngine) -> Result<Walk, EngineError> {
        Ok(Walk::default())
    }
}
