//! `lua/feed/publish.lua`: gifts of one feed share calls.

use tokio::sync::oneshot;

use crate::domain::{FeedId, Gift, Millis, Outcome};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire;
use crate::engine::store::Store;
use crate::engine::store::feed::batcher::Submission;
use crate::engine::store::feed::lists::{Feeds, in_turn};
use crate::engine::store::writer::Preconditions;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Takes gifts in order, at most 128 of them, as one step. Returns an outcome for each, in the same
    /// order.
    ///
    /// For each gift, in this order: a repeat of a remembered id gets its first answer; a gift of a blocked
    /// user is suppressed; a gift that a host must look at waits for [`Store::decide_review`]; a gift for
    /// later joins the feed's due queue, unless that is full (its own time replaces the policy's delay, and a
    /// time in the past means now); a combo or a dedup lock takes it; otherwise it is a new row. A refusal
    /// writes nothing. A gift that waits does not begin the feed.
    pub async fn publish(&self, feed: &FeedId, gifts: Vec<Gift>, now: Millis) -> StoreResult<Vec<Outcome>> {
        let reply = self
            .measured(Operation::Publish, Some(feed), async {
                if gifts.is_empty() {
                    return Ok(Vec::new());
                }
                let (reply, answer) = oneshot::channel();
                let submission = Submission { items: gifts, now: self.parts.runner.clock(Some(now)), reply };
                // A run goes on when its caller has gone: others may wait for it.
                if let Some(group) = self.parts.feeds.gifts.submit(feed, submission) {
                    let (feeds, feed) = (self.parts.feeds.clone(), feed.clone());
                    tokio::spawn(async move {
                        let run = |gifts, now| feeds.publish_batch(&feed, gifts, now);
                        feeds.gifts.run_batches(&feed, group, run).await;
                    });
                }
                in_turn(&self.parts.runner, answer).await
            })
            .await?;
        counted::gifts(&reply, feed, self.metrics());
        Ok(reply)
    }
}

impl Feeds {
    /// A feed must be registered before a gift joins its due queue. Whether one does is known for certain
    /// only in the script, which refuses when it has to.
    async fn publish_batch(
        &self,
        feed: &FeedId,
        gifts: Vec<Gift>,
        now: Option<Millis>,
    ) -> Result<Vec<Outcome>, Fault> {
        let gifts = &gifts[..];
        // Where the store's clock counts, a block of all feeds ends by this node's: a little early or late.
        let clock = now.unwrap_or_else(Millis::now);
        let everywhere = self.blocks.everywhere(gifts.iter(), clock).await;
        let everywhere = if everywhere.contains('1') { everywhere.as_str() } else { "" };
        let due_since = self.writer.due.register_ahead(feed, gifts, now).await?;
        let mut prepared = Preconditions { due_since, ..Preconditions::default() };
        let call = |prepared: &Preconditions| self.publish_call(feed, gifts, everywhere, prepared);
        let reply = self.writer.write(feed, now, &mut prepared, call).await?;
        let outcome = |(at, gift): (usize, &Gift)| -> Result<Outcome, Fault> {
            Ok(wire::outcome(reply.text(at)?, &gift.id, gift.fingerprint)?)
        };
        let outcomes = gifts.iter().enumerate().map(outcome).collect::<Result<Vec<_>, _>>()?;
        self.writer.due.learn_delay(feed, gifts, &outcomes);
        Ok(outcomes)
    }

    fn publish_call(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        everywhere: &str,
        prepared: &Preconditions,
    ) -> Call {
        let keys = &self.runner.keys;
        let mut call = self.runner.feed_call(&scripts::PUBLISH, feed);
        let [due, later] = keys.due(feed);
        call.keys([("due", due), ("later", later), ("blocks", keys.blocks(feed))]);
        call.keys([("reviews", keys.reviews(feed)), ("approved", keys.approved(feed))]);
        call.arg("blocked_everywhere", everywhere);
        call.arg("may_wait", self.runner.options.scheduled_max);
        for gift in gifts {
            // For all that the caller knows, a host may have to look at a gift that is to be shown at once.
            let record = prepared.due_since.map(|_| WaitingGift::text(gift, false)).unwrap_or_default();
            let keys = [("id", keys.id(feed, &gift.id)), ("lock", keys.lock(feed, gift))];
            let args = wire::gift_args(gift, false);
            let when = [("record", record), ("show", wire::show_arg(gift))];
            call.item(keys, args.into_iter().chain(when));
        }
        call
    }
}
