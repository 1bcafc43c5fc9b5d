//! The calls about sources, counted.

use super::Metered;
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote};
use crate::engine::{Kept, SourceStore, Swapped, Wait};
use crate::metrics::labels::Operation;

impl SourceStore for Metered {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        self.call(Operation::Sources, self.engine.sources(feed))
    }

    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped> {
        self.call(Operation::Sources, self.engine.swap_source(feed, name, was, to))
    }

    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()> {
        self.call(Operation::NoteDelivery, self.engine.note_delivery(feed, name, note, now))
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        self.call(Operation::NoteDelivery, self.engine.note_refund(feed, gift, now))
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        self.call(Operation::Sources, self.engine.is_refunded(feed, gift))
    }
}
