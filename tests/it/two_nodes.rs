//! Two nodes on one Redis are one gateway.

use std::time::Duration;

use serde_json::json;
use tipcast::domain::Millis;
use tokio::time::Instant;

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

async fn two() -> (TestApp, TestApp) {
    let backing = Backing::redis();
    (TestApp::on(&backing).await, TestApp::on(&backing).await)
}

#[tokio::test]
async fn a_gift_posted_on_one_is_seen_on_the_other() {
    let (a, b) = two().await;
    let mut watcher = b.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    a.give("show", &gift("g1")).await;
    watcher.wait_until("the gift", |fold| fold.seq() == 1).await;
    for n in 2..20 {
        let node = if n % 2 == 0 { &a } else { &b };
        node.give("show", &gift(&format!("g{n}")).by(&format!("u{}", n % 5))).await;
    }
    watcher.wait_for_the_list().await;
    let (one, two) = (a.get_feed("show").await, b.get_feed("show").await);
    assert_eq!((&one["rows"], &one["epoch"], &one["seq"]), (&two["rows"], &two["epoch"], &two["seq"]));
    assert_eq!(watcher.fold.snapshots, 2, "the empty list and the first gift");
}

#[tokio::test]
async fn reading_watching_and_refusing_write_nothing_to_redis() {
    let backing = Backing::redis();
    let Backing::Redis(corner, _) = &backing else { unreachable!() };
    let app = TestApp::on(&backing).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    app.get_feed("show").await;
    app.get_policy("show").await;
    app.retract("show", "0-1").await.problem(404);
    app.post_gift("show", &gift("g1").count(0)).await.problem(422);
    app.request("GET", "/v1/feeds/show/scheduled").send().await.unwrap();
    assert_eq!(app.request("DELETE", "/v1/feeds/show/scheduled/g1").send().await.unwrap().status(), 404);
    app.put_policy("show", json!({"capacity": 0})).await.problem(422);
    app.get_feed("show").await;
    let keys = || -> Vec<String> {
        let pattern = format!("{}*", corner.prefix);
        let all: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut corner.server.connect()).unwrap();
        let is_of_nodes = |key: &String| key.contains("{nodes}:");
        all.into_iter().filter(|key| !key.ends_with(":form") && !is_of_nodes(key)).collect()
    };
    assert_eq!(
        keys(),
        Vec::<String>::new(),
        "nothing but the mark of the form, and what nodes say of themselves"
    );
    app.give("show", &gift("g1")).await;
    assert!(!keys().is_empty());
}

#[tokio::test]
async fn every_key_of_a_feed_is_in_one_slot() {
    let backing = Backing::redis();
    let Backing::Redis(corner, _) = &backing else { unreachable!() };
    let app = TestApp::on(&backing).await;
    app.patch_policy("show", json!({"row_ttl_ms": 60_000})).await;
    app.give("show", &gift("g1").combo("c", 1)).await;
    app.give("show", &gift("g2")).await;
    let mut redis = corner.server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{}*", corner.prefix)).query(&mut redis).unwrap();
    let of_nodes = |key: &String| key.contains("{nodes}:") || key.ends_with("{feeds}:names");
    let ours = |key: &String| key.contains("{show}") || key.ends_with("{probe}:form") || of_nodes(key);
    assert!(!keys.is_empty() && keys.iter().all(ours), "{keys:?}");
}

#[tokio::test]
async fn ids_locks_and_rows_are_shared() {
    let (a, b) = two().await;
    let mut first = a.give("show", &gift("g1")).await;
    let joined = b.give("show", &gift("g2")).await;
    assert_eq!((&joined["status"], &joined["row"]), (&json!("merged"), &first["row"]));
    first["duplicate"] = json!(true);
    assert_eq!(b.post_gift("show", &gift("g1")).await.json(), first);
    b.post_gift("show", &gift("g1").count(2)).await.problem(422);
    assert_eq!(b.retract("show", first["row"].as_str().unwrap()).await.status, 200);
    a.retract("show", first["row"].as_str().unwrap()).await.problem(404);
    assert_eq!(a.get_feed("show").await["rows"], json!([]));
}

