//! `lua/totals/session.lua`.

use crate::domain::tally::Session;
use crate::domain::{FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::writer::Preconditions;
use crate::metrics::labels::Operation;

impl Store {
    /// Begins a session, unless it is the present one; and whether it is new. What counts by session begins anew.
    pub async fn begin_session(
        &self,
        feed: &FeedId,
        id: String,
        now: Millis,
    ) -> StoreResult<(Session, bool)> {
        self.measured(Operation::BeginSession, Some(feed), async {
            let own = |call: &mut Call, _: &Preconditions| {
                call.arg("session", &id).bounded();
            };
            let reply = self.parts.writer.turn(&scripts::TOTALS_SESSION, feed, Some(now), own).await?;
            let since = reply.text(1)?.parse().map_err(|_| Corrupt("a session"))?;
            let is_new = reply.text(0)? == "new";
            Ok((Session { id, since: Millis(since) }, is_new))
        })
        .await
    }
}
