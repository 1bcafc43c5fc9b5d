//! Feeds in Redis, shared by any number of nodes.
//!
//! Every change of a feed is one run of one script (`lua/`, `scripts`) on keys of one slot (`keys`);
//! gifts that arrive together go together (`lineup`). Commands go over a few shared connections
//! (`lane`), subscriptions over one of their own (`hub`). Redis can lose what it acknowledged (a
//! failover, an eviction, FLUSHALL): `known` is how that is found out, and a new epoch is how watchers
//! are told.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::{
    DeadDue, DueDone, DueRun, DueStore, DueTurn, Engine, EngineError, FeedStore, Head, Missed, PolicyChange,
    ReportLimits, ScheduledPage, Shards, Snapshot, Subscription, Unscheduled, Wait, Wakes,
};
use crate::domain::{Drops, DuePlace, FeedId, Gift, GiftId, Millis, Outcome, Policy, Position, RowId, Tag};
use crate::metrics::Metrics;
use crate::supervise::Parts;

mod dial;
mod drops;
mod due;
mod faults;
mod hub;
mod keys;
mod known;
mod lane;
mod lineup;
mod moderation;
mod presence;
mod reports;
pub mod scripts;
mod sources;
mod store;
mod wire;

use dial::Dial;
pub use due::PARTS_MAX;
use hub::{Hub, Wiring};
use keys::Keys;
use known::Known;
use lane::{Lane, State};
use lineup::Party;
use store::{Extra, Store};

/// Calls that may be under way; one more is [`EngineError::Overloaded`].
const CALLS: usize = 4096;

/// Connections for commands. More than one, so that a large reply does not hold up everything.
const LANES: usize = 2;

/// Feeds asked for in one trip by [`Engine::heads`].
const HEADS: usize = 512;

/// How to open the engine.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[user:password@]host[:port][/database]`.
    pub url: String,
    /// The policy of feeds that set none.
    pub defaults: Policy,
    /// What every key and channel begins with.
    pub prefix: String,
    /// True: time is Redis's own, one clock for all nodes. False: time is what callers say.
    pub store_clock: bool,
    /// How long after its last change a feed expires as a whole, in milliseconds; 0 never.
    pub feed_idle_ttl_ms: u64,
    /// How long before it opens or closes watchers are reminded of a drop, in milliseconds; 0 never.
    pub drop_reminder_ms: u64,
    /// How many gifts of one feed may wait to be shown.
    pub scheduled_max: u64,
    /// How much is kept of what happened.
    pub reports: ReportLimits,
    /// Parts of the index of feeds with something due, 1 to [`PARTS_MAX`].
    pub due_parts: usize,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// How long connecting may take, and shaking hands again as long.
    pub connect_timeout: Duration,
    /// Where reconnects are counted.
    pub metrics: Arc<Metrics>,
    /// Where what keeps connections is registered.
    pub parts: Arc<Parts>,
}

impl std::fmt::Debug for RedisOptions {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// The defaults, for the Redis at `url`.
    pub fn new(url: impl Into<String>) -> RedisOptions {
        RedisOptions {
            url: url.into(),
            defaults: Policy::default(),
            prefix: "tc:".into(),
            store_clock: true,
            feed_idle_ttl_ms: 0,
            drop_reminder_ms: 60_000,
            scheduled_max: super::SCHEDULED_MAX,
            reports: ReportLimits::default(),
            due_parts: 1,
            call_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            metrics: Arc::default(),
            parts: Arc::default(),
        }
    }
}

/// Feeds in one Redis.
pub struct RedisEngine {
    store: Arc<Store>,
    hub: std::sync::Mutex<Option<Arc<Hub>>>,
    calls: Semaphore,
}

