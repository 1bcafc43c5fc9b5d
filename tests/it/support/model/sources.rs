//! The oracle's sources: the contract's section 11 as far as a store has part in it.

use std::collections::{BTreeMap, HashMap};

use tipcast::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};
use tipcast::engine::{Kept, REFUNDS_MAX, SOURCES_MAX, SourceStore, Swapped, Wait};

use super::Model;

/// What a feed has of sources.
#[derive(Default)]
pub(super) struct Sources {
    set: BTreeMap<SourceId, (Source, SourceTally)>,
    refunds: Vec<(Millis, GiftId)>,
}

/// By feed: a source does not begin one.
pub(super) type OfFeeds = HashMap<FeedId, Sources>;

impl Model {
    fn with_sources<T: Send + 'static>(
        &self,
        feed: &FeedId,
        f: impl FnOnce(&mut Sources) -> T,
    ) -> Wait<'static, T> {
        let done = f(self.sources.lock().unwrap().entry(feed.clone()).or_default());
        Box::pin(std::future::ready(Ok(done)))
    }
}

impl SourceStore for Model {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        self.with_sources(feed, |of| {
            of.set
                .iter()
                .map(|(name, (source, tally))| (name.clone(), source.clone(), tally.clone()))
                .collect()
        })
    }

    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped> {
        self.with_sources(feed, |of| {
            let (full, old) = (of.set.len() == SOURCES_MAX, of.set.get(name).cloned());
            if old.as_ref().map(|(source, _)| source.version) != was {
                return Swapped::Stale;
            }
            match (to, old) {
                (None, _) => drop(of.set.remove(name)),
                (Some(_), None) if full => return Swapped::Full,
                (Some(to), old) => {
                    let tally = old.map(|(_, tally)| tally).unwrap_or_default();
                    of.set.insert(name.clone(), (to, tally));
                }
            }
            Swapped::Done
        })
    }

    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()> {
        self.with_sources(feed, |of| {
            if let Some((_, tally)) = of.set.get_mut(name) {
                tally.note(&note, now);
            }
        })
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        self.with_sources(feed, |of| {
            of.refunds.retain(|(_, known)| known != gift);
            of.refunds.push((now, gift.clone()));
            of.refunds.sort();
            let over = of.refunds.len().saturating_sub(REFUNDS_MAX);
            of.refunds.drain(..over);
        })
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        self.with_sources(feed, |of| of.refunds.iter().any(|(_, known)| known == gift))
    }
}
