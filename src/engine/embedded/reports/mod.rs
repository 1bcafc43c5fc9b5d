//! Reports: ledgers, groups and webhooks, as steps of the writer. What each reader has is on disk and read
//! within the group's transaction; what feeds need to know of their readers is in memory.

use super::EmbeddedEngine;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader, Replay,
    Taken,
};
use crate::engine::{
    JobDone, JobStore, JobTurn, LISTED, LedgerStore, Save, Swapped, Wait, Wakes, Want, WebhookStore, Work,
};

mod groups;
mod hooks;
mod jobs;
mod ledger;

pub(super) use hooks::HookOfAll;
pub(super) use jobs::Jobs;
pub(super) use ledger::{Jots, Ledger};

impl LedgerStore for EmbeddedEngine {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        let (feed, group) = (feed.clone(), group.clone());
        self.task_at(now, move |feeds| feeds.take(&feed, &group, ask, now))
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        let (feed, group, cursors) = (feed.clone(), group.clone(), cursors.to_vec());
        self.task(move |feeds| feeds.ack(&feed, &group, &cursors))
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        let (feed, group, cursors) = (feed.clone(), group.clone(), cursors.to_vec());
        self.task(move |feeds| feeds.nack(&feed, &group, &cursors))
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        let (feed, group) = (feed.clone(), group.clone());
        self.task_at(now, move |feeds| feeds.group(&feed, &group, now))
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        let (feed, group) = (feed.clone(), group.clone());
        self.task(move |feeds| feeds.delete_group(&feed, &group))
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        let feed = feed.cloned();
        self.task(move |feeds| feeds.readers(feed.as_ref()))
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        let (feed, reader) = (feed.clone(), reader.clone());
        self.task(move |feeds| feeds.letters(&feed, &reader))
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        let (feed, reader, which) = (feed.clone(), reader.clone(), which.clone());
        self.task_at(now, move |feeds| feeds.replay(&feed, &reader, &which, now))
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        let hook = hook.clone();
        self.task(move |feeds| feeds.letter_feeds(&hook))
    }
}

impl WebhookStore for EmbeddedEngine {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        let key = key.clone();
        self.task(move |feeds| feeds.store.hook(&key))
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        self.task(move |feeds| feeds.store.hooks(LISTED))
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> Wait<'a, Swapped> {
        let key = key.clone();
        self.task_at(now, move |feeds| feeds.swap_hook(&key, was, to.as_ref(), now))
    }
}

impl JobStore for EmbeddedEngine {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        self.task_at(now, move |feeds| Ok(feeds.claim_jobs(over, max, lease_ms, now)))
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        let job = job.clone();
        self.task_at(now, move |feeds| feeds.open_job(&job, want, now))
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        let job = job.clone();
        self.task_at(now, move |feeds| feeds.save_job(&job, save, want, now))
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(self.topics.job_wakes.subscribe())
    }
}
