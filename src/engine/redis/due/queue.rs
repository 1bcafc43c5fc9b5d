//! One feed's due queue: reading it, handling what is due, putting away what cannot be handled.

use super::super::super::record::{Records, entry_extra};
use super::super::super::{
    DEAD_KEPT, DUE_BATCH, DUE_TRIES, DeadDue, DueFate, DueHandled, DueRun, EngineError, ScheduledGift,
    ScheduledPage, Unscheduled, rest_after,
};
use super::super::faults::Fault;
use super::super::reports::APPEND_ROUNDS;
use super::super::store::{Extra, Reply, Store};
use super::super::{scripts, wire};
use super::number;
use crate::domain::{DueKind, DuePlace, FeedId, Gift, GiftId, Millis};

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
        let (kind, id) = name_of(member);
        let text = std::str::from_utf8(text).ok().and_then(|text| text.split_once('\n'));
        Some(Entry {
            at: Millis(at.parse().ok()?),
            member: member.to_owned(),
            kind,
            id,
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
        let mut entries = Vec::with_capacity(reply.len() / 3);
        for part in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match Entry::read(&part[0], &part[1], &part[2]) {
                Some(entry) => entries.push(entry),
                // Not even a name by which it could be set aside, and it would be found again and again.
                None => {
                    tracing::warn!(%feed, "an entry in a due queue that Tipcast did not write; it is removed");
                    let mut cmd = redis::cmd("ZREM");
                    cmd.arg(&self.keys.due(feed)[0]).arg(&part[1]);
                    self.lane().command(&cmd, self.options.call_timeout).await?;
                }
            }
        }
        Ok(Entries { now, next, entries })
    }

    /// See [`crate::engine::Engine::scheduled`].
    pub(in super::super) async fn scheduled(
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

    /// See [`crate::engine::Engine::unschedule`].
    pub(in super::super) async fn unschedule(
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

    /// See [`crate::engine::Engine::dead`].
    pub(in super::super) async fn dead(&self, feed: &FeedId) -> Result<Vec<DeadDue>, EngineError> {
        let [_, dead] = self.keys.failed(feed);
        let mut cmd = redis::cmd("LRANGE");
        cmd.arg(dead).arg(0).arg(DEAD_KEPT - 1);
        let value = self.lane().command(&cmd, self.options.call_timeout).await?;
        let texts: Vec<Vec<u8>> =
            redis::from_redis_value(value).map_err(|_| wire::Garbled("dead entries"))?;
        Ok(texts.iter().filter_map(|text| read_dead(&String::from_utf8_lossy(text))).collect())
    }

    /// See [`crate::engine::Engine::run_due`]. This is where every kind of entry is handled: entries of one
    /// kind that follow each other go together, in a script that takes them out of the queue if, and only
    /// if, they are there and due.
    pub(in super::super) async fn run_due(&self, feed: &FeedId, now: Millis) -> Result<DueRun, EngineError> {
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
        let mut rested = String::new();
        for _ in 0..APPEND_ROUNDS {
            let extra = self.show_extra(feed, gifts, &rested);
            let reply = self.try_run(&scripts::SHOW, feed, Some(now), extra).await?;
            if reply.mark.is_some() {
                self.reports.appended(feed);
                return shown(gifts, reply, run);
            }
            let ready = self.before_entries(feed, &reply.texts, self.clock(Some(now))).await;
            let ready = ready.map_err(|error| Fault::stay(error.to_string()))?;
            rested = ready.ok_or(wire::Garbled("a reply"))?;
        }
        Err(Fault::stay("the feed's webhooks change faster than gifts are shown"))
    }

    fn show_extra(&self, feed: &FeedId, gifts: &[(&Entry, Gift)], rested: &str) -> Extra {
        let mut extra = Extra {
            keys: self.keys.due(feed).to_vec(),
            args: Vec::with_capacity(3 + 6 * gifts.len()),
            many: gifts.len(),
        };
        extra.keys.extend(self.keys.ledger(feed));
        extra.args.extend(self.append_args(rested));
        for (entry, gift) in gifts {
            extra.keys.extend([self.keys.id(feed, &gift.id), self.keys.lock(feed, gift)]);
            extra.args.extend(wire::gift_args(gift));
            extra.args.push(entry.member.clone());
            extra.args.push(entry_extra(gift));
        }
        extra
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

/// Reads what `feed_show` answered.
fn shown(gifts: &[(&Entry, Gift)], reply: Reply, run: &mut DueRun) -> Result<(), Fault> {
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

/// "AT DUE REASON", the member, the rest.
fn read_dead(text: &str) -> Option<DeadDue> {
    let mut lines = text.split('\n');
    let mut head = lines.next()?.splitn(3, ' ');
    let (at, due) = (Millis(head.next()?.parse().ok()?), Millis(head.next()?.parse().ok()?));
    let reason = head.next()?.to_owned();
    let (kind, id) = name_of(lines.next()?);
    Some(DeadDue { kind, id, due, at, reason })
}

/// The letter and the id in a member of `due`; of one that is not ours "?" and the whole.
fn name_of(member: &str) -> (char, String) {
    let name = member.split_once(' ').filter(|(order, _)| order.bytes().all(|b| b.is_ascii_digit()));
    match name.and_then(|(_, name)| name.chars().next().map(|kind| (kind, name))) {
        Some((kind, name)) => (kind, name[kind.len_utf8()..].to_owned()),
        None => ('?', member.to_owned()),
    }
}
