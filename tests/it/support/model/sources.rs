//! The oracle's sources: the contract's section 11 as far as a store has part in it.

use std::collections::{BTreeMap, HashMap};

use tipcast::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};
use tipcast::engine::{Kept, REFUNDS_MAX, Refund, SOURCES_MAX, Swapped};

use super::Model;

/// What a feed has of sources.
#[derive(Default)]
pub(super) struct Sources {
    set: BTreeMap<SourceId, (Source, SourceTally)>,
    refunds: Vec<(Millis, GiftId, Refund)>,
}

/// By feed: a source does not begin one.
pub(super) type OfFeeds = HashMap<FeedId, Sources>;

impl Model {
    fn with_sources<T: Send + 'static>(&self, feed: &FeedId, f: impl FnOnce(&mut Sources) -> T) -> T {
        f(self.sources.lock().unwrap().entry(feed.clone()).or_default())
    }
}

impl Model {
    pub(crate) fn sources(&self, feed: &FeedId) -> Vec<Kept> {
        self.with_sources(feed, |of| {
            of.set
                .iter()
                .map(|(name, (source, tally))| (name.clone(), source.clone(), tally.clone()))
                .collect()
        })
    }

    pub(crate) fn swap_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Swapped {
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

    pub(crate) fn note_delivery(&self, feed: &FeedId, name: &SourceId, note: SourceNote, now: Millis) {
        self.with_sources(feed, |of| {
            if let Some((_, tally)) = of.set.get_mut(name) {
                *tally.counts.entry(note.outcome).or_default() += 1;
                tally.last_at = Some(now);
                tally.last_error = note.error.map(|error| (now, error)).or(tally.last_error.take());
            }
        })
    }

    pub(crate) fn note_refund(&self, feed: &FeedId, gift: &GiftId, refund: Refund, now: Millis) {
        self.with_sources(feed, |of| {
            let known = of.refunds.iter().position(|(_, known, _)| known == gift);
            let refund = match (known.map(|at| of.refunds.remove(at).2), refund) {
                (None, refund) => refund,
                (Some(Refund::Part(before)), Refund::Part(now)) => Refund::Part(before.max(now)),
                _ => Refund::Whole,
            };
            of.refunds.push((now, gift.clone(), refund));
            of.refunds.sort_by(|(at, id, _), (other, than, _)| at.cmp(other).then(id.cmp(than)));
            let over = of.refunds.len().saturating_sub(REFUNDS_MAX);
            of.refunds.drain(..over);
        })
    }

    pub(crate) fn refund_of(&self, feed: &FeedId, gift: &GiftId) -> Option<Refund> {
        self.with_sources(feed, |of| of.refunds.iter().find(|(_, known, _)| known == gift).map(|it| it.2))
    }
}
