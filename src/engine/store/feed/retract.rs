//! `lua/feed/retract.lua`.

use crate::domain::{FeedId, Millis, Position, RowId};
use crate::engine::protocol::scripts;
use crate::engine::store::Store;
use crate::engine::store::writer::Preconditions;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Takes a row back. Returns the position after it, or `None` if the row is not in the list.
    pub async fn retract_row(
        &self,
        feed: &FeedId,
        row: &RowId,
        now: Millis,
    ) -> StoreResult<Option<Position>> {
        let reply = self
            .measured(Operation::Retract, Some(feed), async {
                let call = |_: &Preconditions| {
                    let [due, later] = self.parts.runner.keys.due(feed);
                    let mut call = self.parts.runner.feed_call(&scripts::RETRACT, feed);
                    call.keys([
                        ("due", due),
                        ("later", later),
                        ("retracted", self.parts.runner.keys.retracted(feed)),
                    ]);
                    call.arg("row", row);
                    call
                };
                let reply =
                    self.parts.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
                let at = reply.mark()?.0.at.clone();
                Ok((reply.text(0)? == "1").then_some(at))
            })
            .await?;
        counted::retracted_row(&reply, feed, self.metrics());
        Ok(reply)
    }
}
