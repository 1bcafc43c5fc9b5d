//! `lua/drops/define.lua`.

use crate::domain::drop::MAX_DROPS;
use crate::domain::{Defined, DropId, DropSpec, FeedId, Millis};
use crate::engine::protocol::records::drop_spec;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::Store;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Defines a drop, or changes it. Its stock, claims and holds stay; holds keep their ends.
    pub async fn define_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        spec: &DropSpec,
        now: Millis,
    ) -> StoreResult<Defined> {
        let reply = self
            .measured(Operation::DefineDrop, Some(feed), async {
                let own = |call: &mut Call| {
                    call.arg("spec", drop_spec(spec)).arg("most", MAX_DROPS);
                };
                let reply = self.parts.stock.run(&scripts::DROP_DEFINE, feed, drop, now, own).await?;
                Ok(match reply.text(0)? {
                    "n" => Defined::New(wire::view(reply.text(1)?)?),
                    "c" => Defined::Changed(wire::view(reply.text(1)?)?),
                    "b" => Defined::BelowTaken(reply.text(1)?.parse().map_err(|_| Corrupt("a count"))?),
                    "f" => Defined::Full,
                    _ => return Err(Corrupt("what became of a definition").into()),
                })
            })
            .await?;
        counted::defined_drop(&reply, feed, self.metrics());
        Ok(reply)
    }
}
