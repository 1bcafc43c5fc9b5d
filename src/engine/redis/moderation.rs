//! Taking back, and telling overlays what to do (`lua/feed_control.lua`, `feed_retract_user`,
//! `feed_retract_gift`).

use super::reports::APPEND_ROUNDS;
use super::store::Extra;
use super::{RedisEngine, scripts, wire};
use crate::domain::moderate::user_prefix;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position, RowId};
use crate::engine::{EngineError, ModerationStore, Wait};

impl ModerationStore for RedisEngine {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let row = control.row.as_ref().map_or("-", RowId::as_str);
            let extra = Extra {
                keys: vec![self.store.keys.control(feed)],
                ..Extra::args(&[control.action.as_str(), row])
            };
            let reply = self.store.run(&scripts::CONTROL, feed, Some(now), extra).await?;
            let at = reply.mark()?.0.at.clone();
            Ok((reply.text(0)? == "1").then_some(at))
        })
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let extra = Extra::args(&[&user_prefix(user)]);
            let reply = self.store.run(&scripts::RETRACT_USER, feed, Some(now), extra).await?;
            Ok(reply.text(0)?.parse().map_err(|_| wire::Garbled("a count of rows"))?)
        })
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let store = &self.store;
            let mut rested = String::new();
            for _ in 0..APPEND_ROUNDS {
                let mut extra = Extra { keys: store.keys.due(feed).to_vec(), ..Extra::default() };
                extra.keys.extend(store.keys.ledger(feed));
                extra.keys.push(store.keys.id(feed, id));
                extra.args.extend(store.append_args(&rested));
                extra.args.push(id.to_string());
                let reply = store.run(&scripts::RETRACT_GIFT, feed, Some(now), extra).await?;
                if reply.mark.is_some() {
                    store.reports.appended(feed);
                    let done = reply.text(0)? == "1";
                    return Ok(if done { GiftTakenBack::Done } else { GiftTakenBack::Unknown });
                }
                let ready = store.before_entries(feed, &reply.texts, store.clock(Some(now))).await?;
                rested = ready.ok_or(wire::Garbled("a reply"))?;
            }
            Err(EngineError::Unavailable(
                "the feed's webhooks change faster than a gift is taken back".into(),
            ))
        })
    }
}
