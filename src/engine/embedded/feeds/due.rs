//! What waits for its time: joining the queue, leaving it, and running what is due.

use std::collections::{BTreeSet, HashMap};

use super::super::store::DueEntry;
use super::{Feeds, Step};
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::{
    Answer, DropId, DueKind, DuePlace, FeedId, Gift, GiftId, Millis, Outcome, Part, Scheduled,
};
use crate::engine::record::{Records, push_gift};
use crate::engine::{
    DUE_BATCH, DUE_TRIES, DeadDue, DueFate, DueFeed, DueHandled, DueRun, DueTurn, ScheduledGift,
    ScheduledPage, Unscheduled, rest_after,
};

/// When each feed has something due next; a copy in memory of what the table says.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    at: HashMap<FeedId, Millis>,
    by_time: BTreeSet<(Millis, FeedId)>,
    /// The next entry's place; one that no entry in the table has.
    next_place: u64,
    /// The earliest time that came into the agenda before everything else in it, since the last look.
    sooner: Option<Millis>,
}

impl Agenda {
    pub(super) fn of((heads, next_place): (Vec<(FeedId, Millis)>, u64)) -> Agenda {
        let mut agenda = Agenda { next_place, ..Agenda::default() };
        heads.into_iter().for_each(|(feed, at)| agenda.set(&feed, Some(at)));
        agenda
    }

    fn set(&mut self, feed: &FeedId, at: Option<Millis>) {
        let head = self.by_time.first().map(|(at, _)| *at);
        if let Some(old) = self.at.remove(feed) {
            self.by_time.remove(&(old, feed.clone()));
        }
        if let Some(at) = at {
            self.at.insert(feed.clone(), at);
            self.by_time.insert((at, feed.clone()));
            if head.is_none_or(|head| at < head) {
                self.sooner = Some(self.sooner.map_or(at, |sooner| sooner.min(at)));
            }
        }
    }

    fn note(&mut self, feed: &FeedId, at: Millis) {
        if self.at.get(feed).is_none_or(|known| at < *known) {
            self.set(feed, Some(at));
        }
    }
}

impl Feeds {
    /// Adds an entry to the feed's queue. Every kind of entry comes in here.
    pub(super) fn add_due(
        &mut self,
        name: &FeedId,
        kind: DueKind,
        id: &str,
        at: Millis,
        body: String,
    ) -> Step<()> {
        let no = self.number(name)?;
        let place = DuePlace { at, order: self.agenda.next_place };
        self.agenda.next_place += 1;
        self.store.begin()?;
        let entry = DueEntry { place, kind: kind.letter(), id: id.to_owned(), body, tries: 0 };
        self.store.add_due(no, &entry)?;
        self.agenda.note(name, at);
        Ok(())
    }

    /// Takes the entry about this out of the feed's queue before its time; none when it is not there.
    pub(super) fn take_due(&mut self, name: &FeedId, kind: DueKind, id: &str) -> Step<Option<DueEntry>> {
        let Some(no) = self.known_number(name)? else { return Ok(None) };
        let Some(entry) = self.store.find_due(no, kind.letter(), id)? else { return Ok(None) };
        self.store.begin()?;
        self.store.remove_due(no, entry.place)?;
        let next = self.store.next_due(no)?;
        self.agenda.set(name, next);
        Ok(Some(entry))
    }

    /// Sees to it that a drop's clock strikes at `at`, and at no other time.
    pub(in super::super) fn wind(&mut self, name: &FeedId, drop: &DropId, at: Option<Millis>) -> Step<()> {
        let Some(no) = self.known_number(name)? else { return Ok(()) };
        let wound = self.store.find_due(no, DueKind::Drop.letter(), drop.as_str())?;
        if wound.as_ref().map(|entry| entry.place.at) == at {
            return Ok(());
        }
        if wound.is_some() {
            self.take_due(name, DueKind::Drop, drop.as_str())?;
            // So that a group that fails has the agenda read anew.
            self.dirty.insert(name.clone());
        }
        match at {
            Some(at) => self.add_due(name, DueKind::Drop, drop.as_str(), at, String::new()),
            None => Ok(()),
        }
    }

