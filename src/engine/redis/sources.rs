//! Sources and refunds, in the feed's slot: whoever has a path has the feed's name, and so the slot.

use std::collections::HashMap;

use super::RedisEngine;
use super::scripts;
use super::store::Store;
use super::wire::Garbled;
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};
use crate::engine::{EngineError, Kept, REFUNDS_MAX, SOURCES_MAX, SourceStore, Swapped, Wait};

impl SourceStore for RedisEngine {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.sources(feed).await
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
            let _permit = self.permit()?;
            self.store.swap_source(feed, name, was, to.as_ref()).await
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
            let _permit = self.permit()?;
            self.store.note_delivery(feed, name, &note, now).await
        })
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.note_refund(feed, gift, now).await
        })
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let refunds = self.store.keys.refunds(feed);
            let at: Option<f64> =
                self.store.get(redis::cmd("ZSCORE").arg(refunds).arg(gift.as_str())).await?;
            Ok(at.is_some())
        })
    }
}

impl Store {
    async fn sources(&self, feed: &FeedId) -> Result<Vec<Kept>, EngineError> {
        let [sources, came] = self.keys.sources(feed);
        let texts: HashMap<String, String> = self.get(redis::cmd("HGETALL").arg(sources)).await?;
        if texts.is_empty() {
            return Ok(vec![]);
        }
        let came: HashMap<String, String> = self.get(redis::cmd("HGETALL").arg(came)).await?;
        let read = |(name, text): (&String, &String)| {
            let source = text.split_once(' ').and_then(|(_, json)| serde_json::from_str::<Source>(json).ok());
            let source = source.ok_or(Garbled("a source"))?;
            let own = came.iter().filter_map(|(field, value)| match field.split_once('/') {
                Some((whose, what)) if whose == name => Some((what, value.as_str())),
                _ => None,
            });
            let id: SourceId = name.parse().map_err(|_| Garbled("a source's name"))?;
            Ok((id, source, SourceTally::of_fields(own)))
        };
        let mut all = texts.iter().map(read).collect::<Result<Vec<Kept>, Garbled>>()?;
        all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        Ok(all)
    }

    async fn swap_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<&Source>,
    ) -> Result<Swapped, EngineError> {
        let was = was.map(|version| version.to_string()).unwrap_or_default();
        let text = to.map(|to| Ok(format!("{} {}", to.version, serde_json::to_string(to)?)));
        let text = text.transpose().map_err(|_: serde_json::Error| Garbled("a source"))?.unwrap_or_default();
        let mut cmd = scripts::SOURCE_SWAP.call(&self.keys.sources(feed));
        cmd.arg(name.as_str()).arg(was).arg(text).arg(SOURCES_MAX);
        scripts::SOURCE_SWAP.check(&cmd, 0);
        let value = self.lane().script(&scripts::SOURCE_SWAP, &cmd, self.options.call_timeout).await?;
        let reply: Vec<u8> = redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?;
        match reply.as_slice() {
            b"done" => Ok(Swapped::Done),
            b"stale" => Ok(Swapped::Stale),
            b"full" => Ok(Swapped::Full),
            _ => Err(Garbled("a reply").into()),
        }
    }

    async fn note_delivery(
        &self,
        feed: &FeedId,
        name: &SourceId,
        note: &SourceNote,
        now: Millis,
    ) -> Result<(), EngineError> {
        let mut cmd = scripts::SOURCE_NOTE.call(&self.keys.sources(feed));
        cmd.arg(name.as_str()).arg(note.outcome.as_str()).arg(now.0).arg(note.error.as_deref().unwrap_or(""));
        scripts::SOURCE_NOTE.check(&cmd, 0);
        self.lane().script(&scripts::SOURCE_NOTE, &cmd, self.options.call_timeout).await?;
        Ok(())
    }

    async fn note_refund(&self, feed: &FeedId, gift: &GiftId, now: Millis) -> Result<(), EngineError> {
        let mut cmd = scripts::SOURCE_REFUND.call(&[self.keys.refunds(feed)]);
        cmd.arg(gift.as_str()).arg(now.0).arg(REFUNDS_MAX);
        scripts::SOURCE_REFUND.check(&cmd, 0);
        self.lane().script(&scripts::SOURCE_REFUND, &cmd, self.options.call_timeout).await?;
        Ok(())
    }
}
