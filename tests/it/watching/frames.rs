//! Snapshot, deltas, and the invariant: what a watcher folded is what GET says, field by field.

use serde_json::json;
use tipcast::domain::Millis;

use crate::support::TestApp;
use crate::support::gifts::gift;
use crate::support::watcher::open_socket;

on_both_stores_and_over_tls![
    a_watcher_gets_the_list_first_and_then_every_change,
    every_kind_of_row_is_told_as_get_tells_it,
    the_first_change_of_an_empty_feed_comes_as_a_snapshot_with_its_epoch,
    watching_an_empty_feed_does_not_begin_it,
    a_changed_capacity_reaches_every_watcher_as_a_snapshot,
    a_row_with_a_ttl_leaves_within_a_second_of_its_time,
    a_feed_that_nobody_watches_forgets_its_rows_too,
    many_watchers_of_one_feed_have_the_same_list,
    feeds_do_not_meet,
    a_malformed_feed_name_is_refused_before_the_upgrade,
];

async fn a_watcher_gets_the_list_first_and_then_every_change() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    assert_eq!((watcher.fold.snapshots, watcher.fold.skipped), (1, 0));
    app.give("show", &gift("g2")).await;
    app.give("show", &gift("g3").by("bob").with("meta", json!({"k": [1, 2.5, null]}))).await;
    let row = app.give("show", &gift("g4").by("eve")).await;
    app.retract("show", row["row"].as_str().unwrap()).await;
    watcher.wait_for_seq(5).await;
    assert_eq!((watcher.fold.snapshots, watcher.fold.ops), (1, 4));
    watcher.wait_for_the_list().await;
}

async fn every_kind_of_row_is_told_as_get_tells_it() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"row_ttl_ms": 3_600_000})).await;
    let mut watcher = app.watch("show").await;
    let picture = json!({"id": "u:<1>", "name": "\u{1F339} \"Zoë\" </script>", "avatar": "https://e.co/a?b=<c>&d=\"e\""});
    let full = gift("g1").with("user", picture.clone()).value(9_007_199_254_740_991, "EUR");
    app.give("show", &full.with("message", json!("line\u{2028} مرحبا")).with("tier", json!(0))).await;
    app.give("show", &gift("g2").combo("c \" d", 3).value(5, "usd").end()).await;
    app.give("show", &gift("g3").test().with("meta", json!({"a": {"b": [1e-7, "\u{10FFFF}", {}]}}))).await;
    app.give("show", &gift("g4").with("user", picture).with("tier", json!(9)).count(1_000_000)).await;
    watcher.wait_for_the_list().await;
    let mut late = app.watch("show").await;
    late.wait_for_the_list().await;
    assert_eq!(late.fold.rows, watcher.fold.rows);
}

async fn the_first_change_of_an_empty_feed_comes_as_a_snapshot_with_its_epoch() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    assert_eq!(watcher.fold.position().unwrap(), "0:0");
    let answer = app.give("show", &gift("g1")).await;
    watcher.wait_until("the first gift", |fold| fold.snapshots == 2).await;
    assert_eq!(watcher.fold.epoch(), answer["epoch"]);
    assert_eq!((watcher.fold.rows.len(), watcher.fold.skipped), (1, 0));
    app.give("show", &gift("g2")).await;
    watcher.wait_for_seq(2).await;
    assert_eq!((watcher.fold.snapshots, watcher.fold.deltas), (2, 1));
}

async fn watching_an_empty_feed_does_not_begin_it() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    app.patch_policy("show", json!({"capacity": 3})).await;
    assert_eq!(app.get_feed("show").await["epoch"], "0");
    app.give("show", &gift("g1")).await;
    watcher.wait_until("the first gift", |fold| !fold.rows.is_empty()).await;
    assert_eq!((watcher.fold.seq(), watcher.fold.capacity), (1, 3));
}

async fn a_changed_capacity_reaches_every_watcher_as_a_snapshot() {
    let app = TestApp::start().await;
    for n in 0..6 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let (mut one, mut two) = (app.watch("show").await, app.watch("show").await);
    one.wait_for_seq(6).await;
    two.wait_for_seq(6).await;
    app.patch_policy("show", json!({"capacity": 2})).await;
    for watcher in [&mut one, &mut two] {
        watcher.wait_until("the shorter list", |fold| fold.capacity == 2).await;
        assert_eq!((watcher.fold.seq(), watcher.fold.snapshots, watcher.fold.skipped), (7, 2, 1));
        watcher.wait_for_the_list().await;
    }
    app.put_policy("show", json!({})).await;
    app.give("show", &gift("more").by("more")).await;
    for watcher in [&mut one, &mut two] {
        watcher.wait_until("the longer list", |fold| fold.seq() == 9).await;
        assert_eq!((watcher.fold.capacity, watcher.fold.rows.len()), (10, 3));
        watcher.wait_for_the_list().await;
    }
}

async fn a_row_with_a_ttl_leaves_within_a_second_of_its_time() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"row_ttl_ms": 1_000})).await;
    let mut watcher = app.watch("show").await;
    app.give("show", &gift("g1")).await;
    app.give("show", &gift("g2").by("bob")).await;
    watcher.wait_until("both rows", |fold| fold.rows.len() == 2).await;
    for left in [1, 0] {
        // Both may leave in one frame.
        let Some(row) = watcher.fold.rows.last().cloned() else { break };
        let expires = Millis::parse(row["expires_at"].as_str().unwrap()).unwrap();
        watcher.wait_until("the oldest row to leave", |fold| fold.rows.len() <= left).await;
        let now = Millis::now();
        assert!(now >= expires, "{now} is before {expires}");
        assert!(now.since(expires) < 1_500, "{now} is long after {expires}");
    }
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.seq(), 4);
}

async fn a_feed_that_nobody_watches_forgets_its_rows_too() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"row_ttl_ms": 1_000})).await;
    app.give("show", &gift("g1")).await;
    let row = app.get_feed("show").await["rows"][0].clone();
    let expires = Millis::parse(row["expires_at"].as_str().unwrap()).unwrap();
    loop {
        let (before, feed) = (Millis::now(), app.get_feed("show").await);
        if feed["rows"] == json!([]) {
            assert!(Millis::now() >= expires);
            break;
        }
        assert!(before < expires, "the row is still there at {before}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn many_watchers_of_one_feed_have_the_same_list() {
    let app = TestApp::start().await;
    let mut watchers = vec![];
    for n in 0..20 {
        watchers.push(app.watch("show").await);
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{}", n % 7))).await;
    }
    for watcher in &mut watchers {
        watcher.wait_for_the_list().await;
    }
}

async fn feeds_do_not_meet() {
    let app = TestApp::start().await;
    let (mut one, mut two) = (app.watch("one").await, app.watch("two").await);
    app.give("one", &gift("g1")).await;
    app.give("two", &gift("g1").by("bob")).await;
    one.wait_until("its gift", |fold| fold.seq() == 1).await;
    two.wait_until("its gift", |fold| fold.seq() == 1).await;
    assert_eq!(
        (&one.fold.rows[0]["user"]["id"], &two.fold.rows[0]["user"]["id"]),
        (&json!("ann"), &json!("bob"))
    );
}

async fn a_malformed_feed_name_is_refused_before_the_upgrade() {
    let app = TestApp::start().await;
    for name in ["a%20b", "a%3Ab", &"f".repeat(65)] {
        assert_eq!(open_socket(&app, &format!("/v1/feeds/{name}/ws"), None).await.err(), Some(422), "{name}");
    }
    assert_eq!(open_socket(&app, "/v1/feeds/show/wss", None).await.err(), Some(404));
}
