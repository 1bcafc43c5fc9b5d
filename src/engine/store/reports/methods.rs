//! Ledgers of feeds, those who read them, and webhooks.
//!
//! - Every gift that is accepted, merged or suppressed and no test, and every sale of a drop, is an entry of
//!   its feed's ledger, once, in the very step in which that happens. Entries are numbered without holes.
//! - A ledger keeps its newest `ledger_max` entries, and everything that any reader has not acknowledged, up to
//!   the bounds of [`ReportLimits`](crate::engine::ReportLimits). It does not expire with an idle feed.
//! - A reader's dead letters and what is sent again are kept beside the ledger: trimming does not touch them.

use crate::domain::ledger::LedgerPart;
use crate::domain::pull::Seek;
use crate::domain::signature::SigningKey;
use crate::domain::story::{EntryState, GiftMemory};
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GiftId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader,
    Replay, Taken,
};
use crate::engine::store::Store;
use crate::engine::{JobDone, JobTurn, Save, StoreResult, Swapped, Want, Work};
use crate::metrics::labels::Operation;
use std::sync::Arc;

impl Store {
    /// Leases entries to a claimer. Returns `None` if the group would be one reader too many. Makes the group
    /// if there is none, with at most `ledger_max` entries to read.
    ///
    /// Entries whose lease ran out, those that were given back and new ones come together, in the ledger's
    /// order. An entry that was leased `max_attempts` times becomes a dead letter instead.
    pub async fn claim_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        ask: Ask,
        now: Millis,
    ) -> StoreResult<Option<Taken>> {
        self.measured(Operation::TakeEntries, Some(feed), self.parts.groups.take(feed, group, ask, now)).await
    }

    /// Acknowledges entries that are pending, also if their lease ran out or moved on. Returns how many were,
    /// or `None` if there is no such group. Other cursors change nothing.
    pub async fn ack_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> StoreResult<Option<u64>> {
        self.measured(
            Operation::AckEntries,
            Some(feed),
            self.parts.groups.settle(feed, group, "ack", cursors, now),
        )
        .await
    }

    /// Gives pending entries back for the next claimer, after a pause of 1, 2, 4 … 60 s by attempt; one that
    /// was leased `max_attempts` times is a dead letter. Notifies subscriptions of the feed. Returns how many
    /// were pending, or `None` if there is no such group.
    pub async fn nack_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> StoreResult<Option<u64>> {
        self.measured(
            Operation::NackEntries,
            Some(feed),
            self.parts.groups.settle(feed, group, "nack", cursors, now),
        )
        .await
    }

    /// Reads entries of a feed's ledger from `from` on, or from the oldest that is kept. It leases none of
    /// them.
    pub async fn read_ledger(
        &self,
        feed: &FeedId,
        from: Cursor,
        max: usize,
        now: Millis,
    ) -> StoreResult<LedgerPart> {
        self.measured(Operation::Readers, Some(feed), self.parts.groups.read(feed, from, max, now)).await
    }

    /// Moves a group. What it has pending is dropped from it. Returns the number of the entry that it is handed next, or `None`
    /// when there is no such group.
    pub async fn seek_group(
        &self,
        feed: &FeedId,
        group: &GroupId,
        to: Seek,
        now: Millis,
    ) -> StoreResult<Option<Cursor>> {
        self.measured(Operation::Readers, Some(feed), self.parts.groups.seek(feed, group, to, now)).await
    }

    /// Reads the state of a group, or `None` if there is no such group.
    pub async fn read_group(
        &self,
        feed: &FeedId,
        group: &GroupId,
        now: Millis,
    ) -> StoreResult<Option<GroupView>> {
        self.measured(Operation::Readers, Some(feed), self.parts.groups.view(feed, group, now)).await
    }

    /// Reads what is remembered of a gift. `None`: its id is unknown, or was forgotten.
    pub async fn read_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> StoreResult<Option<GiftMemory>> {
        self.measured(Operation::Readers, Some(feed), async {
            let window = self.parts.feeds.policy(feed).await?.idempotency_window_ms;
            StoreResult::Ok(self.parts.groups.gift(feed, id, window, now).await?)
        })
        .await
    }

    /// Reads what a reader has done with an entry of its feed's ledger. `None`: it does not read there, or began after that entry.
    pub async fn read_entry_state(
        &self,
        feed: &FeedId,
        reader: &Reader,
        cursor: Cursor,
        now: Millis,
    ) -> StoreResult<Option<EntryState>> {
        self.measured(
            Operation::Readers,
            Some(feed),
            self.parts.groups.entry_state(feed, reader, cursor, now),
        )
        .await
    }

    /// Deletes a group with all it has. Returns false if there is no such group.
    pub async fn delete_group(&self, feed: &FeedId, group: &GroupId) -> StoreResult<bool> {
        self.measured(Operation::Readers, Some(feed), self.parts.groups.delete_group(feed, group)).await
    }

    /// Groups and webhooks of one feed, or groups of all feeds, by name; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_readers(&self, feed: Option<&FeedId>) -> StoreResult<Vec<(FeedId, Reader)>> {
        self.measured(Operation::Readers, None, self.parts.groups.readers(feed)).await
    }

    /// Lists a reader's dead letters, the oldest first, without the first `skip`, at most `max`.
    pub async fn list_dead_letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
        skip: usize,
        max: usize,
    ) -> StoreResult<Vec<DeadLetter>> {
        self.measured(Operation::Letters, Some(feed), self.parts.groups.letters(feed, reader, skip, max))
            .await
    }

    /// Sends dead letters again: a group's next claimers get them, a webhook sends them before anything else.
    /// Takes them off the list. How many there were.
    pub async fn replay_dead_letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
        which: &Replay,
        now: Millis,
    ) -> StoreResult<u64> {
        self.measured(Operation::Letters, Some(feed), self.parts.groups.replay(feed, reader, which, now))
            .await
    }

    /// Feeds in which a webhook of all feeds has, or had lately, dead letters; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_dead_letter_feeds(&self, hook: &HookId) -> StoreResult<Vec<FeedId>> {
        self.measured(Operation::Letters, None, self.parts.webhooks.letter_feeds(hook)).await
    }

    /// Reads a webhook, or `None` if there is no such webhook.
    pub async fn read_webhook(&self, key: &HookKey) -> StoreResult<Option<Hook>> {
        self.measured(Operation::Hooks, None, self.parts.webhooks.hook(key)).await
    }

    /// Every webhook in the store, by scope and name; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_webhooks(&self) -> StoreResult<Vec<(HookKey, Hook)>> {
        self.measured(Operation::Hooks, None, self.parts.webhooks.hooks()).await
    }

    /// The key with which this installation signs what it sends to webhooks; made when it is asked for first.
    pub async fn read_signing_key(&self) -> StoreResult<Arc<SigningKey>> {
        self.measured(Operation::Hooks, None, self.parts.signing.key()).await
    }

    /// Puts `to` (`None`: nothing) in the place of a webhook whose version is `was` (`None`: there is no such
    /// webhook). A new one begins to read at the ledger's end, or one of all feeds with what comes from
    /// `since` on. One that is deleted loses all it has.
    pub async fn swap_webhook(
        &self,
        key: &HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> StoreResult<Swapped> {
        self.measured(Operation::Hooks, None, self.parts.webhooks.swap(key, was, to, now)).await
    }

    /// Releases leases, and leases at most `max` jobs whose time has come, those that wait longest first. A
    /// lease that is not released ends after `lease_ms`.
    ///
    /// The first entry for an idle webhook makes a job, `batch_ms` later.
    pub async fn claim_jobs(
        &self,
        over: Vec<JobDone>,
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> StoreResult<JobTurn> {
        self.measured(Operation::ClaimJobs, None, self.parts.jobs.claim(over, max, lease_ms, now)).await
    }

    /// Reads what a webhook has to send in a feed. Returns `None` if it does not read there, or is deleted.
    /// If there is nothing to send, the webhook is idle from then on, or soon ([`Work::look_ms`]): the next
    /// entry makes it a job again, `batch_ms` later.
    pub async fn open_job(&self, job: &Job, want: Want, now: Millis) -> StoreResult<Option<Work>> {
        self.measured(Operation::OpenJob, Some(&job.feed), self.parts.jobs.job(job, None, want, now)).await
    }

    /// Saves what was done, if the job's progress is still `save.was`, and answers as [`Store::open_job`]
    /// does then. Returns `None` if another caller went on; then nothing was changed.
    pub async fn save_job(
        &self,
        job: &Job,
        save: Save,
        want: Want,
        now: Millis,
    ) -> StoreResult<Option<Work>> {
        self.measured(Operation::SaveJob, Some(&job.feed), self.parts.jobs.job(job, Some(save), want, now))
            .await
    }
}
