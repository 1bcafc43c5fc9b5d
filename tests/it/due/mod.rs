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
use tipcast::engine::{PolicyChange, Store};
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
async fn node(corner: &Corner) -> Store {
    node_with(corner, |_| ()).await
}

async fn node_with(corner: &Corner, change: impl FnOnce(&mut StoreOptions)) -> Store {
    let mut options =
        StoreOptions { prefix: corner.prefix.clone(), ..StoreOptions::new(corner.server.url()) };
    change(&mut options);
    Store::redis(options).await.unwrap()
}

/// Every gift a row, and all of them in the list.
async fn roomy(engine: &Store) {
    let raw = serde_json::value::to_raw_value(&json!({"capacity": 100, "dedup": "off"})).unwrap();
    let patch = PolicyPatch::parse(&raw).unwrap();
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), Millis::now()).await.unwrap();
}

async fn schedule(engine: &Store, gifts: &[GiftSpec]) {
    for part in gifts.chunks(100) {
        let gifts = part.iter().map(GiftSpec::parse).collect();
        for outcome in engine.publish(&feed(), gifts, Millis::now()).await.unwrap() {
            assert!(matches!(outcome, Outcome::Scheduled(_)), "{outcome:?}");
        }
    }
}

/// The users of the list, oldest first: whose gifts were shown, in order.
async fn shown(engine: &Store) -> Vec<String> {
    let rows = engine.read_snapshot(&feed(), Millis::now()).await.unwrap().rows;
    let user = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json).unwrap()["id"].as_str().unwrap().to_owned()
    };
    rows.iter().rev().map(|row| user(&row.user)).collect()
}

/// Waits until this number of changes were made; how long that took.
async fn wait_for_seq(engine: &Store, seq: u64) -> Duration {
    let since = Instant::now();
    loop {
        if let Ok(head) = head_of(engine, &feed()).await
            && head.at.seq >= seq
        {
            assert_eq!(head.at.seq, seq, "once each");
            return since.elapsed();
        }
        assert!(since.elapsed() < 2 * PATIENCE, "not all is shown: {:?}", engine.read_heads(&[feed()]).await);
        sleep(Duration::from_millis(5)).await;
    }
}
