//! Operations on ledgers, their readers and webhooks.

use std::sync::Arc;

use super::super::engine::Store;
use crate::domain::ledger::LedgerPart;
use crate::domain::signature::SigningKey;
use crate::domain::story::{EntryState, GiftMemory};
use crate::domain::{Cursor, DeadLetter, FeedId, GroupView, Hook, HookKey, Reader, Taken};
use crate::engine::{
    AckEntries, ClaimEntries, ClaimJobs, DeleteGroup, EngineError, JobTurn, ListDeadLetterFeeds,
    ListDeadLetters, ListReaders, ListWebhooks, NackEntries, OpenJob, ReadEntryState, ReadGift, ReadGroup,
    ReadLedger, ReadSigningKey, ReadWebhook, ReplayDeadLetters, Run, SaveJob, SeekGroup, SwapWebhook,
    Swapped, Work,
};

impl Run<Store> for ClaimEntries {
    async fn run_on(self, store: &Store) -> Result<Option<Taken>, EngineError> {
        Ok(store.groups.take(&self.feed, &self.group, self.ask, self.now).await?)
    }
}

impl Run<Store> for AckEntries {
    async fn run_on(self, store: &Store) -> Result<Option<u64>, EngineError> {
        Ok(store.groups.settle(&self.feed, &self.group, "ack", &self.cursors, self.now).await?)
    }
}

impl Run<Store> for NackEntries {
    async fn run_on(self, store: &Store) -> Result<Option<u64>, EngineError> {
        Ok(store.groups.settle(&self.feed, &self.group, "nack", &self.cursors, self.now).await?)
    }
}

impl Run<Store> for ReadLedger {
    async fn run_on(self, store: &Store) -> Result<LedgerPart, EngineError> {
        Ok(store.groups.read(&self.feed, self.from, self.max, self.now).await?)
    }
}

impl Run<Store> for SeekGroup {
    async fn run_on(self, store: &Store) -> Result<Option<Cursor>, EngineError> {
        Ok(store.groups.seek(&self.feed, &self.group, self.to, self.now).await?)
    }
}

impl Run<Store> for ReadGroup {
    async fn run_on(self, store: &Store) -> Result<Option<GroupView>, EngineError> {
        Ok(store.groups.view(&self.feed, &self.group, self.now).await?)
    }
}

impl Run<Store> for ReadGift {
    async fn run_on(self, store: &Store) -> Result<Option<GiftMemory>, EngineError> {
        let window = store.feeds.policy(&self.feed).await?.idempotency_window_ms;
        Ok(store.groups.gift(&self.feed, &self.id, window, self.now).await?)
    }
}

impl Run<Store> for ReadEntryState {
    async fn run_on(self, store: &Store) -> Result<Option<EntryState>, EngineError> {
        Ok(store.groups.entry_state(&self.feed, &self.reader, self.cursor, self.now).await?)
    }
}

impl Run<Store> for DeleteGroup {
    async fn run_on(self, store: &Store) -> Result<bool, EngineError> {
        Ok(store.groups.delete_group(&self.feed, &self.group).await?)
    }
}

impl Run<Store> for ListReaders {
    async fn run_on(self, store: &Store) -> Result<Vec<(FeedId, Reader)>, EngineError> {
        Ok(store.groups.readers(self.feed.as_ref()).await?)
    }
}

impl Run<Store> for ListDeadLetters {
    async fn run_on(self, store: &Store) -> Result<Vec<DeadLetter>, EngineError> {
        Ok(store.groups.letters(&self.feed, &self.reader, self.skip, self.max).await?)
    }
}

impl Run<Store> for ReplayDeadLetters {
    async fn run_on(self, store: &Store) -> Result<u64, EngineError> {
        Ok(store.groups.replay(&self.feed, &self.reader, &self.which, self.now).await?)
    }
}

impl Run<Store> for ListDeadLetterFeeds {
    async fn run_on(self, store: &Store) -> Result<Vec<FeedId>, EngineError> {
        Ok(store.webhooks.letter_feeds(&self.hook).await?)
    }
}

impl Run<Store> for ReadWebhook {
    async fn run_on(self, store: &Store) -> Result<Option<Hook>, EngineError> {
        Ok(store.webhooks.hook(&self.key).await?)
    }
}

impl Run<Store> for ListWebhooks {
    async fn run_on(self, store: &Store) -> Result<Vec<(HookKey, Hook)>, EngineError> {
        Ok(store.webhooks.hooks().await?)
    }
}

impl Run<Store> for ReadSigningKey {
    async fn run_on(self, store: &Store) -> Result<Arc<SigningKey>, EngineError> {
        Ok(store.webhooks.signing.key().await?)
    }
}

impl Run<Store> for SwapWebhook {
    async fn run_on(self, store: &Store) -> Result<Swapped, EngineError> {
        Ok(store.webhooks.swap(&self.key, self.was, self.to, self.now).await?)
    }
}

impl Run<Store> for ClaimJobs {
    async fn run_on(self, store: &Store) -> Result<JobTurn, EngineError> {
        Ok(store.jobs.claim(self.over, self.max, self.lease_ms, self.now).await?)
    }
}

impl Run<Store> for OpenJob {
    async fn run_on(self, store: &Store) -> Result<Option<Work>, EngineError> {
        Ok(store.jobs.job(&self.job, None, self.want, self.now).await?)
    }
}

impl Run<Store> for SaveJob {
    async fn run_on(self, store: &Store) -> Result<Option<Work>, EngineError> {
        Ok(store.jobs.job(&self.job, Some(self.save), self.want, self.now).await?)
    }
}
