//! Operations on ledgers, their readers and webhooks.

use super::super::engine::RedisEngine;
use crate::domain::{DeadLetter, FeedId, GroupView, Hook, HookKey, Reader, Taken};
use crate::engine::{
    AckEntries, ClaimEntries, ClaimJobs, DeleteGroup, EngineError, JobTurn, ListDeadLetterFeeds,
    ListDeadLetters, ListReaders, ListWebhooks, NackEntries, OpenJob, ReadGroup, ReadWebhook,
    ReplayDeadLetters, Run, SaveJob, SwapWebhook, Swapped, Work,
};

impl Run<RedisEngine> for ClaimEntries {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Taken>, EngineError> {
        Ok(redis.groups.take(&self.feed, &self.group, self.ask, self.now).await?)
    }
}

impl Run<RedisEngine> for AckEntries {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<u64>, EngineError> {
        Ok(redis.groups.settle(&self.feed, &self.group, "ack", &self.cursors, self.now).await?)
    }
}

impl Run<RedisEngine> for NackEntries {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<u64>, EngineError> {
        Ok(redis.groups.settle(&self.feed, &self.group, "nack", &self.cursors, self.now).await?)
    }
}

impl Run<RedisEngine> for ReadGroup {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<GroupView>, EngineError> {
        Ok(redis.groups.view(&self.feed, &self.group, self.now).await?)
    }
}

impl Run<RedisEngine> for DeleteGroup {
    async fn run_on(self, redis: &RedisEngine) -> Result<bool, EngineError> {
        Ok(redis.groups.delete_group(&self.feed, &self.group).await?)
    }
}

impl Run<RedisEngine> for ListReaders {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<(FeedId, Reader)>, EngineError> {
        Ok(redis.groups.readers(self.feed.as_ref()).await?)
    }
}

impl Run<RedisEngine> for ListDeadLetters {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<DeadLetter>, EngineError> {
        Ok(redis.groups.letters(&self.feed, &self.reader).await?)
    }
}

impl Run<RedisEngine> for ReplayDeadLetters {
    async fn run_on(self, redis: &RedisEngine) -> Result<u64, EngineError> {
        Ok(redis.groups.replay(&self.feed, &self.reader, &self.which, self.now).await?)
    }
}

impl Run<RedisEngine> for ListDeadLetterFeeds {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<FeedId>, EngineError> {
        Ok(redis.webhooks.letter_feeds(&self.hook).await?)
    }
}

impl Run<RedisEngine> for ReadWebhook {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Hook>, EngineError> {
        Ok(redis.webhooks.hook(&self.key).await?)
    }
}

impl Run<RedisEngine> for ListWebhooks {
    async fn run_on(self, redis: &RedisEngine) -> Result<Vec<(HookKey, Hook)>, EngineError> {
        Ok(redis.webhooks.hooks().await?)
    }
}

impl Run<RedisEngine> for SwapWebhook {
    async fn run_on(self, redis: &RedisEngine) -> Result<Swapped, EngineError> {
        Ok(redis.webhooks.swap(&self.key, self.was, self.to, self.now).await?)
    }
}

impl Run<RedisEngine> for ClaimJobs {
    async fn run_on(self, redis: &RedisEngine) -> Result<JobTurn, EngineError> {
        Ok(redis.jobs.claim(self.over, self.max, self.lease_ms, self.now).await?)
    }
}

impl Run<RedisEngine> for OpenJob {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Work>, EngineError> {
        Ok(redis.jobs.job(&self.job, None, self.want, self.now).await?)
    }
}

impl Run<RedisEngine> for SaveJob {
    async fn run_on(self, redis: &RedisEngine) -> Result<Option<Work>, EngineError> {
        Ok(redis.jobs.job(&self.job, Some(self.save), self.want, self.now).await?)
    }
}
