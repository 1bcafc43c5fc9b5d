//! Running scripts: which connection, with which KEYS and ARGV, and what the reply says of the feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Cmd;

use super::super::EngineError;
use super::keys::{FEED_KEYS, Keys};
use super::known::{Known, Mark, epoch_after};
use super::lane::Lane;
use super::lineup::{Lineup, Party};
use super::scripts::{self, Script};
use super::{RedisOptions, random, wire};
use crate::domain::{FeedId, Gift, Millis, Outcome, Policy};

/// What runs scripts; shared with the runs that several calls wait for.
pub(super) struct Store {
    pub options: RedisOptions,
    pub keys: Keys,
    /// The defaults as the scripts read them.
    defaults: String,
    pub lanes: Vec<Arc<Lane>>,
    turn: AtomicUsize,
    pub known: Arc<Known>,
    pub lineup: Lineup,
}

impl Store {
    pub(super) fn new(options: RedisOptions, keys: Keys, lanes: Vec<Arc<Lane>>, known: Arc<Known>) -> Store {
        let defaults = wire::policy(&options.defaults);
        Store { defaults, options, keys, lanes, turn: AtomicUsize::new(0), known, lineup: Lineup::default() }
    }

    /// The next connection in turn that stands, or else the reason why the first does not.
    pub(super) fn lane(&self) -> &Lane {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..self.lanes.len()).map(|n| &self.lanes[(turn + n) % self.lanes.len()]);
        in_turn.clone().find(|lane| lane.is_up()).unwrap_or(&self.lanes[turn % self.lanes.len()])
    }

    /// Runs a feed script: the common KEYS and ARGV, then what `gifts` and `args` add. The reply's
    /// first element is taken in as what is known; the rest is handed on.
    pub(super) async fn run(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        gifts: &[Gift],
        args: &[&str],
    ) -> Result<Reply, EngineError> {
        let keys: Vec<String> =
            gifts.iter().flat_map(|gift| [self.keys.id(feed, gift), self.keys.lock(feed, gift)]).collect();
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(gifts.iter().flat_map(wire::gift_args));
        self.run_on(script, feed, now, &keys, &args).await
    }

    /// Runs a feed script: the common KEYS and ARGV, then these.
    pub(super) async fn run_on(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        keys: &[String],
        args: &[String],
    ) -> Result<Reply, EngineError> {
        let known = self.known.get(feed);
        let call = self.call(script, feed, now, known.as_ref(), keys, args);
        let value = self.lane().script(script, &call, self.options.call_timeout).await?;
        let mut texts =
            redis::from_redis_value::<Vec<String>>(value).map_err(|_| wire::Garbled("a reply"))?;
        if texts.is_empty() || texts[0].is_empty() {
            return Ok(Reply { mark: None, texts });
        }
        let rest = texts.split_off(1);
        let (mark, now) = wire::read_header(&texts[0])?;
        self.known.replied(feed, known.as_ref(), mark.clone());
        Ok(Reply { mark: Some((mark, now)), texts: rest })
    }

    /// The caller's time, unless the store's own counts.
    pub(super) fn clock(&self, now: Option<Millis>) -> Option<Millis> {
        now.filter(|_| !self.options.store_clock)
    }

    /// Runs parties of gifts, and whoever lined up meanwhile, until nobody waits.
    pub(super) async fn publish(self: Arc<Self>, feed: FeedId, mut group: Vec<Party>) {
        loop {
            let mut gifts = Vec::new();
            let mut replies = Vec::with_capacity(group.len());
            let now = group.first().and_then(|party| party.now);
            for party in group {
                replies.push((party.gifts.len(), party.reply));
                gifts.extend(party.gifts);
            }
            let result = self.publish_all(&feed, &gifts, now).await;
            let failed = result.as_ref().err().cloned();
            let mut outcomes = result.unwrap_or_default().into_iter();
            for (count, reply) in replies {
                let own = match &failed {
                    None => Ok(outcomes.by_ref().take(count).collect()),
                    Some(error) => Err(error.clone()),
                };
                // Nobody waiting for it any more is no failure.
                let _ = reply.send(own);
            }
            match self.lineup.next(&feed, failed.as_ref()) {
                Some(next) => group = next,
                None => return,
            }
        }
    }

    async fn publish_all(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
    ) -> Result<Vec<Outcome>, EngineError> {
        let reply = self.run(&scripts::PUBLISH, feed, now, gifts, &[]).await?;
        let outcome = |(at, gift): (usize, &Gift)| -> Result<Outcome, EngineError> {
            Ok(wire::outcome(reply.text(at)?, &gift.id, gift.fingerprint)?)
        };
        gifts.iter().enumerate().map(outcome).collect()
    }

    fn call(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        known: Option<&Mark>,
        keys: &[String],
        args: &[String],
    ) -> Cmd {
        let (all_keys, all_args) = (FEED_KEYS + keys.len(), scripts::COMMON_ARGS + args.len());
        debug_assert!(script.takes(all_keys, all_args), "{} is called as its header says", script.name);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.sha()).arg(all_keys).arg(&self.keys.feed(feed)).arg(keys);
        match self.clock(now) {
            Some(now) => cmd.arg(now.0),
            None => cmd.arg("-"),
        };
        cmd.arg(epoch_after(known).as_str()).arg(random());
        match known {
            Some(Mark { at, tag }) => cmd.arg(at.epoch.as_str()).arg(at.seq).arg(*tag),
            None => cmd.arg("").arg("").arg(""),
        };
        cmd.arg(&self.defaults).arg(self.options.feed_idle_ttl_ms).arg(self.keys.live(feed)).arg(args);
        cmd
    }

    /// The policy of a feed with these overrides. An empty text is none; so is, here as in the
    /// scripts, what Tipcast did not write.
    pub(super) fn with_overrides(&self, text: &str) -> Policy {
        let overrides = wire::read_overrides(text).unwrap_or_default();
        self.options.defaults.with(&overrides)
    }
}

/// What a script answered.
pub(super) struct Reply {
    /// Where the feed stands, and the time; none when the script could not tell.
    pub mark: Option<(Mark, Millis)>,
    /// What follows the header.
    pub texts: Vec<String>,
}

impl Reply {
    pub(super) fn mark(&self) -> Result<&(Mark, Millis), EngineError> {
        self.mark.as_ref().ok_or_else(|| wire::Garbled("a reply").into())
    }

    pub(super) fn text(&self, at: usize) -> Result<&str, EngineError> {
        self.texts.get(at).map(String::as_str).ok_or_else(|| wire::Garbled("a reply").into())
    }
}
