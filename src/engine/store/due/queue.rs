//! One feed's due queue: reading it, handling what is due, putting away what cannot be handled.

use std::sync::Arc;
use std::time::Instant;

use crate::domain::review::REVIEWS_MAX;
use crate::domain::{DueKind, DuePlace, FeedId, GiftId, InReview, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::drops::stock::DropStock;
use crate::engine::store::due::index::read_member;
use crate::engine::store::due::turns::PagePlace;
use crate::engine::store::review::reviews::{self, Reviews, Verdict};
use crate::engine::store::runner::{Reply, Runner, needed, number};
use crate::engine::store::writer::{FeedWriter, Preconditions};
use crate::engine::{
    DEAD_KEPT, DUE_BATCH, DUE_TRIES, DeadDue, DueFate, DueHandled, DueRun, ScheduledGift, ScheduledPage,
    Unscheduled, rest_after,
};

/// An entry as the store has it.
struct Entry {
    at: Millis,
    member: String,
    kind: char,
    id: String,
    /// What `later` or `reviews` holds, without its first line. `None` if it is no text.
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

    fn waiting(&self) -> Option<WaitingGift<'static>> {
        WaitingGift::read(self.text.as_deref()?)
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

/// The due queues of feeds.
pub struct DueQueue {
    pub writer: Arc<FeedWriter>,
    pub stock: Arc<DropStock>,
    pub reviews: Arc<Reviews>,
}

impl DueQueue {
    fn runner(&self) -> &Runner {
        &self.writer.runner
    }

    async fn entries(
        &self,
        feed: &FeedId,
        which: &str,
        after: Option<DuePlace>,
        max: usize,
        now: Option<Millis>,
    ) -> Result<Entries, Fault> {
        let [due, later] = self.runner().keys.due(feed);
        let mut call = self.runner().timed(&scripts::DUE_ENTRIES, now);
        call.for_a_reader();
        let reviews = self.runner().keys.reviews(feed);
        call.keys([("due", due.clone()), ("later", later), ("reviews", reviews)])
            .arg("most", max)
            .arg("which", which);
        match after {
            Some(after) => call.arg("after", after.at.0).arg("order", after.order),
            None => call.arg("after", "").arg("order", ""),
        };
        let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
        let (now, next) = (Millis(needed(reply.first())?), number(reply.get(1)).map(Millis));
        let mut entries = Vec::with_capacity(reply.len() / 3);
        for part in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match Entry::read(&part[0], &part[1], &part[2]) {
                Some(entry) => entries.push(entry),
                // Not even a name by which it could be set aside, and it would be found again and again.
                None => {
                    tracing::warn!(%feed, "an entry in a due queue that Tipcast did not write; it is removed");
                    let mut cmd = redis::cmd("ZREM");
                    cmd.arg(&due).arg(&part[1]);
                    let _: u64 = self.runner().get(&due, &cmd).await?;
                }
            }
        }
        Ok(Entries { now, next, entries })
    }

    /// See [`crate::engine::Store::list_scheduled`].
    pub async fn scheduled(
        &self,
        feed: &FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Result<ScheduledPage, Fault> {
        let kind = DueKind::Gift.letter().to_string();
        let mut entries = self.entries(feed, &kind, after, max + 1, Some(Millis(0))).await?.entries;
        let more = entries.len() > max;
        entries.truncate(max);
        let next = entries.last().filter(|_| more).and_then(Entry::place);
        let read = |entry: &Entry| {
            Some(ScheduledGift { place: entry.place()?, gift: entry.waiting()?.gift.into_owned() })
        };
        let gifts = entries.iter().map(|entry| read(entry).ok_or(Corrupt("a gift that waits")));
        Ok(ScheduledPage { gifts: gifts.collect::<Result<_, _>>()?, next })
    }

    /// See [`crate::engine::Store::list_reviews`].
    pub async fn in_review(&self, feed: &FeedId, now: Millis) -> Result<Vec<InReview>, Fault> {
        let most = REVIEWS_MAX as usize;
        let found = self.entries(feed, "r", None, most, Some(now)).await?;
        let now = self.runner().clock(Some(now)).unwrap_or(found.now);
        let mut all = Vec::new();
        for (n, entry) in found.entries.iter().enumerate().filter(|(_, entry)| entry.at > now) {
            let Some(text) = &entry.text else { continue };
            let (note, gift) = reviews::read(text).ok_or(Corrupt("a gift in review"))?;
            // Time or a block has decided about others.
            if !self.reviews.blocks.is_blocked(feed, &gift.user.id, now).await? {
                all.push((note.at, n, InReview { at: note.at, expires_at: entry.at, gift }));
            }
        }
        all.sort_by_key(|(at, n, _)| (*at, *n));
        Ok(all.into_iter().map(|(.., it)| it).collect())
    }

    /// See [`crate::engine::Store::cancel_scheduled`].
    pub async fn unschedule(&self, feed: &FeedId, id: &GiftId, now: Millis) -> Result<Unscheduled, Fault> {
        let keys = &self.runner().keys;
        let [due, later] = keys.due(feed);
        let mut call = self.runner().feed_call(&scripts::UNSCHEDULE, feed);
        call.keys([("due", due), ("later", later), ("id", keys.id(feed, id))]).arg("gift", id);
        let reply = self.runner().run_feed(call, feed, Some(now)).await?;
        match reply.text(0)? {
            "cancelled" => {
                let at = reply.text(1)?.parse().map_err(|_| Corrupt("a time"))?;
                Ok(Unscheduled::Cancelled(Millis(at)))
            }
            "shown" => Ok(Unscheduled::Shown),
            _ => Ok(Unscheduled::Unknown),
        }
    }

    /// See [`crate::engine::Store::list_dead_due`].
    pub async fn dead(&self, feed: &FeedId) -> Result<Vec<DeadDue>, Fault> {
        let [_, dead] = self.runner().keys.failed(feed);
        let mut cmd = redis::cmd("LRANGE");
        cmd.arg(&dead).arg(0).arg(DEAD_KEPT - 1);
        let texts: Vec<Vec<u8>> = self.runner().get(&dead, &cmd).await?;
        let read = |text: &Vec<u8>| read_dead(&String::from_utf8_lossy(text)).ok_or(Corrupt("a dead entry"));
        Ok(texts.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// See [`crate::engine::Store::run_due`]. This is where every kind of entry is handled: entries of one
    /// kind that follow each other go together, in a script that takes them out of the queue if, and only
    /// if, they are there and due.
    pub async fn run_due(&self, feed: &FeedId, now: Millis) -> Result<DueRun, Fault> {
        let found = self.entries(feed, "due", None, DUE_BATCH, Some(now)).await?;
        let mut run = DueRun { handled: Vec::new(), next: found.next };
        let asked = self.runner().clock(Some(now)).unwrap_or(found.now);
        for group in found.entries.chunk_by(|a, b| a.kind == b.kind) {
            if let Some(DueKind::Gift) = DueKind::of(group[0].kind) {
                self.show(feed, group, asked, &mut run).await?;
                continue;
            }
            for entry in group {
                match self.handle(feed, entry, asked).await {
                    Ok((next, handled)) => {
                        run.next = next;
                        run.handled.extend(handled);
                    }
                    Err(fault) if fault.is_data() => {
                        self.set_aside(feed, entry, &fault.why, asked, &mut run).await?;
                    }
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(run)
    }

    /// See [`crate::engine::Store::rewind`].
    pub async fn rewind(&self, now: Millis) -> Result<u64, Fault> {
        let (mut place, mut moved, begun) = (Some(PagePlace::default()), 0, Instant::now());
        while let Some(at) = place {
            let (feeds, next) = self.writer.due.turns.page(at, read_member).await?;
            for (feed, at) in feeds {
                // A walk through many feeds takes seconds, in which entries are made.
                let now = now.plus(1_000 * begun.elapsed().as_secs());
                let (first, count) = match self.rewind_feed(&feed, now).await {
                    Err(fault) if fault.is_data() => continue,
                    done => done?,
                };
                moved += count;
                // As a run that was cut short may have left it, too.
                if let Some(first) = first.filter(|first| *first < at) {
                    self.writer.due.register(&feed, Some(first), None, Some(now)).await?;
                }
            }
            place = next;
        }
        Ok(moved)
    }

    /// When the feed's first entry is due now, and how many were put right.
    async fn rewind_feed(&self, feed: &FeedId, now: Millis) -> Result<(Option<Millis>, u64), Fault> {
        let keys = &self.runner().keys;
        let (mut skip, mut moved) = (0_u64, 0);
        loop {
            let [due, later] = keys.due(feed);
            let mut call = self.runner().timed(&scripts::DUE_REWIND, Some(now));
            call.keys([("due", due), ("later", later), ("reviews", keys.reviews(feed))]).arg("skip", skip);
            let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
            moved += number(reply.get(2)).unwrap_or(0);
            match number(reply.get(1)) {
                Some(more) => skip = more,
                None => return Ok((number(reply.first()).map(Millis), moved)),
            }
        }
    }

    /// Does what is due of anything but gifts. Returns when the next entry is due, and what became of this one, unless somebody else
    /// did it. The script of a drop and that of totals put their entry into the queue anew.
    async fn handle(
        &self,
        feed: &FeedId,
        entry: &Entry,
        now: Millis,
    ) -> Result<(Option<Millis>, Option<DueHandled>), Fault> {
        let (next, at, fate) = match DueKind::of(entry.kind) {
            Some(DueKind::Review) => {
                let gift = entry.text.as_deref().and_then(reviews::read);
                let (_, gift) =
                    gift.ok_or_else(|| Fault::data("what is stored of the gift cannot be read"))?;
                let done = self.reviews.decide(feed, &gift, Verdict::Time, now).await?;
                let fate = done.now.then(|| done.answer().map_or(DueFate::PutOff, DueFate::Shown));
                (done.next, done.at, fate)
            }
            Some(DueKind::Drop) => {
                let drop = entry.id.parse().map_err(|_| Fault::data("this is no drop's name"))?;
                let ticked = self.stock.tick(feed, &drop, now).await?;
                (ticked.next, ticked.now, Some(DueFate::Struck(ticked.view.map(Box::new))))
            }
            Some(DueKind::Totals) => {
                let ticked = self.writer.tick_totals(feed, Some(now)).await?;
                (ticked.next, ticked.now, Some(DueFate::Struck(None)))
            }
            Some(DueKind::Gift) | None => {
                return Err(Fault::data("this version of Tipcast does not know what it is for"));
            }
        };
        Ok((next, fate.map(|fate| DueHandled { late_ms: at.since(entry.at), fate })))
    }

    /// Takes gifts whose time has come like ones that come now.
    async fn show(
        &self,
        feed: &FeedId,
        entries: &[Entry],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let mut readable = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.waiting() {
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
        if !fault.is_data() {
            return Err(fault);
        }
        // Redis refuses what it met, and would again: one by one, so that neighbours do not suffer.
        for one in readable.chunks(1) {
            match self.show_all(feed, one, now, run).await {
                Err(fault) if fault.is_data() => self.set_aside(feed, one[0].0, &fault.why, now, run).await?,
                done => done?,
            }
        }
        Ok(())
    }

    async fn show_all(
        &self,
        feed: &FeedId,
        gifts: &[(&Entry, WaitingGift<'static>)],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let everywhere = self.reviews.blocks.everywhere(gifts.iter().map(|(_, it)| &*it.gift), now).await;
        let call = |_: &Preconditions| self.show_call(feed, gifts, &everywhere);
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        shown(gifts, &reply, run)
    }

    fn show_call(&self, feed: &FeedId, gifts: &[(&Entry, WaitingGift<'static>)], everywhere: &str) -> Call {
        let keys = &self.runner().keys;
        let [due, later] = keys.due(feed);
        let mut call = self.runner().feed_call(&scripts::SHOW, feed);
        call.keys([("due", due), ("later", later), ("blocks", keys.blocks(feed))]);
        call.arg("blocked_everywhere", everywhere);
        for (entry, WaitingGift { gift, masked }) in gifts {
            let keys = [("id", keys.id(feed, &gift.id)), ("lock", keys.lock(feed, gift))];
            let args = wire::gift_args(gift, *masked);
            call.item(keys, args.into_iter().chain([("member", entry.member.clone())]));
        }
        call
    }

    /// Lets an entry that cannot be handled rest, or gives it up.
    async fn set_aside(
        &self,
        feed: &FeedId,
        entry: &Entry,
        why: &str,
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let keys = &self.runner().keys;
        let ([due, later], [tries, dead]) = (keys.due(feed), keys.failed(feed));
        let is_gift = matches!(DueKind::of(entry.kind), Some(DueKind::Gift | DueKind::Review));
        let later = if entry.kind == DueKind::Review.letter() { keys.reviews(feed) } else { later };
        let gift = entry.id.parse::<GiftId>().ok().filter(|_| is_gift);
        let id = gift.as_ref().map_or(due.clone(), |id| keys.id(feed, id));
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        let mut call = self.runner().timed(&scripts::DUE_ASIDE, Some(now));
        call.keys([("due", due), ("later", later), ("tries", tries), ("dead", dead), ("id", id)]);
        call.arg("member", &entry.member).arg("reason", &why);
        call.arg("gift", gift.map(|id| id.to_string()).unwrap_or_default());
        call.arg("tries", DUE_TRIES).arg("rest", rest_after(1)).arg("dead_entries", DEAD_KEPT);
        call.arg("window", self.runner().options.defaults.idempotency_window_ms).arg("due_at", entry.at.0);
        let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
        let now = Millis(needed(reply.first())?);
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
fn shown(gifts: &[(&Entry, WaitingGift<'static>)], reply: &Reply, run: &mut DueRun) -> Result<(), Fault> {
    let (_, now) = reply.mark()?;
    run.next = reply.texts.first().and_then(|text| text.parse().ok()).map(Millis);
    for ((entry, it), text) in gifts.iter().zip(reply.texts.iter().skip(1)) {
        // None: another node was faster.
        if let Some(answer) = wire::shown(text, &it.gift.id)? {
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
