//! `lua/feed/retract_gift.lua`, and what all scripts that take something back share.

use crate::domain::json::push_string;
use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{FeedId, GiftId, GiftTakenBack, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::store::runner::Reply;
use crate::engine::store::writer::Preconditions;
use crate::metrics::labels::Operation;

impl Store {
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
            Ok(GiftTakenBack::Unknown)
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
            self.parts.feeds.take_back(feed, id, &what, now).await
        })
        .await
    }
}

impl Feeds {
    /// Takes a gift back, or refunds a part of it; one that waits for a host is [`GiftRefunded::Waits`] for both.
    pub async fn take_back(
        &self,
        feed: &FeedId,
        id: &GiftId,
        what: &TakingBack,
        now: Millis,
    ) -> Result<GiftRefunded, Fault> {
        let keys = &self.runner.keys;
        let call = |_: &Preconditions| {
            let [due, later] = keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT_GIFT, feed);
            call.keys([("due", due), ("later", later), ("retracted", keys.retracted(feed))]);
            call.key("id", keys.id(feed, id)).arg("gift", id);
            taking_back_args(&mut call, what);
            call
        };
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        read_reversal(&reply)
    }
}

/// What a script gets that takes something back, or refunds a part of it.
pub(crate) fn taking_back_args<'a>(call: &'a mut Call, what: &TakingBack) -> &'a mut Call {
    let mut reason = String::new();
    what.reason.iter().for_each(|text| push_string(&mut reason, text));
    if what.refunded.is_some() {
        call.bounded();
    }
    call.arg("refunded", what.refunded.map(|amount| amount.to_string()).unwrap_or_default())
        .arg("reason", reason)
}

/// What `lua/feed/reversal.lua` answers, and the scripts that call it.
pub(crate) fn read_reversal(reply: &Reply) -> Result<GiftRefunded, Fault> {
    let amount = || -> Result<u64, Fault> { Ok(reply.text(1)?.parse().map_err(|_| Corrupt("an amount"))?) };
    Ok(match reply.text(0)? {
        code @ ("1" | "f") => {
            let row = Some(reply.text(2)?).filter(|row| *row != "-");
            let row = row.map(str::parse).transpose().map_err(|_| Corrupt("a row's id"))?;
            GiftRefunded::Done { whole: code == "1", refunded: amount()?, row }
        }
        "v" => GiftRefunded::Waits,
        "n" => GiftRefunded::NoValue,
        "a" => GiftRefunded::Above(amount()?),
        _ => GiftRefunded::Unknown,
    })
}
