//! Running scripts: which connection, with which KEYS and ARGV, and what the reply says of the feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::Cmd;
use tokio::sync::oneshot;

use super::super::EngineError;
use super::super::record::{entry_extra, push_gift};
use super::due::DueState;
use super::faults::Fault;
use super::keys::Keys;
use super::known::{Known, Mark, epoch_after};
use super::lane::Lane;
use super::lineup::{Lineup, Party, Run};
use super::reports::{APPEND_ROUNDS, ReportState};
use super::scripts::{self, Script};
use super::{RedisOptions, random, wire};
use crate::domain::{
    Claim, Claimed, DropId, FeedId, Gift, Millis, Outcome, Policy, PolicyPatch, Show, Visibility,
};

/// What runs scripts; shared with the runs that several calls wait for.
pub(super) struct Store {
    pub options: RedisOptions,
    pub keys: Keys,
    /// The defaults as the scripts read them.
    defaults: String,
    pub lanes: Vec<Arc<Lane>>,
    turn: AtomicUsize,
    pub known: Arc<Known>,
    pub lineup: Lineup<FeedId, Gift, Outcome>,
    pub claims: Lineup<(FeedId, DropId), Claim, Claimed>,
    pub due: DueState,
    pub reports: ReportState,
}

/// What a script gets beside the common KEYS and ARGV.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub keys: Vec<String>,
    pub args: Vec<String>,
    /// How many gifts these are for.
    pub many: usize,
}

impl Extra {
    pub(super) fn args(args: &[&str]) -> Extra {
        Extra { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..Extra::default() }
    }
}

impl Store {
    pub(super) fn new(options: RedisOptions, keys: Keys, lanes: Vec<Arc<Lane>>, known: Arc<Known>) -> Store {
        Store {
            defaults: wire::policy(&options.defaults),
            options,
            keys,
            lanes,
            turn: AtomicUsize::new(0),
            known,
            lineup: Lineup::default(),
            claims: Lineup::default(),
            due: DueState::default(),
            reports: ReportState::default(),
        }
    }

