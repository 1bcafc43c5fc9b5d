//! Sources and refunds, in the feed's slot: a delivery's path has the feed's name, and so the slot.

mod methods;

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceNote, SourceTally};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::runner::Runner;
use crate::engine::{Kept, REFUNDS_MAX, Refund, SOURCES_MAX, Swapped};

/// Sources of feeds, and refunds that they announced.
pub(crate) struct Sources {
    pub runner: Arc<Runner>,
}

impl Sources {
    pub async fn refund_of(&self, feed: &FeedId, gift: &GiftId) -> Result<Option<Refund>, Fault> {
        let [refunds, refunded] = self.runner.keys.refunds(feed);
        let score = async |key: &String| -> Result<Option<f64>, Fault> {
            self.runner.get(key, redis::cmd("ZSCORE").arg(key).arg(gift.as_str())).await
        };
        // The part first: if all of it is refunded in between, that is seen.
        let part = score(&refunded).await?;
        let is_refunded = score(&refunds).await?.is_some();
        Ok(is_refunded.then(|| part.map_or(Refund::Whole, |amount| Refund::Part(amount as u64))))
    }

    pub async fn sources(&self, feed: &FeedId) -> Result<Vec<Kept>, Fault> {
        let [sources, came] = self.runner.keys.sources(feed);
        let texts: HashMap<String, String> =
            self.runner.get(&sources, redis::cmd("HGETALL").arg(&sources)).await?;
        if texts.is_empty() {
            return Ok(vec![]);
        }
        let came: HashMap<String, String> = self.runner.get(&came, redis::cmd("HGETALL").arg(&came)).await?;
        let read = |(name, text): (&String, &String)| {
            let source = text.split_once(' ').and_then(|(_, json)| serde_json::from_str::<Source>(json).ok());
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
    }

    pub async fn swap_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        was: Option<u64>,
        to: Option<&Source>,
    ) -> Result<Swapped, Fault> {
        let was = was.map(|version| version.to_string()).unwrap_or_default();
        let text = to.map(|to| Ok(format!("{} {}", to.version, serde_json::to_string(to)?)));
        let text = text.transpose().map_err(|_: serde_json::Error| Corrupt("a source"))?.unwrap_or_default();
        let [sources, came] = self.runner.keys.sources(feed);
        let mut call = Call::of(&scripts::SOURCE_SWAP);
        call.keys([("sources", sources), ("came", came)]).arg("name", name.as_str()).arg("was", was);
        call.arg("to", text).arg("sources_at_most", SOURCES_MAX);
        let reply: Vec<u8> = self.runner.run(&call).await?;
        match reply.as_slice() {
            b"done" => Ok(Swapped::Done),
            b"stale" => Ok(Swapped::Stale),
            b"full" => Ok(Swapped::Full),
            _ => Err(Corrupt("a reply").into()),
        }
    }

    pub async fn note_delivery(
        &self,
        feed: &FeedId,
        name: &SourceId,
        note: &SourceNote,
        now: Millis,
    ) -> Result<(), Fault> {
        let [sources, came] = self.runner.keys.sources(feed);
        let mut call = Call::of(&scripts::SOURCE_NOTE);
        call.keys([("sources", sources), ("came", came)]).arg("name", name.as_str());
        call.arg("outcome", note.outcome.as_str()).arg("when", now.0);
        call.arg("error", note.error.as_deref().unwrap_or(""));
        let _: u64 = self.runner.run(&call).await?;
        Ok(())
    }

    pub async fn note_refund(
        &self,
        feed: &FeedId,
        gift: &GiftId,
        refund: Refund,
        now: Millis,
    ) -> Result<(), Fault> {
        let mut call = Call::of(&scripts::SOURCE_REFUND);
        let [refunds, refunded] = self.runner.keys.refunds(feed);
        call.keys([("refunds", refunds), ("refunded", refunded)]).arg("gift", gift.as_str());
        call.arg(
            "amount",
            match refund {
                Refund::Whole => String::new(),
                Refund::Part(amount) => amount.to_string(),
            },
        );
        call.arg("when", now.0).arg("refunds_at_most", REFUNDS_MAX);
        let _: u64 = self.runner.run(&call).await?;
        Ok(())
    }
}