impl RedisEngine {
    /// Connects. A Redis that is down, or that refuses for now, is tried again in the background;
    /// a bad URL and a server that is too old are [`EngineError::Open`].
    pub async fn open(options: RedisOptions) -> Result<Arc<RedisEngine>, EngineError> {
        let keys = Keys::new(&options.prefix).map_err(EngineError::Open)?;
        let dial =
            Dial::new(&options.url, options.connect_timeout, keys.probe(0)).map_err(EngineError::Open)?;
        let lanes: Vec<_> = (0..LANES).map(|_| Arc::new(Lane::open(dial.clone(), &options))).collect();
        if let State::Refused(why) = lanes[0].tried().await {
            return Err(EngineError::Open(why.to_string()));
        }
        lanes[1].tried().await;
        let known = Arc::new(Known::default());
        let store = Store::new(options, keys, lanes, known.clone());
        let (keys, options) = (&store.keys, &store.options);
        let hub = Hub::open(Wiring {
            dial,
            lane: store.lanes[0].clone(),
            known,
            defaults: options.defaults.clone(),
            probe_channel: keys.probe(random()),
            wake_channels: (0..options.due_parts).map(|part| keys.wake(part)).collect(),
            wakes: store.due.wakes.clone(),
            job_channel: keys.job_wake(),
            job_wakes: store.reports.wakes.clone(),
            metrics: options.metrics.clone(),
            parts: options.parts.clone(),
        });
        // A Redis that is down is asked again by whoever claims jobs.
        if let Err(error) = store.refresh_hooks(Millis::now()).await {
            tracing::debug!(%error, "the webhooks of all feeds are not known yet");
        }
        Ok(Arc::new(RedisEngine {
            store: Arc::new(store),
            hub: std::sync::Mutex::new(Some(Arc::new(hub))),
            calls: Semaphore::new(CALLS),
        }))
    }

    fn permit(&self) -> Result<SemaphorePermit<'_>, EngineError> {
        self.calls.try_acquire().map_err(|refused| match refused {
            tokio::sync::TryAcquireError::NoPermits => EngineError::Overloaded("queue of calls to Redis"),
            tokio::sync::TryAcquireError::Closed => closed(),
        })
    }

    fn hub(&self) -> Result<Arc<Hub>, EngineError> {
        let hub = self.hub.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        hub.clone().ok_or_else(closed)
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("the engine is closed; the gateway is stopping".into())
}

/// 1 to 2^53−1 from the system's random source: a number that Lua holds exactly.
fn random() -> Tag {
    loop {
        // Without a random source there is no way to tell two changes apart, and none that could be repaired here.
        let Ok(bits) = getrandom::u64() else { std::process::abort() };
        if bits & crate::domain::MAX_SAFE != 0 {
            return bits & crate::domain::MAX_SAFE;
        }
    }
}

