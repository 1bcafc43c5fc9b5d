//! Webhooks' work: whose time it is, and how far each has come.

use std::collections::{BTreeSet, HashMap};

use super::ledger::Known;
use crate::domain::{Job, Millis, Reader};
use crate::engine::embedded::feeds::{Feeds, Step};
use crate::engine::embedded::store::{Kept, Standing};
use crate::engine::{Death, JobDone, JobLease, JobTurn, Save, Want, Work};

/// Every job and when it is to be looked at. In memory alone: what is there to send says what jobs there
/// are, and after a start each is looked at.
#[derive(Debug, Default)]
pub(in super::super) struct Jobs {
    slots: HashMap<Job, Slot>,
    by_time: BTreeSet<(Millis, Job)>,
    /// The last token that was given out.
    token: u64,
    /// The earliest time that came in before everything else here, since the last look.
    sooner: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// When it is to be looked at; of one that somebody has, when the turn ends by itself.
    at: Millis,
    /// Of the turn that is under way.
    token: Option<u64>,
    /// Somebody wanted it looked at by then while a turn was under way, which may have looked before.
    hurried: Option<Millis>,
}

impl Jobs {
    fn set(&mut self, job: Job, slot: Slot) {
        let head = self.by_time.first().map(|(at, _)| *at);
        self.remove(&job);
        self.by_time.insert((slot.at, job.clone()));
        self.slots.insert(job, slot);
        if slot.token.is_none() && head.is_none_or(|head| slot.at < head) {
            self.sooner = Some(self.sooner.map_or(slot.at, |sooner| sooner.min(slot.at)));
        }
    }

    /// Makes it a job of `at`, unless it is one.
    pub(super) fn note(&mut self, job: Job, at: Millis) {
        if !self.slots.contains_key(&job) {
            self.set(job, Slot { at, token: None, hurried: None });
        }
    }

    /// Makes it a job of `at` at the latest, after the turn that is under way if there is one.
    pub(super) fn hurry(&mut self, job: Job, at: Millis) {
        match self.slots.get_mut(&job) {
            Some(slot) if slot.token.is_some() => {
                slot.hurried = Some(slot.hurried.map_or(at, |hurried| hurried.min(at)));
            }
            Some(slot) if slot.at <= at => {}
            _ => self.set(job, Slot { at, token: None, hurried: None }),
        }
    }

    pub(super) fn remove(&mut self, job: &Job) {
        if let Some(slot) = self.slots.remove(job) {
            self.by_time.remove(&(slot.at, job.clone()));
        }
    }

    /// The clock went back by so much: what is to be looked at comes no later for it.
    pub(in super::super) fn went_back(&mut self, ms: u64) {
        let earlier = |at: Millis| Millis(at.0.saturating_sub_unsigned(ms));
        for slot in self.slots.values_mut() {
            (slot.at, slot.hurried) = (earlier(slot.at), slot.hurried.map(earlier));
        }
        self.by_time =
            std::mem::take(&mut self.by_time).into_iter().map(|(at, job)| (earlier(at), job)).collect();
    }

    fn give_back(&mut self, over: JobDone, now: Millis) {
        let JobDone { job, token, next_in_ms } = over;
        let Some(slot) = self.slots.get(&job).copied() else { return };
        if slot.token.is_none_or(|held| held.to_string() != token) {
            return;
        }
        let next = next_in_ms.map(|ms| now.plus(ms));
        match next.into_iter().chain(slot.hurried).min() {
            Some(at) => self.set(job, Slot { at, token: None, hurried: None }),
            None => self.remove(&job),
        }
    }

    fn claim(&mut self, max: usize, lease_ms: u64, now: Millis) -> JobTurn {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now).take(max);
        let due: Vec<Job> = due.map(|(_, job)| job.clone()).collect();
        let jobs = due.into_iter().map(|job| {
            self.token += 1;
            let token = self.token;
            self.set(job.clone(), Slot { at: now.plus(lease_ms), token: Some(token), hurried: None });
            JobLease { job, token: token.to_string() }
        });
        let jobs = jobs.collect();
        let next_in_ms = self.by_time.first().map(|(at, _)| at.since(now));
        JobTurn { jobs, next_in_ms, waiting: self.slots.len() as u64 }
    }
}

