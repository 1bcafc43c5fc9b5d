//! Ledgers: what comes in, and what is forgotten.
//!
//! Entries gather in memory and are written with the rest of the group, or before somebody reads them in
//! the same group. Those of a feed that nobody reads are only jotted down by their group, and stay in memory
//! until there are many: then, or when somebody reads the feed, they are written to its ledger.

use std::collections::BTreeSet;

use crate::domain::{Cursor, FeedId, HookId, HookScope, Job, Millis, Reader};
use crate::engine::ReportLimits;
use crate::engine::embedded::feeds::{Feeds, Step};
use crate::engine::embedded::store::Standing;

/// Entries in one stored chunk: what a reader of one entry looks through.
const CHUNK: u64 = 256;

/// Entries that are jotted down at most, of all feeds together.
const JOTTED_MOST: u64 = 4096;

/// What was jotted down since it was all brought to ledgers the last time.
#[derive(Default)]
pub(in super::super) struct Jots {
    count: u64,
    feeds: BTreeSet<FeedId>,
    /// True when memory was given up before what is jotted down could be brought to ledgers: nobody must look
    /// at one before that is done.
    stranded: bool,
}

/// A feed's ledger in memory.
#[derive(Default)]
pub(in super::super) struct Ledger {
    /// What the tables say of it, once somebody looked.
    pub(super) known: Option<Known>,
    /// Entries that are not in the table of ledgers yet, one after another.
    unwritten: String,
    /// How many they are.
    count: u64,
    /// How many of them are jotted down, and how long their text is.
    jotted: (u64, usize),
    /// Where a chunk of them ends, and the time of its last entry.
    full: Vec<(usize, Millis)>,
    /// When the first and the last of them happened.
    first_at: Millis,
    last_at: Millis,
    /// The number from which on the ledger is looked at again for what can go.
    trim_at: u64,
    /// True when this group brought something for readers, even if no change of the list came of it.
    stirred: bool,
}

/// What the tables say of a ledger.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Its oldest number; 0 while it is empty.
    pub(super) base: u64,
    /// The number after its newest; 0 while it is empty.
    pub(super) next: u64,
    /// Groups and webhooks of this feed.
    pub(super) own: usize,
    /// This feed's webhooks, with their `batch_ms`.
    hooks: Vec<(HookId, u64)>,
    /// Webhooks of all feeds that read here.
    pub(super) joined: Vec<HookId>,
}

impl Known {
    /// Numbers a ledger that has no entry yet.
    fn begin(&mut self, at: Millis) {
        if self.next == 0 {
            self.base = Cursor::first(at).0;
            self.next = self.base;
        }
    }

    /// The last number that a reader of this standing was handed, or that was before the ledger.
    pub(super) fn handed(&self, standing: &Standing) -> u64 {
        standing.handed.max(self.base.saturating_sub(1))
    }

    /// The number of the newest entry; 0 when there is none.
    pub(super) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }
}

impl Ledger {
    /// True when subscriptions are to be told although the list did not change. Asked once per group.
    pub(in super::super) fn must_tell(&mut self) -> bool {
        let read = self.known.as_ref().is_none_or(|known| known.own > 0 || !known.joined.is_empty());
        std::mem::take(&mut self.stirred) && read
    }
}

impl Feeds {
    /// Adds what `push` appends, if anything, as an entry to the ledger of a feed that is in memory.
    pub(in super::super) fn enter(&mut self, name: &FeedId, at: Millis, push: impl FnOnce(&mut String)) {
        let Some(feed) = self.by_name.get_mut(name) else { return };
        let ledger = &mut feed.ledger;
        let before = ledger.unwritten.len();
        push(&mut ledger.unwritten);
        if ledger.unwritten.len() == before {
            return;
        }
        if ledger.count == 0 {
            ledger.first_at = at;
        }
        if ledger.count == ledger.jotted.0 {
            ledger.stirred = true;
            self.dirty.insert(name.clone());
        }
        ledger.last_at = at;
        ledger.count += 1;
        if ledger.count % CHUNK == 0 {
            ledger.full.push((ledger.unwritten.len(), at));
        }
    }

