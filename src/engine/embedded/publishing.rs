//! Publishing: what becomes of each gift that comes.

use super::fault::Step;
use super::txn::FeedTxn;
use super::{gifts, reviews};
use crate::domain::answer::Remembered;
use crate::domain::{Gift, Outcome, due_at};

/// See [`crate::engine::Publish`].
pub(super) fn publish(txn: &mut FeedTxn<'_>, gifts: &[Gift]) -> Step<Vec<Outcome>> {
    gifts.iter().map(|gift| publish_one(txn, gift)).collect()
}

fn publish_one(txn: &mut FeedTxn<'_>, gift: &Gift) -> Step<Outcome> {
    let remembered = txn.remembered(&gift.id)?;
    // Past its window the id is free again, though what it counted can be taken back for longer.
    let over = |it: &Remembered| it.counted.as_ref().is_some_and(|counted| txn.now >= counted.window);
    if let Some(remembered) = remembered.filter(|it| !over(it)) {
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
