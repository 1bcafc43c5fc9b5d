//! `lua/drops/reverse.lua`.

use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{FeedId, HoldId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::store::Store;
use crate::engine::store::feed::retract_gift::{read_reversal, taking_back_args};
use crate::metrics::labels::Operation;

impl Store {
    /// Takes a sale back, or refunds a part of what it cost, as [`Store::refund_gift`] does with gifts. A hold that is not paid is
    /// cancelled in place of being taken back. With `what.restock` the units are free again, once, also if the sale was taken back before.
    pub async fn reverse_sale(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        what: &TakingBack,
        now: Millis,
    ) -> StoreResult<GiftRefunded> {
        self.measured(Operation::ReverseSale, Some(feed), async {
            let own = |call: &mut Call| {
                call.arg("claim", &claim.claim).arg("gift", claim.claim.sent());
                taking_back_args(call, what).arg("restock", if what.restock { "1" } else { "" });
                call.key("retracted", self.parts.runner.keys.retracted(feed));
            };
            let reply = self.parts.stock.run(&scripts::DROP_REVERSE, feed, &claim.drop, now, own).await?;
            read_reversal(&reply)
        })
        .await
    }
}
