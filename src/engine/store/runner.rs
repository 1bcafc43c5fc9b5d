//! Running scripts and commands: with which common arguments, where, and what the reply says of the feed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue};

use crate::domain::{FeedId, Millis, Policy};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{Keys, Part, SharedIndex};
use crate::engine::protocol::known::{Mark, SeenPositions, epoch_after};
use crate::engine::protocol::options::StoreOptions;
use crate::engine::protocol::scripts::{self, Call, Script};
use crate::engine::protocol::slots::slot_of_tag;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::backend::Backend;
use crate::engine::store::damaged::Damaged;
use crate::supervise::LogThrottle;

/// Up to this difference, in milliseconds, a call's time and the steady time count as equal.
pub(super) const AGREED_MS: i64 = 1_000;

/// What runs scripts; every part of the store has it.
pub(super) struct Runner {
    pub options: StoreOptions,
    pub keys: Keys,
    pub backend: Arc<Backend>,
    pub known: Arc<SeenPositions>,
    pub damaged: Damaged,
    lost_warnings: LogThrottle<FeedId>,
    /// The default policy as the scripts read it.
    defaults: String,
}

/// What a feed's script answered.
pub(super) struct Reply {
    /// The feed's position, and the time; `None` if the script gave none.
    pub mark: Option<(Mark, Millis)>,
    /// What follows the header; all of it when there is none.
    pub texts: Vec<String>,
    /// How many entries of the feed's ledger were cut that some reader was not done with.
    pub unread: u64,
    /// How many such entries were gone with the list, which the store had let go of.
    pub vanished: u64,
    /// Webhooks that dozed and now have something to send.
    pub dozed: Option<String>,
}

impl Reply {
    pub fn mark(&self) -> Result<&(Mark, Millis), Fault> {
        self.mark.as_ref().ok_or_else(|| Corrupt("a reply").into())
    }

    pub fn text(&self, at: usize) -> Result<&str, Fault> {
        self.texts.get(at).map(String::as_str).ok_or_else(|| Corrupt("a reply").into())
    }
}

/// The members of the server's policy that scripts read, as JSON: each call decodes it.
fn script_defaults(policy: &Policy) -> String {
    let mut members = serde_json::to_value(policy).unwrap_or_default();
    if let Some(members) = members.as_object_mut() {
        members.retain(|name, _| scripts::read_of_policy(name));
    }
    members.to_string()
}

impl Runner {
    pub fn new(
        options: StoreOptions,
        keys: Keys,
        backend: Arc<Backend>,
        known: Arc<SeenPositions>,
    ) -> Runner {
        let damaged = Damaged::new(options.metrics.clone());
        Runner {
            defaults: script_defaults(&options.defaults),
            options,
            keys,
            backend,
            known,
            damaged,
            lost_warnings: LogThrottle::default(),
        }
    }

    /// The caller's time, unless the store's own counts.
    pub fn clock(&self, now: Option<Millis>) -> Option<Millis> {
        now.filter(|_| !self.options.store_clock)
    }

    fn time(&self, now: Option<Millis>) -> String {
        self.clock(now).map_or_else(|| "-".to_owned(), |now| now.0.to_string())
    }

    /// How long waiting for others and one's own call may take together.
    pub fn batch_timeout(&self) -> Duration {
        self.options.call_timeout * 19 / 10
    }

    /// How long one part of what has several may take: where another may be away, the rest does not wait for it.
    pub fn part_timeout(&self) -> Duration {
        match self.backend.is_cluster() {
            true => self.options.call_timeout.min(Duration::from_millis(500)),
            false => self.options.call_timeout,
        }
    }

    /// The part of an index that has this feed. In a cluster it is on the feed's own shard.
    pub fn part_of(&self, what: SharedIndex, feed: &FeedId) -> Part {
        let home = || Part::Slot(self.backend.home(slot_of_tag(feed.as_str())));
        self.keys.named_part(what, feed).unwrap_or_else(home)
    }

    /// Every part of an index that feeds are put into now.
    pub fn parts(&self, what: SharedIndex) -> Vec<Part> {
        match self.keys.named_parts(what) {
            Some(parts) => (0..parts).map(Part::Named).collect(),
            None => self.backend.homes().into_iter().map(Part::Slot).collect(),
        }
    }

    /// The members of the server's policy that scripts read, as JSON.
    pub fn defaults(&self) -> &str {
        &self.defaults
    }

    /// A call of a feed's script with the common KEYS.
    pub fn feed_call(&self, script: &'static Script, feed: &FeedId) -> Call {
        let mut call = Call::of(script);
        for (name, key) in ["list", "hist", "meta", "policy"].into_iter().zip(self.keys.feed(feed)) {
            call.key(name, key);
        }
        call
    }

