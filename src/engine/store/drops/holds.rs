//! `lua/drops/holds.lua`.

use crate::domain::claim::user_digest;
use crate::domain::{FeedId, Hold, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

/// Holds of one user in one answer.
const MAX_HOLDS_LISTED: usize = 1000;

impl Store {
    /// The holds of a user over all drops of the feed that hold at `now`, the earliest to end first, then by
    /// name; at most 1000.
    pub async fn list_holds(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<Vec<Hold>> {
        self.measured(Operation::Holds, Some(feed), async {
            let mut call = self.parts.runner.feed_call(&scripts::HOLDS, feed);
            call.for_a_reader();
            call.key("unpaid", self.parts.runner.keys.unpaid(feed));
            call.arg("user", user_digest(user)).arg("most", MAX_HOLDS_LISTED);
            let reply = self.parts.runner.run_feed(call, feed, Some(now)).await?;
            // A feed in doubt gives no position, and a hold needs none.
            let texts = reply.texts.iter().skip(usize::from(reply.mark.is_none()));
            Ok(texts.map(|text| read_hold(text)).collect::<Result<_, _>>()?)
        })
        .await
    }
}

/// A member of `unpaid`.
fn read_hold(text: &str) -> Result<Hold, Corrupt> {
    const WHAT: Corrupt = Corrupt("a hold");
    let [_, expires, hold, count] = text.split(' ').collect::<Vec<_>>()[..] else { return Err(WHAT) };
    Ok(Hold {
        hold: hold.parse().map_err(|_| WHAT)?,
        count: count.parse().map_err(|_| WHAT)?,
        expires_at: Millis(expires.parse().map_err(|_| WHAT)?),
    })
}
