//! Sources of feeds: how each is set, what came to it, and which gifts are refunded. They do not expire with an idle feed, and
//! do not begin one. All of it is in the feed's slot, because a delivery's path has the feed's name.

use std::collections::HashMap;

use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::{Kept, REFUNDS_MAX, Refund, SOURCES_MAX, StoreResult, Swapped};
use crate::metrics::labels::Operation;

impl Store {
    /// A feed's sources, by name.
    pub async fn list_sources(&self, feed: &FeedId) -> StoreResult<Vec<Kept>> {
        self.measured(Operation::Sources, Some(feed), async {
            let [sources, came] = self.parts.runner.keys.sources(feed);
            let texts: HashMap<String, String> =
                self.parts.runner.get(&sources, redis::cmd("HGETALL").arg(&sources)).await?;
            if texts.is_empty() {
                return Ok(vec![]);
            }
            let came: HashMap<String, String> =
                self.parts.runner.get(&came, redis::cmd("HGETALL").arg(&came)).await?;
            let read = |(name, text): (&String, &String)| {
                let source =
                    text.split_once(' ').and_then(|(_, json)| serde_json::from_str::<Source>(json).ok());
                let source = source.ok_or(Corrupt("a source"))?;
                let own = came.iter().filter_map(|(field, value)| match field.split_once('/') {
                    Some((whose, what)) if whose == name => Some((what, value.as_str())),
                    _ => None,
                });
                let id: SourceId = name.parse().map_err(|_| Corrupt("a source's name"))?;
                Ok((id, source, SourceTally::of_fields(own)))
            };
            let mut all = texts.iter().map(read).collect::<Result<Vec<Kept>, Corrupt>>()?;
            all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
            Ok(all)
        })
        .await
    }

    /// Changes a source if its version still is `was` (none: there is no such one): makes it, sets it, or with
    /// none for `to` forgets it and what came to it. [`Swapped::Full`] when it would be one more than
    /// [`crate::engine::SOURCES_MAX`].
    pub async fn swap_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<&Source>,
    ) -> StoreResult<Swapped> {
        self.measured(Operation::Sources, Some(feed), async {
            let was = was.map(|version| version.to_string()).unwrap_or_default();
            let text = to.map(|to| Ok(format!("{} {}", to.version, serde_json::to_string(to)?)));
            let text =
                text.transpose().map_err(|_: serde_json::Error| Corrupt("a source"))?.unwrap_or_default();
            let [sources, came] = self.parts.runner.keys.sources(feed);
            let mut call = Call::of(&scripts::SOURCE_SWAP);
            call.keys([("sources", sources), ("came", came)]).arg("name", name.as_str()).arg("was", was);
            call.arg("to", text).arg("sources_at_most", SOURCES_MAX);
            let reply: Vec<u8> = self.parts.runner.run(&call).await?;
            match reply.as_slice() {
                b"done" => Ok(Swapped::Done),
                b"stale" => Ok(Swapped::Stale),
                b"full" => Ok(Swapped::Full),
                _ => Err(Corrupt("a reply").into()),
            }
        })
        .await
    }

    /// Counts a delivery. Nothing happens when there is no such source.
    pub async fn record_delivery(
        &self,
        feed: &FeedId,
        name: &SourceId,
        note: &SourceNote,
        now: Millis,
    ) -> StoreResult<()> {
        self.measured(Operation::Sources, Some(feed), async {
            let [sources, came] = self.parts.runner.keys.sources(feed);
            let mut call = Call::of(&scripts::SOURCE_NOTE);
            call.keys([("sources", sources), ("came", came)]).arg("name", name.as_str());
            call.arg("outcome", note.outcome.as_str()).arg("when", now.0);
            call.arg("error", note.error.as_deref().unwrap_or(""));
            let _: u64 = self.parts.runner.run(&call).await?;
            Ok(())
        })
        .await
    }

    /// Remembers that a gift is refunded, also before it comes. Less than what is remembered changes nothing.
    pub async fn record_refund(
        &self,
        feed: &FeedId,
        gift: &GiftId,
        refund: Refund,
        now: Millis,
    ) -> StoreResult<()> {
        self.measured(Operation::Sources, Some(feed), async {
            let mut call = Call::of(&scripts::SOURCE_REFUND);
            let [refunds, refunded] = self.parts.runner.keys.refunds(feed);
            call.keys([("refunds", refunds), ("refunded", refunded)]).arg("gift", gift.as_str());
            call.arg(
                "amount",
                match refund {
                    Refund::Whole => String::new(),
                    Refund::Part(amount) => amount.to_string(),
                },
            );
            call.arg("when", now.0).arg("refunds_at_most", REFUNDS_MAX);
            let _: u64 = self.parts.runner.run(&call).await?;
            Ok(())
        })
        .await
    }

    /// How much of a gift is refunded, as far as that is remembered.
    pub async fn read_refund(&self, feed: &FeedId, gift: &GiftId) -> StoreResult<Option<Refund>> {
        self.measured(Operation::Sources, Some(feed), async {
            let [refunds, refunded] = self.parts.runner.keys.refunds(feed);
            let score = async |key: &String| -> Result<Option<f64>, Fault> {
                self.parts.runner.get(key, redis::cmd("ZSCORE").arg(key).arg(gift.as_str())).await
            };
            // The part first: if all of it is refunded in between, that is seen.
            let part = score(&refunded).await?;
            let is_refunded = score(&refunds).await?.is_some();
            Ok(is_refunded.then(|| part.map_or(Refund::Whole, |amount| Refund::Part(amount as u64))))
        })
        .await
    }
}
