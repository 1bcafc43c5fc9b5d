//! Which feeds have something due: an index in slots of its own (`lua/due_register.lua`), while a feed's
//! queue (`queue`) is in the feed's slot, so that whatever happens to an entry is one step with its leaving
//! the queue. A feed is registered here before anything joins its queue: a registration without an entry
//! costs a look, an entry without a registration would wait for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use redis::Cmd;
use tokio::sync::broadcast;

use super::super::{DueDone, DueFeed, DueTurn, EngineError};
use super::faults::Fault;
use super::keys::part_of;
use super::scripts::{self, Script};
use super::store::Store;
use super::{random, wire};
use crate::domain::{FeedId, Gift, Millis, Outcome, Show};

mod queue;

/// Parts of the index that there may be, whatever this node's setting says.
pub const PARTS_MAX: usize = 16;

/// How long a turn lasts: what a node that died had taken comes back within this.
const TURN_MS: u64 = 500;

/// Feeds of which a policy's delay is remembered.
const DELAYS: usize = 4096;

/// What this process knows of due queues.
pub(super) struct DueState {
    pub wakes: broadcast::Sender<u64>,
    /// Policies' delays as they were lately, so that feeds are registered without asking first. A
    /// wrong or missing one costs another trip.
    delays: Mutex<HashMap<FeedId, u64>>,
    /// Counts looks into parts that nobody here writes to.
    strays: AtomicUsize,
}

impl Default for DueState {
    fn default() -> DueState {
        let wakes = super::super::Wakes::sender();
        DueState { wakes, delays: Mutex::default(), strays: AtomicUsize::new(0) }
    }
}

impl DueState {
    fn delay(&self, feed: &FeedId) -> Option<u64> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).get(feed).copied()
    }

    fn set_delay(&self, feed: &FeedId, delay: u64) {
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
}

impl Store {
    /// A call of a script whose first ARGV is the time; the others are to follow.
    pub(super) fn timed(&self, script: &Script, keys: &[String], now: Option<Millis>) -> Cmd {
        let mut cmd = script.call(keys);
        match self.clock(now) {
            Some(now) => cmd.arg(now.0),
            None => cmd.arg("-"),
        };
        cmd
    }

    /// Runs a script that answers with texts.
    pub(super) async fn ask(&self, script: &Script, cmd: &Cmd, many: usize) -> Result<Vec<Vec<u8>>, Fault> {
        script.check(cmd, many);
        let value = self.lane().script(script, cmd, self.options.call_timeout).await?;
        redis::from_redis_value(value).map_err(|_| wire::Garbled("a reply").into())
    }

