//! Taking back, and commands to overlays (`lua/feed/control.lua`, `feed_retract_user`,
//! `feed_retract_gift`).

use crate::domain::json::push_string;
use crate::domain::moderate::{GiftRefunded, TakingBack, user_prefix};
use crate::domain::{Control, FeedId, GiftId, Millis, Position, RowId};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::store::runner::Reply;
use crate::engine::store::writer::Preconditions;

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

    /// Takes a gift back, or refunds a part of it; one that waits for a host is [`GiftRefunded::Waits`] for both.
    pub async fn take_back(
        &self,
        feed: &FeedId,
        id: &GiftId,
        what: &TakingBack,
        now: Millis,
    ) -> Result<GiftRefunded, Fault> {
        let keys = &self.runner.keys;
        let call = |_: &Preconditions| {
            let [due, later] = keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT_GIFT, feed);
            call.keys([("due", due), ("later", later), ("retracted", keys.retracted(feed))]);
            call.key("id", keys.id(feed, id)).arg("gift", id);
            taking_back_args(&mut call, what);
            call
        };
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        read_reversal(&reply)
    }
}

/// What a script gets that takes something back, or refunds a part of it.
pub(crate) fn taking_back_args<'a>(call: &'a mut Call, what: &TakingBack) -> &'a mut Call {
    let mut reason = String::new();
    what.reason.iter().for_each(|text| push_string(&mut reason, text));
    if what.refunded.is_some() {
        call.bounded();
    }
    call.arg("refunded", what.refunded.map(|amount| amount.to_string()).unwrap_or_default())
        .arg("reason", reason)
}

/// What `lua/feed/reversal.lua` answers, and the scripts that call it.
pub(crate) fn read_reversal(reply: &Reply) -> Result<GiftRefunded, Fault> {
    let amount = || -> Result<u64, Fault> { Ok(reply.text(1)?.parse().map_err(|_| Corrupt("an amount"))?) };
    Ok(match reply.text(0)? {
        code @ ("1" | "f") => {
            let row = Some(reply.text(2)?).filter(|row| *row != "-");
            let row = row.map(str::parse).transpose().map_err(|_| Corrupt("a row's id"))?;
            GiftRefunded::Done { whole: code == "1", refunded: amount()?, row }
        }
        "v" => GiftRefunded::Waits,
        "n" => GiftRefunded::NoValue,
        "a" => GiftRefunded::Above(amount()?),
        _ => GiftRefunded::Unknown,
    })
}
