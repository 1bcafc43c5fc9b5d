//! What the trait asks of sources.

use super::super::engine::RedisEngine;
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote};
use crate::engine::{Kept, SourceStore, Swapped, Wait};

impl SourceStore for RedisEngine {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.sources.sources(feed).await?)
        })
    }

    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.sources.swap_source(feed, name, was, to.as_ref()).await?)
        })
    }

    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.sources.note_delivery(feed, name, &note, now).await?)
        })
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.sources.note_refund(feed, gift, now).await?)
        })
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.sources.is_refunded(feed, gift).await?)
        })
    }
}
