//! Ledgers on their way to webhooks: what endpoints answer and what comes of it, fair turns, lost nodes.

mod answers;
mod batches;
mod other_language;
mod outages;
mod survival;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tipcast::domain::{
    DeadLetter, Delivery, FeedId, Hook, HookKey, HookScope, HookSpec, HookState, Millis, PolicyPatch,
};
use tipcast::engine::{PolicyChange, Store, Swapped};
use tipcast::metrics::Metrics;
use tipcast::work::reports::{ReportLoop, ReportOptions};
use tokio::time::{Instant, sleep};

use crate::support::case::PATIENCE;
use crate::support::gifts::{GiftSpec, gift};
use crate::support::receiver::{Receiver, SECRET};
use crate::support::stores::Storage;

/// Runs each test, an `async fn(Storage)`, on a folder and on Redis.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod on_a_folder {
            $(#[tokio::test] async fn $test() { super::$test($crate::support::stores::Storage::embedded()).await })+
        }
        mod on_redis {
            $(#[tokio::test] async fn $test() { super::$test($crate::support::stores::Storage::redis()).await })+
        }
    };
}
use on_both;

/// A node: its engine and its loop.
struct Node {
    engine: Store,
    metrics: Arc<Metrics>,
    _loop: ReportLoop,
}

impl Node {
    async fn on(store: &Storage) -> Node {
        Node::with(store, |_| ()).await
    }

    async fn with(store: &Storage, change: impl FnOnce(&mut ReportOptions)) -> Node {
        let (engine, metrics) = (store.open_store().await, Arc::new(Metrics::default()));
        let mut options = ReportOptions { allow_private: true, ..ReportOptions::default() };
        change(&mut options);
        let report_loop =
            ReportLoop::start(engine.clone(), metrics.clone(), Arc::default(), options, &Default::default())
                .unwrap();
        Node { engine, metrics, _loop: report_loop }
    }

    /// A line of `/metrics`.
    fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.to_prometheus().unwrap();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.unwrap_or_else(|| panic!("no {name}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Gives these gifts, each of its own user, to a feed, in order.
    async fn give(&self, feed: &str, ids: &[String]) {
        for part in ids.chunks(100) {
            let gifts = part.iter().map(|id| GiftSpec::parse(&gift(id).by(id))).collect();
            self.engine.publish(&named(feed), gifts, Millis::now()).await.unwrap();
        }
    }

    async fn hook(&self, key: &HookKey) -> Hook {
        self.engine.read_webhook(key).await.unwrap().unwrap()
    }

    /// Waits until a webhook is as it should be.
    async fn wait_for_hook(&self, key: &HookKey, what: &str, wanted: impl Fn(&Hook) -> bool) -> Hook {
        let since = Instant::now();
        loop {
            let hook = self.hook(key).await;
            if wanted(&hook) {
                return hook;
            }
            assert!(since.elapsed() < 3 * PATIENCE, "{what}: {hook:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for this number of dead letters.
    async fn wait_for_dead(&self, feed: &str, key: &HookKey, count: usize) -> Vec<DeadLetter> {
        let since = Instant::now();
        loop {
            let dead = self.engine.list_dead_letters(&named(feed), &key.reader(), 0, 100_000).await.unwrap();
            if dead.len() == count {
                return dead;
            }
            assert!(since.elapsed() < 3 * PATIENCE, "dead: {dead:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn named(feed: &str) -> FeedId {
    feed.parse().unwrap()
}

fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

fn key(feed: &str, name: &str) -> HookKey {
    let scope = if feed == "*" { HookScope::All } else { HookScope::Feed(named(feed)) };
    HookKey { scope, name: name.parse().unwrap() }
}

fn spec(url: String) -> HookSpec {
    HookSpec {
        url,
        secret: SECRET.into(),
        batch_max: 128,
        batch_ms: 20,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    }
}

/// Sets a webhook, new or not.
async fn set(engine: &Store, key: &HookKey, spec: HookSpec) {
    let (known, now) = (engine.read_webhook(key).await.unwrap(), Millis::now());
    let to = match &known {
        None => Hook::new(spec, now),
        Some(hook) => hook.set(spec, 60_000, now),
    };
    let swapped = engine.swap_webhook(key, known.map(|hook| hook.version), Some(to), now).await.unwrap();
    assert_eq!(swapped, Swapped::Done);
}

/// Every gift a row of its own.
async fn roomy(engine: &Store, feed: &str) {
    let raw = serde_json::value::to_raw_value(&json!({"dedup": "off"})).unwrap();
    let patch = PolicyPatch::parse(&raw).unwrap();
    engine.set_policy(&named(feed), &PolicyChange::Merge(patch), Millis::now()).await.unwrap();
}

/// A node with a webhook of the feed `show` at this endpoint.
async fn one_hook(store: &Storage, receiver: &Receiver, batch_max: u64) -> (Node, HookKey) {
    let node = Node::on(store).await;
    let key = set_hook(&node, receiver, batch_max).await;
    (node, key)
}

async fn set_hook(node: &Node, receiver: &Receiver, batch_max: u64) -> HookKey {
    let key = key("show", "game");
    roomy(&node.engine, "show").await;
    set(&node.engine, &key, HookSpec { batch_max, ..spec(receiver.url("game")) }).await;
    key
}

/// Waits until the webhook is active again and has nothing left to send.
fn is_fine(hook: &Hook) -> bool {
    hook.state == HookState::Active && hook.last_error.is_none() && hook.failing_since.is_none()
}
