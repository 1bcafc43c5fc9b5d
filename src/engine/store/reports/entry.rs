//! `lua/ledger/entry.lua`.

use crate::domain::delivery::Progress;
use crate::domain::story::EntryState;
use crate::domain::{Cursor, FeedId, Millis, Reader};
use crate::engine::StoreResult;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::reports::stored::padded;
use crate::metrics::labels::Operation;

impl Store {
    /// Reads what a reader has done with an entry of its feed's ledger. `None`: it does not read there, or began after that entry.
    pub async fn read_entry_state(
        &self,
        feed: &FeedId,
        reader: &Reader,
        cursor: Cursor,
        now: Millis,
    ) -> StoreResult<Option<EntryState>> {
        self.measured(Operation::Readers, Some(feed), async {
            let mut call = self.parts.groups.call(&scripts::REPORT_ENTRY, feed, reader, now);
            call.arg("number", padded(&cursor)).for_a_reader();
            let reply: Vec<Vec<u8>> = self.parts.runner.run(&call).await?;
            let words: Option<Vec<&str>> = reply.iter().map(|text| std::str::from_utf8(text).ok()).collect();
            let garbled = || Fault::from(Corrupt("what became of an entry"));
            Ok(match words.as_deref().ok_or_else(garbled)? {
                [] => None,
                ["dead", attempts, reason] => Some(EntryState::Dead {
                    attempts: attempts.parse().map_err(|_| garbled())?,
                    reason: (*reason).to_owned(),
                }),
                ["pending", attempts] => Some(EntryState::Pending(attempts.parse().map_err(|_| garbled())?)),
                ["acknowledged"] => Some(EntryState::Acknowledged),
                ["lost"] => Some(EntryState::Lost),
                ["waiting", place, progress] => {
                    let place: usize = place.parse().map_err(|_| garbled())?;
                    let tries = Progress::read(progress).tries_of(cursor, place.checked_sub(1));
                    Some(tries.map_or(EntryState::Waiting, EntryState::Pending))
                }
                _ => return Err(garbled()),
            })
        })
        .await
    }
}
