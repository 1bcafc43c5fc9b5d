//! What the trait asks of drops, claims and holds.

use super::super::engine::RedisEngine;
use crate::domain::{
    Cancelled, Claim, Claimed, Confirmed, Defined, DropId, DropSpec, DropView, FeedId, Hold, HoldId, Millis,
    Trace,
};
use crate::engine::{DropStore, Wait};

impl DropStore for RedisEngine {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.define(feed, drop, &spec, now).await?)
        })
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.tick(feed, drop, now).await?.view)
        })
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.all(feed, now).await?)
        })
    }

    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            self.stock.claim(feed, drop, claim, now).await
        })
    }

    fn confirm<'a>(
        &'a self,
        feed: &'a FeedId,
        hold: &'a HoldId,
        trace: Option<Trace>,
        now: Millis,
    ) -> Wait<'a, Confirmed> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.confirm(feed, hold, trace.as_ref(), now).await?)
        })
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.cancel(feed, hold, now).await?)
        })
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.stock.holds(feed, user, now).await?)
        })
    }
}
