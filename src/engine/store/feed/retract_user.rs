//! `lua/feed/retract_user.lua`.

use crate::domain::moderate::user_prefix;
use crate::domain::{FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::store::writer::Preconditions;
use crate::metrics::labels::Operation;

impl Store {
    /// Takes every row of a user back, the oldest first, in one step. Returns how many there were.
    pub async fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<u64> {
        self.measured(Operation::RetractUser, Some(feed), self.parts.feeds.retract_user(feed, user, now))
            .await
    }
}

impl Feeds {
    pub async fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> Result<u64, Fault> {
        let call = |_: &Preconditions| {
            let [due, later] = self.runner.keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT_USER, feed);
            call.keys([("due", due), ("later", later), ("retracted", self.runner.keys.retracted(feed))]);
            call.arg("begin", user_prefix(user));
            call
        };
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        Ok(reply.text(0)?.parse().map_err(|_| Corrupt("a count of rows"))?)
    }
}
