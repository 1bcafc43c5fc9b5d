//! What released versions stored: a folder and a Redis dump of each version that changed the stored form are in tests/fixtures, and
//! every build opens them. `TIPCAST_WRITE_FIXTURES=1 cargo test --test it stored_forms` writes those of this version.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::relocation::stop;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::receiver::SECRET;
use crate::support::redis_server::RedisServer;

/// The version whose stores are written with [`WRITE`]: the newest with a form of its own.
const NEWEST: &str = "0.2.0";

/// All of them.
const VERSIONS: [&str; 1] = [NEWEST];

const WRITE: &str = "TIPCAST_WRITE_FIXTURES";

const WEEK: u64 = 604_800_000;

fn fixtures(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(version)
}

async fn call(gateway: &Process, method: &str, path: &str, body: Value) -> Value {
    let said = gateway.call(method, &format!("/v1/feeds/{path}"), Some(&body.to_string())).await;
    assert!((200..300).contains(&said.status), "{method} {path}: {said:?}");
    if said.text.is_empty() { Value::Null } else { said.json() }
}

/// Every kind of state. What time changes is in feeds of its own, or a test gift, which nothing counts.
async fn fill(gateway: &Process) {
    let policy = json!({"capacity": 7, "dedup": "off", "totals": ["all", "session"], "points": {"EUR": 1}, "idempotency_window_ms": WEEK});
    gateway.patch_policy("show", policy).await;
    let goal = json!({"title": "Mic", "period": "session", "by": "points", "target": 100_000});
    call(gateway, "PUT", "show/goals/mic", goal).await;
    // A hold that lasts for a year.
    let drop = json!({"gift": {"id": "r", "name": "R"}, "total": 5, "hold_ttl_ms": 31_536_000_000_u64});
    call(gateway, "PUT", "show/drops/rocket", drop).await;
    for (id, user, pay) in [("c1", "u5", "later"), ("c2", "u6", "now")] {
        let claim = json!({"id": id, "user": {"id": user, "name": user}, "pay": pay});
        call(gateway, "POST", "show/drops/rocket/claims", claim).await;
    }
    call(gateway, "PUT", "show/blocks/out", json!({})).await;
    call(gateway, "PUT", "*/blocks/everywhere", json!({})).await;
    let hook = json!({"url": "http://127.0.0.1:9/gifts", "secret": SECRET, "types": ["gift.retracted"]});
    call(gateway, "PUT", "show/webhooks/crm", hook).await;
    let source = json!({"preset": "kofi", "token": "ko-token", "default_gift": {"id": "tip", "name": "Tip"}});
    call(gateway, "PUT", "show/sources/shop", source).await;
    for n in 0..30 {
        let currency = if n % 3 == 0 { "EUR" } else { "coins" };
        let one = gift(&format!("g{n}")).by(&format!("u{}", n % 9)).value(100 + n, currency);
        let one = if n % 5 == 0 { one.with("message", json!(format!("Grüße {n} 🌹"))) } else { one };
        gateway.give("show", &one).await;
    }
    for n in 1..5 {
        let frame = gift(&format!("frame{n}")).by("u1").combo("run", n).value(u64::from(n) * 10, "EUR");
        gateway.give("show", &frame).await;
    }
    gateway.give("show", &gift("blocked").by("out").value(7, "EUR")).await;
    call(gateway, "POST", "show/gifts/g27/refund", json!({"refunded": 30})).await;
    call(gateway, "POST", "show/gifts/g3/retract", json!({"reason": "chargeback"})).await;
    let claim = json!({"consumer": "a", "max": 5, "lease_ms": 600_000});
    let handed = call(gateway, "POST", "show/groups/game/claim", claim).await["entries"].clone();
    let cursors: Vec<&Value> = handed.as_array().unwrap().iter().map(|it| &it["cursor"]).collect();
    call(gateway, "POST", "show/groups/game/ack", json!({"cursors": cursors})).await;
    // Combined rows, under the lock.
    for n in 0..4 {
        gateway.give("plain", &gift(&format!("p{n}")).by("u1").value(50, "EUR")).await;
    }
    // Those that wait for their time and for a host.
    let later = gift("later").by("u2").with("delay_ms", json!(WEEK)).with("test", json!(true));
    assert_eq!(gateway.post_gift("later", &later).await.status, 202);
    gateway.patch_policy("desk", json!({"review": "all"})).await;
    assert_eq!(gateway.post_gift("desk", &gift("waits").by("u8")).await.status, 202);
}

