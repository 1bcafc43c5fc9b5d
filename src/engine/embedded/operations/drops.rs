//! Operations on drops, claims and holds.

use super::super::drops;
use super::super::fault::Step;
use super::super::rule::FeedRule;
use super::super::txn::FeedTxn;
use crate::domain::{Cancelled, Claimed, Confirmed, Defined, DropView, Hold};
use crate::engine::{CancelHold, ClaimDrop, ConfirmHold, DefineDrop, ListDrops, ListHolds, TickDrop};

impl FeedRule for DefineDrop {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Defined> {
        drops::define(txn, &self.drop, self.spec.clone())
    }
}

impl FeedRule for TickDrop {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Option<DropView>> {
        drops::tick(txn, &self.drop)
    }
}

impl FeedRule for ListDrops {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<DropView>> {
        drops::all(txn)
    }
}

impl FeedRule for ClaimDrop {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Claimed> {
        drops::claim(txn, &self.drop, &self.claim)
    }
}

impl FeedRule for ConfirmHold {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Confirmed> {
        drops::confirm(txn, &self.hold, self.trace.as_ref())
    }
}

impl FeedRule for CancelHold {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Cancelled> {
        drops::cancel(txn, &self.hold)
    }
}

impl FeedRule for ListHolds {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<Hold>> {
        drops::holds(txn, &self.user)
    }
}