    /// The next connection in turn that stands, or else the reason why the first does not.
    pub(super) fn lane(&self) -> &Lane {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..self.lanes.len()).map(|n| &self.lanes[(turn + n) % self.lanes.len()]);
        in_turn.clone().find(|lane| lane.is_up()).unwrap_or(&self.lanes[turn % self.lanes.len()])
    }

    /// Runs a feed script with the common KEYS and ARGV, then `extra`'s. The reply's first element is taken
    /// in as what is known; the rest is handed on.
    pub(super) async fn run(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        extra: Extra,
    ) -> Result<Reply, EngineError> {
        Ok(self.try_run(script, feed, now, extra).await?)
    }

    /// [`Store::run`] for those who look at what went wrong.
    pub(super) async fn try_run(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        extra: Extra,
    ) -> Result<Reply, Fault> {
        let known = self.known.get(feed);
        let call = self.call(script, feed, now, known.as_ref(), extra);
        let value = self.lane().script(script, &call, self.options.call_timeout).await?;
        let mut texts =
            redis::from_redis_value::<Vec<String>>(value).map_err(|_| wire::Garbled("a reply"))?;
        if texts.is_empty() || texts[0].is_empty() {
            return Ok(Reply { mark: None, texts });
        }
        let rest = texts.split_off(1);
        let wire::Header { mark, now: at, unread, dozed } = wire::read_header(&texts[0])?;
        self.tell_cut(feed, unread);
        self.known.replied(feed, known.as_ref(), mark.clone());
        if let Some(dozed) = dozed
            && let Err(error) = self.register_idle(feed, dozed, self.clock(now)).await
        {
            // They are looked at soon in any case.
            tracing::debug!(%feed, %error, "webhooks that dozed are late");
        }
        Ok(Reply { mark: Some((mark, at)), texts: rest })
    }

    /// The caller's time, unless the store's own counts.
    pub(super) fn clock(&self, now: Option<Millis>) -> Option<Millis> {
        now.filter(|_| !self.options.store_clock)
    }

    /// Runs parties of gifts, and whoever lined up meanwhile, until nobody waits.
    pub(super) async fn publish(self: Arc<Self>, feed: FeedId, mut group: Vec<Party<Gift, Outcome>>) {
        loop {
            let run = Run::of(group);
            let result = self.publish_all(&feed, &run.items, run.now).await;
            match self.lineup.next(&feed, run.answer(result).as_ref()) {
                Some(next) => group = next,
                None => return,
            }
        }
    }

    /// The answer to a party that lined up: in line behind one run at most, unless Redis is slow and the
    /// line long.
    pub(super) async fn in_line<A>(
        &self,
        answer: oneshot::Receiver<Result<Vec<A>, EngineError>>,
    ) -> Result<Vec<A>, EngineError> {
        match tokio::time::timeout(self.options.call_timeout * 19 / 10, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(super::closed())),
            Err(_) => Err(EngineError::Unavailable(
                "Redis is slow, and too many gifts or claims of one feed wait for it".into(),
            )),
        }
    }

    /// A feed must be registered before a gift joins its due queue. Whether one does is known for certain
    /// only in the script, which refuses when it has to.
    async fn publish_all(
        &self,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
    ) -> Result<Vec<Outcome>, EngineError> {
        let mut since = self.register_ahead(feed, gifts, now).await?;
        let mut rested = String::new();
        for _ in 0..APPEND_ROUNDS {
            let extra = self.publish_extra(feed, gifts, since, &rested);
            let reply = self.run(&scripts::PUBLISH, feed, now, extra).await?;
            if reply.mark.is_none() {
                match self.before_entries(feed, &reply.texts, now).await? {
                    Some(registered) => rested = registered,
                    None => since = Some(self.register_as_told(feed, &reply.texts, now).await?),
                }
                continue;
            }
            self.reports.appended(feed);
            let outcome = |(at, gift): (usize, &Gift)| -> Result<Outcome, EngineError> {
                Ok(wire::outcome(reply.text(at)?, &gift.id, gift.fingerprint)?)
            };
            let outcomes = gifts.iter().enumerate().map(outcome).collect::<Result<Vec<_>, _>>()?;
            self.learn_delay(feed, gifts, &outcomes);
            return Ok(outcomes);
        }
        Err(EngineError::Unavailable(
            "the feed's delay or its webhooks change faster than gifts are taken".into(),
        ))
    }

    fn publish_extra(&self, feed: &FeedId, gifts: &[Gift], since: Option<Millis>, rested: &str) -> Extra {
        let mut extra = Extra {
            keys: self.keys.due(feed).to_vec(),
            args: Vec::with_capacity(5 + 6 * gifts.len()),
            many: gifts.len(),
        };
        extra.keys.extend(self.keys.ledger(feed));
        extra.args.extend(self.append_args(rested));
        extra.args.push(since.map(|since| since.0.to_string()).unwrap_or_default());
        extra.args.push(self.options.scheduled_max.to_string());
        for gift in gifts {
            extra.keys.extend([self.keys.id(feed, &gift.id), self.keys.lock(feed, gift)]);
            extra.args.extend(wire::gift_args(gift));
            let mut record = String::new();
            if since.is_some() && gift.show != Show::After(0) {
                push_gift(&mut record, gift);
            }
            extra.args.push(record);
            extra.args.push(entry_extra(gift));
        }
        extra
    }

    fn call(
        &self,
        script: &Script,
        feed: &FeedId,
        now: Option<Millis>,
        known: Option<&Mark>,
        extra: Extra,
    ) -> Cmd {
        let mut keys = self.keys.feed(feed).to_vec();
        keys.extend(extra.keys);
        let mut cmd = script.call(&keys);
        match self.clock(now) {
            Some(now) => cmd.arg(now.0),
            None => cmd.arg("-"),
        };
        cmd.arg(epoch_after(known).as_str()).arg(random());
        match known {
            Some(Mark { at, tag }) => cmd.arg(at.epoch.as_str()).arg(at.seq).arg(*tag),
            None => cmd.arg("").arg("").arg(""),
        };
        cmd.arg(&self.defaults).arg(self.options.feed_idle_ttl_ms).arg(self.keys.live(feed)).arg(extra.args);
        script.check(&cmd, extra.many);
        cmd
    }

    /// The policy of a feed with these overrides. An empty text is none; so is, here as in the
    /// scripts, what Tipcast did not write, but that nobody sees the feed then who need not: the text may
    /// have said so.
    pub(super) fn with_overrides(&self, text: &str) -> Policy {
        let overrides = wire::read_overrides(text).unwrap_or_else(|_| PolicyPatch {
            visibility: (!text.is_empty()).then_some(Visibility::Private),
            ..PolicyPatch::default()
        });
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
