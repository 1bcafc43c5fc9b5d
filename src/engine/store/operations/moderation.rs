//! Operations of moderators.

use super::super::engine::Store;
use super::super::moderation::TakenBack;
use crate::domain::{Decision, GiftTakenBack, Position, Reviewed};
use crate::engine::{
    BeginWalk, ContinueWalk, EngineError, FeedsShowing, FindFeedsShowing, RetractGift, RetractUser, Run,
    SendControl, Walk,
};

impl Run<Store> for SendControl {
    async fn run_on(self, store: &Store) -> Result<Option<Position>, EngineError> {
        Ok(store.feeds.control(&self.feed, &self.control, self.now).await?)
    }
}

impl Run<Store> for RetractUser {
    async fn run_on(self, store: &Store) -> Result<u64, EngineError> {
        Ok(store.feeds.retract_user(&self.feed, &self.user, self.now).await?)
    }
}

impl Run<Store> for RetractGift {
    async fn run_on(self, store: &Store) -> Result<GiftTakenBack, EngineError> {
        // Somebody else may decide between the look and the denial: then it is looked at once more.
        for _ in 0..3 {
            match store.feeds.retract_gift(&self.feed, &self.id, self.now).await? {
                TakenBack::Done => return Ok(GiftTakenBack::Done),
                TakenBack::Unknown => return Ok(GiftTakenBack::Unknown),
                TakenBack::InReview => {}
            }
            let review = store.queue.reviews.review(&self.feed, &self.id, Decision::Deny, self.now);
            if let Reviewed::Decided(_) = review.await?.told {
                return Ok(GiftTakenBack::Done);
            }
        }
        Ok(GiftTakenBack::Unknown)
    }
}

impl Run<Store> for FindFeedsShowing {
    async fn run_on(self, _: &Store) -> Result<Option<FeedsShowing>, EngineError> {
        Ok(None)
    }
}

impl Run<Store> for BeginWalk {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        store.walks.begin(&self.user, self.now).await?;
        Ok(true)
    }
}

impl Run<Store> for ContinueWalk {
    async fn run_on(self, store: &Store) -> Result<Walk, EngineError> {
        Ok(store.walks.walk_on(&self.node, self.now).await?)
    }
}
