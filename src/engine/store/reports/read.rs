//! `lua/ledger/read.lua`.

use crate::domain::ledger::LedgerPart;
use crate::domain::{Cursor, FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::store::Store;
use crate::engine::store::reports::stored::entry;
use crate::engine::store::runner::needed;
use crate::metrics::labels::Operation;

impl Store {
    /// Reads entries of a feed's ledger from `from` on, or from the oldest that is kept. It leases none of
    /// them.
    pub async fn read_ledger(
        &self,
        feed: &FeedId,
        from: Cursor,
        max: usize,
        now: Millis,
    ) -> StoreResult<LedgerPart> {
        self.measured(Operation::Readers, Some(feed), async {
            let [ledger, reports, readers] = self.parts.runner.keys.ledger(feed);
            let mut call = self.parts.runner.timed(&scripts::REPORT_READ, Some(now));
            call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
            call.arg("number", from).arg("entries_at_most", max).for_a_reader();
            let reply: Vec<Vec<u8>> = self.parts.runner.run(&call).await?;
            let (behind, first): (u64, u64) = (needed(reply.first())?, needed(reply.get(1))?);
            let entries = reply.iter().skip(2).zip(first..).map(|(text, number)| entry(number, text));
            Ok(LedgerPart { entries: entries.collect::<Result<_, _>>()?, behind: Cursor(behind) })
        })
        .await
    }
}