#[tokio::test]
async fn a_policy_set_on_one_holds_on_the_other() {
    let (a, b) = two().await;
    for n in 0..6 {
        a.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let mut watcher = b.watch("show").await;
    watcher.wait_for_seq(6).await;
    let deadline = Instant::now() + PATIENCE;
    a.patch_policy("show", json!({"capacity": 2, "dedup": "drop", "dedup_window_ms": 60_000})).await;
    watcher.wait_until("the shorter list", |fold| fold.capacity == 2 && fold.seq() == 7).await;
    loop {
        let policy = b.get_policy("show").await;
        if policy["dedup"] == "drop" && b.get_feed("show").await["capacity"] == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{policy}");
    }
    b.give("show", &gift("lock")).await;
    assert_eq!(b.give("show", &gift("hit")).await["status"], "suppressed");
    watcher.wait_for_the_list().await;
}

#[tokio::test]
async fn flush_ms_set_on_one_holds_for_watchers_of_the_other() {
    let (a, b) = two().await;
    a.patch_policy("show", json!({"flush_ms": 1_000, "dedup": "off"})).await;
    a.give("show", &gift("g0")).await;
    let mut watcher = b.watch("show").await;
    watcher.wait_for_seq(1).await;
    a.patch_policy("show", json!({"flush_ms": 0})).await;
    // While changes were gathered, three one after the other would take two seconds each time.
    let deadline = Instant::now() + 3 * PATIENCE;
    let mut seq = 1;
    loop {
        let began = Instant::now();
        for _ in 0..3 {
            seq += 1;
            a.give("show", &gift(&format!("g{seq}"))).await;
            watcher.wait_for_seq(seq).await;
        }
        if began.elapsed() < Duration::from_millis(1_500) {
            break;
        }
        assert!(Instant::now() < deadline, "changes are still gathered");
    }
}

#[tokio::test]
async fn a_watcher_of_one_resumes_on_the_other() {
    let (a, b) = two().await;
    for n in 0..5 {
        a.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let mut watcher = a.watch("show").await;
    watcher.wait_for_seq(5).await;
    for round in 0..6u64 {
        watcher.disconnect();
        a.give("show", &gift(&format!("a{round}")).by(&format!("a{round}"))).await;
        b.give("show", &gift(&format!("b{round}")).by(&format!("b{round}"))).await;
        watcher.api = Api::clone(if round % 2 == 0 { &b } else { &a });
        watcher.reconnect().await;
        watcher.wait_for_seq(7 + 2 * round).await;
        assert_eq!((watcher.fold.resumes, watcher.fold.snapshots), (round + 1, 1));
    }
    watcher.wait_for_the_list().await;
}

#[tokio::test]
async fn a_row_expires_once_for_both() {
    let (a, b) = two().await;
    a.patch_policy("show", json!({"row_ttl_ms": 1_000})).await;
    let (mut one, mut two) = (a.watch("show").await, b.watch("show").await);
    for n in 0..4 {
        let node = if n % 2 == 0 { &a } else { &b };
        node.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let feed = a.get_feed("show").await;
    let expires = Millis::parse(feed["rows"][0]["expires_at"].as_str().unwrap()).unwrap();
    for watcher in [&mut one, &mut two] {
        watcher.wait_until("an empty list again", |fold| fold.seq() >= 8 && fold.rows.is_empty()).await;
        assert!(Millis::now().since(expires) < 2_000);
        assert_eq!(watcher.fold.seq(), 8, "each row left once");
    }
}

#[tokio::test]
async fn the_death_of_one_is_no_concern_of_the_other() {
    let backing = Backing::redis();
    let survivor = TestApp::on(&backing).await;
    let mut victim = Process::on(&backing);
    let mut watcher = Watcher::open(&victim, "show").await;
    for n in 0..5 {
        victim.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    watcher.wait_until("the gifts", |fold| fold.seq() == 5).await;
    victim.kill();
    assert_eq!(watcher.wait_for_close().await, None, "it died without a word");
    survivor.give("show", &gift("after")).await;
    watcher.api = Api::clone(&survivor);
    watcher.reconnect().await;
    watcher.wait_for_seq(6).await;
    assert_eq!(watcher.fold.resumes, 1);
    watcher.wait_for_the_list().await;
}
