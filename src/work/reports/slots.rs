//! Bounds the deliveries under way at the same time. A feed and a host each get an eighth of a node's slots while others may need them.
//! Without such shares a few endpoints that answer late would hold all of them, and every other feed would wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::endpoints::Busy;
use crate::domain::FeedId;

/// One feed and one host have this part of the slots; more only while half of all are free.
const SLOT_SHARE: usize = 8;

/// How soon a job comes back whose feed or host has its share.
const COME_BACK_MS: u64 = 200;

/// Who takes slots.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Taker {
    Feed(FeedId),
    Host(String),
}

/// The slots of a node.
pub struct Slots {
    free: Arc<Semaphore>,
    all: usize,
    taken: Arc<Mutex<HashMap<Taker, usize>>>,
}

/// A slot; free again when it is dropped.
pub struct Slot {
    _permit: OwnedSemaphorePermit,
    _shares: Shares,
}

impl Slots {
    pub fn new(all: usize) -> Slots {
        let all = all.max(1);
        Slots { free: Arc::new(Semaphore::new(all)), all, taken: Arc::default() }
    }

    /// Waits for a slot, for a delivery of this feed to this host.
    ///
    /// # Errors
    /// When the feed or the host has its share, and others may need what is left.
    pub async fn take(&self, feed: &FeedId, host: &str) -> Result<Slot, Busy> {
        let takers = [Taker::Feed(feed.clone()), Taker::Host(host.to_owned())];
        let share = (self.all / SLOT_SHARE).max(1);
        let is_over = {
            let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            takers.iter().any(|taker| taken.get(taker).is_some_and(|count| *count >= share))
        };
        if is_over && self.free.available_permits() <= self.all / 2 {
            return Err(Busy(COME_BACK_MS));
        }
        // Counted while it waits too, so that those who wait are not more than the share either.
        let shares = Shares::take(&self.taken, takers);
        match self.free.clone().acquire_owned().await {
            Ok(permit) => Ok(Slot { _permit: permit, _shares: shares }),
            // Never closed.
            Err(_) => Err(Busy(COME_BACK_MS)),
        }
    }
}

/// What two takers have; given back when it is dropped.
struct Shares {
    taken: Arc<Mutex<HashMap<Taker, usize>>>,
    takers: [Taker; 2],
}

impl Shares {
    fn take(taken: &Arc<Mutex<HashMap<Taker, usize>>>, takers: [Taker; 2]) -> Shares {
        let mut counts = taken.lock().unwrap_or_else(PoisonError::into_inner);
        takers.iter().for_each(|taker| *counts.entry(taker.clone()).or_default() += 1);
        Shares { taken: taken.clone(), takers }
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        let mut counts = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for taker in &self.takers {
            if let Some(count) = counts.get_mut(taker) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(taker);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_feed_and_a_host_have_an_eighth_each_while_less_than_half_is_free() {
        let slots = Slots::new(64);
        let feed = |n: usize| -> FeedId { format!("feed-{n}").parse().unwrap() };
        let mut held = Vec::new();
        // Alone, one feed takes half.
        while let Ok(slot) = slots.take(&feed(0), "slow.example").await {
            held.push(slot);
        }
        assert_eq!(held.len(), 32);
        // The host has its share already; others have theirs.
        assert!(slots.take(&feed(1), "slow.example").await.is_err());
        for n in 0..8 {
            held.push(slots.take(&feed(1), &format!("host-{n}")).await.unwrap_or_else(|_| panic!("{n}")));
        }
        assert!(slots.take(&feed(1), "host-9").await.is_err());
        held.push(slots.take(&feed(2), "host-9").await.unwrap_or_else(|_| panic!("another feed")));
        held.clear();
        assert!(slots.take(&feed(0), "slow.example").await.is_ok());
        assert!(slots.taken.lock().unwrap().is_empty(), "nothing is kept of those who have none");
    }
}
