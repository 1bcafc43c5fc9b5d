//! Operations of moderators.

use super::super::engine::RedisEngine;
use super::super::moderation::TakenBack;
use crate::domain::{Decision, GiftTakenBack, Position, Reviewed};
use crate::engine::{
    BeginWalk, ContinueWalk, EngineError, FeedsShowing, FindFeedsShowing, RetractGift, RetractUser, Run,
    SendControl, Walk,
};

impl Run<RedisEngine> for SendControl {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Position>, EngineError> {
        Ok(redis.feeds.control(&self.feed, &self.control, self.now).await?)
    }
}

impl Run<RedisEngine> for RetractUser {
    async fn run_on(self, redis: &RedisEngine) -> Result<u64, EngineError> {
        Ok(redis.feeds.retract_user(&self.feed, &self.user, self.now).await?)
    }
}

impl Run<RedisEngine> for RetractGift {
    async fn run_on(self, redis: &RedisEngine) -> Result<GiftTakenBack, EngineError> {
        // Somebody else may decide between the look and the denial: then it is looked at once more.
        for _ in 0..3 {
            match redis.feeds.retract_gift(&self.feed, &self.id, self.now).await? {
                TakenBack::Done => return Ok(GiftTakenBack::Done),
                TakenBack::Unknown => return Ok(GiftTakenBack::Unknown),
                TakenBack::InReview => {}
            }
            let review = redis.queue.reviews.review(&self.feed, &self.id, Decision::Deny, self.now);
            if let Reviewed::Decided(_) = review.await?.told {
                return Ok(GiftTakenBack::Done);
            }
        }
        Ok(GiftTakenBack::Unknown)
    }
}

impl Run<RedisEngine> for FindFeedsShowing {
    async fn run_on(self, _: &RedisEngine) -> Result<Option<FeedsShowing>, EngineError> {
        Ok(None)
    }
}

impl Run<RedisEngine> for BeginWalk {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        redis.walks.begin(&self.user, self.now).await?;
        Ok(true)
    }
}

impl Run<RedisEngine> for ContinueWalk {
    async fn run_on(self, redis: &RedisEngine) -> Result<Walk, EngineError> {
        Ok(redis.walks.walk_on(&self.node, self.now).await?)
    }
}
