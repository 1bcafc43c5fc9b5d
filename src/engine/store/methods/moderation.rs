//! Taking back, and what overlays are to do. Every call first removes rows whose time has passed, as all do that look at
//! the list.

use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position};
use crate::engine::store::Store;
use crate::engine::{StoreResult, Walk};
use crate::metrics::labels::Operation;

impl Store {
    /// Tells overlays what to do: [`crate::domain::Op::Control`]. The position after it; none for the replay of a
    /// row that is not in the list. An action that changes nothing makes no change and answers where the feed
    /// stands. What is paused or muted is part of the feed ([`crate::engine::Snapshot::controls`]) and does not expire with
    /// an idle one.
    pub async fn send_control(
        &self,
        feed: &FeedId,
        control: &Control,
        now: Millis,
    ) -> StoreResult<Option<Position>> {
        self.measured(Operation::Control, Some(feed), self.parts.feeds.control(feed, control, now)).await
    }

    /// Takes every row of a user back, the oldest first, in one step. How many there were.
    pub async fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<u64> {
        self.measured(Operation::RetractUser, Some(feed), self.parts.feeds.retract_user(feed, user, now))
            .await
    }

    /// Takes one gift back by its id, also when its row has left the list. What it added to its row leaves it; a
    /// row of which nothing is left goes. The ledger gets an entry
    /// ([`crate::domain::EntryStatus::Retracted`]), in the same step, except for a test. A gift that waits is
    /// cancelled instead, which is no entry. Doing it again does nothing.
    pub async fn retract_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        reason: Option<String>,
        now: Millis,
    ) -> StoreResult<GiftTakenBack> {
        self.measured(Operation::RetractGift, Some(feed), async {
            let what = TakingBack { reason, ..TakingBack::default() };
            // Somebody else may decide between the look and the denial: then it is looked at once more.
            for _ in 0..3 {
                match self.parts.feeds.take_back(feed, id, &what, now).await? {
                    GiftRefunded::Done { .. } => return Ok(GiftTakenBack::Done),
                    GiftRefunded::Waits => {}
                    _ => return Ok(GiftTakenBack::Unknown),
                }
                let reason = what.reason.as_deref();
                if self.parts.reviews.take_back(feed, id, reason, now).await? {
                    return Ok(GiftTakenBack::Done);
                }
            }
            StoreResult::Ok(GiftTakenBack::Unknown)
        })
        .await
    }

    /// Refunds a part of a gift's value: `refunded` is all that is refunded so far, so a repeat and a lower amount change nothing.
    /// Its row and totals lose the difference, counts stay; the ledger gets an entry
    /// ([`crate::domain::EntryStatus::Refunded`]). Refunding everything takes the gift back, as [`Store::retract_gift`] does.
    pub async fn refund_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        refunded: u64,
        reason: Option<String>,
        now: Millis,
    ) -> StoreResult<GiftRefunded> {
        self.measured(Operation::RetractGift, Some(feed), async {
            let what = TakingBack { refunded: Some(refunded), reason, restock: false };
            StoreResult::Ok(self.parts.feeds.take_back(feed, id, &what, now).await?)
        })
        .await
    }

    /// Begins to take every row of a user back in all feeds: callers of [`Store::continue_walk`] go on with it, on any
    /// node, until it is through. Beginning it again begins anew.
    pub async fn begin_walk(&self, user: &str, now: Millis) -> StoreResult<()> {
        self.measured(Operation::RetractUser, None, self.parts.walks.begin(user, now)).await
    }

    /// Makes one step of the oldest walk that was begun, if it is this node's turn: one node walks at a time, and a node
    /// that dies loses its turn with its lease. Shards that are away are left for later steps; an error is that nothing
    /// could be done. A walk ends early when the user's block of all feeds does.
    pub async fn continue_walk(&self, node: &str, now: Millis) -> StoreResult<Walk> {
        self.measured(Operation::Walk, None, self.parts.walks.walk_on(node, now)).await
    }
}
