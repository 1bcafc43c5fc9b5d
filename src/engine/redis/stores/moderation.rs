//! What the trait asks of a host's desk.

use super::super::engine::RedisEngine;
use super::super::moderation::TakenBack;
use crate::domain::{Control, Decision, FeedId, GiftId, GiftTakenBack, Millis, Position, Reviewed};
use crate::engine::{ModerationStore, Wait, Walk};

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

    fn begin_walk<'a>(&'a self, user: &'a str, now: Millis) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.walks.begin(user, now).await?;
            Ok(true)
        })
    }

    fn walk_on<'a>(&'a self, node: &'a str, now: Millis) -> Wait<'a, Walk> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.walks.walk_on(node, now).await?)
        })
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            // Somebody else may decide between the look and the denial: then it is looked at once more.
            for _ in 0..3 {
                match self.feeds.retract_gift(feed, id, now).await? {
                    TakenBack::Done => return Ok(GiftTakenBack::Done),
                    TakenBack::Unknown => return Ok(GiftTakenBack::Unknown),
                    TakenBack::InReview => {}
                }
                if let Reviewed::Decided(_) =
                    self.queue.reviews.review(feed, id, Decision::Deny, now).await?.told
                {
                    return Ok(GiftTakenBack::Done);
                }
            }
            Ok(GiftTakenBack::Unknown)
        })
    }
}
