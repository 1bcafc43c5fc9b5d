//! A resume cannot fail: it gives the missed deltas or a newer snapshot, and says which.

use serde_json::json;

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::watcher::Watcher;

on_both_stores_and_over_tls![
    a_changed_default_of_the_server_holds_after_a_restart,
    a_covered_position_is_resumed_with_the_missed_changes,
    a_position_at_the_head_is_resumed_without_changes,
    history_is_exactly_what_can_be_resumed_over,
    without_history_only_the_head_is_covered,
    a_position_that_cannot_resume_gets_a_snapshot,
    a_changed_capacity_uncovers_what_was_before,
    a_restart_does_not_shorten_history,
    everybody_who_comes_back_after_a_restart_resumes_by_one_look_into_the_history,
    a_watcher_of_an_empty_feed_that_comes_again_sees_it_begin,
    a_position_survives_a_hundred_reconnects_while_gifts_pour_in,
];

async fn post_some(app: &TestApp, ids: std::ops::Range<u32>) {
    for n in ids {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
}

async fn a_covered_position_is_resumed_with_the_missed_changes() {
    let app = TestApp::start().await;
    post_some(&app, 0..3).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(3).await;
    watcher.disconnect();
    post_some(&app, 3..30).await;
    app.give("show", &gift("again").by("u29")).await;
    watcher.reconnect().await;
    watcher.wait_for_seq(31).await;
    assert_eq!((watcher.fold.resumes, watcher.fold.snapshots, watcher.fold.ops), (1, 1, 28));
    watcher.wait_for_the_list().await;
}

async fn a_position_at_the_head_is_resumed_without_changes() {
    let app = TestApp::start().await;
    post_some(&app, 0..3).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(3).await;
    for n in 3..8 {
        watcher.reconnect().await;
        watcher.wait_until("the resume", |fold| fold.resumes == u64::from(n) - 2).await;
        post_some(&app, n..n + 1).await;
        watcher.wait_for_seq(u64::from(n) + 1).await;
    }
    assert_eq!((watcher.fold.snapshots, watcher.fold.ops), (1, 5));
}

async fn history_is_exactly_what_can_be_resumed_over() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"history": 5})).await;
    post_some(&app, 0..3).await;
    let (mut inside, mut outside) = (app.watch("show").await, app.watch("show").await);
    outside.wait_for_seq(3).await;
    post_some(&app, 3..4).await;
    inside.wait_for_seq(4).await;
    inside.disconnect();
    outside.disconnect();
    post_some(&app, 4..9).await;
    inside.reconnect().await;
    inside.wait_for_seq(9).await;
    assert_eq!((inside.fold.resumes, inside.fold.snapshots), (1, 1));
    outside.fold.at.as_mut().unwrap().1 = 3;
    outside.reconnect().await;
    outside.wait_until("an answer", |fold| fold.seq() == 9).await;
    assert_eq!((outside.fold.resumes, outside.fold.snapshots, outside.fold.skipped), (0, 2, 6));
    inside.wait_for_the_list().await;
    outside.wait_for_the_list().await;
}

async fn without_history_only_the_head_is_covered() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"history": 0})).await;
    post_some(&app, 0..2).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(2).await;
    watcher.reconnect().await;
    watcher.wait_until("the resume", |fold| fold.resumes == 1).await;
    post_some(&app, 2..4).await;
    watcher.wait_for_the_list().await;
    watcher.disconnect();
    post_some(&app, 4..5).await;
    let snapshots = watcher.fold.snapshots;
    watcher.reconnect().await;
    watcher.wait_until("a snapshot", |fold| fold.snapshots == snapshots + 1).await;
    watcher.wait_for_the_list().await;
}

async fn a_position_that_cannot_resume_gets_a_snapshot() {
    let app = TestApp::start().await;
    post_some(&app, 0..3).await;
    let epoch = app.get_feed("show").await["epoch"].as_str().unwrap().to_owned();
    let strange = [
        "".to_owned(),
        ":".into(),
        "abc".into(),
        "0:0".into(),
        "0:3".into(),
        "other:2".into(),
        format!("{epoch}:4"),
        format!("{epoch}:18446744073709551615"),
        format!("{epoch}:99999999999999999999999"),
        format!("{epoch}:-1"),
        format!("{epoch}:1x"),
        format!("{epoch}:%201"),
        format!("{epoch}:"),
        format!(":{epoch}"),
        format!("{epoch}:1:1"),
        "%00%ff".into(),
        "%F0%9F%8C%B9:1".into(),
        "x".repeat(2_000),
    ];
    for since in strange {
        let mut watcher = Watcher::open_with(&app, "show", &format!("?since={since}"), None).await;
        watcher.wait_for_seq(3).await;
        assert_eq!((watcher.fold.snapshots, watcher.fold.skipped), (1, 0), "{since}");
    }
}

