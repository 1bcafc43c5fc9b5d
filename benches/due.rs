//! What waits for its time: `cargo bench --bench due -- [redis URL] [time|backlog|idle]`, embedded by
//! default.
//!
//! On time: how long after their time watchers get gifts when 1 000 a second become due. Backlog: how
//! fast gifts drain that are all due at once, and what that does to gifts that come meanwhile. Idle, with
//! Redis: how many commands a node with nothing due sends for the queue.

#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::to_raw_value;
use tipcast::domain::{FeedId, Gift, Millis, Op, Outcome, PolicyPatch};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Notice, PolicyChange, Store};
use tipcast::work::due::{DueLoop, DueOptions};
use tokio::time::sleep;

/// The user is the time at which the gift is due, so that a row says how late it is.
fn gift(n: usize, due: Millis) -> Gift {
    let body = json!({
        "user": { "id": due.0.to_string(), "name": "A viewer" },
        "gift": { "id": format!("gift-{n}"), "name": "Rose" },
        "value": { "amount": 100, "currency": "USD" },
        "message": "for you",
        "deliver_at": due.to_string(),
    });
    Gift::parse(&to_raw_value(&body).expect("json"), None).expect("a gift")
}

async fn schedule(engine: &Store, feed: &FeedId, gifts: Vec<Gift>) {
    for part in gifts.chunks(128) {
        let outcomes = engine.publish(feed, part.to_vec(), Millis::now()).await.expect("acknowledged");
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Scheduled(_))), "{:?}", outcomes.first());
    }
}

async fn plain_feed(engine: &Store, name: &str) -> FeedId {
    let feed: FeedId = name.parse().expect("a name");
    let raw = to_raw_value(&json!({ "dedup": "off" })).expect("json");
    let patch = PolicyPatch::parse(&raw).expect("a policy");
    engine.set_policy(&feed, &PolicyChange::Merge(patch), Millis::now()).await.expect("a policy");
    feed
}

fn quantile(sorted: &[i64], q: f64) -> i64 {
    sorted.get(((sorted.len() - 1) as f64 * q) as usize).copied().unwrap_or(-1)
}

async fn on_time(engine: &Store, feeds: usize, run: &str) {
    const EACH_SECOND: usize = 1_000;
    const SECONDS: usize = 10;
    let names: Vec<_> = (0..feeds).map(|n| format!("time-{run}-{feeds}-{n}")).collect();
    let mut listeners = tokio::task::JoinSet::new();
    // After the last one has been scheduled.
    let begin = Millis::now().plus(5_000);
    for (n, name) in names.iter().enumerate() {
        let feed = plain_feed(engine, name).await;
        let mut subscription = engine.subscribe(&feed).await.expect("a subscription");
        let of_feed = |k: &usize| k % feeds == n;
        let all: Vec<usize> = (0..EACH_SECOND * SECONDS).filter(of_feed).collect();
        let wanted = all.len();
        let gifts = all.iter().map(|k| gift(*k, begin.plus((k * 1_000 / EACH_SECOND) as u64))).collect();
        schedule(engine, &feed, gifts).await;
        listeners.spawn(async move {
            let mut lags = Vec::with_capacity(wanted);
            while lags.len() < wanted {
                let Some(notice) = subscription.next().await else { break };
                let now = Millis::now();
                let Notice::Changes(changes) = notice else { continue };
                for change in changes.iter() {
                    let Op::Add(row) = &change.op else { continue };
                    let user: serde_json::Value = serde_json::from_str(&row.user).expect("json");
                    let due: i64 = user["id"].as_str().and_then(|id| id.parse().ok()).expect("a time");
                    assert!(row.at.0 >= due, "never before its time");
                    lags.push(now.0 - due);
                }
            }
            lags
        });
    }
    assert!(Millis::now() < begin, "scheduling took too long to measure");
    let mut lags: Vec<i64> = listeners.join_all().await.into_iter().flatten().collect();
    lags.sort_unstable();
    let soon = lags.iter().filter(|lag| **lag <= 50).count() as f64 / lags.len() as f64;
    println!(
        "on time, {EACH_SECOND}/s, {feeds:>3} feeds: {:.2} % within 50 ms; p50 {} p95 {} p99 {} max {} ms",
        100.0 * soon,
        quantile(&lags, 0.5),
        quantile(&lags, 0.95),
        quantile(&lags, 0.99),
        quantile(&lags, 1.0)
    );
}

