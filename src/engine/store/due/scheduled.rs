//! Scheduled gifts, and `lua/feed/unschedule.lua`.

use crate::domain::{DueKind, DuePlace, FeedId, GiftId, Millis};
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::due::queue::QueuedEntry;
use crate::engine::{ScheduledGift, ScheduledPage, StoreResult, Unscheduled};
use crate::metrics::labels::Operation;

impl Store {
    /// Lists the gifts of the feed that wait, in the order in which they will be shown: those after `after`,
    /// at most `max` (≥ 1).
    pub async fn list_scheduled(
        &self,
        feed: &FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> StoreResult<ScheduledPage> {
        self.measured(Operation::Scheduled, Some(feed), async {
            let max = max.max(1);
            let kind = DueKind::Gift.letter().to_string();
            let mut entries =
                self.parts.queue.entries(feed, &kind, after, max + 1, Some(Millis(0))).await?.entries;
            let more = entries.len() > max;
            entries.truncate(max);
            let next = entries.last().filter(|_| more).and_then(QueuedEntry::place);
            let read = |entry: &QueuedEntry| {
                Some(ScheduledGift { place: entry.place()?, gift: entry.waiting()?.gift.into_owned() })
            };
            let gifts = entries.iter().map(|entry| read(entry).ok_or(Corrupt("a gift that waits")));
            Ok(ScheduledPage { gifts: gifts.collect::<Result<_, _>>()?, next })
        })
        .await
    }

    /// Cancels a gift that waits. Its id stays used, for a window from now.
    pub async fn cancel_scheduled(
        &self,
        feed: &FeedId,
        id: &GiftId,
        now: Millis,
    ) -> StoreResult<Unscheduled> {
        self.measured(Operation::Unschedule, Some(feed), async {
            let keys = &self.parts.runner.keys;
            let [due, later] = keys.due(feed);
            let mut call = self.parts.runner.feed_call(&scripts::UNSCHEDULE, feed);
            call.keys([("due", due), ("later", later), ("id", keys.id(feed, id))]).arg("gift", id);
            let reply = self.parts.runner.run_feed(call, feed, Some(now)).await?;
            match reply.text(0)? {
                "cancelled" => {
                    let at = reply.text(1)?.parse().map_err(|_| Corrupt("a time"))?;
                    Ok(Unscheduled::Cancelled(Millis(at)))
                }
                "shown" => Ok(Unscheduled::Shown),
                _ => Ok(Unscheduled::Unknown),
            }
        })
        .await
    }
}