    /// Makes what was entered part of the group: jots it down, or writes it to the ledger if somebody reads there.
    pub(in super::super) fn keep_entries(&mut self, name: &FeedId) -> Step<()> {
        if self.by_name.get(name).is_none_or(|feed| feed.ledger.count == feed.ledger.jotted.0) {
            return Ok(());
        }
        let no = self.number(name)?;
        self.store.begin()?;
        let known = self.know_ledger(name, no)?;
        if known.own > 0 || !known.joined.is_empty() || !self.hooks_of_all.is_empty() {
            return self.write_ledger(name);
        }
        let Some(ledger) = self.by_name.get_mut(name).map(|feed| &mut feed.ledger) else { return Ok(()) };
        let known = ledger.known.get_or_insert_default();
        known.begin(ledger.first_at);
        let (before, from) = ledger.jotted;
        let (last, some) = (known.last() + ledger.count, ledger.count - before);
        self.store.jot(no, last, some, ledger.last_at, &ledger.unwritten[from..])?;
        ledger.jotted = (ledger.count, ledger.unwritten.len());
        self.jots.count += some;
        self.jots.feeds.insert(name.clone());
        Ok(())
    }

    /// Brings what is jotted down to ledgers when there is much of it, or `now`.
    pub(in super::super) fn settle_jots(&mut self, now: bool) -> Step<()> {
        if !now && self.jots.count <= JOTTED_MOST || self.jots.feeds.is_empty() {
            return Ok(());
        }
        for name in std::mem::take(&mut self.jots.feeds) {
            self.write_ledger(&name)?;
        }
        self.jots.count = 0;
        self.store.begin()?;
        self.store.forget_jots()
    }

    /// Brings what is jotted down to ledgers although memory has given it up: after a start, and after a group
    /// that failed. Nothing of any ledger may be in memory.
    pub(in super::super) fn gather_jots(&mut self) -> Step<()> {
        self.jots = Jots { stranded: true, ..Jots::default() };
        self.store.begin()?;
        self.store.gather_jots()?;
        self.store.commit()?;
        self.jots.stranded = false;
        Ok(())
    }

    /// Writes what was entered and is not written. Readers of the same group do so first.
    pub(in super::super) fn write_ledger(&mut self, name: &FeedId) -> Step<()> {
        if self.by_name.get(name).is_none_or(|feed| feed.ledger.count == 0) {
            return Ok(());
        }
        let no = self.number(name)?;
        self.store.begin()?;
        self.know_ledger(name, no)?;
        let Some(ledger) = self.by_name.get_mut(name).map(|feed| &mut feed.ledger) else { return Ok(()) };
        let first_at = ledger.first_at;
        let known = ledger.known.get_or_insert_default();
        known.begin(first_at);
        ledger.jotted = (0, 0);
        let (text, count) = (std::mem::take(&mut ledger.unwritten), std::mem::take(&mut ledger.count));
        let mut ends = std::mem::take(&mut ledger.full);
        if count % CHUNK > 0 {
            ends.push((text.len(), ledger.last_at));
        }
        let (mut from, mut left) = (0, count);
        for (end, at) in ends {
            let some = left.min(CHUNK);
            known.next += some;
            self.store.enter(no, known.next - 1, some, at, &text[from..end])?;
            (from, left) = (end, left - some);
        }
        self.join_hooks(name, no)?;
        self.make_jobs(name, first_at);
        self.trim(name, no)
    }