    /// Puts the feed into the index, to be looked at at `at` or `from_now` milliseconds from now,
    /// whichever is earlier. Since when it is there.
    pub(super) async fn register(
        &self,
        feed: &FeedId,
        at: Option<Millis>,
        from_now: Option<u64>,
        now: Option<Millis>,
    ) -> Result<Millis, EngineError> {
        let part = part_of(feed, self.options.due_parts);
        let text = |n: Option<i128>| n.map(|n| n.to_string()).unwrap_or_default();
        let mut cmd = self.timed(&scripts::DUE_REGISTER, &self.keys.index(part), now);
        cmd.arg(text(at.map(|at| at.0.into()))).arg(text(from_now.map(Into::into)));
        cmd.arg(feed.as_str()).arg(format!("{}@", random())).arg(self.keys.wake(part));
        let reply = self.ask(&scripts::DUE_REGISTER, &cmd, 0).await?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.due.wakes.send(in_ms);
        }
        let at = number(reply.first()).ok_or(wire::Garbled("a reply"))?;
        Ok(Millis(at))
    }

    /// Registers the feed when some of these gifts are for later, as far as can be told from here.
    pub(super) async fn register_ahead(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
    ) -> Result<Option<Millis>, EngineError> {
        let (mut at, mut from_now) = (None::<Millis>, None::<u64>);
        let mut soonest = |ms: u64| from_now = Some(from_now.map_or(ms, |known| known.min(ms)));
        for gift in gifts {
            match gift.show {
                Show::ByPolicy => self.due.delay(feed).into_iter().for_each(&mut soonest),
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

    /// Registers the feed when `feed_publish` has refused until it is.
    pub(super) async fn register_as_told(
        &self,
        feed: &FeedId,
        texts: &[String],
        now: Option<Millis>,
    ) -> Result<Millis, EngineError> {
        let read = |at: usize| texts.get(at).and_then(|text| text.parse::<i64>().ok());
        let (Some(at), Some(delay)) = (read(2), read(3)) else {
            return Err(wire::Garbled("a reply").into());
        };
        self.due.set_delay(feed, delay.max(0) as u64);
        self.register(feed, Some(Millis(at)), None, now).await
    }

    /// A policy that delayed gifts may not do so any more.
    pub(super) fn learn_delay(&self, feed: &FeedId, gifts: &[Gift], outcomes: &[Outcome]) {
        let at_once = |(gift, outcome): (&Gift, &Outcome)| {
            gift.show == Show::ByPolicy && matches!(outcome, Outcome::New(_))
        };
        if self.due.delay(feed).is_some() && gifts.iter().zip(outcomes).any(at_once) {
            self.due.set_delay(feed, 0);
        }
    }

    /// See [`crate::engine::Engine::claim_due`].
    pub(super) async fn claim_due(
        &self,
        over: Vec<DueDone>,
        max: usize,
        now: Millis,
    ) -> Result<DueTurn, EngineError> {
        let mut turn = DueTurn::default();
        let own = self.options.due_parts.clamp(1, PARTS_MAX);
        for part in 0..PARTS_MAX {
            let over: Vec<_> =
                over.iter().filter_map(|done| Some((done, mark_in(part, &done.token)?))).collect();
            if part < own || !over.is_empty() {
                let most = max.saturating_sub(turn.feeds.len());
                self.take_turns(part, &over, if part < own { most } else { 0 }, now, &mut turn).await?;
            }
        }
        // Nodes may have been told of more parts than this one, or have been once: what they left is
        // found here, in time.
        if turn.feeds.is_empty() && own < PARTS_MAX && max > 0 {
            let look = self.due.strays.fetch_add(1, Ordering::Relaxed);
            let next = turn.next_in_ms;
            self.take_turns(own + look % (PARTS_MAX - own), &[], max, now, &mut turn).await?;
            turn.next_in_ms = next;
        }
        Ok(turn)
    }

    async fn take_turns(
        &self,
        part: usize,
        over: &[(&DueDone, &str)],
        max: usize,
        now: Millis,
        turn: &mut DueTurn,
    ) -> Result<(), EngineError> {
        let mut cmd = self.timed(&scripts::DUE_TURNS, &self.keys.index(part), Some(now));
        cmd.arg(TURN_MS).arg(max);
        for (done, mark) in over {
            cmd.arg(done.feed.as_str()).arg(mark);
            cmd.arg(done.next.map(|next| next.0.to_string()).unwrap_or_default());
        }
        let reply = self.ask(&scripts::DUE_TURNS, &cmd, over.len()).await?;
        let next: Option<u64> = number(reply.first());
        turn.next_in_ms = [turn.next_in_ms, next].into_iter().flatten().min();
        turn.waiting += number(reply.get(1)).unwrap_or(0);
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            let text = |at: usize| String::from_utf8_lossy(&taken[at]).into_owned();
            match text(0).parse() {
                Ok(feed) => {
                    let token = format!("{part}:{}", text(1));
                    turn.feeds.push(DueFeed { feed, token, reclaimed: taken[2] == b"1" });
                }
                Err(_) => {
                    tracing::warn!(name = text(0), "no feed's name in the index of due feeds; it is removed");
                    let mut cmd = redis::cmd("ZREM");
                    cmd.arg(&self.keys.index(part)[0]).arg(&taken[0]);
                    self.lane().command(&cmd, self.options.call_timeout).await?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn number<T: std::str::FromStr>(bytes: Option<&Vec<u8>>) -> Option<T> {
    std::str::from_utf8(bytes?).ok()?.parse().ok()
}

/// The mark in a token of this part of the index.
fn mark_in(part: usize, token: &str) -> Option<&str> {
    let (own, mark) = token.split_once(':')?;
    (own.parse() == Ok(part)).then_some(mark)
}
