//! Lists of feeds: publishing, reading, comparing, listening.

use std::sync::Arc;

use redis::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::domain::list::Goals;
use crate::domain::tally::TotalsView;
use crate::domain::{Drops, FeedId, Gift, Millis, Outcome, Policy, PolicyPatch, Position, RowId};
use crate::engine::protocol::faults::{CLOSED, Fault, FaultKind};
use crate::engine::protocol::records::{Announced, WaitingGift};
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::slots::slot_of_tag;
use crate::engine::protocol::topics::Topics;
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::redis::subscriber::CONFIRM_TIMEOUT;
use crate::engine::store::feed::batcher::{Batch, Batcher, Submission};
use crate::engine::store::review::blocks::BlockBook;
use crate::engine::store::runner::Runner;
use crate::engine::store::totals::counting::{is_again, policy_moves};
use crate::engine::store::writer::{FeedWriter, Preconditions};
use crate::engine::{Head, Missed, PolicyChange, Snapshot, StoreError, Subscription};

/// How often a change of a policy is tried. Each time that several try at once, one of them succeeds.
const CHANGES_AT_ONCE: usize = 100;

/// Feeds asked for in one trip when they are compared.
const FEEDS_PER_TRIP: usize = 512;

/// The lists of all feeds.
pub(crate) struct Feeds {
    pub runner: Arc<Runner>,
    pub writer: Arc<FeedWriter>,
    topics: Arc<Topics>,
    pub blocks: Arc<BlockBook>,
    gifts: Batcher<FeedId, Gift, Outcome>,
}

impl Feeds {
    pub fn new(writer: Arc<FeedWriter>, topics: Arc<Topics>, blocks: Arc<BlockBook>) -> Feeds {
        let runner = writer.runner.clone();
        Feeds { runner, writer, topics, blocks, gifts: Batcher::default() }
    }

    pub async fn publish(
        self: &Arc<Self>,
        feed: &FeedId,
        gifts: Vec<Gift>,
        now: Millis,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let submission = Submission { items: gifts, now: self.runner.clock(Some(now)), reply };
        // A run goes on when its caller has gone: others may wait for it.
        if let Some(group) = self.gifts.submit(feed, submission) {
            tokio::spawn(self.clone().publish_batches(feed.clone(), group));
        }
        in_turn(&self.runner, answer).await
    }

    /// Publishes one batch, and what was submitted meanwhile, until nothing waits.
    async fn publish_batches(self: Arc<Self>, feed: FeedId, mut group: Vec<Submission<Gift, Outcome>>) {
        loop {
            let batch = Batch::of(group);
            let result = self.publish_batch(&feed, &batch.items, batch.now).await.map_err(Into::into);
            match self.gifts.next(&feed, batch.answer(result).as_ref()) {
                Some(next) => group = next,
                None => return,
            }
        }
    }