    /// Runs a feed's script, with what all of them get. What its reply says of the feed is known from then on.
    pub async fn run_feed(&self, mut call: Call, feed: &FeedId, now: Option<Millis>) -> Result<Reply, Fault> {
        let known = self.known.get(feed);
        call.arg("candidate_epoch", epoch_after(known.as_ref())).end_with_life("candidate_epoch");
        call.arg("default_policy", &self.defaults).arg("idle_ttl", self.options.feed_idle_ttl_ms);
        call.arg("now", self.times(now)).arg("tag", random()).arg("live_channel", self.keys.live(feed));
        match &known {
            Some(Mark { at, tag }) => {
                call.arg("known_epoch", &at.epoch).arg("known_seq", at.seq).arg("known_tag", tag)
            }
            None => call.arg("known_epoch", "").arg("known_seq", "").arg("known_tag", ""),
        };
        let reply = self.run(&call).await.and_then(|texts| self.read_reply(feed, known.as_ref(), texts));
        reply.inspect_err(|fault| self.damaged.note(feed, fault))
    }

    fn read_reply(
        &self,
        feed: &FeedId,
        known: Option<&Mark>,
        mut texts: Vec<String>,
    ) -> Result<Reply, Fault> {
        if texts.first().is_none_or(|head| head.is_empty()) {
            return Ok(Reply { mark: None, texts, unread: 0, vanished: 0, dozed: None });
        }
        let rest = texts.split_off(1);
        let wire::Header { mark, now, unread, vanished, dozed } = wire::read_header(&texts[0])?;
        self.known.replied(feed, known, mark.clone());
        Ok(Reply { mark: Some((mark, now)), texts: rest, unread, vanished, dozed: dozed.map(str::to_owned) })
    }

    /// The time of a call, and behind a blank the steady one, where that is another.
    fn times(&self, now: Option<Millis>) -> String {
        let time = self.time(now);
        match now.map(|now| (now, self.steady(now))) {
            Some((now, steady)) if steady != now => format!("{time} {}", steady.0),
            _ => time,
        }
    }

    /// The time by which windows run; `now` where that is about the same.
    pub fn steady(&self, now: Millis) -> Millis {
        let steady = if self.options.steady { self.backend.steady() } else { None };
        steady.filter(|steady| (now.0 - steady).abs() > AGREED_MS).map_or(now, Millis)
    }

    /// Counts entries of a feed's ledger that some reader was not done with and will not get: they were cut, or were dead letters
    /// that made room.
    pub fn entries_lost(&self, feed: &FeedId, count: u64) {
        if count == 0 {
            return;
        }
        self.options.metrics.report_lost.inc_by(count);
        if let Some(count) = self.lost_warnings.allow(feed, count, Instant::now()) {
            tracing::warn!(
                %feed, count,
                "entries of a ledger were lost to a reader that had not acknowledged them: see its groups and webhooks"
            );
        }
    }

    /// A call of a script whose time is the first of its arguments.
    pub fn timed(&self, script: &'static Script, now: Option<Millis>) -> Call {
        let mut call = Call::of(script);
        call.arg("now", self.time(now));
        call
    }

    /// Runs a script where its keys are.
    pub async fn run<T: FromRedisValue>(&self, call: &Call) -> Result<T, Fault> {
        self.run_within(call, self.options.call_timeout).await
    }

    /// [`Runner::run`], within this time.
    pub async fn run_within<T: FromRedisValue>(&self, call: &Call, within: Duration) -> Result<T, Fault> {
        let value = self.backend.script(call, within).await?;
        redis::from_redis_value(value).map_err(|_| Corrupt("a reply").into())
    }

    /// Runs one command about this key.
    pub async fn get<T: FromRedisValue>(&self, key: &str, command: &Cmd) -> Result<T, Fault> {
        let value = self.backend.command(key, command, self.options.call_timeout).await?;
        redis::from_redis_value(value).map_err(|_| Corrupt("a reply").into())
    }

    /// The store's clock, at the server that has this key.
    pub async fn store_time(&self, key: &str, now: Millis) -> Result<Millis, Fault> {
        if let Some(now) = self.clock(Some(now)) {
            return Ok(now);
        }
        let (seconds, micros): (i64, i64) = self.get(key, &redis::cmd("TIME")).await?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }

    /// What is set of a feed's policy, as it is stored; "" for nothing.
    pub async fn overrides(&self, feed: &FeedId) -> Result<String, Fault> {
        // MGET, as the scripts do: a key of another type is no policy.
        let key = self.keys.policy(feed);
        let texts: Vec<Option<String>> = self.get(&key, redis::cmd("MGET").arg(&key)).await?;
        Ok(texts.into_iter().next().flatten().unwrap_or_default())
    }

    /// The policy of a feed with these overrides; an empty text is none.
    pub fn with_overrides(&self, text: &str) -> Result<Policy, Corrupt> {
        Ok(self.options.defaults.with(&wire::read_overrides(text)?))
    }
}

/// A number in an answer.
pub(super) fn number<T: std::str::FromStr>(bytes: Option<&Vec<u8>>) -> Option<T> {
    std::str::from_utf8(bytes?).ok()?.parse().ok()
}

/// A number in an answer that must be one.
pub(super) fn needed<T: std::str::FromStr>(bytes: Option<&Vec<u8>>) -> Result<T, Corrupt> {
    number(bytes).ok_or(Corrupt("a reply"))
}
