//! Growth is bounded: what no row, history, idempotency window or lock needs goes as it comes.

use serde_json::json;
use tipcast::domain::{FeedId, Millis, PolicyPatch};
use tipcast::engine::{PolicyChange, Store};

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::stores::Storage;

/// In half of them more is logged than one stretch of the log holds.
const BATCHES: u64 = 400;

/// Publishes batches of gifts from ever new users, an hour apart, with the shortest memory there is.
async fn pour(engine: &Store, feed: &FeedId, batches: std::ops::Range<u64>) {
    let patch = json!({"idempotency_window_ms": 60_000, "dedup_window_ms": 1_000, "history": 16});
    let patch = PolicyPatch::parse(&serde_json::value::to_raw_value(&patch).unwrap()).unwrap();
    let start = Millis(1_800_000_000_000);
    engine.set_policy(feed, &PolicyChange::Merge(patch), start).await.unwrap();
    for batch in batches {
        let now = start.plus(batch * 3_600_000);
        let gifts = (0..128).map(|n| {
            let spec = gift(&format!("b{batch}-{n}")).by(&format!("user {batch} {n}"));
            spec.with("meta", json!({"pad": "x".repeat(200)})).parse()
        });
        engine.publish(feed, gifts.collect(), now).await.unwrap();
    }
}

/// Bytes of what lasts: of the elements, and of the log whose stretches go there. Strings that expire do so by real time.
fn bytes_that_last(store: &Storage) -> [u64; 2] {
    let Storage::Embedded(dir) = store else { unreachable!() };
    let db = rusqlite::Connection::open(dir.path().join("tipcast.db")).unwrap();
    ["SELECT total(length(key) + length(value)) FROM elements", "SELECT total(length(frame)) FROM log"]
        .map(|sql| db.query_row(sql, [], |row| row.get::<_, f64>(0)).unwrap() as u64)
}

#[tokio::test]
async fn a_folder_does_not_grow_with_what_nobody_needs() {
    let store = Storage::embedded();
    let engine = store.open_store().await;
    pour(&engine, &"show".parse().unwrap(), 0..BATCHES).await;
    engine.close().await;
    let [elements, log] = bytes_that_last(&store);
    // The ledger keeps 10 000 entries of some 370 bytes.
    assert!((100_000..6_000_000).contains(&elements), "{elements} bytes of elements");
    // One stretch that is gathered, and one that is moved.
    assert!(log < 80 << 20, "{log} bytes of log");
}

#[tokio::test]
async fn keys_of_gifts_and_users_expire_in_redis() {
    let store = Storage::redis();
    let engine = store.open_store().await;
    let feed = "show".parse().unwrap();
    let Storage::Redis(corner) = &store else { unreachable!() };
    let bytes_that_stay = || {
        let mut redis = corner.server.connect();
        let pattern = format!("{}*", corner.prefix);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut redis).unwrap();
        let mut bytes = 0;
        for key in &keys {
            // Redis has a clock of its own: what it forgets by that is not weighed, only when.
            let left: i64 = redis::cmd("PTTL").arg(key).query(&mut redis).unwrap();
            assert!(left <= 130_000, "{key} stays for {left} ms, longer than twice the longest window");
            if left == -1 {
                let used: u64 = redis::cmd("MEMORY")
                    .arg("USAGE")
                    .arg(key)
                    .arg("SAMPLES")
                    .arg(0)
                    .query(&mut redis)
                    .unwrap();
                bytes += used;
            }
        }
        bytes
    };
    pour(&engine, &feed, 0..BATCHES / 2).await;
    let half = bytes_that_stay();
    pour(&engine, &feed, BATCHES / 2..BATCHES).await;
    let whole = bytes_that_stay();
    assert!(whole < half + half / 4, "{half} bytes became {whole}");
}

/// A task of the HTTP server that stays beside each watcher is 11 KiB: nothing failed then, and nobody saw it.
#[test]
fn an_idle_watcher_costs_a_few_kilobytes_and_no_task() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    let (url, pid) = (gateway.base.clone(), gateway.id().to_string());
    let args = ["--idle", "--watchers", "1500", "--connecting", "64", "--json", "-"];
    let args: Vec<_> =
        args.iter().chain(&["--url", &url, "--pid", &pid]).map(|arg| arg.to_string()).collect();
    let (status, said) = Process::run_tool("tipcast-bench", &args);
    assert!(status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let each = report.pointer("/connect/server_bytes_each").unwrap().as_f64().unwrap();
    assert!(each < 6_000.0, "{each} bytes for each watcher");
}
