//! What is remembered of a gift.

use crate::domain::answer::GiftFate;
use crate::domain::story::GiftMemory;
use crate::domain::{Answer, Cursor, FeedId, GiftId, Millis, Status};
use crate::engine::StoreResult;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::wire::{self, GiftMark};
use crate::engine::store::Store;
use crate::engine::store::review::reviews;
use crate::metrics::labels::Operation;

impl Store {
    /// Reads what is remembered of a gift. `None`: its id is unknown, or was forgotten.
    pub async fn read_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> StoreResult<Option<GiftMemory>> {
        self.measured(Operation::Readers, Some(feed), async {
            let window = self.parts.feeds.policy(feed).await?.idempotency_window_ms;
            let (runner, keys) = (&self.parts.runner, &self.parts.runner.keys);
            let key = keys.id(feed, id);
            let texts: Vec<Option<String>> = runner.get(&key, redis::cmd("MGET").arg(&key)).await?;
            let text = texts.into_iter().next().flatten().unwrap_or_default();
            let at = runner.store_time(&key, now).await?;
            let steady = runner.steady(at);
            let Some(known) = wire::gift_mark(&text, id, (at, steady), window)? else { return Ok(None) };
            let GiftMark { fate, since, mut is_retracted, refunded, entry } = known;
            let waits_in = match &fate {
                GiftFate::Waits(_) => Some(keys.due(feed)[1].clone()),
                GiftFate::InReview { .. } => Some(keys.reviews(feed)),
                _ => None,
            };
            let mut waiting = None;
            if let Some(key) = waits_in {
                let held: Option<String> =
                    runner.get(&key, redis::cmd("HGET").arg(&key).arg(id.as_str())).await?;
                // Its first line is its place in the due queue; in review a note is in front of the gift.
                let text = held.as_deref().and_then(|text| text.split_once('\n')).map(|(_, text)| text);
                waiting = match fate {
                    GiftFate::Waits(_) => text.and_then(WaitingGift::read).map(|it| it.gift.into_owned()),
                    _ => text.and_then(reviews::read).map(|(_, gift)| gift),
                };
            }
            if let GiftFate::Taken(Answer {
                row: Some(row), status: Status::Accepted | Status::Merged, ..
            }) = &fate
            {
                let key = keys.retracted(feed);
                let known: Option<f64> =
                    runner.get(&key, redis::cmd("ZSCORE").arg(&key).arg(row.as_str())).await?;
                is_retracted |= known.is_some_and(|until| steady.0 < until as i64);
            }
            Ok(Some(GiftMemory {
                fate,
                is_retracted,
                refunded,
                at: since,
                waiting,
                first: entry.map(Cursor),
            }))
        })
        .await
    }
}
