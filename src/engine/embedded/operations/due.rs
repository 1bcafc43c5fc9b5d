//! Operations on due queues.

use super::super::fault::Step;
use super::super::feeds::Feeds;
use super::super::rule::{FeedRule, Rule};
use super::super::txn::FeedTxn;
use super::super::{due, due_work, gifts};
use crate::engine::{
    CancelScheduled, ClaimDue, DUE_BATCH, DeadDue, DueRun, DueTurn, ListDeadDue, ListScheduled, RunDue,
    ScheduledPage, Unscheduled,
};

impl FeedRule for ListScheduled {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<ScheduledPage> {
        gifts::scheduled(txn, self.after, self.max.max(1))
    }
}

impl FeedRule for CancelScheduled {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Unscheduled> {
        gifts::unschedule(txn, &self.id)
    }
}

impl FeedRule for ListDeadDue {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<DeadDue>> {
        txn.feed.no.map_or(Ok(Vec::new()), |no| due::dead(txn.db, no))
    }
}

impl Rule for ClaimDue {
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<DueTurn> {
        Ok(feeds.claim_due(self.max, self.now))
    }
}

impl FeedRule for RunDue {
    fn weight(&self) -> usize {
        DUE_BATCH
    }

    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<DueRun> {
        due_work::run(txn)
    }
}
