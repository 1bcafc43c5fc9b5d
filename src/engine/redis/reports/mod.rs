//! Reports: ledgers of feeds and their readers, in Redis (`lua/ledger.lua` says how they are stored).

use super::super::record::Records;
use super::RedisEngine;
use crate::domain::{
    Ask, Cursor, DeadLetter, Entry, FeedId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader,
    Replay, Taken,
};
use crate::engine::{
    JobDone, JobStore, JobTurn, LedgerStore, Save, Swapped, Wait, Wakes, Want, WebhookStore, Work,
};

mod append;
mod groups;
mod hooks;
mod jobs;
mod state;

pub(super) use append::APPEND_ROUNDS;
pub(super) use state::ReportState;

/// An entry as the ledger has it.
fn entry(feed: &FeedId, number: u64, text: &[u8]) -> Option<Entry> {
    let entry = std::str::from_utf8(text).ok().and_then(|text| Records::new(text).entry(Cursor(number)));
    if entry.is_none() {
        tracing::warn!(%feed, number, "an entry of a ledger that Tipcast did not write");
    }
    entry
}

impl LedgerStore for RedisEngine {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.take(feed, group, ask, now).await
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
            let _permit = self.permit()?;
            self.store.settle(feed, group, "ack", cursors, now).await
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
            let _permit = self.permit()?;
            self.store.settle(feed, group, "nack", cursors, now).await
        })
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.view(feed, group, now).await
        })
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.delete_group(feed, group).await
        })
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.readers(feed).await
        })
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.letters(feed, reader).await
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
            let _permit = self.permit()?;
            self.store.replay(feed, reader, which, now).await
        })
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let feeds = self.store.noted(&self.store.keys.letter_feeds(hook)).await?;
            Ok(feeds.iter().filter_map(|feed| feed.parse().ok()).collect())
        })
    }
}

impl WebhookStore for RedisEngine {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.hook(key).await
        })
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.hooks().await
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
            self.store.swap_hook(key, was, to, now).await
        })
    }
}

impl JobStore for RedisEngine {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.claim_jobs(over, max, lease_ms, now).await
        })
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.job(job, None, want, now).await
        })
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.job(job, Some(save), want, now).await
        })
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(self.store.reports.wakes.subscribe())
    }
}
