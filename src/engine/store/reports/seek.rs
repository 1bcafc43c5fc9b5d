//! `lua/ledger/seek.lua`.

use crate::domain::pull::Seek;
use crate::domain::{Cursor, FeedId, GroupId, Millis, Reader};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// Moves a group. What it has pending is dropped from it. Returns the number of the entry that it is handed next, or `None`
    /// when there is no such group.
    pub async fn seek_group(
        &self,
        feed: &FeedId,
        group: &GroupId,
        to: Seek,
        now: Millis,
    ) -> StoreResult<Option<Cursor>> {
        self.measured(Operation::Readers, Some(feed), async {
            let mut call =
                self.parts.groups.call(&scripts::REPORT_SEEK, feed, &Reader::Group(group.clone()), now);
            call.arg("live_channel", self.parts.runner.keys.live(feed));
            match to {
                Seek::Start => call.arg("to", "start"),
                Seek::Now => call.arg("to", "now"),
                Seek::To(cursor) => call.arg("to", cursor),
                Seek::At(at) => call.arg("to", format_args!("@{}", at.0)),
            };
            let text: String = self.parts.runner.run(&call).await?;
            match text.as_str() {
                "" => Ok(None),
                number => Ok(Some(number.parse().map_err(|_| Corrupt("a reply"))?)),
            }
        })
        .await
    }
}