    /// Reads what the tables say of a feed's ledger, unless it is known.
    pub(super) fn know_ledger(&mut self, name: &FeedId, no: i64) -> Step<Known> {
        if let Some(known) = self.by_name.get(name).and_then(|feed| feed.ledger.known.as_ref()) {
            return Ok(known.clone());
        }
        if self.jots.stranded {
            // In this group's transaction: if that fails, so does this.
            self.store.begin()?;
            self.store.gather_jots()?;
            self.jots.stranded = false;
        }
        let (base, next) = self.store.ledger_ends(no)?.unwrap_or_default();
        let mut known = Known { base, next, ..Known::default() };
        for reader in self.store.readers(no)? {
            match reader {
                Reader::Group(_) | Reader::Hook(_) => known.own += 1,
                Reader::HookOfAll(hook) => known.joined.push(hook),
            }
        }
        let hooks = if known.own > 0 { self.store.hooks_of(&HookScope::Feed(name.clone()))? } else { vec![] };
        known.hooks = hooks.into_iter().map(|(hook, it)| (hook, it.spec.batch_ms)).collect();
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.ledger.known = Some(known.clone());
        }
        Ok(known)
    }

    /// The number of a feed that is known, and its ledger as it stands in this group.
    pub(super) fn ledger(&mut self, name: &FeedId) -> Step<Option<(i64, Known)>> {
        let Some(no) = self.known_number(name)? else { return Ok(None) };
        self.write_ledger(name)?;
        Ok(Some((no, self.know_ledger(name, no)?)))
    }

    /// Has what the tables say of a ledger read again, because its readers are others now.
    pub(super) fn reread_ledger(&mut self, name: &FeedId) {
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.ledger.known = None;
        }
        // So that a group that fails takes along what is read meanwhile.
        self.dirty.insert(name.clone());
    }

    /// Has subscriptions told that there is something to read.
    pub(super) fn stir(&mut self, name: &FeedId) {
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.ledger.stirred = true;
        }
        self.dirty.insert(name.clone());
    }

    /// Makes webhooks of all feeds that do not read this feed yet do so, each from the first entry that
    /// came since it was made.
    pub(super) fn join_hooks(&mut self, name: &FeedId, no: i64) -> Step<()> {
        if self.hooks_of_all.is_empty() {
            return Ok(());
        }
        let mut known = self.know_ledger(name, no)?;
        let joins = self.hooks_of_all.iter().filter(|(hook, _)| !known.joined.contains(hook));
        let joins: Vec<_> = joins.map(|(hook, of_all)| (hook.clone(), of_all.since)).collect();
        if joins.is_empty() {
            return Ok(());
        }
        self.store.begin()?;
        for (hook, since) in joins {
            let first = self.store.first_since(no, since)?.unwrap_or(known.next);
            let standing = Standing { handed: first.saturating_sub(1), ..Standing::default() };
            self.store.stand(no, &Reader::HookOfAll(hook.clone()), &standing)?;
            known.joined.push(hook);
        }
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.ledger.known = Some(known);
        }
        self.dirty.insert(name.clone());
        Ok(())
    }

    /// Makes a job of every webhook that rests and now has an entry of `at` to send.
    pub(super) fn make_jobs(&mut self, name: &FeedId, at: Millis) {
        let Some(known) = self.by_name.get(name).and_then(|feed| feed.ledger.known.as_ref()) else { return };
        for (hook, batch_ms) in &known.hooks {
            let job = Job { feed: name.clone(), reader: Reader::Hook(hook.clone()) };
            self.jobs.note(job, at.plus(*batch_ms));
        }
        for hook in &known.joined {
            let batch_ms = self.hooks_of_all.get(hook).map_or(0, |of_all| of_all.batch_ms);
            let job = Job { feed: name.clone(), reader: Reader::HookOfAll(hook.clone()) };
            self.jobs.note(job, at.plus(batch_ms));
        }
    }

    /// Forgets the oldest entries when there are enough that need not be kept.
    fn trim(&mut self, name: &FeedId, no: i64) -> Step<()> {
        let ReportLimits { ledger_max, backlog_max, max_age_ms, .. } = self.limits;
        let Some(ledger) = self.by_name.get_mut(name).map(|feed| &mut feed.ledger) else { return Ok(()) };
        let Some(known) = ledger.known.clone() else { return Ok(()) };
        let slack = (ledger_max / 8).clamp(1, 256);
        if known.next - known.base <= ledger_max + slack || known.next < ledger.trim_at {
            return Ok(());
        }
        ledger.trim_at = known.next + slack;
        let newest = known.next - ledger_max;
        let mut keep_from = newest;
        let mut readers = Vec::new();
        for reader in self.store.readers(no)? {
            let standing = self.store.reader(no, &reader)?.unwrap_or_default();
            let unread = known.handed(&standing) + 1;
            let floor = self.store.holds_from(no, &reader)?.map_or(unread, |held| held.min(unread));
            keep_from = keep_from.min(floor);
            readers.push((reader, standing, floor));
        }
        if keep_from < newest {
            let too_old = match max_age_ms {
                ms if ms == 0 || !self.may_forget() => None,
                ms => self.store.ledger_older(no, Millis(self.now.0.saturating_sub_unsigned(ms)))?,
            };
            let too_many = known.next.saturating_sub(backlog_max);
            keep_from = keep_from.max(too_many).max(too_old.map_or(0, |last| last + 1)).min(newest);
        }
        let Some(cut) = self.store.cut_ledger(no, keep_from)? else { return Ok(()) };
        if let Some(known) = self.by_name.get_mut(name).and_then(|feed| feed.ledger.known.as_mut()) {
            known.base = cut + 1;
        }
        for (reader, mut standing, floor) in readers {
            if floor > cut {
                continue;
            }
            let handed = known.handed(&standing);
            let lost = self.store.let_go_through(no, &reader, cut)? + cut.saturating_sub(handed);
            standing.handed = handed.max(cut);
            standing.lost += lost;
            self.store.stand(no, &reader, &standing)?;
            self.metrics.report_lost.inc_by(lost);
            tracing::warn!(
                feed = %name, %reader, lost,
                "entries were cut from a ledger before their reader had acknowledged them"
            );
        }
        Ok(())
    }
}
