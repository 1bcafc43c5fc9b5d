//! Claims that wait for entries. Who waits holds no thread and no connection of the store: only a
//! subscription of the feed, which all of them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Gate;
use crate::auth::Right;
use crate::domain::{FeedId, GroupId, Millis, Pull, Taken};
use crate::http::door::Caller;
use crate::http::problem::ApiError;

/// Claims that may wait at the same time.
const MOST: usize = 10_000;

/// How soon somebody whom others were quicker than looks again: many may wait for the same entries.
const PACE: Duration = Duration::from_millis(20);

/// Claims that wait on this node.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A place for another one.
    fn enter(&self) -> Option<WaitingSlot> {
        let place = WaitingSlot(self.0.clone());
        // Given back by the place's end when there were too many.
        (self.0.fetch_add(1, Ordering::Relaxed) < MOST).then_some(place)
    }
}

struct WaitingSlot(Arc<AtomicUsize>);

impl Drop for WaitingSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes what there is for a group, waiting for it as long as was asked. A client that went away meanwhile may
/// still be handed entries: their lease gives them to somebody else. Whose key loses
/// the right is not handed any more.
pub(super) async fn take(
    gate: &Gate,
    caller: &Caller,
    feed: &FeedId,
    group: &GroupId,
    pull: &Pull,
) -> Result<Taken, ApiError> {
    let take = || async {
        let taken = gate.ask(gate.engine.take(feed, group, pull.ask, Millis::now())).await?;
        taken.ok_or(ApiError::TooManyReaders)
    };
    if pull.wait_ms == 0 {
        return take().await;
    }
    let until = Instant::now() + Duration::from_millis(pull.wait_ms);
    let place = gate.waiting.enter();
    let _place = place.ok_or(ApiError::Overloaded("list of claims that wait"))?;
    // Before the first look: what comes after it is told.
    let mut notices = gate.ask(gate.engine.subscribe(feed)).await?;
    let mut rules = gate.door.changes();
    let leaving = gate.live.leaving();
    tokio::pin!(leaving);
    loop {
        while notices.try_next().is_some() {}
        let taken = take().await?;
        let now = Instant::now();
        if !taken.entries.is_empty() || now >= until {
            return Ok(taken);
        }
        let lease_ends = taken.next_in_ms.map(|ms| now + Duration::from_millis(ms));
        let look_again = lease_ends.map_or(until, |at| at.min(until));
        tokio::select! {
            biased;
            () = &mut leaving => return Ok(taken),
            Ok(()) = rules.changed() => gate.door.still(caller, Right::Reports, feed.as_str(), Millis::now())?,
            notice = notices.next() => if notice.is_none() { return Ok(taken) },
            () = sleep_until(look_again) => {}
        }
        // The first to wake should not wait, and nobody should spin.
        tokio::select! {
            biased;
            () = &mut leaving => return Ok(taken),
            () = sleep(if now + PACE < Instant::now() { Duration::ZERO } else { PACE }) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_places_and_each_is_given_back() {
        let waiting = Waiting::default();
        let places: Vec<_> = (0..MOST).map(|_| waiting.enter().unwrap()).collect();
        assert!(waiting.enter().is_none());
        assert_eq!(waiting.count(), MOST);
        drop(places);
        assert_eq!(waiting.count(), 0);
        assert!(waiting.enter().is_some());
    }
}
