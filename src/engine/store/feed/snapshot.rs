//! `lua/feed/snapshot.lua`.

use crate::domain::list::Goals;
use crate::domain::tally::TotalsView;
use crate::domain::{Drops, FeedId, Millis};
use crate::engine::protocol::faults::{Fault, FaultKind};
use crate::engine::protocol::records::Announced;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::Store;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::{Snapshot, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Reads the list. If the store is behind what this process saw of it ([`Store::known`]), or forked from
    /// it, the feed gets a new epoch first. A feed that was never written to is empty, at
    /// [`crate::domain::Position::start`], and nothing is written.
    pub async fn read_snapshot(&self, feed: &FeedId, now: Millis) -> StoreResult<Snapshot> {
        self.measured(Operation::Snapshot, Some(feed), async {
            let mut snapshot = self.parts.feeds.read_whole(feed, now).await;
            if snapshot.as_ref().is_err_and(|fault| fault.kind == FaultKind::ReadOnly) {
                // It has rows whose time has passed, and nothing can be written: they stay a little longer.
                snapshot = self
                    .parts
                    .feeds
                    .read_whole(feed, Millis(0))
                    .await
                    .map(|snapshot| Snapshot { now, ..snapshot });
            }
            match &snapshot {
                Ok(snapshot) => {
                    self.parts.runner.damaged.clear(feed);
                    // The process that made it may have died before it wrote the name.
                    if snapshot.at.seq > 0 {
                        self.parts.names.note_feed(feed);
                    }
                }
                Err(fault) => self.parts.runner.damaged.note(feed, fault),
            }
            snapshot
        })
        .await
    }
}

impl Feeds {
    pub(super) async fn read_whole(&self, feed: &FeedId, now: Millis) -> Result<Snapshot, Fault> {
        let mut call = self.runner.feed_call(&scripts::SNAPSHOT, feed);
        call.for_a_reader();
        call.keys([("shown", self.runner.keys.shown(feed)), ("control", self.runner.keys.control(feed))]);
        call.key("announced", self.runner.keys.announced(feed));
        let reply = self.runner.run_feed(call, feed, Some(now)).await?;
        let (mark, now) = reply.mark()?.clone();
        let policy = self.runner.with_overrides(reply.text(0)?)?;
        let controls = wire::controls(reply.text(1)?)?;
        let count: usize = reply.text(2)?.parse().map_err(|_| Corrupt("a count of rows"))?;
        let (rows, shown) = reply.texts[3..].split_at_checked(count).ok_or(Corrupt("a list"))?;
        let rows: Result<Vec<_>, _> = rows.iter().map(|text| wire::read_row(text)).collect();
        let (mut drops, mut totals, mut goals) = (Drops::new(), TotalsView::new(), Goals::new());
        for text in shown {
            match wire::announced(text)? {
                Announced::Drop(view) => drop(drops.insert(view.drop.clone(), view.into())),
                Announced::Totals(periods) => {
                    totals.extend(periods.into_iter().filter_map(|(period, view)| Some((period, view?))));
                }
                Announced::Goal(goal, view) => {
                    goals.extend(view.map(|view| (goal, view.into())));
                }
            }
        }
        let (at, tag, rows) = (mark.at, mark.tag, rows?);
        Ok(Snapshot { at, tag, policy, rows, drops, controls, totals, goals, now })
    }
}
