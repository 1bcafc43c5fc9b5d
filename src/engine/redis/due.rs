//! Due queues in Redis. A feed's queue is in the feed's slot, so that whatever happens to an entry is one
//! step with its leaving the queue. Which feeds have something due stands in an index, in slots of its
//! own (`lua/due_register.lua`), and a feed is registered there before anything joins its queue: a
//! registration without an entry costs a look, an entry without a registration would wait for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use redis::Cmd;
use tokio::sync::broadcast;

use super::super::record::Records;
use super::super::{
    DEAD_KEPT, DUE_BATCH, DUE_TRIES, DeadDue, DueDone, DueFate, DueFeed, DueHandled, DueRun, DueTurn,
    EngineError, ScheduledGift, ScheduledPage, Unscheduled, rest_after,
};
use super::faults::Fault;
use super::keys::part_of;
use super::scripts::{self, Script};
use super::store::{Extra, Store};
use super::{random, wire};
use crate::domain::{DueKind, DuePlace, FeedId, Gift, GiftId, Millis, Outcome, Show};

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

/// An entry as the store has it.
struct Entry {
    at: Millis,
    member: String,
    kind: char,
    id: String,
    /// What `later` holds, without its first line. None when it is no text.
    text: Option<String>,
}

impl Entry {
    fn read(at: &[u8], member: &[u8], text: &[u8]) -> Option<Entry> {
        let (at, member) = (std::str::from_utf8(at).ok()?, std::str::from_utf8(member).ok()?);
        let (_, name) = member.split_once(' ')?;
        let kind = name.chars().next()?;
        let text = std::str::from_utf8(text).ok().and_then(|text| text.split_once('\n'));
        Some(Entry {
            at: Millis(at.parse().ok()?),
            member: member.to_owned(),
            kind,
            id: name[kind.len_utf8()..].to_owned(),
            text: text.map(|(_, record)| record.to_owned()),
        })
    }

    fn gift(&self) -> Option<Gift> {
        Records::new(self.text.as_deref()?).gift()
    }

    fn place(&self) -> Option<DuePlace> {
        Some(DuePlace { at: self.at, order: self.member.split_once(' ')?.0.parse().ok()? })
    }
}

/// What `due_entries` found.
struct Entries {
    now: Millis,
    next: Option<Millis>,
    entries: Vec<Entry>,
}

impl Store {
    fn timed(&self, script: &Script, keys: &[String], now: Option<Millis>) -> Cmd {
        let mut cmd = script.call(keys);
        match self.clock(now) {
            Some(now) => cmd.arg(now.0),
            None => cmd.arg("-"),
        };
        cmd
    }

