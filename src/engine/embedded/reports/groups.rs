//! Groups: handing entries out, taking them back, and what was given up.

use std::collections::{BTreeSet, HashMap};

use super::ledger::Known;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Handed, Job, Millis, Reader, Replay, Start, Taken,
};
use crate::engine::embedded::feeds::{Feeds, Step};
use crate::engine::embedded::store::{InHand, Kept, Standing};
use crate::engine::{LISTED, READERS_MAX};

/// Entries that are looked at beside those that are handed out, in one claim: those that turn out to be dead.
const DEAD_AT_ONCE: usize = 1_000;

impl Feeds {
    /// See [`crate::engine::ReportStore::take`].
    pub(super) fn take(
        &mut self,
        name: &FeedId,
        group: &GroupId,
        ask: Ask,
        now: Millis,
    ) -> Step<Option<Taken>> {
        let reader = Reader::Group(group.clone());
        self.number(name)?;
        let Some((no, known)) = self.ledger(name)? else { return Ok(None) };
        let mut standing = match self.store.reader(no, &reader)? {
            Some(standing) => standing,
            None if known.own >= READERS_MAX => return Ok(None),
            None => self.begin_group(name, (no, &known), &reader, ask.from)?,
        };
        let mut entries = self.take_over((no, &reader), ask, now)?;
        let handed = known.handed(&standing);
        if entries.len() < ask.max && handed < known.last() {
            self.store.begin()?;
            for kept in self.store.entries(no, handed + 1, ask.max - entries.len())? {
                let it = InHand { no: kept.no, until: now.plus(ask.lease_ms), attempts: 1, body: None };
                self.store.hand(no, &reader, &it)?;
                standing.handed = kept.no;
                entries.push(Handed { entry: kept.entry()?, attempt: 1 });
            }
            self.store.stand(no, &reader, &standing)?;
        }
        let first_over = self.store.first_over(no, &reader)?;
        Ok(Some(Taken { entries, next_in_ms: first_over.map(|at| at.since(now)) }))
    }

    fn begin_group(
        &mut self,
        name: &FeedId,
        (no, known): (i64, &Known),
        reader: &Reader,
        from: Start,
    ) -> Step<Standing> {
        let first = match from {
            Start::Start => known.base.max(known.next.saturating_sub(self.limits.ledger_max)),
            Start::Now => known.next,
        };
        let standing = Standing { handed: first.saturating_sub(1), ..Standing::default() };
        self.store.begin()?;
        self.store.stand(no, reader, &standing)?;
        self.reread_ledger(name);
        Ok(standing)
    }

    /// Hands out again what nobody holds any more; what was handed out too often becomes a dead letter.
    fn take_over(&mut self, (no, reader): (i64, &Reader), ask: Ask, now: Millis) -> Step<Vec<Handed>> {
        let mut entries = Vec::new();
        let mut dead = 0;
        while entries.len() < ask.max && dead < DEAD_AT_ONCE {
            let asked = ask.max - entries.len();
            let over = self.store.over(no, reader, now, asked)?;
            let all = over.len() < asked;
            if !over.is_empty() {
                self.store.begin()?;
            }
            let mut bodies = self.bodies(no, &over)?;
            for it in over {
                let Some(body) = it.body.clone().or_else(|| bodies.remove(&it.no)) else {
                    // No entry, no reader's.
                    self.store.let_go(no, reader, it.no)?;
                    continue;
                };
                let kept = Kept { no: it.no, body };
                if it.attempts >= self.limits.max_attempts {
                    let reason = format!("it was handed out {} times and not acknowledged", it.attempts);
                    let most = self.limits.dead_max;
                    self.store.let_go(no, reader, it.no)?;
                    self.store.write_letter(no, reader, &kept, (now, it.attempts, &reason), most)?;
                    dead += 1;
                    continue;
                }
                let attempt = it.attempts + 1;
                let it = InHand { until: now.plus(ask.lease_ms), attempts: attempt, ..it };
                self.store.hand(no, reader, &it)?;
                entries.push(Handed { entry: kept.entry()?, attempt });
            }
            if all {
                break;
            }
        }
        Ok(entries)
    }

    /// The records of those that are in the ledger; numbers side by side are read together.
    fn bodies(&self, no: i64, over: &[InHand]) -> Step<HashMap<u64, String>> {
        let mut found = HashMap::new();
        let in_ledger: Vec<u64> = over.iter().filter(|it| it.body.is_none()).map(|it| it.no).collect();
        for run in in_ledger.chunk_by(|a, b| a + 1 == *b) {
            let kept = self.store.entries(no, run[0], run.len())?;
            found.extend(kept.into_iter().filter(|kept| run.contains(&kept.no)).map(|it| (it.no, it.body)));
        }
        Ok(found)
    }

