//! What is done with a feed: gifts in, changes out, rows and gifts taken back. Rows whose time has passed are removed before
//! any operation looks at the list.

use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{Control, FeedId, Gift, GiftId, GiftTakenBack, Millis, Outcome, Policy, Position, RowId};
use crate::engine::store::Store;
use crate::engine::{
    Head, Missed, PolicyChange, Snapshot, StoreError, StoreResult, Subscription, Walk, counted,
};
use crate::metrics::labels::Operation;

impl Store {
    /// Takes gifts in order, at most 128 of them, as one step. Returns an outcome for each, in the same
    /// order.
    ///
    /// For each gift, in this order: a repeat of a remembered id gets its first answer; a gift of a blocked
    /// user is suppressed; a gift that a host must look at waits for [`Store::decide_review`]; a gift for
    /// later joins the feed's due queue, unless that is full (its own time replaces the policy's delay, and a
    /// time in the past means now); a combo or a dedup lock takes it; otherwise it is a new row. A refusal
    /// writes nothing. A gift that waits does not begin the feed.
    pub async fn publish(&self, feed: &FeedId, gifts: Vec<Gift>, now: Millis) -> StoreResult<Vec<Outcome>> {
        let reply = self
            .measured(Operation::Publish, Some(feed), async {
                if gifts.is_empty() {
                    return Ok(Vec::new());
                }
                self.parts.feeds.publish(feed, gifts, now).await
            })
            .await?;
        counted::gifts(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Takes a row back. Returns the position after it, or `None` if the row is not in the list.
    pub async fn retract_row(
        &self,
        feed: &FeedId,
        row: &RowId,
        now: Millis,
    ) -> StoreResult<Option<Position>> {
        let reply =
            self.measured(Operation::Retract, Some(feed), self.parts.feeds.retract(feed, row, now)).await?;
        counted::retracted_row(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Reads the policy in force.
    pub async fn read_policy(&self, feed: &FeedId) -> StoreResult<Policy> {
        self.measured(Operation::Policy, Some(feed), self.parts.feeds.policy(feed)).await
    }

    /// Changes the policy and returns the one in force afterwards. A changed capacity takes a seq
    /// ([`crate::domain::Op::Reset`]), unless the feed was never written to.
    pub async fn set_policy(&self, feed: &FeedId, change: &PolicyChange, now: Millis) -> StoreResult<Policy> {
        self.measured(Operation::SetPolicy, Some(feed), self.parts.feeds.set_policy(feed, change, now)).await
    }

    /// Reads the list. If the store is behind what this process saw of it ([`Store::known`]), or forked from
    /// it, the feed gets a new epoch first. A feed that was never written to is empty, at
    /// [`Position::start`], and nothing is written.
    pub async fn read_snapshot(&self, feed: &FeedId, now: Millis) -> StoreResult<Snapshot> {
        self.measured(Operation::Snapshot, Some(feed), self.parts.feeds.snapshot(feed, now)).await
    }

    /// Reads the changes after `since`, oldest first, at most `max` (≥ 1) of them. The result is empty if `since`
    /// is the feed's position.
    pub async fn read_changes(&self, feed: &FeedId, since: &Position, max: usize) -> StoreResult<Missed> {
        self.measured(Operation::Changes, Some(feed), self.parts.feeds.changes(feed, since, max)).await
    }

    /// Reads the positions of feeds, in the order asked. It is cheap, for comparing every second or two, and
    /// removes no rows whose time has passed. Each feed has an answer of its own, because shards fail one by
    /// one.
    pub async fn read_heads(&self, feeds: &[FeedId]) -> StoreResult<Vec<Result<Head, StoreError>>> {
        self.measured(Operation::Heads, None, async { StoreResult::Ok(self.parts.feeds.heads(feeds).await) })
            .await
    }

    /// Subscribes to a feed. From the moment this returns, every change of the feed reaches the subscription,
    /// or [`crate::engine::Notice::Lost`] does. A notice without changes says that the feed's ledger has
    /// something new for its readers ([`Store::claim_entries`]). Dropping the subscription ends it.
    pub async fn subscribe(&self, feed: &FeedId) -> StoreResult<Subscription> {
        self.measured(Operation::Subscribe, None, self.parts.feeds.subscribe(feed)).await
    }

    /// Sends a command to overlays ([`crate::domain::Op::Control`]). Returns the position after it, or `None`
    /// for the replay of a row that is not in the list. A command that changes nothing makes no change and
    /// returns the feed's position. What is paused or muted is part of the feed
    /// ([`crate::engine::Snapshot::controls`]) and does not expire with an idle one.
    pub async fn send_control(
        &self,
        feed: &FeedId,
        control: &Control,
        now: Millis,
    ) -> StoreResult<Option<Position>> {
        self.measured(Operation::Control, Some(feed), self.parts.feeds.control(feed, control, now)).await
    }

    /// Takes every row of a user back, the oldest first, in one step. Returns how many there were.
    pub async fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<u64> {
        self.measured(Operation::RetractUser, Some(feed), self.parts.feeds.retract_user(feed, user, now))
            .await
    }

    /// Takes one gift back by its id, also if its row has left the list. What it added to its row leaves it;
    /// a row of which nothing is left goes. The same step appends an entry to the ledger
    /// ([`crate::domain::EntryStatus::Retracted`]), except for a test. A gift that waits is cancelled
    /// instead, without an entry. A repeat does nothing.
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

    /// Refunds a part of a gift's value. `refunded` is all that is refunded so far, so a repeat and a lower
    /// amount change nothing. Row and totals lose the difference, counts stay, and the ledger gets an entry
    /// ([`crate::domain::EntryStatus::Refunded`]). Refunding everything takes the gift back, as
    /// [`Store::retract_gift`] does.
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

    /// Begins to take every row of a user back in all feeds. Callers of [`Store::continue_walk`] on any node
    /// go on with it until all feeds are done. A repeat begins again.
    pub async fn begin_walk(&self, user: &str, now: Millis) -> StoreResult<()> {
        self.measured(Operation::RetractUser, None, self.parts.walks.begin(user, now)).await
    }

    /// Makes one step of the oldest walk, if this node has its lease. The lease of a node that dies runs out.
    /// Shards that are away are left for later steps; an error means that nothing could be done. A walk ends
    /// early when the user's block of all feeds does.
    pub async fn continue_walk(&self, node: &str, now: Millis) -> StoreResult<Walk> {
        self.measured(Operation::Walk, None, self.parts.walks.walk_on(node, now)).await
    }
}
