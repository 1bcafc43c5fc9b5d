//! Sources and refunds, as steps of the writer.

use super::EmbeddedEngine;
use super::feeds::{Feeds, Step};
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote};
use crate::engine::{Kept, REFUNDS_MAX, SOURCES_MAX, SourceStore, Swapped, Wait};

impl SourceStore for EmbeddedEngine {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        let feed = feed.clone();
        self.task(move |feeds| feeds.store.sources(&feed))
    }

    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped> {
        let (feed, name) = (feed.clone(), name.clone());
        self.task(move |feeds| feeds.swap_source(&feed, &name, was, to.as_ref()))
    }

    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()> {
        let (feed, name) = (feed.clone(), name.clone());
        self.task(move |feeds| feeds.note_delivery(&feed, &name, &note, now))
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        let (feed, gift) = (feed.clone(), gift.clone());
        self.task(move |feeds| {
            feeds.store.begin()?;
            feeds.store.put_refund(&feed, &gift, now, REFUNDS_MAX)
        })
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        let (feed, gift) = (feed.clone(), gift.clone());
        self.task(move |feeds| feeds.store.is_refunded(&feed, &gift))
    }
}

impl Feeds {
    fn swap_source(
        &mut self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<&Source>,
    ) -> Step<Swapped> {
        let known = self.store.sources(feed)?;
        let old = known.iter().find(|(id, ..)| id == name);
        if old.map(|(_, source, _)| source.version) != was {
            return Ok(Swapped::Stale);
        }
        if old.is_none() && to.is_some() && known.len() >= SOURCES_MAX {
            return Ok(Swapped::Full);
        }
        let tally = old.map(|(.., tally)| tally.clone()).unwrap_or_default();
        self.store.begin()?;
        self.store.put_source(feed, name, to.map(|to| (to, &tally)))?;
        Ok(Swapped::Done)
    }

    fn note_delivery(&mut self, feed: &FeedId, name: &SourceId, note: &SourceNote, now: Millis) -> Step<()> {
        let known = self.store.sources(feed)?.into_iter().find(|(id, ..)| id == name);
        let Some((_, source, mut tally)) = known else { return Ok(()) };
        tally.note(note, now);
        self.store.begin()?;
        self.store.put_source(feed, name, Some((&source, &tally)))
    }
}