    /// Keeps a gift that is new until `at`.
    pub(super) fn schedule(&mut self, name: &FeedId, gift: &Gift, at: Millis, now: Millis) -> Step<Outcome> {
        let no = self.number(name)?;
        let waiting = self.waiting(name, no)?;
        if waiting >= self.scheduled_max {
            let first = self.store.next_due(no)?.unwrap_or(now);
            return Ok(Outcome::TooManyScheduled { id: gift.id.clone(), retry_in_ms: first.since(now) });
        }
        let mut body = String::with_capacity(512);
        push_gift(&mut body, gift);
        self.add_due(name, DueKind::Gift, gift.id.as_str(), at, body)?;
        let scheduled = Scheduled { id: gift.id.clone(), deliver_at: at };
        let it = Remembered {
            fingerprint: gift.fingerprint,
            fate: GiftFate::Waits(scheduled.clone()),
            part: Part::Unknown,
        };
        self.store.remember(no, &it, at)?;
        self.set_waiting(name, waiting + 1);
        Ok(Outcome::Scheduled(scheduled))
    }

    /// See [`crate::engine::Engine::unschedule`].
    pub(in super::super) fn unschedule(
        &mut self,
        name: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> Step<Unscheduled> {
        let Some(no) = self.known_number(name)? else { return Ok(Unscheduled::Unknown) };
        let known = self.store.remembered(no, id, now)?;
        let waiting = self.waiting(name, no)?;
        let Some(entry) = self.take_due(name, DueKind::Gift, id.as_str())? else {
            return Ok(match known.map(|known| known.fate) {
                Some(GiftFate::Taken(_)) => Unscheduled::Shown,
                _ => Unscheduled::Unknown,
            });
        };
        self.set_waiting(name, waiting.saturating_sub(1));
        let deliver_at = entry.place.at;
        if let Some(known) = known {
            let fate = GiftFate::Cancelled(Scheduled { id: id.clone(), deliver_at });
            self.remember(name, Remembered { fate, ..known }, now)?;
        }
        Ok(Unscheduled::Cancelled(deliver_at))
    }

    /// See [`crate::engine::Engine::scheduled`].
    pub(in super::super) fn scheduled(
        &mut self,
        name: &FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Step<ScheduledPage> {
        let Some(no) = self.known_number(name)? else { return Ok(ScheduledPage::default()) };
        let after = after.unwrap_or(DuePlace { at: Millis(i64::MIN), order: 0 });
        let mut entries = self.store.due_after(no, DueKind::Gift.letter(), after, max + 1)?;
        let more = entries.len() > max;
        entries.truncate(max);
        let next = entries.last().filter(|_| more).map(|entry| entry.place);
        let gifts = entries.into_iter().filter_map(|entry| {
            let gift = Records::new(&entry.body).gift()?;
            Some(ScheduledGift { place: entry.place, gift })
        });
        Ok(ScheduledPage { gifts: gifts.collect(), next })
    }

    /// See [`crate::engine::Engine::dead`].
    pub(in super::super) fn dead(&mut self, name: &FeedId) -> Step<Vec<DeadDue>> {
        match self.known_number(name)? {
            Some(no) => self.store.dead(no),
            None => Ok(Vec::new()),
        }
    }

    /// See [`crate::engine::Engine::claim_due`]. There is one process, so a turn needs no end: the feed
    /// stays in the agenda until its step has put it elsewhere.
    pub(in super::super) fn claim_due(&self, max: usize, now: Millis) -> DueTurn {
        let agenda = &self.agenda;
        let is_due = |(at, feed): &(Millis, FeedId)| (*at <= now).then(|| feed.clone());
        let feeds = agenda.by_time.iter().map_while(is_due).take(max);
        let feeds: Vec<_> =
            feeds.map(|feed| DueFeed { feed, token: String::new(), reclaimed: false }).collect();
        let next = agenda.by_time.iter().nth(feeds.len());
        DueTurn { feeds, next_in_ms: next.map(|(at, _)| at.since(now)), waiting: agenda.at.len() as u64 }
    }

    /// See [`crate::engine::Engine::run_due`]. This is where every kind of entry is handled.
    pub(in super::super) fn run_due(&mut self, name: &FeedId, now: Millis) -> Step<DueRun> {
        let Some(no) = self.known_number(name)? else {
            self.agenda.set(name, None);
            return Ok(DueRun::default());
        };
        let waiting = self.waiting(name, no)?;
        let mut gifts = 0;
        let mut handled = Vec::new();
        for entry in self.store.due(no, now, DUE_BATCH)? {
            self.store.begin()?;
            self.store.remove_due(no, entry.place)?;
            let (late_ms, kind) = (now.since(entry.place.at), entry.kind);
            let done = match DueKind::of(entry.kind) {
                Some(DueKind::Gift) => self.show(name, &entry, now)?.map(DueFate::Shown),
                Some(DueKind::Drop) => match entry.id.parse() {
                    Ok(drop) => Ok(DueFate::Struck(self.tick(name, &drop, now)?.map(Box::new))),
                    Err(_) => Err("this is no drop's name"),
                },
                None => Err("this version of Tipcast does not know what it is for"),
            };
            let fate = match done {
                Ok(fate) => fate,
                Err(why) => self.set_aside(no, entry, why, now)?,
            };
            let is_gift = kind == DueKind::Gift.letter();
            gifts += u64::from(is_gift && !matches!(fate, DueFate::SetAside));
            handled.push(DueHandled { late_ms, fate });
        }
        self.set_waiting(name, waiting.saturating_sub(gifts));
        let next = self.store.next_due(no)?;
        // With more to do it goes behind the feeds that became due meanwhile.
        self.agenda.set(name, next.map(|next| next.max(now)));
        Ok(DueRun { handled, next })
    }

    /// Takes a gift whose time has come like one that comes now.
    fn show(&mut self, name: &FeedId, entry: &DueEntry, now: Millis) -> Step<Result<Answer, &'static str>> {
        let Some(gift) = Records::new(&entry.body).gift() else {
            return Ok(Err("what is stored of the gift cannot be read"));
        };
        self.take_now(name, &gift, now).map(Ok)
    }

    /// Puts an entry that cannot be handled, and is out of the queue, back for later, or gives it up.
    fn set_aside(&mut self, no: i64, mut entry: DueEntry, why: &str, now: Millis) -> Step<DueFate> {
        entry.tries += 1;
        if entry.tries < DUE_TRIES {
            entry.place.at = now.plus(rest_after(entry.tries));
            self.store.add_due(no, &entry)?;
            return Ok(DueFate::SetAside);
        }
        let DueEntry { kind, id, place, body, .. } = entry;
        let dead = DeadDue { kind, id, due: place.at, at: now, reason: why.to_owned() };
        self.store.bury(no, &dead, &body)?;
        Ok(DueFate::Dead(dead))
    }

    /// The number of a feed that has one.
    pub(in super::super) fn known_number(&mut self, name: &FeedId) -> Step<Option<i64>> {
        self.load(name)?;
        Ok(self.by_name.get(name).and_then(|feed| feed.no))
    }

    /// How many gifts of the feed wait. Counted once, and then kept in memory.
    fn waiting(&mut self, name: &FeedId, no: i64) -> Step<u64> {
        if let Some(waiting) = self.by_name.get(name).and_then(|feed| feed.waiting) {
            return Ok(waiting);
        }
        self.store.count_due(no, DueKind::Gift.letter())
    }

    fn set_waiting(&mut self, name: &FeedId, waiting: u64) {
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.waiting = Some(waiting);
        }
        // So that a group that fails takes the count along.
        self.dirty.insert(name.clone());
    }

    /// Reads the agenda anew after a group that failed: memory is ahead of the disk there.
    pub(super) fn reread_agenda(&mut self) -> Step<()> {
        let next_place = self.agenda.next_place;
        self.agenda = Agenda::of(self.store.due_heads()?);
        self.agenda.next_place = self.agenda.next_place.max(next_place);
        Ok(())
    }

    /// In how many milliseconds something is due that came before everything else, if anything did since
    /// the last time this was asked.
    pub(in super::super) fn sooner(&mut self) -> Option<u64> {
        let now = self.now;
        self.agenda.sooner.take().map(|at| at.since(now))
    }
}
