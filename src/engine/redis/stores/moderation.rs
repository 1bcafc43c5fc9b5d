//! What the trait asks of a host's desk.

use super::super::engine::RedisEngine;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position};
use crate::engine::{ModerationStore, Wait};

impl ModerationStore for RedisEngine {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.control(feed, &control, now).await?)
        })
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.retract_user(feed, user, now).await?)
        })
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.feeds.retract_gift(feed, id, now).await?)
        })
    }
}
