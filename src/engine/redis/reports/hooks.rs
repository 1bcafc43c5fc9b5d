//! Webhooks as they are set. Those of a feed are in the feed's slot, where they begin to read in the step that makes
//! them. Those of all feeds are in a slot of their own; a feed gets to know of them with its next entry: whoever
//! appends names the version of their set that its node knows, and `report_attach` brings them there.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::FromRedisValue;

use super::super::due::number;
use super::super::store::Store;
use super::super::wire::Garbled;
use super::super::{EngineError, random, scripts};
use crate::domain::{FeedId, Hook, HookId, HookKey, HookScope, HookState, Job, Millis, Reader};
use crate::engine::{HOOKS_OF_ALL_MAX, LISTED, READERS_MAX, Swapped};

/// What a node knows of a webhook of all feeds.
#[derive(Clone, Debug)]
pub(super) struct OfAll {
    name: HookId,
    since: i64,
    batch_ms: u64,
}

/// As it is stored: its version, a blank, and it as JSON.
fn stored(hook: &Hook) -> Result<String, EngineError> {
    let json = serde_json::to_string(hook).map_err(|_| Garbled("a webhook"))?;
    Ok(format!("{} {json}", hook.version))
}

fn read(text: &str) -> Result<Hook, Garbled> {
    let (_, json) = text.split_once(' ').ok_or(Garbled("a webhook"))?;
    serde_json::from_str(json).map_err(|_| Garbled("a webhook"))
}

/// Feeds that webhooks of all feeds are brought to at the same time.
const ATTACHED: usize = 16;

/// Whether it may have been disabled before, with entries that wait: not what is told of one that fails.
fn may_have_waited(hook: &Hook) -> bool {
    hook.state == HookState::Active && hook.last_error.is_none()
}

impl Store {
    /// Runs one command whose answer is of this kind.
    pub(in super::super) async fn get<T: FromRedisValue>(&self, cmd: &redis::Cmd) -> Result<T, EngineError> {
        let value = self.lane().command(cmd, self.options.call_timeout).await?;
        Ok(redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?)
    }

    /// Puts a name into a list of names.
    pub(super) async fn note(&self, key: &str, name: &str) -> Result<(), EngineError> {
        self.get(redis::cmd("ZADD").arg(key).arg(0).arg(name)).await
    }

    /// Takes it out again.
    pub(super) async fn unnote(&self, key: &str, name: &str) -> Result<(), EngineError> {
        self.get(redis::cmd("ZREM").arg(key).arg(name)).await
    }

    /// The first names in such a list.
    pub(super) async fn noted(&self, key: &str) -> Result<Vec<String>, EngineError> {
        self.get(redis::cmd("ZRANGE").arg(key).arg(0).arg(LISTED - 1)).await
    }

    fn hooks_key(&self, scope: &HookScope) -> String {
        match scope {
            HookScope::Feed(feed) => self.keys.hooks(feed),
            HookScope::All => self.keys.hooks_of_all()[0].clone(),
        }
    }

    pub(super) async fn hook(&self, key: &HookKey) -> Result<Option<Hook>, EngineError> {
        let text: Option<String> =
            self.get(redis::cmd("HGET").arg(self.hooks_key(&key.scope)).arg(key.name.as_str())).await?;
        Ok(text.as_deref().map(read).transpose()?)
    }

    pub(super) async fn hooks(&self) -> Result<Vec<(HookKey, Hook)>, EngineError> {
        let feeds = self.noted(&self.keys.hook_feeds()).await?;
        let feeds = feeds.iter().filter_map(|feed| feed.parse().ok()).map(HookScope::Feed);
        let scopes: Vec<HookScope> = [HookScope::All].into_iter().chain(feeds).collect();
        let mut pipe = redis::pipe();
        for scope in &scopes {
            pipe.cmd("HGETALL").arg(self.hooks_key(scope));
        }
        let replies = self.lane().commands(&pipe, self.options.call_timeout).await?;
        let mut all = Vec::new();
        for (scope, reply) in scopes.iter().zip(replies) {
            let texts: HashMap<String, String> =
                redis::from_redis_value(reply).map_err(|_| Garbled("webhooks"))?;
            for (name, text) in &texts {
                let name = name.parse().map_err(|_| Garbled("a webhook's name"))?;
                all.push((HookKey { scope: scope.clone(), name }, read(text)?));
            }
        }
        all.sort_by_cached_key(|(key, _)| (key.scope.to_string(), key.name.to_string()));
        all.truncate(LISTED);
        Ok(all)
    }