    async fn ask(&self, script: &Script, cmd: &Cmd, many: usize) -> Result<Vec<Vec<u8>>, Fault> {
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
        cmd.arg(feed.as_str()).arg(random()).arg(self.keys.wake(part));
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

    /// See [`super::super::Engine::claim_due`].
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

    async fn entries(
        &self,
        feed: &FeedId,
        which: &str,
        after: Option<DuePlace>,
        max: usize,
        now: Option<Millis>,
    ) -> Result<Entries, EngineError> {
        let mut cmd = self.timed(&scripts::DUE_ENTRIES, &self.keys.due(feed), now);
        cmd.arg(max).arg(which);
        match after {
            Some(after) => cmd.arg(after.at.0).arg(after.order),
            None => cmd.arg("").arg(""),
        };
        let reply = self.ask(&scripts::DUE_ENTRIES, &cmd, 0).await?;
        let now = number(reply.first()).map(Millis).ok_or(wire::Garbled("a reply"))?;
        let next = number(reply.get(1)).map(Millis);
        let read = |part: &[Vec<u8>]| Entry::read(&part[0], &part[1], &part[2]);
        let entries = reply.get(2..).unwrap_or_default().chunks_exact(3).filter_map(read).collect();
        Ok(Entries { now, next, entries })
    }

    /// See [`super::super::Engine::scheduled`].
    pub(super) async fn scheduled(
        &self,
        feed: &FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Result<ScheduledPage, EngineError> {
        let kind = DueKind::Gift.letter().to_string();
        let mut entries = self.entries(feed, &kind, after, max + 1, Some(Millis(0))).await?.entries;
        let more = entries.len() > max;
        entries.truncate(max);
        let next = entries.last().filter(|_| more).and_then(Entry::place);
        let gifts = entries
            .iter()
            .filter_map(|entry| Some(ScheduledGift { place: entry.place()?, gift: entry.gift()? }));
        Ok(ScheduledPage { gifts: gifts.collect(), next })
    }

    /// See [`super::super::Engine::unschedule`].
    pub(super) async fn unschedule(
        &self,
        feed: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> Result<Unscheduled, EngineError> {
        let mut keys = self.keys.due(feed).to_vec();
        keys.push(self.keys.id(feed, id));
        let extra = Extra { keys, args: vec![id.to_string()], many: 0 };
        let reply = self.run(&scripts::UNSCHEDULE, feed, Some(now), extra).await?;
        match reply.text(0)? {
            "cancelled" => {
                let at = reply.text(1)?.parse().map_err(|_| wire::Garbled("a time"))?;
                Ok(Unscheduled::Cancelled(Millis(at)))
            }
            "shown" => Ok(Unscheduled::Shown),
            _ => Ok(Unscheduled::Unknown),
        }
    }

    /// See [`super::super::Engine::dead`].
    pub(super) async fn dead(&self, feed: &FeedId) -> Result<Vec<DeadDue>, EngineError> {
        let [_, dead] = self.keys.failed(feed);
        let mut cmd = redis::cmd("LRANGE");
        cmd.arg(dead).arg(0).arg(DEAD_KEPT - 1);
        let value = self.lane().command(&cmd, self.options.call_timeout).await?;
        let texts: Vec<Vec<u8>> =
            redis::from_redis_value(value).map_err(|_| wire::Garbled("dead entries"))?;
        Ok(texts.iter().filter_map(|text| read_dead(&String::from_utf8_lossy(text))).collect())
    }

    /// See [`super::super::Engine::run_due`]. This is where every kind of entry is handled: entries of one
    /// kind that follow each other go together, in a script that takes them out of the queue if, and only
    /// if, they are there and due.
    pub(super) async fn run_due(&self, feed: &FeedId, now: Millis) -> Result<DueRun, EngineError> {
        let found = self.entries(feed, "due", None, DUE_BATCH, Some(now)).await?;
        let mut run = DueRun { handled: Vec::new(), next: found.next };
        let asked = self.clock(Some(now)).unwrap_or(found.now);
        for group in found.entries.chunk_by(|a, b| a.kind == b.kind) {
            match DueKind::of(group[0].kind) {
                Some(DueKind::Gift) => self.show(feed, group, asked, &mut run).await?,
                Some(DueKind::Drop) => {
                    for entry in group {
                        self.strike(feed, entry, asked, &mut run).await?;
                    }
                }
                None => {
                    for entry in group {
                        let why = "this version of Tipcast does not know what it is for";
                        self.set_aside(feed, entry, why, asked, &mut run).await?;
                    }
                }
            }
        }
        Ok(run)
    }

    /// Does what is due of a drop. Its script winds its clock anew.
    async fn strike(
        &self,
        feed: &FeedId,
        entry: &Entry,
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), EngineError> {
        let Ok(drop) = entry.id.parse() else {
            return self.set_aside(feed, entry, "this is no drop's name", now, run).await;
        };
        match self.tick(feed, &drop, now).await {
            Ok(ticked) => {
                run.next = ticked.next;
                let (late_ms, fate) =
                    (ticked.now.since(entry.at), DueFate::Struck(ticked.view.map(Box::new)));
                run.handled.push(DueHandled { late_ms, fate });
                Ok(())
            }
            Err(fault) if fault.data => self.set_aside(feed, entry, &fault.why, now, run).await,
            Err(fault) => Err(fault.into()),
        }
    }

    /// Takes gifts whose time has come like ones that come now.
    async fn show(
        &self,
        feed: &FeedId,
        entries: &[Entry],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), EngineError> {
        let mut readable = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.gift() {
                Some(gift) => readable.push((entry, gift)),
                None => {
                    let why = "what is stored of the gift cannot be read";
                    self.set_aside(feed, entry, why, now, run).await?;
                }
            }
        }
        if readable.is_empty() {
            return Ok(());
        }
        let Err(fault) = self.show_all(feed, &readable, now, run).await else { return Ok(()) };
        if !fault.data {
            return Err(fault.into());
        }
        // Redis refuses what it met, and would again: one by one, so that neighbours do not suffer.
        for one in readable.chunks(1) {
            match self.show_all(feed, one, now, run).await {
                Err(fault) if fault.data => self.set_aside(feed, one[0].0, &fault.why, now, run).await?,
                done => done?,
            }
        }
        Ok(())
    }

    async fn show_all(
        &self,
        feed: &FeedId,
        gifts: &[(&Entry, Gift)],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let mut extra = Extra {
            keys: self.keys.due(feed).to_vec(),
            args: Vec::with_capacity(11 * gifts.len()),
            many: gifts.len(),
        };
        for (entry, gift) in gifts {
            extra.keys.extend([self.keys.id(feed, &gift.id), self.keys.lock(feed, gift)]);
            extra.args.extend(wire::gift_args(gift));
            extra.args.push(entry.member.clone());
        }
        let reply = self.try_run(&scripts::SHOW, feed, Some(now), extra).await?;
        let (_, now) = reply.mark.as_ref().ok_or(wire::Garbled("a reply"))?;
        run.next = reply.texts.first().and_then(|text| text.parse().ok()).map(Millis);
        for ((entry, gift), text) in gifts.iter().zip(reply.texts.iter().skip(1)) {
            // None: another node was faster.
            if let Some(answer) = wire::shown(text, &gift.id)? {
                let late_ms = now.since(entry.at);
                run.handled.push(DueHandled { late_ms, fate: DueFate::Shown(answer) });
            }
        }
        Ok(())
    }

    /// Lets an entry that cannot be handled rest, or gives it up.
    async fn set_aside(
        &self,
        feed: &FeedId,
        entry: &Entry,
        why: &str,
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), EngineError> {
        let [due, later] = self.keys.due(feed);
        let [tries, dead] = self.keys.failed(feed);
        let gift = entry.id.parse::<GiftId>().ok().filter(|_| entry.kind == DueKind::Gift.letter());
        let id = gift.as_ref().map_or(due.clone(), |id| self.keys.id(feed, id));
        let mut cmd = self.timed(&scripts::DUE_ASIDE, &[due, later, tries, dead, id], Some(now));
        let gift = gift.map(|id| id.to_string()).unwrap_or_default();
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        cmd.arg(&entry.member).arg(gift).arg(&why).arg(DUE_TRIES).arg(rest_after(1)).arg(DEAD_KEPT);
        cmd.arg(self.options.defaults.idempotency_window_ms).arg(entry.at.0);
        let reply = self.ask(&scripts::DUE_ASIDE, &cmd, 0).await?;
        let now = number(reply.first()).map(Millis).ok_or(wire::Garbled("a reply"))?;
        run.next = number(reply.get(1)).map(Millis);
        let fate = match reply.get(2).map(Vec::as_slice) {
            Some(b"rests") => DueFate::SetAside,
            Some(b"dead") => {
                let (kind, id) = (entry.kind, entry.id.clone());
                DueFate::Dead(DeadDue { kind, id, due: entry.at, at: now, reason: why })
            }
            _ => return Ok(()),
        };
        run.handled.push(DueHandled { late_ms: now.since(entry.at), fate });
        Ok(())
    }
}

fn number<T: std::str::FromStr>(bytes: Option<&Vec<u8>>) -> Option<T> {
    std::str::from_utf8(bytes?).ok()?.parse().ok()
}

/// The mark in a token of this part of the index.
fn mark_in(part: usize, token: &str) -> Option<&str> {
    let (own, mark) = token.split_once(':')?;
    (own.parse() == Ok(part)).then_some(mark)
}

/// "AT DUE REASON", the member, the rest.
fn read_dead(text: &str) -> Option<DeadDue> {
    let mut lines = text.split('\n');
    let mut head = lines.next()?.splitn(3, ' ');
    let (at, due) = (Millis(head.next()?.parse().ok()?), Millis(head.next()?.parse().ok()?));
    let reason = head.next()?.to_owned();
    let (_, name) = lines.next()?.split_once(' ')?;
    let kind = name.chars().next()?;
    Some(DeadDue { kind, id: name[kind.len_utf8()..].to_owned(), due, at, reason })
}
