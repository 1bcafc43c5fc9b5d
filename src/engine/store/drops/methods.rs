//! Drops of feeds, with exact stock.
//!
//! - Always free + held + sold = total, and each is ≥ 0.
//! - A hold holds while `now` is before its end. Every call that looks at stock or holds first ends those
//!   whose time has passed, so its answer does not depend on a timer; a hold of a drop that is not looked
//!   at ends by [`Store::tick_drop`]. The one who removes a hold – by confirming, cancelling or time – is the
//!   only one, and gives its units on exactly once.
//! - What watchers see is part of the feed ([`crate::domain::Op::Drop`], [`Snapshot::drops`](crate::engine::Snapshot::drops)) and
//!   may be behind the counts by 0.6 s (`lua/drops/stock.lua`). A drop that opens, closes or sells out is published
//!   in the very step in which that happens.
//! - Nothing of a drop expires with an idle feed.

use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{
    Cancelled, Claim, ClaimStory, Claimed, Confirmed, Defined, DropId, DropSpec, DropView, FeedId, Hold,
    HoldId, Millis, Trace,
};
use crate::engine::store::Store;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Defines a drop, or changes it. Its stock, claims and holds stay; holds keep their ends.
    pub async fn define_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        spec: &DropSpec,
        now: Millis,
    ) -> StoreResult<Defined> {
        let reply = self
            .measured(Operation::DefineDrop, Some(feed), self.parts.stock.define(feed, drop, spec, now))
            .await?;
        counted::defined_drop(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Does everything that is due of a drop at `now`: ends holds and publishes its state. Returns the drop,
    /// or `None` if there is no such drop. This is also how a drop is read.
    pub async fn tick_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        now: Millis,
    ) -> StoreResult<Option<DropView>> {
        let reply = self
            .measured(Operation::Tick, Some(feed), async {
                StoreResult::Ok(self.parts.stock.tick(feed, drop, now).await?.view)
            })
            .await?;
        counted::ticked_drop(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Lists the drops of a feed, by name.
    pub async fn list_drops(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<DropView>> {
        let reply = self.measured(Operation::Drops, Some(feed), self.parts.stock.all(feed, now)).await?;
        counted::listed_drops(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Claims units. The id is decided first: filled before, it gets the first answer again, whatever
    /// became of the drop. Then the refusals, in the order of [`crate::domain::ClaimRefused`]. A claim is
    /// filled whole or refused. Paid now, its row is shown in the same step.
    pub async fn claim_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        claim: Claim,
        now: Millis,
    ) -> StoreResult<Claimed> {
        let reply = self
            .measured(Operation::Claim, Some(feed), self.parts.stock.claim(feed, drop, claim, now))
            .await?;
        counted::claimed_drop(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Sells a hold: its row is shown in the same step. A closed drop sells its holds too. An ended hold
    /// is remembered for the feed's idempotency window. `trace` is the step that paid, for the ledger's entry.
    pub async fn confirm_hold(
        &self,
        feed: &FeedId,
        hold: &HoldId,
        trace: Option<&Trace>,
        now: Millis,
    ) -> StoreResult<Confirmed> {
        let reply = self
            .measured(Operation::Confirm, Some(feed), self.parts.stock.confirm(feed, hold, trace, now))
            .await?;
        counted::confirmed_hold(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Gives a hold's units back.
    pub async fn cancel_hold(&self, feed: &FeedId, hold: &HoldId, now: Millis) -> StoreResult<Cancelled> {
        let reply =
            self.measured(Operation::Cancel, Some(feed), self.parts.stock.cancel(feed, hold, now)).await?;
        counted::cancelled_hold(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// What became of a claim; `None` if there is none of this id, or its hold ended so long ago that it is forgotten.
    pub async fn look_up_claim(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        now: Millis,
    ) -> StoreResult<Option<ClaimStory>> {
        self.measured(Operation::LookUpClaim, Some(feed), self.parts.stock.look_up(feed, claim, now)).await
    }

    /// Takes a sale back, or refunds a part of what it cost, as [`Store::refund_gift`] does with gifts. A hold that is not paid is
    /// cancelled in place of being taken back. With `what.restock` the units are free again, once, also if the sale was taken back before.
    pub async fn reverse_sale(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        what: &TakingBack,
        now: Millis,
    ) -> StoreResult<GiftRefunded> {
        self.measured(Operation::ReverseSale, Some(feed), self.parts.stock.reverse(feed, claim, what, now))
            .await
    }

    /// The holds of a user over all drops of the feed that hold at `now`, the earliest to end first, then by
    /// name; at most 1000.
    pub async fn list_holds(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<Vec<Hold>> {
        self.measured(Operation::Holds, Some(feed), self.parts.stock.holds(feed, user, now)).await
    }
}