    pub(super) async fn swap_hook(
        &self,
        key: &HookKey,
        was: Option<u64>,
        mut to: Option<Hook>,
        now: Millis,
    ) -> Result<Swapped, EngineError> {
        if let (HookScope::All, None, Some(hook)) = (&key.scope, was, &mut to) {
            // By the clock that dates entries: by one that is ahead of it, the first of them would be left out.
            hook.since += self.time(now).await?.0 - now.0;
        }
        let was = was.map(|version| version.to_string()).unwrap_or_default();
        let text = to.as_ref().map(stored).transpose()?.unwrap_or_default();
        let reply = match &key.scope {
            HookScope::Feed(feed) => self.swap_in_feed(feed, key, &was, &text, to.as_ref(), now).await?,
            HookScope::All => self.swap_of_all(key, &was, &text, to.as_ref(), now).await?,
        };
        match reply.as_slice() {
            b"done" => Ok(Swapped::Done),
            b"stale" => Ok(Swapped::Stale),
            b"full" => Ok(Swapped::Full),
            _ => Err(Garbled("a reply").into()),
        }
    }

    async fn swap_in_feed(
        &self,
        feed: &FeedId,
        key: &HookKey,
        was: &str,
        text: &str,
        to: Option<&Hook>,
        now: Millis,
    ) -> Result<Vec<u8>, EngineError> {
        let (feeds, job) = (self.keys.hook_feeds(), Job { feed: feed.clone(), reader: key.reader() });
        if to.is_some() {
            self.note(&feeds, feed.as_str()).await?;
        }
        let mut keys = self.keys.reader(feed, &job.reader);
        keys.push(self.keys.hooks(feed));
        let mut cmd = self.timed(&scripts::REPORT_HOOK, &keys, Some(now));
        cmd.arg(job.reader.to_string()).arg(key.name.as_str()).arg(was).arg(text);
        cmd.arg(to.map_or(0, |hook| hook.spec.batch_ms)).arg(READERS_MAX).arg(random());
        scripts::REPORT_HOOK.check(&cmd, 0);
        let value = self.lane().script(&scripts::REPORT_HOOK, &cmd, self.options.call_timeout).await?;
        let reply: Vec<u8> = redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?;
        if reply == b"done" && to.is_some() {
            // Again: one that went at the same time may have taken the feed off the list.
            self.note(&feeds, feed.as_str()).await?;
            if !was.is_empty() && to.is_some_and(may_have_waited) {
                self.register_job(&job, 0, self.clock(Some(now))).await?;
            }
        }
        if reply == b"done" && to.is_none() {
            self.drop_job(&job).await?;
        }
        let left: u64 = self.get(redis::cmd("HLEN").arg(&keys[9])).await?;
        if left == 0 {
            self.unnote(&feeds, feed.as_str()).await?;
        }
        Ok(reply)
    }

    async fn swap_of_all(
        &self,
        key: &HookKey,
        was: &str,
        text: &str,
        to: Option<&Hook>,
        now: Millis,
    ) -> Result<Vec<u8>, EngineError> {
        let mut cmd = self.timed(&scripts::HOOKS_SWAP, &self.keys.hooks_of_all(), Some(now));
        cmd.arg(key.name.as_str()).arg(was).arg(text).arg(HOOKS_OF_ALL_MAX).arg(self.keys.job_wake());
        scripts::HOOKS_SWAP.check(&cmd, 0);
        let value = self.lane().script(&scripts::HOOKS_SWAP, &cmd, self.options.call_timeout).await?;
        let reply: Vec<u8> = redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?;
        if reply != b"done" {
            return Ok(reply);
        }
        self.refresh_hooks(now).await?;
        if text.is_empty() {
            let letters = self.keys.letter_feeds(&key.name);
            for feed in self.noted(&letters).await?.iter().filter_map(|feed| feed.parse().ok()) {
                self.forget(&feed, &key.reader(), now).await?;
            }
            let _: u64 = self.get(redis::cmd("DEL").arg(letters)).await?;
            self.drop_jobs_of(&key.reader()).await?;
        } else if !was.is_empty() && to.is_some_and(may_have_waited) {
            self.wake_feeds_of(key, now).await?;
        }
        Ok(reply)
    }

    /// The store's clock.
    async fn time(&self, now: Millis) -> Result<Millis, EngineError> {
        if let Some(now) = self.clock(Some(now)) {
            return Ok(now);
        }
        let (seconds, micros): (i64, i64) = self.get(&redis::cmd("TIME")).await?;
        Ok(Millis(seconds * 1_000 + micros / 1_000))
    }

    /// A webhook of all feeds may have been disabled, with entries that wait where it did not rest.
    async fn wake_feeds_of(&self, key: &HookKey, now: Millis) -> Result<(), EngineError> {
        for feed in self.reports.recent() {
            let job = Job { feed, reader: key.reader() };
            self.register_job(&job, 0, self.clock(Some(now))).await?;
        }
        Ok(())
    }

