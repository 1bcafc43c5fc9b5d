//! Which feeds have something due: an index in slots of its own (`lua/due_register.lua`), while a feed's
//! queue is in the feed's slot, so that whatever happens to an entry is one step with its leaving
//! the queue. A feed is registered here before anything joins its queue: a registration without an entry
//! costs a look, an entry without a registration would wait for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::super::keys::{PARTS_ALL, Shared};
use super::super::net::faults::Fault;
use super::super::runner::{Runner, needed, number};
use super::super::scripts;
use super::super::shares::shares;
use super::super::tags::random;
use crate::domain::{FeedId, Gift, Millis, Outcome, Show};
use crate::engine::{DueDone, DueFeed, DueTurn, Wakes};

/// How long a turn lasts: what a node that died had taken comes back within this.
const TURN_MS: u64 = 500;

/// Feeds of which a policy's delay is remembered.
const DELAYS: usize = 4096;

/// Parts that nobody here writes to and that are looked into with one idle look.
const STRAYS: usize = 2;

/// The index, and what this process knows of delays.
pub struct DueIndex {
    runner: Arc<Runner>,
    pub wakes: broadcast::Sender<u64>,
    /// Policies' delays as they were lately, so that feeds are registered without asking first. A
    /// wrong or missing one costs another trip.
    delays: Mutex<HashMap<FeedId, u64>>,
    /// Counts looks, so that parts take turns in being the first.
    round: AtomicUsize,
    /// Counts looks into parts that nobody here writes to.
    strays: AtomicUsize,
}

impl DueIndex {
    pub fn new(runner: Arc<Runner>, wakes: broadcast::Sender<u64>) -> DueIndex {
        DueIndex {
            runner,
            wakes,
            delays: Mutex::default(),
            round: AtomicUsize::new(0),
            strays: AtomicUsize::new(0),
        }
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
        if delays.len() >= DELAYS {
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
        let keys = &self.runner.keys;
        let part = keys.part_of(Shared::Due, feed);
        let [feeds, marks] = keys.index(Shared::Due, part);
        let mut call = self.runner.timed(&scripts::DUE_REGISTER, now);
        call.keys([("feeds", feeds), ("marks", marks)]);
        call.arg("at", at.map(|at| at.0.to_string()).unwrap_or_default());
        call.arg("in", from_now.map(|ms| ms.to_string()).unwrap_or_default());
        call.arg("feed", feed).arg("mark", format!("{}@", random()));
        call.arg("wake channel", keys.wake(Shared::Due, part));
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await.map_err(Fault::of_an_index)?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.wakes.send(in_ms);
        }
        needed(reply.first()).map(Millis).map_err(|garbled| Fault::from(garbled).of_an_index())
    }

    /// Registers the feed when some of these gifts are for later, as far as can be told from here.
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

    /// See [`crate::engine::DueStore::claim_due`]. Parts whose server is away are left out: turns that were to be
    /// given back there end by themselves.
    pub async fn claim(&self, over: Vec<DueDone>, max: usize, now: Millis) -> Result<DueTurn, Fault> {
        let own = self.runner.keys.parts(Shared::Due);
        let shares = shares(max, own, self.round.fetch_add(1, Ordering::Relaxed));
        let looks = (0..PARTS_ALL).filter_map(|part| {
            let over: Vec<_> =
                over.iter().filter_map(|done| Some((done, mark_in(part, &done.token)?))).collect();
            (part < own || !over.is_empty()).then_some((part, over, shares.get(part).copied().unwrap_or(0)))
        });
        let looks =
            looks.map(async |(part, over, most)| (part, self.take_turns(part, &over, most, now).await));
        let (mut turn, mut fault, mut any) = (DueTurn::default(), None, false);
        let mut more = Vec::new();
        for (part, look) in join_all(looks).await {
            match look {
                Ok(look) => {
                    any = true;
                    if look.next_in_ms == Some(0) && part < own {
                        more.push(part);
                    }
                    turn.next_in_ms = [turn.next_in_ms, look.next_in_ms].into_iter().flatten().min();
                    turn.waiting += look.waiting;
                    turn.feeds.extend(look.feeds);
                }
                Err(why) => fault = Some(why),
            }
        }
        // A part may have more than its share, while others have nothing.
        for part in more {
            let rest = max.saturating_sub(turn.feeds.len());
            if rest > 0
                && let Ok(look) = self.take_turns(part, &[], rest, now).await
            {
                turn.feeds.extend(look.feeds);
            }
        }
        match fault {
            Some(fault) if !any => return Err(fault),
            Some(fault) => tracing::debug!(why = fault.why, "parts of the index of due feeds were left out"),
            None => {}
        }
        // Nodes may have been told of more parts than this one, or have been once: what they left is
        // found here, in time.
        if turn.feeds.is_empty() && max > 0 {
            for _ in 0..STRAYS {
                let look = self.strays.fetch_add(1, Ordering::Relaxed);
                let part = own + look % (PARTS_ALL - own);
                turn.feeds.extend(
                    self.take_turns(part, &[], max, now).await.map(|turn| turn.feeds).unwrap_or_default(),
                );
            }
        }
        Ok(turn)
    }

    async fn take_turns(
        &self,
        part: usize,
        over: &[(&DueDone, &str)],
        max: usize,
        now: Millis,
    ) -> Result<DueTurn, Fault> {
        let [feeds, marks] = self.runner.keys.index(Shared::Due, part);
        let mut call = self.runner.timed(&scripts::DUE_TURNS, Some(now));
        call.keys([("feeds", feeds.clone()), ("marks", marks)]).arg("turn", TURN_MS).arg("most", max);
        for (done, mark) in over {
            let next = done.next.map(|next| next.0.to_string()).unwrap_or_default();
            call.item([], [("feed", done.feed.to_string()), ("mark", (*mark).to_owned()), ("next", next)]);
        }
        let reply: Vec<Vec<u8>> =
            self.runner.run_within(&call, self.runner.part_patience()).await.map_err(Fault::of_an_index)?;
        let mut turn = DueTurn {
            feeds: Vec::new(),
            next_in_ms: number(reply.first()),
            waiting: number(reply.get(1)).unwrap_or(0),
        };
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            let text = |at: usize| String::from_utf8_lossy(&taken[at]).into_owned();
            match text(0).parse() {
                Ok(feed) => {
                    let token = format!("{part}:{}", text(1));
                    turn.feeds.push(DueFeed { feed, token, reclaimed: taken[2] == b"1" });
                }
                Err(_) => {
                    tracing::warn!(name = text(0), "no feed's name in the index of due feeds; it is removed");
                    let mut remove = redis::cmd("ZREM");
                    remove.arg(&feeds).arg(&taken[0]);
                    let _: u64 = self.runner.get(&feeds, &remove).await?;
                }
            }
        }
        Ok(turn)
    }
}

/// A new sender of wake-ups.
pub fn wakes() -> broadcast::Sender<u64> {
    Wakes::sender()
}

/// The mark in a token of this part of the index.
fn mark_in(part: usize, token: &str) -> Option<&str> {
    let (own, mark) = token.split_once(':')?;
    (own.parse() == Ok(part)).then_some(mark)
}
