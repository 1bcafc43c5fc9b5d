//! `lua/ledger/take.lua`.

use crate::domain::{Ask, FeedId, GroupId, Handed, Millis, Reader, Start, Taken};
use crate::engine::protocol::faults::{Fault, FaultKind};
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::reports::groups::{Groups, name_of_group, note};
use crate::engine::store::reports::stored::entry;
use crate::engine::store::runner::{needed, number};
use crate::engine::{READERS_MAX, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Leases entries to a claimer. Returns `None` if the group would be one reader too many. Makes the group
    /// if there is none, with at most `ledger_max` entries to read.
    ///
    /// Entries whose lease ran out, those that were given back and new ones come together, in the ledger's
    /// order. An entry that was leased `max_attempts` times becomes a dead letter instead.
    pub async fn claim_entries(
        &self,
        feed: &FeedId,
        group: &GroupId,
        ask: Ask,
        now: Millis,
    ) -> StoreResult<Option<Taken>> {
        self.measured(Operation::TakeEntries, Some(feed), async {
            let reader = Reader::Group(group.clone());
            let mut reply = self.parts.groups.try_take(feed, &reader, ask, now, false).await?;
            if reply.first().is_some_and(|what| what == b"new") {
                // Listed before it is there: one that is listed and is not does no harm.
                note(&self.parts.runner, &self.parts.groups.list_of(feed), &name_of_group(feed, group))
                    .await?;
                let made = self.parts.groups.try_take(feed, &reader, ask, now, true).await;
                // Of any other failure nobody knows whether the group was made; one that is not listed would be lost.
                if made.as_ref().is_err_and(|fault| fault.kind == FaultKind::Full) {
                    self.parts.groups.unnote_unless_there(feed, group).await?;
                }
                reply = made?;
            }
            if reply.first().is_none_or(|what| what != b"ok") {
                self.parts.groups.unnote_unless_there(feed, group).await?;
                return Ok(None);
            }
            self.parts.runner.entries_lost(feed, number(reply.get(2)).unwrap_or(0));
            let handed = reply.get(3..).unwrap_or_default().chunks_exact(3).map(|one| {
                let (cursor, attempt) = (needed(Some(&one[0]))?, needed(Some(&one[1]))?);
                Ok(Handed { entry: entry(cursor, &one[2])?, attempt })
            });
            let entries = handed.collect::<Result<Vec<_>, Corrupt>>()?;
            Ok(Some(Taken { entries, next_in_ms: number(reply.get(1)) }))
        })
        .await
    }
}

impl Groups {
    async fn try_take(
        &self,
        feed: &FeedId,
        reader: &Reader,
        ask: Ask,
        now: Millis,
        listed: bool,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let limits = &self.runner.options.reports;
        let mut call = self.call(&scripts::REPORT_TAKE, feed, reader, now);
        call.arg("entries_at_most", ask.max.max(1)).arg("lease", ask.lease_ms);
        call.arg("from", if ask.from == Start::Now { "now" } else { "start" });
        call.arg("ledger_max", limits.ledger_max).arg("attempts", limits.max_attempts);
        call.arg("dead_letters", limits.dead_max).arg("readers_at_most", READERS_MAX);
        call.arg("listed", if listed { "listed" } else { "" });
        if listed {
            call.bounded();
        }
        self.runner.run(&call).await
    }
}
