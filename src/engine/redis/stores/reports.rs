//! Reports: what the traits ask of ledgers, webhooks and jobs.

use super::super::engine::RedisEngine;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader, Replay,
    Taken,
};
use crate::engine::{
    JobDone, JobStore, JobTurn, LedgerStore, Save, Swapped, Wait, Wakes, Want, WebhookStore, Work,
};

impl LedgerStore for RedisEngine {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.take(feed, group, ask, now).await?)
        })
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.settle(feed, group, "ack", cursors, now).await?)
        })
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.settle(feed, group, "nack", cursors, now).await?)
        })
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.view(feed, group, now).await?)
        })
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.delete_group(feed, group).await?)
        })
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.groups.readers(feed).await?)
        })
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.letters(feed, reader).await?)
        })
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        Box::pin(async move {
            let _permit = self.permit_for(feed)?;
            Ok(self.groups.replay(feed, reader, which, now).await?)
        })
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.webhooks.letter_feeds(hook).await?)
        })
    }
}

impl WebhookStore for RedisEngine {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.webhooks.hook(key).await?)
        })
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.webhooks.hooks().await?)
        })
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> Wait<'a, Swapped> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.webhooks.swap(key, was, to, now).await?)
        })
    }
}

impl JobStore for RedisEngine {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.jobs.claim(over, max, lease_ms, now).await?)
        })
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        Box::pin(async move {
            let _permit = self.permit_for(&job.feed)?;
            Ok(self.jobs.job(job, None, want, now).await?)
        })
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        Box::pin(async move {
            let _permit = self.permit_for(&job.feed)?;
            Ok(self.jobs.job(job, Some(save), want, now).await?)
        })
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(self.jobs.hooks.attaching.jobs.turns.wakes.subscribe())
    }
}
