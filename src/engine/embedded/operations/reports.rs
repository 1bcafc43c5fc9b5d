//! Operations on ledgers, their readers and webhooks.

use super::super::EmbeddedEngine;
use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::rule::{FeedRule, Rule};
use super::super::txn::FeedTxn;
use super::super::{deliveries, groups, hooks, readers, webhooks};
use crate::domain::{DeadLetter, FeedId, GroupView, Hook, HookKey, Millis, Reader, Taken};
use crate::engine::{
    AckEntries, ClaimEntries, ClaimJobs, DeleteGroup, EngineError, JobTurn, LISTED, ListDeadLetterFeeds,
    ListDeadLetters, ListReaders, ListWebhooks, NackEntries, OpenJob, ReadGroup, ReadWebhook,
    ReplayDeadLetters, Run, SaveJob, SwapWebhook, Swapped, Work,
};

impl FeedRule for ClaimEntries {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<Taken>> {
        groups::take(txn, &self.group, self.ask)
    }
}

impl FeedRule for AckEntries {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<u64>> {
        groups::ack(txn, &self.group, &self.cursors)
    }
}

impl FeedRule for NackEntries {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<u64>> {
        groups::nack(txn, &self.group, &self.cursors)
    }
}

impl FeedRule for ReadGroup {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<GroupView>> {
        groups::view(txn, &self.group)
    }
}

impl FeedRule for DeleteGroup {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<bool> {
        groups::delete(txn, &self.group)
    }
}

impl Rule for ListReaders {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Vec<(FeedId, Reader)>> {
        match &self.feed {
            Some(feed) => feeds.on(feed, Millis(0), |txn| groups::readers_of(txn)),
            None => {
                let all = readers::all_groups(&feeds.db, LISTED)?;
                Ok(all.into_iter().filter(|(feed, _)| !feeds.is_damaged(feed)).collect())
            }
        }
    }
}

impl FeedRule for ListDeadLetters {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<DeadLetter>> {
        groups::letters(txn, &self.reader)
    }
}

impl FeedRule for ReplayDeadLetters {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<u64> {
        groups::replay(txn, &self.reader, &self.which)
    }
}

impl Rule for ListDeadLetterFeeds {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Vec<FeedId>> {
        let all = readers::letter_feeds(&feeds.db, &Reader::HookOfAll(self.hook.clone()), LISTED)?;
        Ok(all.into_iter().filter(|feed| !feeds.is_damaged(feed)).collect())
    }
}

impl Rule for ReadWebhook {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Option<Hook>> {
        webhooks::get(feeds, &self.key, Millis(0))
    }
}

impl Rule for ListWebhooks {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Vec<(HookKey, Hook)>> {
        hooks::all(&feeds.db, LISTED)
    }
}

impl Rule for SwapWebhook {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Swapped> {
        webhooks::swap(feeds, &self.key, self.was, self.to.as_ref(), self.now)
    }
}

impl FeedRule for OpenJob {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<Work>> {
        deliveries::open(txn, &self.job, self.want)
    }
}

impl FeedRule for SaveJob {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<Work>> {
        deliveries::save(txn, &self.job, &self.save, self.want)
    }
}

impl Run<EmbeddedEngine> for ClaimJobs {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<JobTurn, EngineError> {
        let ClaimJobs { mut over, max, lease_ms, now } = self;
        // Leases are in memory alone, so this is done once, also when the group is run again.
        let mut turn = None;
        let claim = move |feeds: &mut Feeds| {
            let jobs = &mut feeds.common.jobs;
            over.drain(..).for_each(|over| jobs.give_back(over, now));
            Ok(turn.get_or_insert_with(|| jobs.claim(max, lease_ms, now)).clone())
        };
        engine.task((1, Some(now)), claim).await
    }
}
