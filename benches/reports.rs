//! Ledgers on their way to webhooks: `cargo bench --bench reports -- [redis URL] [speed|hang]`, embedded by
//! default. The endpoint is a thread of this process.
//!
//! Speed: gifts are published in batches of 128, 20 000 a second, then as fast as it goes, and sent to one
//! endpoint in batches of 128. Hang: what one endpoint that never answers does to the others.

#![allow(clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::json;
use serde_json::value::to_raw_value;
use tipcast::domain::{Delivery, FeedId, Gift, Hook, HookKey, HookScope, HookSpec, Millis, PolicyPatch};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{PolicyChange, Store};
use tipcast::work::reports::{ReportLoop, ReportOptions};
use tokio::time::sleep;

const BATCH: usize = 128;

fn gift(n: usize) -> Gift {
    let body = json!({
        "user": { "id": format!("viewer-{}", n % 5_000), "name": "A viewer" },
        "gift": { "id": "rose", "name": "Rose" },
        "value": { "amount": 100, "currency": "USD" },
        "message": "for you",
    });
    Gift::parse(&to_raw_value(&body).expect("json"), None).expect("a gift")
}

/// What came to the endpoint.
#[derive(Default)]
struct Got {
    entries: AtomicU64,
    deliveries: AtomicU64,
    /// From each entry's time to its arrival, in milliseconds; only while somebody measures.
    lags: Mutex<Vec<i64>>,
    measuring: AtomicBool,
}

/// An endpoint: accepts everything but what is sent to `/hang`.
fn endpoint() -> (SocketAddr, Arc<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let got = Arc::new(Got::default());
    let seen = got.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let got = seen.clone();
            std::thread::spawn(move || serve(stream, &got));
        }
    });
    (address, got)
}

fn serve(stream: TcpStream, got: &Got) -> Option<()> {
    let mut write = stream.try_clone().ok()?;
    stream.set_nodelay(true).ok()?;
    let mut read = BufReader::with_capacity(64 << 10, stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let (mut length, mut hang) = (0, false);
        loop {
            line.clear();
            if read.read_line(&mut line).ok()? == 0 {
                return None;
            }
            hang |= line.starts_with("POST /hang");
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?;
                }
                Some(_) => {}
                None if line.trim_end().is_empty() => break,
                None => {}
            }
        }
        body.resize(length, 0);
        read.read_exact(&mut body).ok()?;
        if hang {
            std::thread::sleep(Duration::from_secs(600));
        }
        let entries = memmem::find_iter(&body, b"\"cursor\":").count() as u64;
        got.entries.fetch_add(entries, Ordering::Relaxed);
        got.deliveries.fetch_add(1, Ordering::Relaxed);
        if got.measuring.load(Ordering::Relaxed) {
            let now = Millis::now();
            let at = memmem::find_iter(&body, b"\"at\":\"").filter_map(|from| {
                let text = std::str::from_utf8(body.get(from + 6..from + 30)?).ok()?;
                Some(now.0 - Millis::parse(text)?.0)
            });
            got.lags.lock().expect("no panic").extend(at);
        }
        write.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

async fn plain_feed(engine: &Store, name: &str) -> FeedId {
    let feed: FeedId = name.parse().expect("a name");
    let raw = to_raw_value(&json!({ "dedup": "off" })).expect("json");
    let patch = PolicyPatch::parse(&raw).expect("a policy");
    engine.set_policy(&feed, &PolicyChange::Merge(patch), Millis::now()).await.expect("a policy");
    feed
}

async fn hook(engine: &Store, scope: HookScope, name: &str, url: String, batch_ms: u64) {
    let key = HookKey { scope, name: name.parse().expect("a name") };
    let spec = HookSpec {
        url,
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(),
        batch_max: BATCH as u64,
        batch_ms,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    };
    let now = Millis::now();
    engine.swap_webhook(&key, None, Some(Hook::new(spec, now)), now).await.expect("a webhook");
}

fn quantile(sorted: &[i64], q: f64) -> i64 {
    sorted.get(((sorted.len().max(1) - 1) as f64 * q) as usize).copied().unwrap_or(-1)
}

/// Publishes batches; `pace` gifts a second, 0 as fast as it goes.
async fn produce(engine: &Store, feeds: &[FeedId], batches: usize, pace: usize) {
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..batches {
        if pace > 0 {
            let due = Duration::from_secs_f64((n * BATCH) as f64 / pace as f64);
            sleep(due.saturating_sub(began.elapsed())).await;
        }
        while calls.len() >= 8 {
            calls.join_next().await;
        }
        let (engine, feed) = (engine.clone(), feeds[n % feeds.len()].clone());
        calls.spawn(async move {
            let gifts = (0..BATCH).map(|k| gift(n * BATCH + k)).collect();
            engine.publish(&feed, gifts, Millis::now()).await.expect("acknowledged");
        });
    }
    calls.join_all().await;
}

