//! Bringing the webhooks of all feeds to a feed, and what this process knows of them. They are in a slot of their own;
//! a feed learns of them with its next entry: an append names the version of their set that its node
//! knows, and `report_attach` copies them there.
//!
//! In a cluster every shard has a copy of the set, and every node remembers it: while the shard that has that slot is away,
//! feeds of other shards are delivered as before, also by nodes that have just started.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use redis::FromRedisValue;

use crate::domain::{FeedId, Hook, HookId, Job, Millis, Reader};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{Part, SharedIndex};
use crate::engine::protocol::scripts;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::reports::index::JobIndex;
use crate::engine::store::reports::stored::{READER_KEYS, read_hook, stored_hook};
use crate::engine::store::runner::{Runner, needed};

/// Feeds of which it is remembered that this node appended to them lately.
const MAX_RECENT_FEEDS: usize = 4096;

/// How long that is. Nodes learn of a new webhook of all feeds well within this.
const RECENT_TIME: Duration = Duration::from_secs(60);

/// Feeds that webhooks of all feeds are brought to at the same time.
const ATTACHED: usize = 16;

/// The webhooks of all feeds, as this node knows them.
#[derive(Clone, Default)]
struct HooksOfAll {
    /// The version of their set; 0 without any, and before it was read.
    version: u64,
    hooks: HashMap<HookId, Hook>,
    was_read: bool,
    /// Moves with every change of the above.
    revision: u64,
}

