//! Acknowledged gifts per second at the engine: `cargo bench --bench ingest -- [redis URL] [counted]`.
//!
//! Embedded by default, in a folder under the target directory (a real disk: an fsync must cost
//! what it costs). For each shape of load: how many calls are in flight, gifts per call, feeds.
//! `counted` takes every turn twice, with nothing counted and with everything. `SHAPES=13` in the
//! environment takes the first and the third shape alone.

#![allow(clippy::expect_used)]

use std::time::{Duration, Instant};

use serde_json::value::to_raw_value;
use tipcast::domain::{FeedId, Gift, Millis, Outcome, PolicyPatch};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{PolicyChange, Store};

const SHAPES: [(usize, usize, usize); 6] =
    [(1, 1, 1), (64, 1, 1), (256, 1, 1), (256, 1, 100), (4, 128, 1), (16, 128, 100)];
const RUN: Duration = Duration::from_secs(3);

fn gift(n: usize) -> Gift {
    let body = serde_json::json!({
        "user": { "id": format!("user-{}", n % 500), "name": "A viewer" },
        "gift": { "id": format!("gift-{}", n % 7), "name": "Rose" },
        "count": 1 + n % 9,
        "value": { "amount": 100, "currency": "USD" },
        "message": "for you",
    });
    Gift::parse(&to_raw_value(&body).expect("json"), None).expect("a gift")
}

async fn measure(
    engine: Store,
    (flight, batch, feeds): (usize, usize, usize),
    name: &'static str,
) -> (f64, f64) {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let tasks: Vec<_> = (0..flight)
        .map(|lane| {
            let engine = engine.clone();
            let feed: FeedId = format!("{name}-{}", lane % feeds).parse().expect("a name");
            tokio::spawn(async move {
                let mut done = 0;
                while began.elapsed() < RUN {
                    let gifts = (0..batch).map(|n| gift(lane * 7919 + done + n)).collect();
                    let outcomes = engine.publish(&feed, gifts, Millis::now()).await.expect("acknowledged");
                    assert!(outcomes.iter().all(|o| matches!(o, Outcome::New(_))));
                    done += batch;
                }
                done
            })
        })
        .collect();
    let mut gifts = 0;
    for task in tasks {
        gifts += task.await.expect("lane");
    }
    (gifts as f64 / began.elapsed().as_secs_f64(), (cpu_seconds() - cpu) / gifts as f64 * 1e6)
}

/// Has these feeds count everything.
async fn count(engine: &Store, name: &str, feeds: usize) {
    for n in 0..feeds {
        let feed: FeedId = format!("{name}-{n}").parse().expect("a name");
        let totals = "all,session,day,week,month".parse().ok();
        let points = "USD:2".parse().ok();
        let patch = PolicyPatch { totals, points, ..PolicyPatch::default() };
        engine.set_policy(&feed, &PolicyChange::Merge(patch), Millis::now()).await.expect("a policy");
    }
}

/// User and system time of this process, from /proc (Linux); 0 elsewhere.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after.split(' ').skip(12).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / 100.0
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let url = std::env::args().find(|arg| arg.starts_with("redis://"));
    let engine: Store = match url {
        Some(url) => Store::redis(StoreOptions::new(url)).await.expect("an engine"),
        None => Store::embedded(StoreOptions::new(""), dir.path().to_owned()).await.expect("an engine"),
    };
    println!("engine: {}", engine.name());
    println!("{:>10} {:>8} {:>6} {:>12} {:>14}", "in flight", "batch", "feeds", "gifts/s", "CPU µs/gift");
    let counted = std::env::args().any(|arg| arg == "counted");
    let only = std::env::var("SHAPES").unwrap_or_default();
    for (at, shape) in SHAPES.into_iter().enumerate() {
        if !only.is_empty() && !only.contains(&(at + 1).to_string()) {
            continue;
        }
        let (rate, cpu) = measure(engine.clone(), shape, "bench").await;
        print!("{:>10} {:>8} {:>6} {rate:>12.0} {cpu:>14.1}", shape.0, shape.1, shape.2);
        if counted {
            count(&engine, "counted", shape.2).await;
            let (rate, more) = measure(engine.clone(), shape, "counted").await;
            print!("   counted {rate:>12.0} {more:>14.1} {:>6.2} x", more / cpu);
        }
        println!();
    }
    engine.close().await;
}
