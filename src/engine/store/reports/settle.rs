//! `lua/ledger/settle.lua`.

use crate::domain::{Cursor, FeedId, GroupId, Millis, Reader};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// Acknowledges entries that are pending, also if their lease ran out or moved on. Returns how many were,
    /// or `None` if there is no such group. Other cursors change nothing.
    pub async fn ack_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> StoreResult<Option<u64>> {
        self.settle_entries(Operation::AckEntries, "ack", feed, group, cursors, now).await
    }

    /// Gives pending entries back for the next claimer, after a pause of 1, 2, 4 … 60 s by attempt; one that
    /// was leased `max_attempts` times is a dead letter. Notifies subscriptions of the feed. Returns how many
    /// were pending, or `None` if there is no such group.
    pub async fn nack_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> StoreResult<Option<u64>> {
        self.settle_entries(Operation::NackEntries, "nack", feed, group, cursors, now).await
    }

    async fn settle_entries(
        &self,
        operation: Operation,
        how: &str,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> StoreResult<Option<u64>> {
        self.measured(operation, Some(feed), async {
            let (groups, runner) = (&self.parts.groups, &self.parts.runner);
            let mut call = groups.call(&scripts::REPORT_SETTLE, feed, &Reader::Group(group.clone()), now);
            call.arg("how", how).arg("live_channel", runner.keys.live(feed));
            let limits = &runner.options.reports;
            call.arg("attempts", limits.max_attempts).arg("dead_letters", limits.dead_max);
            groups.about(feed, call, cursors).await
        })
        .await
    }
}
