//! What happens by itself when its time has come: the loop, more than one node, a store that goes away.

pub mod entries;
mod nodes;
mod outages;
mod showing;
mod steps;

use std::time::Duration;

use serde_json::json;
use tipcast::domain::{FeedId, Millis, Outcome, PolicyPatch};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Engine, PolicyChange, Publish, ReadHeads, ReadSnapshot, SetPolicy};
use tokio::time::{Instant, sleep};

use crate::support::case::{PATIENCE, head_of};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::stores::Corner;

/// A gift of its own user, shown so much later.
fn later(id: &str, ms: u64) -> GiftSpec {
    gift(id).by(id).with("delay_ms", json!(ms))
}

fn feed() -> FeedId {
    "show".parse().unwrap()
}

/// A node's engine without its loop.
async fn node(corner: &Corner) -> Engine {
    node_with(corner, |_| ()).await
}

async fn node_with(corner: &Corner, change: impl FnOnce(&mut StoreOptions)) -> Engine {
    let mut options =
        StoreOptions { prefix: corner.prefix.clone(), ..StoreOptions::new(corner.server.url()) };
    change(&mut options);
    Engine::redis(options).await.unwrap()
}

/// Every gift a row, and all of them in the list.
async fn roomy(engine: &Engine) {
    let raw = serde_json::value::to_raw_value(&json!({"capacity": 100, "dedup": "off"})).unwrap();
    let patch = PolicyPatch::parse(&raw).unwrap();
    engine
        .run(SetPolicy { feed: feed(), change: PolicyChange::Merge(patch), now: Millis::now() })
        .await
        .unwrap();
}

async fn schedule(engine: &Engine, gifts: &[GiftSpec]) {
    for part in gifts.chunks(100) {
        let gifts = part.iter().map(GiftSpec::parse).collect();
        for outcome in engine.run(Publish { feed: feed(), gifts, now: Millis::now() }).await.unwrap() {
            assert!(matches!(outcome, Outcome::Scheduled(_)), "{outcome:?}");
        }
    }
}

/// The users of the list, oldest first: whose gifts were shown, in order.
async fn shown(engine: &Engine) -> Vec<String> {
    let rows = engine.run(ReadSnapshot { feed: feed(), now: Millis::now() }).await.unwrap().rows;
    let user = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json).unwrap()["id"].as_str().unwrap().to_owned()
    };
    rows.iter().rev().map(|row| user(&row.user)).collect()
}

/// Waits until so many changes were made; how long that took.
async fn wait_for_seq(engine: &Engine, seq: u64) -> Duration {
    let since = Instant::now();
    loop {
        if let Ok(head) = head_of(engine, &feed()).await
            && head.at.seq >= seq
        {
            assert_eq!(head.at.seq, seq, "once each");
            return since.elapsed();
        }
        assert!(
            since.elapsed() < 2 * PATIENCE,
            "not all is shown: {:?}",
            engine.run(ReadHeads { feeds: vec![feed()] }).await
        );
        sleep(Duration::from_millis(5)).await;
    }
}