    /// Forgets a reader with all it has; false when it did not read there.
    pub(super) async fn forget(
        &self,
        feed: &FeedId,
        reader: &Reader,
        now: Millis,
    ) -> Result<bool, EngineError> {
        let mut cmd = self.timed(&scripts::REPORT_FORGET, &self.keys.reader(feed, reader), Some(now));
        cmd.arg(reader.to_string());
        scripts::REPORT_FORGET.check(&cmd, 0);
        let value = self.lane().script(&scripts::REPORT_FORGET, &cmd, self.options.call_timeout).await?;
        let was: u64 = redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?;
        Ok(was == 1)
    }

    /// Learns which webhooks of all feeds there are. Feeds that this node appended to lately, perhaps without
    /// knowing of one, get to know them at once.
    pub(in super::super) async fn refresh_hooks(&self, now: Millis) -> Result<(), EngineError> {
        let [all, version] = self.keys.hooks_of_all();
        let version: Option<u64> = self.get(redis::cmd("GET").arg(version)).await?;
        let version = version.unwrap_or(0);
        if version == self.reports.version() {
            return Ok(());
        }
        // Read after the version: a newer set under an older version is brought to feeds again later.
        let texts: HashMap<String, String> = self.get(redis::cmd("HGETALL").arg(all)).await?;
        let mut hooks = Vec::with_capacity(texts.len());
        for (name, text) in &texts {
            let hook = read(text)?;
            let name = name.parse().map_err(|_| Garbled("a webhook's name"))?;
            hooks.push(OfAll { name, since: hook.since, batch_ms: hook.spec.batch_ms });
        }
        let (before, now) = (self.reports.of_all(), self.clock(Some(now)));
        self.reports.learn(version, hooks);
        let recent = stream::iter(self.reports.recent());
        let attached =
            recent.map(Ok).try_for_each_concurrent(ATTACHED, async |feed| self.attach(&feed, "", now).await);
        // What is left is found by the next look, which learns all of it anew.
        attached.await.inspect_err(|_| self.reports.learn(before.0, before.1))
    }

    /// A webhook that does not read a feed though it should, because the store lost that (an eviction), begins
    /// again there. False when it is right that it does not.
    pub(super) async fn read_again(&self, job: &Job, now: Millis) -> Result<bool, EngineError> {
        match &job.reader {
            Reader::Group(_) => return Ok(false),
            Reader::HookOfAll(name) => {
                if !self.reports.of_all().1.iter().any(|hook| hook.name == *name) {
                    return Ok(false);
                }
                self.attach(&job.feed, "again", self.clock(Some(now))).await?;
            }
            Reader::Hook(name) => {
                let key = HookKey { scope: HookScope::Feed(job.feed.clone()), name: name.clone() };
                let Some(hook) = self.hook(&key).await? else { return Ok(false) };
                let was = Some(hook.version);
                self.swap_hook(&key, was, Some(hook), now).await?;
            }
        }
        tracing::warn!(feed = %job.feed, reader = %job.reader, "the store lost how far a webhook was; it begins again");
        Ok(true)
    }

    /// Brings the webhooks of all feeds to one feed; `again` also when they were.
    pub(super) async fn attach(
        &self,
        feed: &FeedId,
        again: &str,
        now: Option<Millis>,
    ) -> Result<(), EngineError> {
        let (version, hooks) = self.reports.of_all();
        let mut cmd = self.timed(&scripts::REPORT_ATTACH, &self.keys.ledger(feed), now);
        cmd.arg(version).arg(self.options.reports.ledger_max).arg(random()).arg(again);
        for hook in &hooks {
            cmd.arg(Reader::HookOfAll(hook.name.clone()).to_string()).arg(hook.since).arg(hook.batch_ms);
        }
        let reply = self.ask(&scripts::REPORT_ATTACH, &cmd, hooks.len()).await?;
        let gone: usize = number(reply.get(1)).ok_or(Garbled("a reply"))?;
        for (at, name) in reply.iter().skip(2).enumerate() {
            let name = String::from_utf8_lossy(name);
            let reader: Reader = name.parse().map_err(|_| Garbled("a reader's name"))?;
            if at < gone {
                let own = &self.keys.reader(feed, &reader)[3..];
                let _: u64 = self.get(redis::cmd("DEL").arg(own)).await?;
            } else {
                let batch_ms = hooks.iter().find(|hook| name.strip_prefix("*:") == Some(hook.name.as_str()));
                let batch_ms = batch_ms.map_or(0, |hook| hook.batch_ms);
                self.register_job(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
            }
        }
        Ok(())
    }
}
