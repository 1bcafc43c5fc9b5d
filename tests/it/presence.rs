//! How many watch, as everybody can ask, and as watchers see it.

use serde_json::json;

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::sse::SseWatcher;
use crate::support::watcher::Watcher;

on_both_stores![
    everybody_can_ask_how_many_watch_a_feed,
    overlays_that_are_connected_are_counted_beside_all_who_watch,
    watchers_are_told_where_the_policy_says_so,
];

/// Asks until `watchers` watch on `nodes` nodes.
async fn until(app: &TestApp, watchers: u64, nodes: u64) {
    until_also(app, watchers, nodes, None).await;
}

/// Asks until `watchers` watch on `nodes` nodes, and `overlays` of them are overlays.
async fn until_also(app: &TestApp, watchers: u64, nodes: u64, overlays: Option<u64>) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let said = app.get("/v1/feeds/show/presence").await;
        assert_eq!(said.status, 200, "{said:?}");
        let told = said.json();
        assert!(told["feed"] == "show" && told["at"].is_string(), "{told}");
        if (told["watchers"].as_u64(), told["nodes"].as_u64()) == (Some(watchers), Some(nodes))
            && overlays.is_none_or(|overlays| told["overlays"] == overlays)
        {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{told}, not {watchers} on {nodes}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn everybody_can_ask_how_many_watch_a_feed() {
    let app = TestApp::start().await;
    until(&app, 0, 0).await;
    let first = app.watch("show").await;
    let _second = app.watch("show").await;
    let _elsewhere = app.watch("other").await;
    until(&app, 2, 1).await;
    drop(first);
    until(&app, 1, 1).await;
    assert_eq!(app.get_feed("show").await["epoch"], "0", "watching writes nothing to a feed");
    app.get("/v1/feeds/no%20feed/presence").await.problem(422);
    app.call("POST", "/v1/feeds/show/presence", Some("{}")).await.problem(405);
}

async fn overlays_that_are_connected_are_counted_beside_all_who_watch() {
    let app = TestApp::start().await;
    let _watcher = app.watch("show").await;
    let overlay = Watcher::open_with(&app, "show", "?as=overlay", None).await;
    let _events = SseWatcher::open_with(&app, "show", "?as=overlay").await;
    let mut many = Many::open(&app).await;
    many.subscribe_with("show", json!({"as": "overlay"})).await;
    let _other = Watcher::open_with(&app, "show", "?as=clock", None).await;
    until_also(&app, 5, 1, Some(3)).await;
    drop(overlay);
    until_also(&app, 4, 1, Some(2)).await;
    many.subscribe("show").await;
    until_also(&app, 4, 1, Some(1)).await;
}

async fn watchers_are_told_where_the_policy_says_so() {
    let app = TestApp::start().await;
    assert_eq!(app.get_policy("show").await["presence"], "off");
    assert_eq!(app.put_policy("show", json!({"presence": "loud"})).await.pointers(), ["/presence"]);
    app.patch_policy("show", json!({"presence": "count"})).await;
    assert_eq!(app.patch_policy("show", json!({"capacity": 7})).await["presence"], "count");
    let mut first = app.watch("show").await;
    first.wait_until("a count", |fold| fold.watchers == Some(1)).await;
    let mut second = app.watch("show").await;
    second.wait_until("a count", |fold| fold.watchers == Some(2)).await;
    first.wait_until("the new count", |fold| fold.watchers == Some(2)).await;
    app.give("show", &gift("a1")).await;
    first.wait_for_the_list().await;
    drop(second);
    first.wait_until("the last count", |fold| fold.watchers == Some(1)).await;
    first.wait_for_the_list().await;
}

#[tokio::test]
async fn nodes_add_up_and_one_that_is_gone_fades() {
    let backing = Backing::redis();
    let (a, b) = (TestApp::on(&backing).await, TestApp::on(&backing).await);
    let (_first, second, third) = (a.watch("show").await, b.watch("show").await, b.watch("show").await);
    until(&a, 3, 2).await;
    until(&b, 3, 2).await;
    drop((second, third));
    until(&a, 1, 1).await;
}