impl Feeds {
    /// See [`crate::engine::ReportStore::claim_jobs`].
    pub(super) fn claim_jobs(
        &mut self,
        over: Vec<JobDone>,
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> JobTurn {
        over.into_iter().for_each(|over| self.jobs.give_back(over, now));
        self.jobs.claim(max, lease_ms, now)
    }

    /// See [`crate::engine::ReportStore::open_job`].
    pub(super) fn open_job(&mut self, job: &Job, want: Want, now: Millis) -> Step<Option<Work>> {
        match self.stands(job)? {
            Some((no, known, standing)) => self.work(job, (no, &known, standing), want, now).map(Some),
            None => {
                self.jobs.remove(job);
                Ok(None)
            }
        }
    }

    /// See [`crate::engine::ReportStore::save_job`].
    pub(super) fn save_job(&mut self, job: &Job, save: Save, want: Want, now: Millis) -> Step<Option<Work>> {
        let Some((no, known, mut standing)) = self.stands(job)? else {
            self.jobs.remove(job);
            return Ok(None);
        };
        if standing.progress != save.was {
            return Ok(None);
        }
        self.store.begin()?;
        for death in &save.dead {
            if let Some(kept) = self
                .deceased(no, &job.reader, death, &save)?
                .filter(|kept| save.again.contains(&death.cursor) || kept.no > known.handed(&standing))
            {
                let Death { attempts, reason, .. } = death;
                let most = self.limits.dead_max;
                self.store.write_letter(no, &job.reader, &kept, (now, *attempts, reason), most)?;
            }
        }
        for cursor in &save.again {
            self.store.let_go(no, &job.reader, cursor.0)?;
        }
        let through = save.through.map_or(0, |through| through.0.min(known.last()));
        standing.handed = known.handed(&standing).max(through);
        standing.progress = save.progress;
        self.store.stand(no, &job.reader, &standing)?;
        self.work(job, (no, &known, standing), want, now).map(Some)
    }

    /// The number of the job's feed, its ledger, and how far the webhook has come there.
    fn stands(&mut self, job: &Job) -> Step<Option<(i64, Known, Standing)>> {
        if matches!(job.reader, Reader::Group(_)) {
            return Ok(None);
        }
        self.standing_of(&job.feed, &job.reader)
    }

    /// What there is to send. A job without any is none.
    fn work(
        &mut self,
        job: &Job,
        (no, known, standing): (i64, &Known, Standing),
        want: Want,
        now: Millis,
    ) -> Step<Work> {
        let handed = known.handed(&standing);
        let backlog = known.last().saturating_sub(handed);
        let entries = match backlog {
            0 => Vec::new(),
            _ => self.store.entries(no, handed + 1, want.most)?,
        };
        let again = self.store.again(no, &job.reader, want.most)?;
        if backlog == 0 && again.is_empty() {
            self.jobs.remove(job);
        }
        Ok(Work {
            progress: standing.progress,
            entries: entries.iter().map(Kept::entry).collect::<Step<_>>()?,
            backlog,
            again: again.iter().map(Kept::entry).collect::<Step<_>>()?,
            now,
            look_ms: None,
        })
    }

    /// The entry that is given up, from among those that are sent again or from the ledger.
    fn deceased(&self, no: i64, reader: &Reader, death: &Death, save: &Save) -> Step<Option<Kept>> {
        let number = death.cursor.0;
        if save.again.contains(&death.cursor) {
            let again = self.store.in_hand(no, reader, number)?;
            return Ok(again.and_then(|it| Some(Kept { no: number, body: it.body? })));
        }
        let found = self.store.entries(no, number, 1)?.pop();
        Ok(found.filter(|kept| kept.no == number && save.through.is_some_and(|through| number <= through.0)))
    }
}

impl Feeds {
    /// In how many milliseconds a job is to be looked at that came before all others, if any did since the
    /// last time this was asked.
    pub(in super::super) fn sooner_job(&mut self) -> Option<u64> {
        let now = self.now;
        self.jobs.sooner.take().map(|at| at.since(now))
    }
}
