//! Taking back, and telling overlays what to do (`lua/feed_control.lua`, `feed_retract_user`,
//! `feed_retract_gift`).

use super::faults::Fault;
use super::feeds::Feeds;
use super::rounds::Ready;
use super::scripts;
use super::wire::Garbled;
use crate::domain::moderate::user_prefix;
use crate::domain::{Control, FeedId, GiftId, Millis, Position, RowId};

/// What became of the wish to take a gift back.
pub(super) enum TakenBack {
    /// It is taken back, or cancelled.
    Done,
    /// It waits for a host, and is to be denied.
    InReview,
    /// Nothing is remembered of it.
    Unknown,
}

impl Feeds {
    pub async fn control(
        &self,
        feed: &FeedId,
        control: &Control,
        now: Millis,
    ) -> Result<Option<Position>, Fault> {
        let mut call = self.runner.feed_call(&scripts::CONTROL, feed);
        call.key("control", self.runner.keys.control(feed)).arg("action", control.action.as_str());
        call.arg("row", control.row.as_ref().map_or("-", RowId::as_str));
        let reply = self.runner.run_feed(call, feed, Some(now)).await?;
        let at = reply.mark()?.0.at.clone();
        Ok((reply.text(0)? == "1").then_some(at))
    }

    pub async fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> Result<u64, Fault> {
        let call = |_: &Ready| {
            let [due, later] = self.runner.keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT_USER, feed);
            call.keys([("due", due), ("later", later), ("retracted", self.runner.keys.retracted(feed))]);
            call.arg("begin", user_prefix(user));
            call
        };
        let reply = self.rounds.run(feed, Some(now), &mut Ready::default(), call).await?;
        Ok(reply.text(0)?.parse().map_err(|_| Garbled("a count of rows"))?)
    }

    pub async fn retract_gift(&self, feed: &FeedId, id: &GiftId, now: Millis) -> Result<TakenBack, Fault> {
        let keys = &self.runner.keys;
        let call = |_: &Ready| {
            let [due, later] = keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT_GIFT, feed);
            call.keys([("due", due), ("later", later), ("retracted", keys.retracted(feed))]);
            call.key("id", keys.id(feed, id)).arg("gift", id);
            call
        };
        let reply = self.rounds.run(feed, Some(now), &mut Ready::default(), call).await?;
        Ok(match reply.text(0)? {
            "1" => TakenBack::Done,
            "v" => TakenBack::InReview,
            _ => TakenBack::Unknown,
        })
    }
}
