//! Operations on lists.

use super::super::EmbeddedEngine;
use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::rule::{FeedRule, Rule};
use super::super::txn::FeedTxn;
use super::super::{gifts, moderation, publishing};
use crate::domain::{FeedId, Millis, Outcome, Policy, Position};
use crate::engine::{
    EngineError, Head, Missed, Publish, ReadChanges, ReadHeads, ReadPolicy, ReadSnapshot, RetractRow, Run,
    SetPolicy, Snapshot, Subscribe, Subscription,
};

impl FeedRule for Publish {
    fn weight(&self) -> usize {
        self.gifts.len()
    }

    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<Outcome>> {
        publishing::publish(txn, &self.gifts)
    }
}

impl FeedRule for RetractRow {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<Position>> {
        moderation::retract(txn, &self.row)
    }
}

impl FeedRule for ReadPolicy {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Policy> {
        Ok(Policy::clone(&txn.policy))
    }
}

impl FeedRule for SetPolicy {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Policy> {
        gifts::set_policy(txn, &self.change)
    }
}

impl FeedRule for ReadSnapshot {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Snapshot> {
        gifts::snapshot(txn)
    }
}

impl FeedRule for ReadChanges {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Missed> {
        txn.feed.changes(txn.db, &self.since, self.max)
    }
}

impl Rule for ReadHeads {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Vec<Result<Head, EngineError>>> {
        let head = |feed: &FeedId, feeds: &mut Feeds| {
            feeds.on(feed, Millis(0), |txn| Ok(Head { at: txn.feed.state.position(), tag: 0 }))
        };
        Ok(self.feeds.iter().map(|feed| head(feed, feeds).map_err(EngineError::from)).collect())
    }
}

impl Run<EmbeddedEngine> for Subscribe {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<Subscription, EngineError> {
        Ok(engine.topics.subscribe(&self.feed))
    }
}
