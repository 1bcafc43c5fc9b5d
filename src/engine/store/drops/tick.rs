//! `lua/drops/tick.lua`.

use std::collections::BTreeMap;

use crate::domain::{DropId, DropView, DueKind, FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::read_drop_at_rest;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::Store;
use crate::engine::store::drops::stock::DropStock;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

/// What was done of a drop.
pub(crate) struct Ticked {
    /// The store's clock.
    pub now: Millis,
    /// When the feed's due queue has something next.
    pub next: Option<Millis>,
    /// The drop, if there is one.
    pub view: Option<DropView>,
}

impl DropStock {
    /// Does what is due of a drop.
    pub async fn tick(&self, feed: &FeedId, drop: &DropId, now: Millis) -> Result<Ticked, Fault> {
        let reply = self.run(&scripts::DROP_TICK, feed, drop, now, |_| {}).await?;
        let now = reply.mark()?.1;
        let next = reply.texts.get(1).and_then(|at| at.parse().ok()).map(Millis);
        Ok(Ticked { now, next, view: reply.texts.get(2).map(|text| wire::view(text)).transpose()? })
    }
}

impl Store {
    /// Does everything that is due of a drop at `now`: ends holds and publishes its state. Returns the drop,
    /// or `None` if there is no such drop. This is also how a drop is read.
    pub async fn tick_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        now: Millis,
    ) -> StoreResult<Option<DropView>> {
        let reply = self
            .measured(Operation::Tick, Some(feed), async {
                Ok(self.parts.stock.tick(feed, drop, now).await?.view)
            })
            .await?;
        counted::ticked_drop(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Lists the drops of a feed, by name.
    pub async fn list_drops(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<DropView>> {
        let reply = self
            .measured(Operation::Drops, Some(feed), async {
                let (runner, keys) = (&self.parts.runner, &self.parts.runner.keys);
                let (drops, [due, _]) = (keys.drops(feed), keys.due(feed));
                let kept: BTreeMap<String, String> =
                    runner.get(&drops, redis::cmd("HGETALL").arg(&drops)).await?;
                if kept.is_empty() {
                    return Ok(Vec::new());
                }
                let mut clocks = redis::cmd("ZMSCORE");
                clocks.arg(&due);
                let clock_of = |name: &String| format!("{:016} {}{name}", 0, DueKind::Drop.letter());
                clocks.arg(kept.keys().map(clock_of).collect::<Vec<_>>());
                let clocks: Vec<Option<f64>> = runner.get(&due, &clocks).await?;
                // One after the other, so that what is announced on the way comes in a fixed order.
                let mut views = Vec::with_capacity(kept.len());
                for ((name, text), strikes) in kept.iter().zip(clocks) {
                    if strikes.is_none_or(|at| at > now.0 as f64) {
                        views.push(read_drop_at_rest(name, text).ok_or(Corrupt("a drop"))?);
                    } else {
                        let name = name.parse().map_err(|_| Corrupt("a drop's name"))?;
                        views.extend(self.parts.stock.tick(feed, &name, now).await?.view);
                    }
                }
                Ok(views)
            })
            .await?;
        counted::listed_drops(&reply, feed, self.metrics());
        Ok(reply)
    }
}
