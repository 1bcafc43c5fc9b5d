//! `lua/due/rewind.lua`.

use std::time::Instant;

use crate::domain::{FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::store::Store;
use crate::engine::store::due::index::read_member;
use crate::engine::store::due::queue::DueQueue;
use crate::engine::store::due::turns::PagePlace;
use crate::engine::store::runner::number;
use crate::metrics::labels::Operation;

impl Store {
    /// Repairs what was scheduled while the clock was ahead: it waits as long as it was to wait then, from
    /// `now` on, and webhooks are looked at once. Call it at start and after the clock was set back; an extra
    /// call does no harm. Does nothing where times are the store's own. Returns how many entries were
    /// repaired.
    pub async fn rewind(&self, now: Millis) -> StoreResult<u64> {
        self.measured(Operation::Rewind, None, async {
            let Some(now) = self.parts.runner.clock(Some(now)) else { return Ok(0) };
            let (mut place, mut moved, begun) = (Some(PagePlace::default()), 0, Instant::now());
            while let Some(at) = place {
                let (feeds, next) = self.parts.writer.due.turns.page(at, read_member).await?;
                for (feed, at) in feeds {
                    // A walk through many feeds takes seconds, in which entries are made.
                    let now = now.plus(1_000 * begun.elapsed().as_secs());
                    let (first, count) = match self.parts.queue.rewind_feed(&feed, now).await {
                        Err(fault) if fault.is_data() => continue,
                        done => done?,
                    };
                    moved += count;
                    // As a run that was cut short may have left it, too.
                    if let Some(first) = first.filter(|first| *first < at) {
                        self.parts.writer.due.register(&feed, Some(first), None, Some(now)).await?;
                    }
                }
                place = next;
            }
            self.parts.job_index.look_at_all(now).await?;
            Ok(moved)
        })
        .await
    }
}

impl DueQueue {
    /// When the feed's first entry is due now, and how many were put right.
    async fn rewind_feed(&self, feed: &FeedId, now: Millis) -> Result<(Option<Millis>, u64), Fault> {
        let keys = &self.runner().keys;
        let (mut skip, mut moved) = (0_u64, 0);
        loop {
            let [due, later] = keys.due(feed);
            let mut call = self.runner().timed(&scripts::DUE_REWIND, Some(now));
            call.keys([("due", due), ("later", later), ("reviews", keys.reviews(feed))]).arg("skip", skip);
            let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
            moved += number(reply.get(2)).unwrap_or(0);
            match number(reply.get(1)) {
                Some(more) => skip = more,
                None => return Ok((number(reply.first()).map(Millis), moved)),
            }
        }
    }
}