async fn backlog(engine: &Store, feeds: usize, run: &str) {
    const ALL: usize = 100_000;
    let began = Instant::now();
    // Far enough away; the loop starts when it has come.
    let due = Millis::now().plus(25_000);
    let mut names = vec![];
    for n in 0..feeds {
        let feed = plain_feed(engine, &format!("backlog-{run}-{feeds}-{n}")).await;
        schedule(engine, &feed, (0..ALL / feeds).map(|k| gift(k, due)).collect()).await;
        names.push(feed);
    }
    let scheduling = ALL as f64 / began.elapsed().as_secs_f64();
    let quiet = plain_feed(engine, &format!("quiet-{run}-{feeds}")).await;
    sleep(Duration::from_millis(due.since(Millis::now()) + 10)).await;
    let (began, done) = (Instant::now(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let work = DueLoop::start(engine.clone(), DueOptions::default(), &Default::default());
    // 200 a second, on time whatever the answers take.
    let posting = tokio::spawn({
        let (engine, done) = (engine.clone(), done.clone());
        async move {
            let (mut answers, mut n) = (tokio::task::JoinSet::new(), 0);
            let mut beat = tokio::time::interval(Duration::from_millis(5));
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                beat.tick().await;
                n += 1;
                let (engine, quiet) = (engine.clone(), quiet.clone());
                answers.spawn(async move {
                    let (sent, now) = (Instant::now(), Millis::now());
                    engine.publish(&quiet, vec![gift(n, Millis(0))], now).await.expect("acknowledged");
                    sent.elapsed().as_micros() as i64
                });
            }
            let mut all = answers.join_all().await;
            all.sort_unstable();
            all
        }
    });
    loop {
        let heads = engine.read_heads(&names).await.expect("heads");
        if heads.iter().flatten().map(|head| head.at.seq).sum::<u64>() >= ALL as u64 {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed().as_secs_f64();
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    let answers = posting.await.expect("posting");
    work.stop().await;
    println!(
        "backlog of {ALL} in {feeds:>3} feeds: scheduled at {scheduling:.0}/s, drained at {:.0}/s; \
         new posts meanwhile: {} at p50 {:.1} p99 {:.1} max {:.1} ms",
        ALL as f64 / took,
        answers.len(),
        quantile(&answers, 0.5) as f64 / 1e3,
        quantile(&answers, 0.99) as f64 / 1e3,
        quantile(&answers, 1.0) as f64 / 1e3
    );
}

/// Scripts that Redis has run so far: an idle node runs none but for the queue.
fn scripts(url: &str) -> u64 {
    let mut redis = redis::Client::open(url).and_then(|client| client.get_connection()).expect("Redis");
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut redis).expect("INFO");
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    info.lines().filter(|line| line.starts_with("cmdstat_eval")).filter_map(calls).sum()
}

async fn idle(engine: &Store, url: &str, run: &str) {
    const SECONDS: u64 = 40;
    let feed = plain_feed(engine, &format!("idle-{run}")).await;
    schedule(engine, &feed, vec![gift(0, Millis::now().plus(3_600_000))]).await;
    let work = DueLoop::start(engine.clone(), DueOptions::default(), &Default::default());
    sleep(Duration::from_secs(1)).await;
    let before = scripts(url);
    sleep(Duration::from_secs(SECONDS)).await;
    println!("idle: {} scripts in {SECONDS} s", scripts(url) - before);
    work.stop().await;
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let url = std::env::args().find(|arg| arg.starts_with("redis://"));
    let engine: Store = match &url {
        Some(url) => Store::redis(StoreOptions::new(url.as_str())).await.expect("an engine"),
        None => Store::embedded(StoreOptions::new(""), dir.path().to_owned()).await.expect("an engine"),
    };
    println!("engine: {}", engine.name());
    let run = Millis::now().0.to_string();
    // One of them alone, when it is named.
    let wanted = |name: &str| {
        let named = |part: &str| std::env::args().any(|arg| arg == part);
        named(name) || !["time", "backlog", "idle"].into_iter().any(named)
    };
    if wanted("time") {
        let work = DueLoop::start(engine.clone(), DueOptions::default(), &Default::default());
        on_time(&engine, 1, &run).await;
        on_time(&engine, 100, &run).await;
        work.stop().await;
    }
    if wanted("backlog") {
        backlog(&engine, 20, &run).await;
        backlog(&engine, 1, &run).await;
    }
    if let Some(url) = url.as_ref().filter(|_| wanted("idle")) {
        idle(&engine, url, &run).await;
    }
    engine.close().await;
}
