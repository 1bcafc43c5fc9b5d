//! `lua/feed/changes.lua`.

use crate::domain::{FeedId, Position};
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire;
use crate::engine::store::Store;
use crate::engine::{Missed, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Reads the changes after `since`, oldest first, at most `max` (≥ 1) of them. The result is empty if `since`
    /// is the feed's position.
    pub async fn read_changes(&self, feed: &FeedId, since: &Position, max: usize) -> StoreResult<Missed> {
        self.measured(Operation::Changes, Some(feed), async {
            let mut call = self.parts.runner.feed_call(&scripts::CHANGES, feed);
            call.for_a_reader();
            call.arg("since_epoch", &since.epoch).arg("since_seq", since.seq).arg("most", max.max(1));
            let reply = self.parts.runner.run_feed(call, feed, None).await?;
            if reply.mark.is_none() || reply.text(0)? != "covered" {
                return Ok(Missed::NotCovered);
            }
            let changes: Result<Vec<_>, _> =
                reply.texts.iter().skip(1).map(|text| wire::change(&since.epoch, text)).collect();
            Ok(Missed::Changes(changes?))
        })
        .await
    }
}
