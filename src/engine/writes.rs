//! Whether a feed may have changed since somebody looked, without asking the store.

use std::array;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::FeedId;
use crate::metrics::labels::Operation;

/// Counts operations of this process that may have changed what feeds count or sell. Feeds share counters, so that there is no entry for
/// each: a change of one may look like a change of another, never the other way round.
pub(super) struct Writes {
    of_feeds: [AtomicU64; 256],
    /// Rare operations, which count for every feed.
    of_all: AtomicU64,
}

impl Default for Writes {
    fn default() -> Self {
        Writes { of_feeds: array::from_fn(|_| AtomicU64::new(0)), of_all: AtomicU64::new(0) }
    }
}

impl Writes {
    /// Notes an operation on `feed` that has ended: who reads before may see what was there.
    pub(super) fn note(&self, operation: Operation, feed: Option<&FeedId>) {
        use Operation::{
            BeginSession, Block, Cancel, Claim, Confirm, DefineDrop, DeleteGoal, NoteDelivery, Publish,
            PutGoal, Retract, RetractGift, RetractUser, ReverseSale, Review, RunDue, SetPolicy, Walk,
        };
        match (operation, feed) {
            (
                Publish | RunDue | Claim | Confirm | Cancel | ReverseSale | DefineDrop | PutGoal | DeleteGoal,
                Some(feed),
            ) => {
                self.counter(feed).fetch_add(1, Ordering::Release);
            }
            (
                Retract | RetractGift | RetractUser | Walk | Review | Block | BeginSession | SetPolicy
                | NoteDelivery,
                _,
            ) => {
                self.of_all.fetch_add(1, Ordering::Release);
            }
            _ => {}
        }
    }

    /// Another number after each call that was noted for this feed or for all.
    pub(super) fn number(&self, feed: &FeedId) -> u64 {
        let all = self.of_all.load(Ordering::Acquire);
        self.counter(feed).load(Ordering::Acquire).wrapping_add(all)
    }

    fn counter(&self, feed: &FeedId) -> &AtomicU64 {
        let mut hasher = DefaultHasher::new();
        feed.as_str().hash(&mut hasher);
        &self.of_feeds[hasher.finish() as usize % self.of_feeds.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_may_change_a_feed_changes_its_number() {
        let (writes, feed) = (Writes::default(), "a".parse().unwrap());
        let mut seen = vec![writes.number(&feed)];
        writes.note(Operation::Publish, Some(&feed));
        seen.push(writes.number(&feed));
        writes.note(Operation::BeginSession, Some(&feed));
        seen.push(writes.number(&feed));
        writes.note(Operation::Snapshot, Some(&feed));
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(writes.number(&feed), 2, "reading changes nothing");
    }
}
