//! `lua/feed/control.lua`.

use crate::domain::{Control, FeedId, Millis, Position, RowId};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// Sends a command to overlays ([`crate::domain::Op::Control`]). Returns the position after it, or `None`
    /// for the replay of a row that is not in the list. A command that changes nothing makes no change and
    /// returns the feed's position. What is paused or muted is part of the feed
    /// ([`crate::engine::Snapshot::controls`]) and does not expire with an idle one.
    pub async fn send_control(
        &self,
        feed: &FeedId,
        control: &Control,
        now: Millis,
    ) -> StoreResult<Option<Position>> {
        self.measured(Operation::Control, Some(feed), async {
            let mut call = self.parts.runner.feed_call(&scripts::CONTROL, feed);
            call.key("control", self.parts.runner.keys.control(feed)).arg("action", control.action.as_str());
            call.arg("row", control.row.as_ref().map_or("-", RowId::as_str));
            let reply = self.parts.runner.run_feed(call, feed, Some(now)).await?;
            let at = reply.mark()?.0.at.clone();
            Ok((reply.text(0)? == "1").then_some(at))
        })
        .await
    }
}