async fn speed(engine: &Store, feeds: usize, run: &str) {
    let (address, got) = endpoint();
    let mut names = vec![];
    for n in 0..feeds {
        let feed = plain_feed(engine, &format!("speed-{run}-{feeds}-{n}")).await;
        hook(engine, HookScope::Feed(feed.clone()), "game", format!("http://{address}/game"), 100).await;
        names.push(feed);
    }
    let options = ReportOptions { allow_private: true, ..ReportOptions::default() };
    let deliveries =
        ReportLoop::start(engine.clone(), Arc::default(), Arc::default(), options, &Default::default())
            .expect("a client");
    for (what, pace, batches) in [("20 000/s", 20_000, 1_563), ("as fast as it goes", 0, 2_344)] {
        got.entries.store(0, Ordering::Relaxed);
        got.deliveries.store(0, Ordering::Relaxed);
        got.measuring.store(pace > 0, Ordering::Relaxed);
        let all = (batches * BATCH) as u64;
        let began = Instant::now();
        produce(engine, &names, batches, pace).await;
        let produced = began.elapsed();
        while got.entries.load(Ordering::Relaxed) < all {
            assert!(began.elapsed() < Duration::from_secs(120), "not all is delivered");
            sleep(Duration::from_millis(5)).await;
        }
        let delivered = began.elapsed();
        let mut lags = std::mem::take(&mut *got.lags.lock().expect("no panic"));
        lags.sort_unstable();
        let per_second = |time: Duration| all as f64 / time.as_secs_f64();
        print!(
            "{what}, {feeds:>3} feeds: produced {:.0}/s, delivered {:.0}/s in batches of {:.0}",
            per_second(produced),
            per_second(delivered),
            all as f64 / got.deliveries.load(Ordering::Relaxed) as f64
        );
        match lags.is_empty() {
            true => println!(),
            false => println!("; lag p50 {} p99 {} ms", quantile(&lags, 0.5), quantile(&lags, 0.99)),
        }
    }
    deliveries.stop(Duration::from_secs(5)).await;
}

/// Fifty feeds with ten gifts a second each, alone and beside an endpoint of all feeds that never answers.
async fn hang(engine: &Store, run: &str) {
    const FEEDS: usize = 50;
    let (address, got) = endpoint();
    let mut names = vec![];
    for n in 0..FEEDS {
        let feed = plain_feed(engine, &format!("hang-{run}-{n}")).await;
        hook(engine, HookScope::Feed(feed.clone()), "game", format!("http://{address}/game"), 0).await;
        names.push(feed);
    }
    let options = ReportOptions { allow_private: true, ..ReportOptions::default() };
    let deliveries =
        ReportLoop::start(engine.clone(), Arc::default(), Arc::default(), options, &Default::default())
            .expect("a client");
    got.measuring.store(true, Ordering::Relaxed);
    for what in ["alone", "beside one that hangs", "alone again"] {
        let key = HookKey { scope: HookScope::All, name: "dead".parse().expect("a name") };
        match what {
            "alone" => {}
            "alone again" => {
                let known = engine.read_webhook(&key).await.expect("a webhook").map(|hook| hook.version);
                engine.swap_webhook(&key, known, None, Millis::now()).await.expect("it goes");
            }
            _ => hook(engine, HookScope::All, "dead", format!("http://{address}/hang"), 0).await,
        }
        let mut beat = tokio::time::interval(Duration::from_millis(2));
        let began = Instant::now();
        let mut n = 0;
        let mut calls = tokio::task::JoinSet::new();
        while began.elapsed() < Duration::from_secs(12) {
            beat.tick().await;
            let (engine, feed) = (engine.clone(), names[n % FEEDS].clone());
            n += 1;
            calls.spawn(async move {
                engine.publish(&feed, vec![gift(n)], Millis::now()).await.expect("acknowledged");
            });
        }
        calls.join_all().await;
        sleep(Duration::from_millis(500)).await;
        let mut lags = std::mem::take(&mut *got.lags.lock().expect("no panic"));
        lags.sort_unstable();
        println!(
            "500/s over {FEEDS} feeds, {what}: {} delivered; lag p50 {} p95 {} p99 {} max {} ms",
            lags.len(),
            quantile(&lags, 0.5),
            quantile(&lags, 0.95),
            quantile(&lags, 0.99),
            quantile(&lags, 1.0)
        );
    }
    deliveries.stop(Duration::from_millis(100)).await;
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let url = args.iter().find(|arg| arg.starts_with("redis://"));
    let engine: Store = match url {
        Some(url) => Store::redis(StoreOptions::new(url.clone())).await.expect("a Redis"),
        None => Store::embedded(StoreOptions::new(""), folder.path().to_owned()).await.expect("a folder"),
    };
    let run = Millis::now().0.to_string();
    let wants = |what: &str| {
        !args.iter().any(|arg| !arg.starts_with("redis://")) || args.iter().any(|arg| arg == what)
    };
    println!("engine: {}", engine.name());
    if wants("speed") {
        for feeds in [1, 100] {
            speed(&engine, feeds, &run).await;
        }
    }
    if wants("hang") {
        hang(&engine, &run).await;
    }
    engine.close().await;
}
