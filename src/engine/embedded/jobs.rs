//! Webhooks' work, in memory: whose time it is.

use std::collections::{BTreeSet, HashMap};

use crate::domain::{FeedId, Job, Millis};
use crate::engine::{JobDone, JobLease, JobTurn};

/// Every job and when it is to be looked at. In memory alone: what is there to send says what jobs there
/// are, and after a start each is looked at.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    slots: HashMap<Job, Slot>,
    by_time: BTreeSet<(Millis, Job)>,
    /// The last token that was given out.
    token: u64,
    /// In how many milliseconds a job is due that came in before everything else, since the last look.
    sooner: Option<u64>,
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
    fn set(&mut self, job: Job, slot: Slot, now: Millis) {
        let head = self.by_time.first().map(|(at, _)| *at);
        self.remove(&job);
        self.by_time.insert((slot.at, job.clone()));
        self.slots.insert(job, slot);
        if slot.token.is_none() && head.is_none_or(|head| slot.at < head) {
            let in_ms = slot.at.since(now);
            self.sooner = Some(self.sooner.map_or(in_ms, |sooner| sooner.min(in_ms)));
        }
    }

    /// Makes it a job of `at`, unless it is one. The caller's clock says `now`.
    pub(super) fn note(&mut self, job: Job, at: Millis, now: Millis) {
        if !self.slots.contains_key(&job) {
            self.set(job, Slot { at, token: None, hurried: None }, now);
        }
    }

    /// Makes it a job of `at` at the latest, after the turn that is under way if there is one.
    pub(super) fn hurry(&mut self, job: Job, at: Millis, now: Millis) {
        match self.slots.get_mut(&job) {
            Some(slot) if slot.token.is_some() => {
                slot.hurried = Some(slot.hurried.map_or(at, |hurried| hurried.min(at)));
            }
            Some(slot) if slot.at <= at => {}
            _ => self.set(job, Slot { at, token: None, hurried: None }, now),
        }
    }

    /// It is no job any more.
    pub(super) fn remove(&mut self, job: &Job) {
        if let Some(slot) = self.slots.remove(job) {
            self.by_time.remove(&(slot.at, job.clone()));
        }
    }

    /// Nothing can be sent of this feed.
    pub(super) fn remove_feed(&mut self, feed: &FeedId) {
        self.slots.retain(|job, _| job.feed != *feed);
        self.by_time.retain(|(_, job)| job.feed != *feed);
    }

    /// The clock went back by so much: what is to be looked at comes no later for it.
    pub(super) fn went_back(&mut self, ms: u64) {
        let earlier = |at: Millis| Millis(at.0.saturating_sub_unsigned(ms));
        for slot in self.slots.values_mut() {
            (slot.at, slot.hurried) = (earlier(slot.at), slot.hurried.map(earlier));
        }
        self.by_time =
            std::mem::take(&mut self.by_time).into_iter().map(|(at, job)| (earlier(at), job)).collect();
    }

    /// Gives a turn back.
    pub(super) fn give_back(&mut self, over: JobDone, now: Millis) {
        let JobDone { job, token, next_in_ms } = over;
        let Some(slot) = self.slots.get(&job).copied() else { return };
        if slot.token.is_none_or(|held| held.to_string() != token) {
            return;
        }
        let next = next_in_ms.map(|ms| now.plus(ms));
        match next.into_iter().chain(slot.hurried).min() {
            Some(at) => self.set(job, Slot { at, token: None, hurried: None }, now),
            None => self.remove(&job),
        }
    }

    /// Takes at most `max` jobs whose time has come, those that wait longest first, for `lease_ms`.
    pub(super) fn claim(&mut self, max: usize, lease_ms: u64, now: Millis) -> JobTurn {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now).take(max);
        let due: Vec<Job> = due.map(|(_, job)| job.clone()).collect();
        let jobs = due.into_iter().map(|job| {
            self.token += 1;
            let token = self.token;
            self.set(job.clone(), Slot { at: now.plus(lease_ms), token: Some(token), hurried: None }, now);
            JobLease { job, token: token.to_string() }
        });
        let jobs = jobs.collect();
        let next_in_ms = self.by_time.first().map(|(at, _)| at.since(now));
        JobTurn { jobs, next_in_ms, waiting: self.slots.len() as u64 }
    }

    /// In how many milliseconds, by the clock of the call that brought it, a job is to be looked at that came before
    /// all others, if any did since the last time this was asked.
    pub(super) fn sooner(&mut self) -> Option<u64> {
        self.sooner.take()
    }
}