    /// See [`crate::engine::ReportStore::ack`].
    pub(super) fn ack(&mut self, name: &FeedId, group: &GroupId, cursors: &[Cursor]) -> Step<Option<u64>> {
        let reader = Reader::Group(group.clone());
        let Some((no, ..)) = self.standing_of(name, &reader)? else { return Ok(None) };
        self.store.begin()?;
        let mut acked = 0;
        for cursor in cursors {
            acked += u64::from(self.store.let_go(no, &reader, cursor.0)?);
        }
        Ok(Some(acked))
    }

    /// See [`crate::engine::ReportStore::nack`].
    pub(super) fn nack(&mut self, name: &FeedId, group: &GroupId, cursors: &[Cursor]) -> Step<Option<u64>> {
        let reader = Reader::Group(group.clone());
        let Some((no, ..)) = self.standing_of(name, &reader)? else { return Ok(None) };
        self.store.begin()?;
        let mut nacked = 0;
        for cursor in cursors.iter().collect::<BTreeSet<_>>() {
            nacked += u64::from(self.store.give_back(no, &reader, cursor.0)?);
        }
        if nacked > 0 {
            self.stir(name);
        }
        Ok(Some(nacked))
    }

    /// See [`crate::engine::ReportStore::group`].
    pub(super) fn group(&mut self, name: &FeedId, group: &GroupId, now: Millis) -> Step<Option<GroupView>> {
        let reader = Reader::Group(group.clone());
        let Some((no, known, standing)) = self.standing_of(name, &reader)? else { return Ok(None) };
        let handed = known.handed(&standing);
        let lag = known.last().saturating_sub(handed);
        let oldest = match self.store.oldest_in_hand(no, &reader)? {
            Some(InHand { no, body: Some(body), .. }) => Some(Kept { no, body }),
            Some(it) => self.store.entries(no, it.no, 1)?.pop(),
            None if lag > 0 => self.store.entries(no, handed + 1, 1)?.pop(),
            None => None,
        };
        let oldest_ms = oldest.map_or(Ok(0), |kept| kept.entry().map(|entry| now.since(entry.at)))?;
        let (pending, dead) = (self.store.hands(no, &reader)?, self.store.count_letters(no, &reader)?);
        Ok(Some(GroupView { lag, pending, oldest_ms, dead, lost: standing.lost }))
    }

    /// See [`crate::engine::ReportStore::delete_group`].
    pub(super) fn delete_group(&mut self, name: &FeedId, group: &GroupId) -> Step<bool> {
        let reader = Reader::Group(group.clone());
        let Some((no, ..)) = self.standing_of(name, &reader)? else { return Ok(false) };
        self.store.begin()?;
        self.reread_ledger(name);
        self.store.forget_reader(no, &reader)
    }

    /// See [`crate::engine::ReportStore::readers`].
    pub(super) fn readers(&mut self, feed: Option<&FeedId>) -> Step<Vec<(FeedId, Reader)>> {
        let Some(name) = feed else { return self.store.all_groups(LISTED) };
        let Some(no) = self.known_number(name)? else { return Ok(Vec::new()) };
        let readers = self.store.readers(no)?.into_iter().take(LISTED);
        Ok(readers.map(|reader| (name.clone(), reader)).collect())
    }

    /// See [`crate::engine::ReportStore::letters`].
    pub(super) fn letters(&mut self, name: &FeedId, reader: &Reader) -> Step<Vec<DeadLetter>> {
        let Some(no) = self.known_number(name)? else { return Ok(Vec::new()) };
        Ok(self.store.letters(no, reader)?.into_iter().map(|(_, _, letter)| letter).collect())
    }

    /// See [`crate::engine::ReportStore::replay`].
    pub(super) fn replay(
        &mut self,
        name: &FeedId,
        reader: &Reader,
        which: &Replay,
        now: Millis,
    ) -> Step<u64> {
        let Some((no, ..)) = self.standing_of(name, reader)? else { return Ok(0) };
        let mut replayed = 0;
        for (place, kept, _) in self.store.letters(no, reader)? {
            if matches!(which, Replay::Only(cursors) if !cursors.contains(&Cursor(kept.no))) {
                continue;
            }
            self.store.begin()?;
            self.store.remove_letter(place)?;
            let it = InHand { no: kept.no, until: Millis(0), attempts: 0, body: Some(kept.body) };
            self.store.hand(no, reader, &it)?;
            replayed += 1;
        }
        if replayed > 0 {
            self.stir(name);
            if !matches!(reader, Reader::Group(_)) {
                self.jobs.hurry(Job { feed: name.clone(), reader: reader.clone() }, now);
            }
        }
        Ok(replayed)
    }

    /// The feed's number, its ledger, and how far the reader has come; none when there is no such reader.
    pub(super) fn standing_of(
        &mut self,
        name: &FeedId,
        reader: &Reader,
    ) -> Step<Option<(i64, Known, Standing)>> {
        let Some((no, known)) = self.ledger(name)? else { return Ok(None) };
        Ok(self.store.reader(no, reader)?.map(|standing| (no, known, standing)))
    }
}