impl FeedStore for RedisEngine {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        Box::pin(async move {
            if gifts.is_empty() {
                return Ok(Vec::new());
            }
            let _permit = self.permit()?;
            let (reply, answer) = oneshot::channel();
            let party = Party { items: gifts, now: self.store.clock(Some(now)), reply };
            // A run goes on when its caller has gone: others may wait for it.
            if let Some(group) = self.store.lineup.join(feed, party) {
                tokio::spawn(self.store.clone().publish(feed.clone(), group));
            }
            self.store.in_line(answer).await
        })
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let reply =
                self.store.run(&scripts::RETRACT, feed, Some(now), Extra::args(&[row.as_str()])).await?;
            let at = reply.mark()?.0.at.clone();
            Ok((reply.text(0)? == "1").then_some(at))
        })
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        Box::pin(async move {
            let _permit = self.permit()?;
            // MGET, as the scripts do: a key of another type is no policy.
            let mut cmd = redis::cmd("MGET");
            cmd.arg(self.store.keys.policy(feed));
            let value = self.store.lane().command(&cmd, self.store.options.call_timeout).await?;
            let texts = redis::from_redis_value::<Vec<Option<String>>>(value)
                .map_err(|_| wire::Garbled("a policy"))?;
            Ok(self.store.with_overrides(texts.first().and_then(Option::as_deref).unwrap_or_default()))
        })
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        Box::pin(async move {
            let (how, patch) = match &change {
                PolicyChange::Replace(patch) => ("replace", patch),
                PolicyChange::Merge(patch) => ("merge", patch),
            };
            let args = [how, &wire::overrides(patch)];
            let _permit = self.permit()?;
            let reply = self.store.run(&scripts::POLICY, feed, Some(now), Extra::args(&args)).await?;
            Ok(self.store.with_overrides(reply.text(0)?))
        })
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let keys = vec![self.store.keys.shown(feed), self.store.keys.control(feed)];
            let shown = Extra { keys, ..Extra::default() };
            let reply = self.store.run(&scripts::SNAPSHOT, feed, Some(now), shown).await?;
            let (mark, now) = reply.mark()?.clone();
            let policy = self.store.with_overrides(reply.text(0)?);
            let controls = wire::controls(reply.text(1)?);
            let count: usize = reply.text(2)?.parse().map_err(|_| wire::Garbled("a count of rows"))?;
            let (rows, shown) = reply.texts[3..].split_at_checked(count).ok_or(wire::Garbled("a list"))?;
            let rows: Result<Vec<_>, _> = rows.iter().map(|text| wire::read_row(text)).collect();
            let drops: Result<Drops, _> = shown.iter().map(|text| wire::told(text)).collect();
            Ok(Snapshot { at: mark.at, tag: mark.tag, policy, rows: rows?, drops: drops?, controls, now })
        })
    }

    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed> {
        Box::pin(async move {
            let (seq, max) = (since.seq.to_string(), max.max(1).to_string());
            let args = [since.epoch.as_str(), &seq, &max];
            let _permit = self.permit()?;
            let reply = self.store.run(&scripts::CHANGES, feed, None, Extra::args(&args)).await?;
            if reply.mark.is_none() || reply.text(0)? != "covered" {
                return Ok(Missed::NotCovered);
            }
            let changes: Result<Vec<_>, _> =
                reply.texts.iter().skip(1).map(|text| wire::change(&since.epoch, text)).collect();
            Ok(Missed::Changes(changes?))
        })
    }

    fn heads<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let mut heads = Vec::with_capacity(feeds.len());
            for chunk in feeds.chunks(HEADS) {
                let mut pipe = redis::pipe();
                for feed in chunk {
                    // One key each, and MGET: feeds may live in many slots, and a key of another type
                    // is no feed.
                    pipe.cmd("MGET").arg(self.store.keys.meta(feed));
                }
                let replies = self.store.lane().commands(&pipe, self.store.options.call_timeout).await?;
                for reply in replies {
                    heads.push(read_head(reply));
                }
            }
            Ok(heads)
        })
    }

    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription> {
        Box::pin(async move { Ok(self.hub()?.subscribe(feed, self.store.keys.live(feed)).await?) })
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        Some(self.store.known.get(feed)?.at)
    }
}

impl DueStore for RedisEngine {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.scheduled(feed, after, max.max(1)).await
        })
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, Unscheduled> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.unschedule(feed, id, now).await
        })
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.dead(feed).await
        })
    }

    fn claim_due(&self, over: Vec<DueDone>, max: usize, now: Millis) -> Wait<'_, DueTurn> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.claim_due(over, max, now).await
        })
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, DueRun> {
        Box::pin(async move {
            let _permit = self.permit()?;
            self.store.run_due(feed, now).await
        })
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.store.due.wakes.subscribe())
    }
}

impl Engine for RedisEngine {
    fn probe(&self) -> Wait<'_, Shards> {
        Box::pin(async move {
            self.hub()?.probe(self.store.lane(), random()).await?;
            Ok(Shards::WHOLE)
        })
    }

    fn probe_feed<'a>(&'a self, _: &'a FeedId) -> Wait<'a, ()> {
        Box::pin(async move { Ok(self.hub()?.probe(self.store.lane(), random()).await?) })
    }

    fn close(&self) -> Wait<'_, ()> {
        Box::pin(async move {
            // Every call holds a permit: when all are here, nothing is under way.
            let all = self.calls.acquire_many(CALLS as u32);
            let _ = tokio::time::timeout(self.store.options.call_timeout, all).await;
            self.calls.close();
            self.hub.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            self.store.lanes.iter().for_each(|lane| lane.close());
            Ok(())
        })
    }

    fn name(&self) -> &'static str {
        "redis"
    }
}

fn read_head(value: Value) -> Result<Head, EngineError> {
    let texts = redis::from_redis_value::<Vec<Option<String>>>(value).map_err(|_| wire::Garbled("a head"))?;
    match texts.first().and_then(Option::as_deref) {
        None => Ok(Head { at: Position::start(), tag: 0 }),
        Some(text) => {
            let mark = wire::read_meta(text)?;
            Ok(Head { at: mark.at, tag: mark.tag })
        }
    }
}
