//! Bringing the webhooks of all feeds to a feed, and what this process knows of them. They are in a slot of their own;
//! a feed gets to know of them with its next entry: whoever appends names the version of their set that its node
//! knows, and `report_attach` brings them there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::super::net::faults::Fault;
use super::super::runner::{Runner, needed};
use super::super::scripts;
use super::super::tags::random;
use super::super::wire::Garbled;
use super::index::JobIndex;
use super::stored::{READER_KEYS, read_hook};
use crate::domain::{FeedId, HookId, Job, Millis, Reader};

/// Feeds of which it is remembered that this node appended to them lately.
const RECENT: usize = 4096;

/// How long that is. Nodes learn of a new webhook of all feeds well within this.
const LATELY: Duration = Duration::from_secs(60);

/// Feeds that webhooks of all feeds are brought to at the same time.
const ATTACHED: usize = 16;

/// What a node knows of a webhook of all feeds.
#[derive(Clone, Debug)]
struct OfAll {
    name: HookId,
    since: i64,
    batch_ms: u64,
}

/// See the module.
pub struct Attaching {
    runner: Arc<Runner>,
    pub jobs: Arc<JobIndex>,
    /// The version of their set, and they.
    of_all: Mutex<(u64, Vec<OfAll>)>,
    recent: Mutex<HashMap<FeedId, Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attaching {
    pub fn new(runner: Arc<Runner>, jobs: Arc<JobIndex>) -> Attaching {
        Attaching { runner, jobs, of_all: Mutex::default(), recent: Mutex::default() }
    }

    /// The version of the set of webhooks of all feeds; 0 without any.
    pub fn version(&self) -> u64 {
        lock(&self.of_all).0
    }

    /// Whether there is a webhook of all feeds of this name, as far as is known.
    pub fn knows(&self, name: &HookId) -> bool {
        lock(&self.of_all).1.iter().any(|hook| hook.name == *name)
    }

    /// This node appended to the feed's ledger.
    pub fn appended(&self, feed: &FeedId) {
        let (mut recent, now) = (lock(&self.recent), Instant::now());
        if let Some(at) = recent.get_mut(feed) {
            *at = now;
            return;
        }
        if recent.len() >= RECENT {
            recent.retain(|_, at| now.duration_since(*at) < LATELY);
        }
        if recent.len() < RECENT {
            recent.insert(feed.clone(), now);
        }
    }

    /// Feeds that this node appended to lately.
    pub fn recent(&self) -> Vec<FeedId> {
        let mut recent = lock(&self.recent);
        recent.retain(|_, at| at.elapsed() < LATELY);
        recent.keys().cloned().collect()
    }

    /// Learns which webhooks of all feeds there are. Feeds that this node appended to lately, perhaps without
    /// knowing of one, get to know them at once.
    pub async fn refresh(&self, now: Millis) -> Result<(), Fault> {
        let [all, version] = self.runner.keys.hooks_of_all();
        let version: Option<u64> = self.runner.get(&version, redis::cmd("GET").arg(&version)).await?;
        let version = version.unwrap_or(0);
        if version == self.version() {
            return Ok(());
        }
        // Read after the version: a newer set under an older version is brought to feeds again later.
        let texts: HashMap<String, String> = self.runner.get(&all, redis::cmd("HGETALL").arg(&all)).await?;
        let mut hooks = Vec::with_capacity(texts.len());
        for (name, text) in &texts {
            let hook = read_hook(text)?;
            let name = name.parse().map_err(|_| Garbled("a webhook's name"))?;
            hooks.push(OfAll { name, since: hook.since, batch_ms: hook.spec.batch_ms });
        }
        let (before, now) = (lock(&self.of_all).clone(), self.runner.clock(Some(now)));
        *lock(&self.of_all) = (version, hooks);
        let recent = stream::iter(self.recent());
        let attached =
            recent.map(Ok).try_for_each_concurrent(ATTACHED, async |feed| self.attach(&feed, "", now).await);
        // What is left is found by the next look, which learns all of it anew.
        attached.await.inspect_err(|_| *lock(&self.of_all) = before)
    }

    /// Brings the webhooks of all feeds to one feed; `again` also when they were.
    pub async fn attach(&self, feed: &FeedId, again: &str, now: Option<Millis>) -> Result<(), Fault> {
        let (version, hooks) = lock(&self.of_all).clone();
        let [ledger, reports, readers] = self.runner.keys.ledger(feed);
        let mut call = self.runner.timed(&scripts::REPORT_ATTACH, now);
        call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
        call.arg("hooks version", version).arg("ledger max", self.runner.options.reports.ledger_max);
        call.arg("stamp", random()).arg("again", again);
        for hook in &hooks {
            let reader = Reader::HookOfAll(hook.name.clone()).to_string();
            let (since, gathers) = (hook.since.to_string(), hook.batch_ms.to_string());
            call.item([], [("reader", reader), ("since", since), ("gathers", gathers)]);
        }
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await?;
        let gone: usize = needed(reply.get(1))?;
        for (at, name) in reply.iter().skip(2).enumerate() {
            let name = String::from_utf8_lossy(name);
            let reader: Reader = name.parse().map_err(|_| Garbled("a reader's name"))?;
            if at < gone {
                let own = READER_KEYS.map(|what| self.runner.keys.of_reader(feed, what, &reader));
                let _: u64 = self.runner.get(&own[0], redis::cmd("DEL").arg(&own)).await?;
            } else {
                let batch_ms = hooks.iter().find(|hook| name.strip_prefix("*:") == Some(hook.name.as_str()));
                let batch_ms = batch_ms.map_or(0, |hook| hook.batch_ms);
                self.jobs.register(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
            }
        }
        Ok(())
    }

    /// Makes webhooks jobs that rest or doze; `idle` names them as `reports` does.
    pub async fn register_idle(&self, feed: &FeedId, idle: &str, now: Option<Millis>) -> Result<(), Fault> {
        for one in idle.split(';') {
            let [reader, batch_ms, _] = one.split(',').collect::<Vec<_>>()[..] else {
                return Err(Garbled("a webhook that rests").into());
            };
            let reader: Reader = reader.parse().map_err(|_| Garbled("a reader's name"))?;
            let batch_ms = batch_ms.parse().map_err(|_| Garbled("a webhook that rests"))?;
            self.jobs.register(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
        }
        Ok(())
    }
}
