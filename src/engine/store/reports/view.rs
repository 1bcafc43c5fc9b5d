//! `lua/ledger/view.lua`.

use crate::domain::{FeedId, GroupId, GroupView, Millis, Reader};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::runner::number;
use crate::metrics::labels::Operation;

impl Store {
    /// Reads the state of a group, or `None` if there is no such group.
    pub async fn read_group(
        &self,
        feed: &FeedId,
        group: &GroupId,
        now: Millis,
    ) -> StoreResult<Option<GroupView>> {
        self.measured(Operation::Readers, Some(feed), async {
            let mut call =
                self.parts.groups.call(&scripts::REPORT_VIEW, feed, &Reader::Group(group.clone()), now);
            call.for_a_reader();
            let reply: Vec<Vec<u8>> = self.parts.runner.run(&call).await?;
            let numbers: Option<Vec<u64>> = reply.iter().map(|text| number(Some(text))).collect();
            match numbers.as_deref() {
                Some([]) => Ok(None),
                Some(&[lag, pending, oldest_ms, dead, lost]) => {
                    Ok(Some(GroupView { lag, pending, oldest_ms, dead, lost }))
                }
                _ => Err(Corrupt("how a group stands").into()),
            }
        })
        .await
    }
}
