//! The calls about reports, counted.

use super::Metered;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader, Replay,
    Taken,
};
use crate::engine::{
    JobDone, JobStore, JobTurn, LedgerStore, Save, Swapped, Wait, Wakes, Want, WebhookStore, Work,
};
use crate::metrics::labels::Operation;

impl LedgerStore for Metered {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        self.call(Operation::TakeEntries, self.engine.take(feed, group, ask, now))
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        self.call(Operation::AckEntries, self.engine.ack(feed, group, cursors, now))
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        self.call(Operation::NackEntries, self.engine.nack(feed, group, cursors, now))
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        self.call(Operation::Readers, self.engine.group(feed, group, now))
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        self.call(Operation::Readers, self.engine.delete_group(feed, group))
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        self.call(Operation::Readers, self.engine.readers(feed))
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        self.call(Operation::Letters, self.engine.letters(feed, reader))
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        self.call(Operation::Letters, self.engine.replay(feed, reader, which, now))
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        self.call(Operation::Letters, self.engine.letter_feeds(hook))
    }
}

impl WebhookStore for Metered {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        self.call(Operation::Hooks, self.engine.hook(key))
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        self.call(Operation::Hooks, self.engine.hooks())
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> Wait<'a, Swapped> {
        self.call(Operation::Hooks, self.engine.swap_hook(key, was, to, now))
    }
}

impl JobStore for Metered {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        self.call(Operation::ClaimJobs, self.engine.claim_jobs(over, max, lease_ms, now))
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        self.call(Operation::OpenJob, self.engine.open_job(job, want, now))
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        self.call(Operation::SaveJob, self.engine.save_job(job, save, want, now))
    }

    fn job_wakes(&self) -> Wakes {
        self.engine.job_wakes()
    }
}
