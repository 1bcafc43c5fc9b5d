//! Operations of moderators.

use super::super::engine::Store;
use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{GiftTakenBack, Position};
use crate::engine::{
    BeginWalk, ContinueWalk, EngineError, FeedsShowing, FindFeedsShowing, RefundGift, RetractGift,
    RetractUser, Run, SendControl, Walk,
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
        let what = TakingBack { reason: self.reason, ..TakingBack::default() };
        // Somebody else may decide between the look and the denial: then it is looked at once more.
        for _ in 0..3 {
            match store.feeds.take_back(&self.feed, &self.id, &what, self.now).await? {
                GiftRefunded::Done { .. } => return Ok(GiftTakenBack::Done),
                GiftRefunded::Waits => {}
                _ => return Ok(GiftTakenBack::Unknown),
            }
            let reason = what.reason.as_deref();
            if store.queue.reviews.take_back(&self.feed, &self.id, reason, self.now).await? {
                return Ok(GiftTakenBack::Done);
            }
        }
        Ok(GiftTakenBack::Unknown)
    }
}

impl Run<Store> for RefundGift {
    async fn run_on(self, store: &Store) -> Result<GiftRefunded, EngineError> {
        let what = TakingBack { refunded: Some(self.refunded), reason: self.reason, restock: false };
        Ok(store.feeds.take_back(&self.feed, &self.id, &what, self.now).await?)
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
