//! `lua/drops/end.lua`.

use crate::domain::{Cancelled, ClaimAnswer, Confirmed, FeedId, HoldId, Millis, Trace};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::store::Store;
use crate::engine::store::drops::filled::{read_claim, split, trace_json};
use crate::engine::store::drops::stock::DropStock;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
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
            .measured(Operation::Confirm, Some(feed), async {
                Ok(match self.parts.stock.end(feed, hold, ("confirm", trace), now).await? {
                    ('n', Some(answer)) => Confirmed::New(answer),
                    ('a', Some(answer)) => Confirmed::Again(answer),
                    ('e', _) => Confirmed::Ended,
                    _ => Confirmed::Unknown,
                })
            })
            .await?;
        counted::confirmed_hold(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Gives a hold's units back.
    pub async fn cancel_hold(&self, feed: &FeedId, hold: &HoldId, now: Millis) -> StoreResult<Cancelled> {
        let reply = self
            .measured(Operation::Cancel, Some(feed), async {
                Ok(match self.parts.stock.end(feed, hold, ("cancel", None), now).await?.0 {
                    'n' => Cancelled::Done,
                    'e' => Cancelled::Ended,
                    _ => Cancelled::Unknown,
                })
            })
            .await?;
        counted::cancelled_hold(&reply, feed, self.metrics());
        Ok(reply)
    }
}

impl DropStock {
    async fn end(
        &self,
        feed: &FeedId,
        hold: &HoldId,
        (how, trace): (&str, Option<&Trace>),
        now: Millis,
    ) -> Result<(char, Option<ClaimAnswer>), Fault> {
        let own = |call: &mut Call| {
            call.arg("how", how).arg("claim", &hold.claim).arg("trace", trace_json(trace));
            if how == "confirm" {
                call.bounded();
            }
        };
        let reply = self.run(&scripts::DROP_END, feed, &hold.drop, now, own).await?;
        let (kind, rest) = split(reply.text(0)?)?;
        let sold = match kind {
            'n' | 'a' if how == "confirm" => Some(read_claim(rest, hold.clone())?.sold()?),
            _ => None,
        };
        Ok((kind, sold))
    }
}