/// What can be seen of it that no time changes.
async fn seen(gateway: &Process) -> Value {
    let mut all = serde_json::Map::new();
    for path in [
        "show",
        "show/policy",
        "show/drops/rocket",
        "show/blocks",
        "show/groups/game",
        "show/sources/shop",
        "show/webhooks/crm",
        "show/totals",
        "show/leaders?period=all&by=points&limit=20",
        "show/goals",
        "show/ledger?limit=1000",
        "show/ledger/summary?to=2036-01-01T00:00:00Z",
        "plain",
        "*/blocks",
    ] {
        let said = gateway.get(&format!("/v1/feeds/{path}")).await;
        assert_eq!(said.status, 200, "{path}: {said:?}");
        let mut value = said.json();
        let members = value.as_object_mut().unwrap();
        for passes in ["epoch", "server_time", "oldest_ms"] {
            members.remove(passes);
        }
        // It is tried again and again, and disabled some day.
        if path.contains("webhooks") {
            members.retain(|name, _| ["name", "url", "types", "delivery", "batch_max"].contains(&&**name));
        }
        all.insert(path.to_owned(), value);
    }
    Value::Object(all)
}

/// A list that differs is shown by its first line that does.
fn is_same(found: &Value, wanted: &Value) {
    let (found, wanted) = (format!("{found:#}"), format!("{wanted:#}"));
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert_eq!(differs, None);
    assert_eq!(found.lines().count(), wanted.lines().count());
}

/// Everything is there, and goes on.
async fn goes_on(gateway: &Process, wanted: &Value) {
    let mut found = seen(gateway).await;
    // A year after it was made the hold has ended, and its unit is free again.
    let drop = &mut found["show/drops/rocket"];
    if drop["held"] == 0 {
        assert_eq!(drop["free"], 4);
        (drop["free"], drop["held"]) = (json!(3), json!(1));
        let lists = found["show"]["drops"].as_array_mut().unwrap();
        (lists[0]["free"], lists[0]["held"]) = (json!(3), json!(1));
        assert!(found["show"]["seq"].as_u64() > wanted["show"]["seq"].as_u64());
        found["show"]["seq"] = wanted["show"]["seq"].clone();
    }
    is_same(&found, wanted);
    // What waits still waits, or was shown when its time came.
    let is_shown = async |feed: &str| {
        let list = gateway.get_feed(feed).await;
        list["rows"].as_array().is_some_and(|rows| rows.len() == 1)
    };
    for (feed, waiting) in [("later", "scheduled"), ("desk", "review")] {
        let deadline = std::time::Instant::now() + PATIENCE;
        let waits = async || {
            let text = gateway.get(&format!("/v1/feeds/{feed}/{waiting}")).await.text;
            text.contains("\"later\"") || text.contains("\"waits\"")
        };
        while !(waits().await || is_shown(feed).await) {
            assert!(std::time::Instant::now() < deadline, "{feed}: neither waits nor is shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The ledger's next entry has the next number, and the group goes on behind what it had acknowledged.
    let last =
        wanted["show/ledger?limit=1000"]["entries"].as_array().unwrap().last().unwrap()["cursor"].clone();
    gateway.give("show", &gift("new").by("u1").value(10, "EUR")).await;
    let next = call(gateway, "POST", "show/groups/game/claim", json!({"consumer": "b", "max": 1000})).await;
    let next = next["entries"].as_array().unwrap();
    let number = |cursor: &Value| cursor.as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&next.last().unwrap()["cursor"]), number(&last) + 1);
    let first = &wanted["show/ledger?limit=1000"]["entries"][5];
    assert_eq!(next[0]["cursor"], first["cursor"]);
    let seq = wanted["show"]["seq"].as_u64().unwrap();
    assert!(gateway.get_feed("show").await["seq"].as_u64().unwrap() > seq);
    // Stock, goals and blocks go on.
    let claim = json!({"id": "c3", "user": {"id": "u7", "name": "u7"}, "pay": "now"});
    call(gateway, "POST", "show/drops/rocket/claims", claim).await;
    assert_eq!(gateway.get("/v1/feeds/show/drops/rocket").await.json()["sold"], 2);
    assert_eq!(gateway.give("show", &gift("b").by("everywhere")).await["status"], "suppressed");
    let points = |of: &Value| of["totals"]["session"]["points"].as_i64().unwrap();
    let totals = gateway.get("/v1/feeds/show/totals").await.json();
    assert_eq!(points(&totals), points(&wanted["show/totals"]) + 10);
}

fn read(version: &str, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures(version).join(name)).unwrap()).unwrap()
}