async fn a_changed_capacity_uncovers_what_was_before() {
    let app = TestApp::start().await;
    post_some(&app, 0..3).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(3).await;
    watcher.disconnect();
    app.patch_policy("show", json!({"capacity": 2})).await;
    post_some(&app, 3..4).await;
    watcher.reconnect().await;
    watcher.wait_until("a snapshot", |fold| fold.snapshots == 2).await;
    assert_eq!((watcher.fold.skipped, watcher.fold.capacity), (2, 2));
    watcher.wait_for_the_list().await;
}

async fn a_restart_does_not_shorten_history() {
    let backing = Backing::fresh();
    let app = TestApp::on(&backing).await;
    post_some(&app, 0..3).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(3).await;
    watcher.disconnect();
    post_some(&app, 3..8).await;
    app.stop().await;
    let app = TestApp::on(&backing).await;
    post_some(&app, 8..10).await;
    watcher.api = Api::clone(&app);
    watcher.reconnect().await;
    watcher.wait_for_seq(10).await;
    assert_eq!((watcher.fold.resumes, watcher.fold.snapshots), (1, 1));
    watcher.wait_for_the_list().await;
}

async fn everybody_who_comes_back_after_a_restart_resumes_by_one_look_into_the_history() {
    let backing = Backing::fresh();
    let app = TestApp::on(&backing).await;
    post_some(&app, 0..3).await;
    let mut watchers = Vec::new();
    for _ in 0..40 {
        let mut watcher = app.watch("show").await;
        watcher.wait_for_seq(3).await;
        watcher.disconnect();
        watchers.push(watcher);
    }
    post_some(&app, 3..203).await;
    app.stop().await;
    let app = TestApp::on(&backing).await;
    for watcher in &mut watchers {
        watcher.api = Api::clone(&app);
    }
    futures_util::future::join_all(watchers.iter_mut().map(Watcher::reconnect)).await;
    for watcher in &mut watchers {
        watcher.wait_for_seq(203).await;
        assert_eq!((watcher.fold.resumes, watcher.fold.snapshots, watcher.fold.ops), (1, 1, 200));
        watcher.wait_for_the_list().await;
    }
    let metrics = app.get("/metrics").await.text;
    let resumed = |from: &str| {
        let name = format!("tipcast_resumes_total{{from=\"{from}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0").to_owned()
    };
    assert_eq!((resumed("ring"), resumed("history")), ("40".to_owned(), "0".to_owned()), "{metrics}");
}

async fn a_changed_default_of_the_server_holds_after_a_restart() {
    let backing = Backing::fresh();
    let app = TestApp::on(&backing).await;
    post_some(&app, 0..6).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(6).await;
    watcher.disconnect();
    app.stop().await;
    let app = TestApp::with(&backing, |config| config.feeds.capacity = 3).await;
    watcher.api = Api::clone(&app);
    let feed = app.get_feed("show").await;
    assert_eq!((feed["rows"].as_array().unwrap().len(), feed["capacity"].as_u64()), (3, Some(3)));
    watcher.reconnect().await;
    watcher.wait_until("the shorter list", |fold| fold.capacity == 3).await;
    watcher.wait_for_the_list().await;
    post_some(&app, 6..8).await;
    watcher.wait_for_the_list().await;
    assert_eq!((watcher.fold.rows.len(), app.get_policy("show").await["capacity"].as_u64()), (3, Some(3)));
}

async fn a_watcher_of_an_empty_feed_that_comes_again_sees_it_begin() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    watcher.reconnect().await;
    watcher.wait_until("an answer", |fold| fold.snapshots + fold.resumes == 2).await;
    post_some(&app, 0..2).await;
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.seq(), 2);
}

async fn a_position_survives_a_hundred_reconnects_while_gifts_pour_in() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"flush_ms": 0})).await;
    post_some(&app, 0..1).await;
    let mut watcher = app.watch("show").await;
    let api = watcher.api.clone();
    let pouring = tokio::spawn(async move {
        for n in 1..300 {
            api.give("show", &gift(&format!("g{n}")).by(&format!("u{}", n % 20))).await;
        }
    });
    for n in 0..100u64 {
        watcher.wait_until("its first frame", |fold| fold.snapshots + fold.resumes > n).await;
        watcher.reconnect().await;
    }
    pouring.await.unwrap();
    watcher.wait_for_the_list().await;
    assert_eq!((watcher.fold.seq(), watcher.fold.snapshots), (300, 1), "everything was covered");
}
