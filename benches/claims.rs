//! Claims per second at the engine: `cargo bench --bench claims -- [redis URL]`.
//!
//! On Redis also what redis-benchmark reaches with the very same script, keys and arguments, one claim a
//! call, so that the two can be compared. Every claim is of its own user and is filled. Claims of one drop,
//! then of a hundred in as many feeds; paid now, then later.

#![allow(clippy::expect_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::value::to_raw_value;
use tipcast::domain::{Claim, Claimed, DropId, DropSpec, Epoch, FeedId, Millis, Policy};
use tipcast::engine::Store;
use tipcast::engine::protocol::scripts;
use tipcast::engine::store::StoreOptions;

const RUN: Duration = Duration::from_secs(4);

/// Claims under way, and feeds.
const SHAPES: [(usize, usize); 4] = [(1, 1), (50, 1), (256, 1), (256, 100)];

fn spec() -> DropSpec {
    let body = serde_json::json!({"gift": {"id": "rocket", "name": "Rocket"}, "total": 1_000_000_000});
    DropSpec::parse(&to_raw_value(&body).expect("json")).expect("a drop")
}

fn claim(id: &str, pay: &str) -> Claim {
    let user = serde_json::json!({"id": id, "name": "A viewer"});
    let body = serde_json::json!({"id": id, "user": user, "pay": pay});
    Claim::parse(&to_raw_value(&body).expect("json"), None).expect("a claim")
}

/// Claims per second, and this process's processor seconds per claim.
async fn measure(engine: &Store, (flight, feeds): (usize, usize), pay: &'static str) -> (f64, f64) {
    let run = Epoch::mint();
    let drop: DropId = "r".parse().expect("a name");
    let names: Vec<FeedId> =
        (0..feeds).map(|n| format!("claims-{run}-{n}").parse().expect("a name")).collect();
    for feed in &names {
        engine.define_drop(feed, &drop, &spec(), Millis::now()).await.expect("a drop");
    }
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let tasks: Vec<_> = (0..flight)
        .map(|lane| {
            let (engine, feed, drop) = (engine.clone(), names[lane % feeds].clone(), drop.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while began.elapsed() < RUN {
                    let claim = claim(&format!("c{lane}-{done}"), pay);
                    let claimed =
                        engine.claim_drop(&feed, &drop, claim, Millis::now()).await.expect("an answer");
                    assert!(matches!(claimed, Claimed::New(_)), "{claimed:?}");
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.expect("a lane");
    }
    (f64::from(done) / began.elapsed().as_secs_f64(), (cpu_seconds() - cpu) / f64::from(done))
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    ticks.iter().sum::<f64>() / 100.0
}

/// Calls per second of redis-benchmark with the script of a claim: 50 connections, one call at a time each,
/// and 50 with 16 calls at a time each.
fn raw(url: &str, feed: &FeedId, pay: &str, pipeline: u32) -> Option<f64> {
    let address = url.strip_prefix("redis://")?.trim_end_matches('/');
    let (host, port) = address.split_once(':').unwrap_or((address, "6379"));
    let mut load = Command::new("redis-cli");
    load.args(["-h", host, "-p", port, "-x", "SCRIPT", "LOAD"]);
    let sha = piped(&mut load, &scripts::DROP_CLAIM.source())?;
    let key = |what: &str| format!("tc:{{{feed}}}:{what}");
    let policy = serde_json::to_string(&Policy::default()).ok()?;
    // The feed is looked at from now on until tomorrow: only the first announcement needs that.
    let (looked_at, channel) = ((Millis::now().0 + 300).to_string(), key("live"));
    let digest = "00000000000000000000__rand_int__";
    let arg = |name: &&str| match *name {
        "now" => "-",
        "candidate_epoch" => "0zzzzzzzzzzzz",
        "tag" | "units" => "1",
        "default_policy" => &policy,
        "idle_ttl" | "hooks_version" => "0",
        "live_channel" => &channel,
        "ledger_bounds" => "10000 100000 0",
        "looked_at" => &looked_at,
        "drop" => "r",
        "reminder" => "60000",
        "claim" => "c__rand_int__",
        "fingerprint" | "user_digest" => digest,
        "pay" => pay,
        "user" => "{\"id\":\"c__rand_int__\",\"name\":\"A viewer\"}",
        "gifter" => "- c__rand_int__",
        _ => "",
    };
    let header = scripts::DROP_CLAIM.header();
    let keys = header.keys.iter().map(|name| match *name {
        "claims" | "holds" | "units" => key(&format!("{name}:r")),
        name => key(name),
    });
    let args = header.args.iter().chain(&header.item_args).map(arg);
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", host, "-p", port, "-c", "50", "-n", "150000", "-r", "1000000000", "-q"]);
    command.args(["-P", &pipeline.to_string(), "EVALSHA", &sha, &header.keys.len().to_string()]);
    command.args(keys).args(args);
    let out = command.output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).replace('\r', "\n");
    let line = text.lines().rfind(|line| line.contains("requests per second"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).find(|two| two[1] == "requests").and_then(|two| two[0].parse().ok())
}

fn piped(command: &mut Command, input: &str) -> Option<String> {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let out = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let url = std::env::args().find(|arg| arg.starts_with("redis://"));
    let engine: Store = match &url {
        Some(url) => Store::redis(StoreOptions::new(url)).await.expect("an engine"),
        None => Store::embedded(StoreOptions::new(""), dir.path().to_owned()).await.expect("an engine"),
    };
    for pay in ["now", "later"] {
        println!("{}, pay {pay}", engine.name());
        for shape in SHAPES {
            let (rate, cpu) = measure(&engine, shape, pay).await;
            let (flight, feeds) = shape;
            println!(
                "  {flight:>4} under way, {feeds:>3} feeds: {rate:>8.0} claims/s, {:.0} us of our processor each",
                cpu * 1e6
            );
        }
        let Some(url) = &url else { continue };
        for pipeline in [1, 16] {
            let feed: FeedId = format!("raw-{}", Epoch::mint()).parse().expect("a name");
            let drop: tipcast::domain::DropId = "r".parse().expect("a name");
            engine.define_drop(&feed, &drop, &spec(), Millis::now()).await.expect("a drop");
            match raw(url, &feed, pay, pipeline) {
                Some(rate) => {
                    let sold =
                        engine.tick_drop(&feed, &drop, Millis::now()).await.expect("a drop").expect("a drop");
                    let taken = sold.held + sold.sold;
                    println!(
                        "  redis-benchmark -c 50 -P {pipeline}: {rate:>8.0} calls/s ({taken} units taken)"
                    );
                }
                None => println!("  redis-benchmark is not there, or failed"),
            }
        }
    }
    engine.close().await;
}