    /// A feed must be registered before a gift joins its due queue. Whether one does is known for certain
    /// only in the script, which refuses when it has to.
    async fn publish_batch(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
    ) -> Result<Vec<Outcome>, Fault> {
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

    pub async fn retract(&self, feed: &FeedId, row: &RowId, now: Millis) -> Result<Option<Position>, Fault> {
        let call = |_: &Preconditions| {
            let [due, later] = self.runner.keys.due(feed);
            let mut call = self.runner.feed_call(&scripts::RETRACT, feed);
            call.keys([("due", due), ("later", later), ("retracted", self.runner.keys.retracted(feed))]);
            call.arg("row", row);
            call
        };
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        let at = reply.mark()?.0.at.clone();
        Ok((reply.text(0)? == "1").then_some(at))
    }

    pub async fn policy(&self, feed: &FeedId) -> Result<Policy, Fault> {
        Ok(self.runner.with_overrides(&self.runner.overrides(feed).await?)?)
    }

    pub async fn set_policy(
        &self,
        feed: &FeedId,
        change: &PolicyChange,
        now: Millis,
    ) -> Result<Policy, Fault> {
        for _ in 0..CHANGES_AT_ONCE {
            let saw = self.runner.overrides(feed).await?;
            let (old, before) = (wire::read_overrides(&saw)?, self.runner.with_overrides(&saw)?);
            let new = match change {
                PolicyChange::Replace(patch) => old.replaced(patch),
                PolicyChange::Merge(patch) => old.merged(patch),
            };
            let text = match new == PolicyPatch::default() {
                true => String::new(),
                false => serde_json::to_string(&new).map_err(|error| Fault::data(error.to_string()))?,
            };
            let mut call = self.runner.feed_call(&scripts::POLICY, feed);
            call.arg("saw", &saw).arg("new", &text);
            let reply = self.runner.run_feed(call, feed, Some(now)).await?;
            if is_again(&reply) {
                continue;
            }
            let policy = self.runner.with_overrides(&text)?;
            // Periods are counted from now on. If this process dies before that, the next gift sees to it.
            let counts = |policy: &Policy| (policy.totals, policy.time_zone.clone());
            if counts(&before) != counts(&policy) {
                self.writer.tick_totals(feed, Some(now)).await?;
            }
            return Ok(policy);
        }
        Err(policy_moves())
    }

    pub async fn snapshot(&self, feed: &FeedId, now: Millis) -> Result<Snapshot, Fault> {
        let mut snapshot = self.read_whole(feed, now).await;
        if snapshot.as_ref().is_err_and(|fault| fault.kind == FaultKind::ReadOnly) {
            // It has rows whose time has passed, and nothing can be written: they stay a little longer.
            snapshot = self.read_whole(feed, Millis(0)).await.map(|snapshot| Snapshot { now, ..snapshot });
        }
        match &snapshot {
            Ok(_) => self.runner.damaged.clear(feed),
            Err(fault) => self.runner.damaged.note(feed, fault),
        }
        snapshot
    }

    async fn read_whole(&self, feed: &FeedId, now: Millis) -> Result<Snapshot, Fault> {
        let mut call = self.runner.feed_call(&scripts::SNAPSHOT, feed);
        call.for_a_reader();
        call.keys([("shown", self.runner.keys.shown(feed)), ("control", self.runner.keys.control(feed))]);
        call.key("announced", self.runner.keys.announced(feed));
        let reply = self.runner.run_feed(call, feed, Some(now)).await?;
        let (mark, now) = reply.mark()?.clone();
        let policy = self.runner.with_overrides(reply.text(0)?)?;
        let controls = wire::controls(reply.text(1)?)?;
        let count: usize = reply.text(2)?.parse().map_err(|_| Corrupt("a count of rows"))?;
        let (rows, shown) = reply.texts[3..].split_at_checked(count).ok_or(Corrupt("a list"))?;
        let rows: Result<Vec<_>, _> = rows.iter().map(|text| wire::read_row(text)).collect();
        let (mut drops, mut totals, mut goals) = (Drops::new(), TotalsView::new(), Goals::new());
        for text in shown {
            match wire::announced(text)? {
                Announced::Drop(view) => drop(drops.insert(view.drop.clone(), view.into())),
                Announced::Totals(periods) => {
                    totals.extend(periods.into_iter().filter_map(|(period, view)| Some((period, view?))));
                }
                Announced::Goal(goal, view) => {
                    goals.extend(view.map(|view| (goal, view.into())));
                }
            }
        }
        let (at, tag, rows) = (mark.at, mark.tag, rows?);
        Ok(Snapshot { at, tag, policy, rows, drops, controls, totals, goals, now })
    }

    pub async fn changes(&self, feed: &FeedId, since: &Position, max: usize) -> Result<Missed, Fault> {
        let mut call = self.runner.feed_call(&scripts::CHANGES, feed);
        call.for_a_reader();
        call.arg("since_epoch", &since.epoch).arg("since_seq", since.seq).arg("most", max.max(1));
        let reply = self.runner.run_feed(call, feed, None).await?;
        if reply.mark.is_none() || reply.text(0)? != "covered" {
            return Ok(Missed::NotCovered);
        }
        let changes: Result<Vec<_>, _> =
            reply.texts.iter().skip(1).map(|text| wire::change(&since.epoch, text)).collect();
        Ok(Missed::Changes(changes?))
    }

    pub async fn heads(&self, feeds: &[FeedId]) -> Vec<Result<Head, StoreError>> {
        let mut heads = Vec::with_capacity(feeds.len());
        for chunk in feeds.chunks(FEEDS_PER_TRIP) {
            // One key each, and MGET: feeds live in many slots, and a key of another type is no feed.
            let asks = chunk.iter().map(|feed| {
                let mut command = redis::cmd("MGET");
                command.arg(self.runner.keys.meta(feed));
                (slot_of_tag(feed.as_str()), command)
            });
            let asks: Vec<_> = asks.collect();
            let replies = self.runner.backend.commands(&asks, self.runner.part_timeout()).await;
            heads.extend(replies.into_iter().map(|reply| Ok(read_head(reply?)?)));
        }
        heads
    }

    /// Ends every subscription.
    pub fn close(&self) {
        self.topics.close();
    }

    /// Returns when a server has confirmed the subscription.
    pub async fn subscribe(&self, feed: &FeedId) -> Result<Subscription, Fault> {
        let channel = self.runner.keys.live(feed);
        let (reply, answer) = oneshot::channel();
        if self.topics.want_feed(feed, &channel, reply) {
            self.runner.backend.listen(slot_of_tag(feed.as_str()), &channel)?;
        }
        match timeout(CONFIRM_TIMEOUT, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(Fault::stay(CLOSED))),
            Err(_) => Err(Fault::stay("Redis did not confirm a subscription in time")),
        }
    }
}

/// The answer to what was submitted: behind one batch at most, unless Redis is slow and many wait.
pub(crate) async fn in_turn<A>(
    runner: &Runner,
    answer: oneshot::Receiver<Result<Vec<A>, StoreError>>,
) -> Result<Vec<A>, StoreError> {
    match timeout(runner.batch_timeout(), answer).await {
        Ok(answer) => answer.unwrap_or_else(|_| Err(StoreError::Unavailable(CLOSED.into()))),
        Err(_) => Err(StoreError::Unavailable(
            "Redis is slow, and too many gifts or claims of one feed wait for it".into(),
        )),
    }
}

fn read_head(value: Value) -> Result<Head, Corrupt> {
    let texts = redis::from_redis_value::<Vec<Option<String>>>(value).map_err(|_| Corrupt("a head"))?;
    match texts.first().and_then(Option::as_deref) {
        None => Ok(Head { at: Position::start(), tag: 0 }),
        Some(text) => {
            let mark = wire::read_meta(text)?;
            Ok(Head { at: mark.at, tag: mark.tag })
        }
    }
}
