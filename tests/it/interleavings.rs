//! Any interleaving of posting, batches, retracting, policies, reconnecting and slow reading gives
//! every watcher the same list, and none ever sees a fault. `TIPCAST_SEED` plays one seed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::sse::SseWatcher;
use crate::support::watcher::Watcher;

const PRODUCERS: u64 = 3;
const CALLS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_of_one_node_on_a_folder_ends_with_the_list() {
    for seed in seeds(0..6) {
        play(seed, &[TestApp::on(&Backing::folder()).await]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_of_one_node_on_redis_ends_with_the_list() {
    for seed in seeds(20..26) {
        play(seed, &[TestApp::on(&Backing::redis()).await]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_of_two_nodes_on_one_redis_ends_with_the_list() {
    for seed in seeds(40..46) {
        let backing = Backing::redis();
        play(seed, &[TestApp::on(&backing).await, TestApp::on(&backing).await]).await;
    }
}

async fn play(seed: u64, nodes: &[TestApp]) {
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let apis: Vec<Api> = nodes.iter().map(|node| Api::clone(node)).collect();
    let done = Arc::new(AtomicBool::new(false));
    let mut watchers = vec![];
    for n in 0..6 {
        let (dice, apis, done) = (dice.split(), apis.clone(), done.clone());
        watchers.push(match n {
            0 => tokio::spawn(steady(apis, done)),
            1 => tokio::spawn(over_sse(dice, apis, done)),
            2 => tokio::spawn(among_many(apis, done)),
            3 => tokio::spawn(slow(dice, apis, done)),
            _ => tokio::spawn(restless(dice, apis, done)),
        });
    }
    let producers = (0..PRODUCERS).map(|p| tokio::spawn(produce(p, dice.split(), apis.clone())));
    for producer in producers.collect::<Vec<_>>() {
        producer.await.unwrap();
    }
    // So that what is compared stands still.
    apis[0].patch_policy("show", json!({"row_ttl_ms": 0, "flush_ms": 10})).await;
    done.store(true, Ordering::Release);
    for watcher in watchers {
        let ended = timeout(Duration::from_secs(30), watcher).await;
        ended.unwrap_or_else(|_| panic!("seed {seed}: a watcher does not end")).unwrap();
    }
}

async fn produce(producer: u64, mut dice: Dice, apis: Vec<Api>) {
    for n in 0..CALLS {
        let api = dice.of(&apis);
        let spec = |dice: &mut Dice, k: u64| {
            let mut spec = gift(&format!("p{producer}-{n}-{k}"));
            spec = spec.by(dice.of(&["ann", "bob", "eve", "a:b"])).kind(dice.of(&["rose", "lion"]));
            if dice.one_in(3) {
                spec = spec.value(dice.below(1_000), dice.of(&["EUR", "USD"]));
            }
            if dice.one_in(4) {
                spec = spec.combo(dice.of(&["c", "d"]), dice.below(20) as u32);
            }
            if dice.one_in(5) {
                spec = spec.with("message", json!("\u{1F339}".repeat(dice.below(100) as usize)));
            }
            spec
        };
        match dice.below(12) {
            0..=5 => drop(api.give("show", &spec(&mut dice, 0)).await),
            6..=7 => {
                let gifts: Vec<_> = (0..1 + dice.below(40)).map(|k| spec(&mut dice, k).json()).collect();
                assert_eq!(api.post_batch("show", &gifts).await.status, 200);
            }
            8 => {
                let feed = api.get_feed("show").await;
                let rows = feed["rows"].as_array().unwrap();
                if !rows.is_empty() {
                    let row = dice.of(rows)["row"].as_str().unwrap().to_owned();
                    let said = api.retract("show", &row).await;
                    assert!(matches!(said.status, 200 | 404), "{said:?}");
                }
            }
            9 => drop(api.patch_policy("show", random_policy(&mut dice)).await),
            10 => assert_eq!(api.put_policy("show", random_policy(&mut dice)).await.status, 200),
            // Let the feed become quiet now and then.
            _ => sleep(Duration::from_millis(dice.below(60))).await,
        }
    }
}

fn random_policy(dice: &mut Dice) -> Value {
    json!({
        "capacity": dice.of(&[1, 2, 5, 10, 10, 30]),
        "dedup": dice.of(&["combine", "drop", "off", "off"]),
        "dedup_window_ms": dice.of(&[0, 20, 5_000]),
        "row_ttl_ms": dice.of(&[0, 0, 1_000]),
        "flush_ms": dice.of(&[0, 5, 50]),
        "history": dice.of(&[0, 10, 1_000, 1_000]),
    })
}

/// Reads as fast as it can.
async fn steady(apis: Vec<Api>, done: Arc<AtomicBool>) {
    let mut watcher = Watcher::open(&apis[0], "show").await;
    while !done.load(Ordering::Acquire) {
        let _ = timeout(Duration::from_millis(20), watcher.step()).await;
    }
    watcher.wait_for_the_list().await;
}

/// Leaves and comes again, on any node.
async fn restless(mut dice: Dice, apis: Vec<Api>, done: Arc<AtomicBool>) {
    let mut watcher = Watcher::open(&dice.of(&apis), "show").await;
    while !done.load(Ordering::Acquire) {
        for _ in 0..dice.below(8) {
            let _ = timeout(Duration::from_millis(dice.below(30)), watcher.step()).await;
        }
        if dice.one_in(2) {
            watcher.disconnect();
            sleep(Duration::from_millis(dice.below(40))).await;
            watcher.api = dice.of(&apis);
            watcher.reconnect().await;
        }
    }
    watcher.wait_for_the_list().await;
}

/// Sleeps between frames, and holds few bytes.
async fn slow(mut dice: Dice, apis: Vec<Api>, done: Arc<AtomicBool>) {
    let mut watcher = Watcher::open_with(&dice.of(&apis), "show", "", Some(131_072)).await;
    while !done.load(Ordering::Acquire) {
        sleep(Duration::from_millis(dice.below(120))).await;
        let _ = timeout(Duration::from_millis(20), watcher.step()).await;
    }
    watcher.wait_for_the_list().await;
}

async fn over_sse(mut dice: Dice, apis: Vec<Api>, done: Arc<AtomicBool>) {
    let mut watcher = SseWatcher::open(&dice.of(&apis), "show").await;
    watcher.wait_until("a list", |fold| fold.at.is_some()).await;
    while !done.load(Ordering::Acquire) {
        let _ = timeout(Duration::from_millis(20), watcher.step()).await;
        if dice.one_in(6) {
            watcher = watcher.reconnect(&dice.of(&apis)).await;
        }
    }
    let feed = apis[0].get_feed("show").await;
    let (epoch, seq) = (feed["epoch"].as_str().unwrap(), feed["seq"].as_u64().unwrap());
    watcher.wait_until("the list", |fold| fold.epoch() == epoch && fold.seq() >= seq).await;
    if watcher.fold.seq() == seq {
        watcher.fold.assert_is(&feed);
    }
}

/// Has the feed and two more on one socket.
async fn among_many(apis: Vec<Api>, done: Arc<AtomicBool>) {
    let mut many = Many::open(apis.last().unwrap()).await;
    for feed in ["show", "quiet", "silent"] {
        many.subscribe(feed).await;
    }
    while !done.load(Ordering::Acquire) {
        let _ = timeout(Duration::from_millis(20), many.step()).await;
    }
    let feed = apis[0].get_feed("show").await;
    let (epoch, seq) = (feed["epoch"].as_str().unwrap(), feed["seq"].as_u64().unwrap());
    many.wait_until("the list", |m| m.fold("show").epoch() == epoch && m.fold("show").seq() >= seq).await;
    if many.fold("show").seq() == seq {
        many.fold("show").assert_is(&feed);
    }
}

/// Capacities change while batches pour in; newcomers look at the list all the time.
async fn capacities_dance(app: TestApp) {
    let api = Api::clone(&app);
    api.patch_policy("show", json!({"dedup": "off", "flush_ms": 0})).await;
    let done = Arc::new(AtomicBool::new(false));
    let newcomers: Vec<_> = (0..2)
        .map(|_| {
            let (api, done) = (api.clone(), done.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::Acquire) {
                    // The fold knows how long a list may be.
                    Watcher::open(&api, "show").await.wait_until("a list", |fold| fold.at.is_some()).await;
                }
            })
        })
        .collect();
    let mut work = vec![];
    for n in 0..3u64 {
        let (patches, batches) = (api.clone(), api.clone());
        work.push(tokio::spawn(async move {
            for k in 0..60 {
                let capacity = [1, 10, 5, 30][((n + k) % 4) as usize];
                patches.patch_policy("show", json!({"capacity": capacity})).await;
            }
        }));
        work.push(tokio::spawn(async move {
            for k in 0..40 {
                let gifts: Vec<_> = (0..12).map(|g| gift(&format!("{n}-{k}-{g}")).json()).collect();
                assert_eq!(batches.post_batch("show", &gifts).await.status, 200);
            }
        }));
    }
    for task in work {
        task.await.unwrap();
    }
    done.store(true, Ordering::Release);
    for newcomer in newcomers {
        newcomer.await.unwrap();
    }
    Watcher::open(&api, "show").await.wait_for_the_list().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_on_a_folder_is_never_longer_than_its_capacity_however_often_that_changes() {
    for _ in 0..4 {
        capacities_dance(TestApp::on(&Backing::folder()).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_on_redis_is_never_longer_than_its_capacity_however_often_that_changes() {
    for _ in 0..4 {
        capacities_dance(TestApp::on(&Backing::redis()).await).await;
    }
}
