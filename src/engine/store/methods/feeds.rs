//! Lists of feeds: gifts in, changes out. Rows whose time has passed are removed before any operation looks at the list.

use crate::domain::{FeedId, Gift, Millis, Outcome, Policy, Position, RowId};
use crate::engine::store::Store;
use crate::engine::{EngineError, Head, Missed, PolicyChange, Snapshot, StoreResult, Subscription, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Takes gifts in order, at most 128 of them, as one step. An outcome each, in the same order.
    ///
    /// For each gift: its remembered id is decided first; then whether its giver is blocked or it waits for a host
    /// ([`Store::decide_review`]); then whether it is for later
    /// (its own time replaces the policy's delay, and one that is not in the future is at once), when it joins the feed's due queue unless that is full; then its
    /// combo or dedup lock; then it is a new row. Reading or refusing writes nothing. A gift that waits
    /// does not begin the feed.
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

    /// Takes a row back. The position after it, or none when the row is not in the list.
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

    /// The policy in force.
    pub async fn read_policy(&self, feed: &FeedId) -> StoreResult<Policy> {
        self.measured(Operation::Policy, Some(feed), self.parts.feeds.policy(feed)).await
    }

    /// Changes the policy and answers the one now in force. A changed capacity takes a seq
    /// ([`crate::domain::Op::Reset`]) unless nobody wrote to the feed yet.
    pub async fn set_policy(&self, feed: &FeedId, change: &PolicyChange, now: Millis) -> StoreResult<Policy> {
        self.measured(Operation::SetPolicy, Some(feed), self.parts.feeds.set_policy(feed, change, now)).await
    }

    /// The list as it stands. When the store has gone back behind, or forked from, what this process
    /// saw of it ([`crate::engine::Store::known`]), the feed gets a new epoch first. Of a feed that nobody wrote to: empty, at [`Position::start`], and
    /// nothing is written.
    pub async fn read_snapshot(&self, feed: &FeedId, now: Millis) -> StoreResult<Snapshot> {
        self.measured(Operation::Snapshot, Some(feed), self.parts.feeds.snapshot(feed, now)).await
    }

    /// The changes after `since`, oldest first, at most `max` (≥ 1) of them; none when `since` is
    /// where the feed stands.
    pub async fn read_changes(&self, feed: &FeedId, since: &Position, max: usize) -> StoreResult<Missed> {
        self.measured(Operation::Changes, Some(feed), self.parts.feeds.changes(feed, since, max)).await
    }

    /// Where feeds stand, in the order asked. Cheap: for comparing, every second or two.
    /// Does not sweep. Each feed has an answer of its own, for they may live in parts of the store that fail by
    /// themselves.
    pub async fn read_heads(&self, feeds: &[FeedId]) -> StoreResult<Vec<Result<Head, EngineError>>> {
        self.measured(Operation::Heads, None, async { StoreResult::Ok(self.parts.feeds.heads(feeds).await) })
            .await
    }

    /// From the moment this returns, every change of the feed reaches the subscription, or
    /// [`crate::engine::Notice::Lost`] does. So does, as a notice without changes, what makes no change and yet is new for
    /// those who read the feed's ledger ([`Store::claim_entries`]). Dropping it ends it.
    pub async fn subscribe(&self, feed: &FeedId) -> StoreResult<Subscription> {
        self.measured(Operation::Subscribe, None, self.parts.feeds.subscribe(feed)).await
    }
}
