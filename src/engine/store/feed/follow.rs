//! Following feeds: where each stands, and what changes.

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::domain::{FeedId, Position};
use crate::engine::protocol::faults::{CLOSED, Fault};
use crate::engine::protocol::slots::slot_of_tag;
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::redis::subscriber::CONFIRM_TIMEOUT;
use crate::engine::store::Store;
use crate::engine::{FeedHead, StoreError, StoreResult, Subscription};
use crate::metrics::labels::Operation;

/// Feeds asked for in one trip when they are compared.
const FEEDS_PER_TRIP: usize = 512;

impl Store {
    /// Reads the positions of feeds, in the order asked. It is cheap, for comparing every second or two, and
    /// removes no rows whose time has passed. Each feed has an answer of its own, because shards fail one by
    /// one.
    pub async fn read_heads(&self, feeds: &[FeedId]) -> StoreResult<Vec<Result<FeedHead, StoreError>>> {
        self.measured(Operation::Heads, None, async {
            let runner = &self.parts.runner;
            let mut heads = Vec::with_capacity(feeds.len());
            for chunk in feeds.chunks(FEEDS_PER_TRIP) {
                // One key each, and MGET: feeds live in many slots, and a key of another type is no feed.
                let asks = chunk.iter().map(|feed| {
                    let mut command = redis::cmd("MGET");
                    command.arg(runner.keys.meta(feed));
                    (slot_of_tag(feed.as_str()), command)
                });
                let asks: Vec<_> = asks.collect();
                let replies = runner.backend.commands(&asks, runner.part_timeout()).await;
                heads.extend(replies.into_iter().map(|reply| Ok(read_head(reply?)?)));
            }
            Ok(heads)
        })
        .await
    }

    /// Subscribes to a feed. From the moment this returns, every change of the feed reaches the subscription,
    /// or [`crate::engine::Notice::Lost`] does. A notice without changes says that the feed's ledger has
    /// something new for its readers ([`Store::claim_entries`]). Dropping the subscription ends it.
    pub async fn subscribe(&self, feed: &FeedId) -> StoreResult<Subscription> {
        self.measured(Operation::Subscribe, None, async {
            let channel = self.parts.runner.keys.live(feed);
            let (reply, answer) = oneshot::channel();
            if self.parts.feeds.topics.want_feed(feed, &channel, reply) {
                self.parts.runner.backend.listen(slot_of_tag(feed.as_str()), &channel)?;
            }
            match timeout(CONFIRM_TIMEOUT, answer).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(Fault::stay(CLOSED))),
                Err(_) => Err(Fault::stay("Redis did not confirm a subscription in time")),
            }
        })
        .await
    }
}

fn read_head(value: Value) -> Result<FeedHead, Corrupt> {
    let texts = redis::from_redis_value::<Vec<Option<String>>>(value).map_err(|_| Corrupt("a head"))?;
    match texts.first().and_then(Option::as_deref) {
        None => Ok(FeedHead { at: Position::start(), tag: 0 }),
        Some(text) => {
            let mark = wire::read_meta(text)?;
            Ok(FeedHead { at: mark.at, tag: mark.tag })
        }
    }
}