/// Fills a store, and keeps what is seen of it after a restart.
async fn write(name: &str, start: impl Fn() -> Process) {
    let gateway = start();
    fill(&gateway).await;
    stop(gateway);
    let gateway = start();
    let seen = seen(&gateway).await;
    std::fs::create_dir_all(fixtures(NEWEST)).unwrap();
    std::fs::write(fixtures(NEWEST).join(name), format!("{seen:#}\n")).unwrap();
    stop(gateway);
}

/// With these arguments; webhooks may lead to this machine.
fn serve(args: &[String]) -> Process {
    let env = vec![("TIPCAST_WEBHOOKS__ALLOW_PRIVATE".to_owned(), "true".to_owned())];
    Process::start("127.0.0.1:0", args.to_vec(), env)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folders_of_released_versions_are_opened_and_go_on() {
    if std::env::var_os(WRITE).is_some() {
        let dir = TempDir::new().unwrap();
        let args = ["--data-dir".to_owned(), dir.path().display().to_string()];
        write("folder.json", || serve(&args)).await;
        std::fs::copy(dir.path().join("tipcast.db"), fixtures(NEWEST).join("tipcast.db")).unwrap();
    }
    for version in VERSIONS {
        let dir = TempDir::new().unwrap();
        std::fs::copy(fixtures(version).join("tipcast.db"), dir.path().join("tipcast.db")).unwrap();
        let args = ["--data-dir".to_owned(), dir.path().display().to_string()];
        let (status, said) = Process::run(&[&["store".to_owned(), "check".to_owned()], &args[..]].concat());
        assert!(status.success(), "{said}");
        let gateway = serve(&args);
        goes_on(&gateway, &read(version, "folder.json")).await;
        stop(gateway);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_redis_dumps_of_released_versions_are_opened_and_go_on() {
    let at = |dir: &TempDir| {
        let folder = dir.path().display().to_string();
        RedisServer::with(&["--appendonly", "no", "--dir", &folder, "--dbfilename", "dump.rdb"])
    };
    if std::env::var_os(WRITE).is_some() {
        let dir = TempDir::new().unwrap();
        let redis = at(&dir);
        write("redis.json", || serve(&["--redis".to_owned(), redis.url()])).await;
        assert_eq!(redis.run(&["SAVE"]), "OK");
        std::fs::copy(dir.path().join("dump.rdb"), fixtures(NEWEST).join("dump.rdb")).unwrap();
    }
    for version in VERSIONS {
        let dir = TempDir::new().unwrap();
        std::fs::copy(fixtures(version).join("dump.rdb"), dir.path().join("dump.rdb")).unwrap();
        let redis = at(&dir);
        let gateway = serve(&["--redis".to_owned(), redis.url()]);
        goes_on(&gateway, &read(version, "redis.json")).await;
        stop(gateway);
    }
}
