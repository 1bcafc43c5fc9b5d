//! Which feeds have something due: an index in other slots (`lua/due/register.lua`), while a feed's
//! queue is in the feed's slot, so that whatever happens to an entry is one step with its leaving
//! the queue. A feed is registered here before anything joins its queue: a registration without an entry
//! costs a look, an entry without a registration would wait for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use crate::domain::{FeedId, Gift, Millis, Outcome, Show};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::SharedIndex;
use crate::engine::protocol::topics::Topics;
use crate::engine::store::due::turns::{Claim, ClaimedTurn, Over, TurnIndex, TurnMember};
use crate::engine::store::runner::Runner;
use crate::engine::{DueDone, DueFeed, DueTurn};

/// How long a turn lasts: what a node that died had taken comes back within this.
const TURN_MS: u64 = 500;

/// Feeds of which a policy's delay is remembered.
const MAX_REMEMBERED_DELAYS: usize = 4096;

/// A feed as the index names it.
pub fn read_member(name: &[u8]) -> Option<FeedId> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// The index, and what this process knows of delays.
pub struct DueIndex {
    pub turns: TurnIndex,
    /// Policies' delays as they were lately, so that feeds are registered without asking first. A
    /// wrong or missing one costs another trip.
    delays: Mutex<HashMap<FeedId, u64>>,
}

impl DueIndex {
    pub fn new(runner: Arc<Runner>, topics: Arc<Topics>, wakes: broadcast::Sender<u64>) -> DueIndex {
        DueIndex { turns: TurnIndex::new(runner, SharedIndex::Due, topics, wakes), delays: Mutex::default() }
    }

    fn delay(&self, feed: &FeedId) -> Option<u64> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).get(feed).copied()
    }

    /// Remembers a policy's delay.
    pub fn set_delay(&self, feed: &FeedId, delay: u64) {
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        if delay == 0 {
            delays.remove(feed);
            return;
        }
        if delays.len() >= MAX_REMEMBERED_DELAYS {
            delays.clear();
        }
        delays.insert(feed.clone(), delay);
    }

    /// Puts the feed into the index, to be looked at at `at` or `from_now` milliseconds from now,
    /// whichever is earlier. Since when it is there.
    pub async fn register(
        &self,
        feed: &FeedId,
        at: Option<Millis>,
        from_now: Option<u64>,
        now: Option<Millis>,
    ) -> Result<Millis, Fault> {
        self.turns.register(TurnMember { feed, name: feed.as_str() }, at, from_now, now).await
    }

    /// Registers the feed if some of these gifts are for later, as far as this process knows.
    pub async fn register_ahead(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
    ) -> Result<Option<Millis>, Fault> {
        let (mut at, mut from_now) = (None::<Millis>, None::<u64>);
        let mut soonest = |ms: u64| from_now = Some(from_now.map_or(ms, |known| known.min(ms)));
        for gift in gifts {
            match gift.show {
                Show::ByPolicy => self.delay(feed).into_iter().for_each(&mut soonest),
                Show::After(0) => {}
                Show::After(ms) => soonest(ms),
                Show::At(time) => at = Some(at.map_or(time, |known| known.min(time))),
            }
        }
        if at.is_none() && from_now.is_none() {
            return Ok(None);
        }
        self.register(feed, at, from_now, now).await.map(Some)
    }

    /// A policy that delayed gifts may not do so any more.
    pub fn learn_delay(&self, feed: &FeedId, gifts: &[Gift], outcomes: &[Outcome]) {
        let at_once = |(gift, outcome): (&Gift, &Outcome)| {
            gift.show == Show::ByPolicy && matches!(outcome, Outcome::New(_))
        };
        if self.delay(feed).is_some() && gifts.iter().zip(outcomes).any(at_once) {
            self.set_delay(feed, 0);
        }
    }

    /// See [`crate::engine::Store::claim_due`].
    pub async fn claim(&self, over: Vec<DueDone>, max: usize, now: Millis) -> Result<DueTurn, Fault> {
        let over = over.into_iter().map(|done| Over {
            member: done.feed.to_string(),
            feed: done.feed,
            token: done.token,
            next: done.next.map(|next| next.0.to_string()).unwrap_or_default(),
        });
        let over: Vec<_> = over.collect();
        let turns = self.turns.claim(&over, Claim { max, turn_ms: TURN_MS, read: read_member, now }).await?;
        let feed = |ClaimedTurn { member, token, reclaimed }| DueFeed { feed: member, token, reclaimed };
        Ok(DueTurn {
            feeds: turns.taken.into_iter().map(feed).collect(),
            next_in_ms: turns.next_in_ms,
            waiting: turns.waiting,
        })
    }
}