/// The webhooks of all feeds, as this process knows them, and how feeds get them.
pub struct Attaching {
    runner: Arc<Runner>,
    pub jobs: Arc<JobIndex>,
    of_all: Mutex<HooksOfAll>,
    /// Which revision was copied to which shard.
    copied: Mutex<HashMap<Part, u64>>,
    recent: Mutex<HashMap<FeedId, Instant>>,
    /// Feeds that the set is still to be brought to, because their shard did not answer.
    missed: Mutex<HashSet<FeedId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attaching {
    pub fn new(runner: Arc<Runner>, jobs: Arc<JobIndex>) -> Attaching {
        let (of_all, copied, recent) = (Mutex::default(), Mutex::default(), Mutex::default());
        Attaching { runner, jobs, of_all, copied, recent, missed: Mutex::default() }
    }

    /// The version of the set of webhooks of all feeds; 0 without any.
    pub fn version(&self) -> u64 {
        lock(&self.of_all).version
    }

    /// The webhook of all feeds of this name, as far as is known.
    pub fn known(&self, name: &HookId) -> Option<Hook> {
        lock(&self.of_all).hooks.get(name).cloned()
    }

    /// This is how a webhook of all feeds is stored now.
    pub fn learn(&self, name: &HookId, hook: &Hook) {
        let mut of_all = lock(&self.of_all);
        let Some(known) = of_all.hooks.get_mut(name).filter(|known| known.version < hook.version) else {
            return;
        };
        *known = hook.clone();
        of_all.revision += 1;
    }

    /// This node appended to the feed's ledger.
    pub fn appended(&self, feed: &FeedId) {
        let (mut recent, now) = (lock(&self.recent), Instant::now());
        if let Some(at) = recent.get_mut(feed) {
            *at = now;
            return;
        }
        if recent.len() >= MAX_RECENT_FEEDS {
            recent.retain(|_, at| now.duration_since(*at) < RECENT_TIME);
        }
        if recent.len() < MAX_RECENT_FEEDS {
            recent.insert(feed.clone(), now);
        }
    }

    /// Feeds that this node appended to lately.
    pub fn recent(&self) -> Vec<FeedId> {
        let mut recent = lock(&self.recent);
        recent.retain(|_, at| at.elapsed() < RECENT_TIME);
        recent.keys().cloned().collect()
    }

    /// Learns which webhooks of all feeds there are. Feeds that this node appended to lately, perhaps without
    /// knowing of one, get to know them at once.
    pub async fn refresh(&self, now: Millis) -> Result<(), Fault> {
        let (version, was_read) = {
            let of_all = lock(&self.of_all);
            (of_all.version, of_all.was_read)
        };
        let read = self.read_set(&self.runner.keys.hooks_of_all(), version).await;
        let (set, fault) = match read {
            Ok(set) => (set, None),
            Err(fault) if was_read => (None, Some(fault)),
            Err(fault) => (self.newest_copy().await, Some(fault)),
        };
        let clock = self.runner.clock(Some(now));
        let mut feeds = std::mem::take(&mut *lock(&self.missed));
        if let Some((version, hooks)) = set {
            let mut of_all = lock(&self.of_all);
            let revision = of_all.revision + 1;
            *of_all = HooksOfAll { version, hooks, was_read: true, revision };
            feeds.extend(self.recent());
        } else if fault.is_none() {
            lock(&self.of_all).was_read = true;
        }
        let attach = async |feed: FeedId| (self.attach(&feed, "", clock).await.is_err(), feed);
        let attached: Vec<_> = stream::iter(feeds).map(attach).buffer_unordered(ATTACHED).collect().await;
        lock(&self.missed).extend(attached.into_iter().filter(|(failed, _)| *failed).map(|(_, feed)| feed));
        match fault {
            Some(fault) => Err(fault),
            None => {
                self.copy().await;
                Ok(())
            }
        }
    }

    async fn get<T: FromRedisValue>(&self, key: &str, command: &redis::Cmd) -> Result<T, Fault> {
        let value = self.runner.backend.command(key, command, self.runner.part_timeout()).await?;
        redis::from_redis_value(value).map_err(|_| Corrupt("the webhooks of all feeds").into())
    }

    /// The version of the set under these keys, and the set; `None` when the version is the one that is known.
    async fn read_set(
        &self,
        [all, version]: &[String; 2],
        known: u64,
    ) -> Result<Option<(u64, HashMap<HookId, Hook>)>, Fault> {
        let stored: Option<u64> = self.get(version, redis::cmd("GET").arg(version)).await?;
        let stored = stored.unwrap_or(0);
        if stored == known {
            return Ok(None);
        }
        // Read after the version: a newer set under an older version is brought to feeds again later.
        let texts: HashMap<String, String> = self.get(all, redis::cmd("HGETALL").arg(all)).await?;
        let mut hooks = HashMap::with_capacity(texts.len());
        for (name, text) in &texts {
            hooks.insert(name.parse().map_err(|_| Corrupt("a webhook's name"))?, read_hook(text)?);
        }
        Ok(Some((stored, hooks)))
    }

    /// The shards that keep a copy: none but in a cluster.
    pub fn copies(&self) -> Vec<Part> {
        let parts = self.runner.parts(SharedIndex::Hooks).into_iter();
        parts.filter(|part| matches!(part, Part::Slot(_))).collect()
    }

    /// What the shards that answer have as a copy, the newest of it.
    async fn newest_copy(&self) -> Option<(u64, HashMap<HookId, Hook>)> {
        let keys: Vec<_> = self.copies().into_iter().map(|part| self.runner.keys.hooks_copy(part)).collect();
        let copies = join_all(keys.iter().map(|keys| self.read_set(keys, 0))).await;
        let mut newest: Option<(u64, HashMap<HookId, Hook>)> = None;
        for (version, hooks) in copies.into_iter().filter_map(|copy| copy.ok().flatten()) {
            match &mut newest {
                Some((known, all)) if *known == version => {
                    for (name, hook) in hooks {
                        let known = all.entry(name).or_insert_with(|| hook.clone());
                        if known.version < hook.version {
                            *known = hook;
                        }
                    }
                }
                Some((known, _)) if *known > version => {}
                _ => newest = Some((version, hooks)),
            }
        }
        newest
    }

    /// Brings the set to the shards that do not have it as it is now, as far as they answer.
    pub async fn copy(&self) {
        let HooksOfAll { version, hooks, revision, .. } = lock(&self.of_all).clone();
        let parts: Vec<Part> = {
            let copied = lock(&self.copied);
            self.copies().into_iter().filter(|part| copied.get(part) != Some(&revision)).collect()
        };
        if version == 0 {
            return;
        }
        let copies = parts.into_iter().map(async |part| {
            let [all, version_key] = self.runner.keys.hooks_copy(part);
            if !self.runner.backend.is_up(&all) {
                return;
            }
            let mut call = scripts::Call::of(&scripts::HOOKS_COPY);
            call.keys([("all", all), ("version", version_key)]).arg("version", version);
            for (name, hook) in &hooks {
                let Ok(text) = stored_hook(hook) else { return };
                call.item([], [("name", name.to_string()), ("webhook", text)]);
            }
            match self.runner.run_within::<u64>(&call, self.runner.part_timeout()).await {
                Ok(_) => drop(lock(&self.copied).insert(part, revision)),
                Err(fault) => {
                    tracing::debug!(why = fault.why, "a shard has no copy of the webhooks of all feeds")
                }
            }
        });
        join_all(copies).await;
    }

    /// Brings the webhooks of all feeds to one feed; `again` also when they were.
    pub async fn attach(&self, feed: &FeedId, again: &str, now: Option<Millis>) -> Result<(), Fault> {
        let HooksOfAll { version, hooks, .. } = lock(&self.of_all).clone();
        let [ledger, reports, readers] = self.runner.keys.ledger(feed);
        let mut call = self.runner.timed(&scripts::REPORT_ATTACH, now);
        call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
        call.arg("hooks_version", version).arg("ledger_max", self.runner.options.reports.ledger_max);
        call.arg("stamp", random()).arg("again", again);
        for (name, hook) in &hooks {
            let reader = Reader::HookOfAll(name.clone()).to_string();
            let (since, gathers) = (hook.since.to_string(), hook.spec.batch_ms.to_string());
            call.item([], [("reader", reader), ("since", since), ("gathers", gathers)]);
        }
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await?;
        let gone: usize = needed(reply.get(1))?;
        for (at, name) in reply.iter().skip(2).enumerate() {
            let name = String::from_utf8_lossy(name);
            let reader: Reader = name.parse().map_err(|_| Corrupt("a reader's name"))?;
            if at < gone {
                let own = READER_KEYS.map(|what| self.runner.keys.of_reader(feed, what, &reader));
                let _: u64 = self.runner.get(&own[0], redis::cmd("DEL").arg(&own)).await?;
            } else {
                let hook = hooks.iter().find(|(hook, _)| name.strip_prefix("*:") == Some(hook.as_str()));
                let batch_ms = hook.map_or(0, |(_, hook)| hook.spec.batch_ms);
                self.jobs.register(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
            }
        }
        Ok(())
    }

    /// Makes webhooks jobs that rest or doze; `idle` names them as `reports` does.
    pub async fn register_idle(&self, feed: &FeedId, idle: &str, now: Option<Millis>) -> Result<(), Fault> {
        for one in idle.split(';') {
            let [reader, batch_ms, _] = one.split(',').collect::<Vec<_>>()[..] else {
                return Err(Corrupt("a webhook that rests").into());
            };
            let reader: Reader = reader.parse().map_err(|_| Corrupt("a reader's name"))?;
            let batch_ms = batch_ms.parse().map_err(|_| Corrupt("a webhook that rests"))?;
            self.jobs.register(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
        }
        Ok(())
    }
}
