//! Operations on sources and refunds.

use super::super::fault::Step;
use super::super::rule::FeedRule;
use super::super::sources;
use super::super::txn::FeedTxn;
use crate::engine::{IsRefunded, Kept, ListSources, RecordDelivery, RecordRefund, SwapSource, Swapped};

impl FeedRule for ListSources {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Vec<Kept>> {
        sources::all(txn)
    }
}

impl FeedRule for SwapSource {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Swapped> {
        sources::swap(txn, &self.name, self.was, self.to.as_ref())
    }
}

impl FeedRule for RecordDelivery {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<()> {
        sources::note(txn, &self.name, &self.note)
    }
}

impl FeedRule for RecordRefund {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<()> {
        sources::note_refund(txn, &self.gift)
    }
}

impl FeedRule for IsRefunded {
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<bool> {
        sources::is_refunded(txn, &self.gift)
    }
}
