//! Publishing: what becomes of each gift that comes.

use super::fault::Step;
use super::txn::FeedTxn;
use super::{gifts, ids, reviews};
use crate::domain::{Gift, Outcome, due_at};

/// See [`crate::engine::FeedStore::publish`].
pub(super) fn publish(txn: &mut FeedTxn<'_>, gifts: &[Gift]) -> Step<Vec<Outcome>> {
    gifts.iter().map(|gift| publish_one(txn, gift)).collect()
}

fn publish_one(txn: &mut FeedTxn<'_>, gift: &Gift) -> Step<Outcome> {
    let remembered = match txn.feed.no {
        Some(no) => ids::remembered(txn.db, no, &gift.id, txn.now)?,
        None => None,
    };
    if let Some(remembered) = remembered {
        return Ok(remembered.again(gift.fingerprint));
    }
    if let Some(outcome) = reviews::judge(txn, gift)? {
        return Ok(outcome);
    }
    match due_at(gift, &txn.policy, txn.now) {
        Some(at) => gifts::schedule(txn, gift, at),
        None => gifts::take(txn, gift, None).map(Outcome::New),
    }
}
