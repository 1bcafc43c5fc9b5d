//! What a host does to a show, over HTTP and as watchers see it.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores![
    a_gift_is_taken_back_by_its_id_and_watchers_see_what_is_left,
    a_gift_nobody_knows_is_404,
    a_part_of_a_gift_is_refunded_and_the_ledger_says_why,
    all_rows_of_a_user_go_at_once,
    overlays_are_told_and_newcomers_learn_what_holds,
    an_unknown_control_is_refused_by_name,
];

async fn take_back(app: &TestApp, id: &str) -> crate::support::api::Said {
    app.call("POST", &format!("/v1/feeds/show/gifts/{id}/retract"), None).await
}

async fn a_gift_is_taken_back_by_its_id_and_watchers_see_what_is_left() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    app.give("show", &gift("a1").count(3).value(300, "EUR")).await;
    app.give("show", &gift("a2").count(4).value(400, "EUR")).await;
    for _ in 0..2 {
        let said = take_back(&app, "a1").await;
        assert_eq!((said.status, said.json()), (200, json!({"status": "retracted"})));
    }
    let left = app.get_feed("show").await;
    assert_eq!((&left["rows"][0]["count"], &left["rows"][0]["value"]["amount"]), (&json!(4), &json!(400)));
    watcher.wait_for_the_list().await;
    assert_eq!(take_back(&app, "a2").await.status, 200);
    let left = app.get_feed("show").await;
    assert_eq!(left["rows"], json!([]));
    watcher.wait_for_the_list().await;
}

async fn a_gift_nobody_knows_is_404() {
    let app = TestApp::start().await;
    for id in ["nobody", "no%20id"] {
        take_back(&app, id).await.problem(404);
    }
    app.call("GET", "/v1/feeds/show/gifts/a1/retract", None).await.problem(405);
    assert_eq!(app.get_feed("show").await["epoch"], "0");
}

async fn a_part_of_a_gift_is_refunded_and_the_ledger_says_why() {
    let app = TestApp::start().await;
    let path = |id: &str, what: &str| format!("/v1/feeds/show/gifts/{id}/{what}");
    let post = async |id: &str, what: &str, body: Value| {
        app.call("POST", &path(id, what), Some(&body.to_string())).await
    };
    let row = app.give("show", &gift("a1").count(3).value(300, "EUR")).await["row"].clone();
    app.give("show", &gift("plain").by("bob")).await;
    let refunded = |status: &str, amount: u64| json!({"status": status, "refunded": amount, "row": row});
    let mut watcher = app.watch("show").await;
    let first = post("a1", "refund", json!({"refunded": 100, "reason": "one \u{202e}was broken"})).await;
    assert_eq!((first.status, first.json()), (200, refunded("refunded", 100)));
    assert_eq!(post("a1", "refund", json!({"refunded": 40})).await.json(), refunded("refunded", 100));
    let rows = app.get_feed("show").await["rows"].clone();
    let shown = rows.as_array().unwrap().iter().find(|it| it["row"] == row).unwrap();
    assert_eq!((&shown["count"], &shown["value"]["amount"]), (&json!(3), &json!(200)));
    watcher.wait_for_the_list().await;
    let none = post("plain", "refund", json!({"refunded": 1})).await.problem(409);
    assert_eq!(none["type"], "/problems/nothing-to-refund");
    post("nobody", "refund", json!({"refunded": 1})).await.problem(404);
    for bad in [
        json!({}),
        json!({"refunded": 301}),
        json!({"refunded": -1}),
        json!({"refunded": "1"}),
        json!({"refunded": 1, "reason": "x".repeat(201)}),
        json!({"refunded": 1, "why": "x"}),
    ] {
        post("a1", "refund", bad).await.problem(422);
    }
    app.call("POST", &path("a1", "refund"), None).await.problem(415);
    assert_eq!(post("a1", "refund", json!({"refunded": 300})).await.json(), refunded("retracted", 300));
    assert_eq!(post("a1", "refund", json!({"refunded": 9_000})).await.json(), refunded("retracted", 300));
    post("plain", "retract", json!({"reason": "x".repeat(201)})).await.problem(422);
    post("plain", "retract", json!({"refunded": 1})).await.problem(422);
    let back = post("plain", "retract", json!({"reason": "rude"})).await;
    assert_eq!((back.status, back.json()), (200, json!({"status": "retracted"})));
    let ledger = app.get("/v1/feeds/show/ledger").await.json();
    let told: Vec<Value> = ledger["entries"].as_array().unwrap()[2..]
        .iter()
        .map(|it| json!([it["type"], it["gift"]["id"], it["gift"]["user"]["id"], it["delta"], it["reason"]]))
        .collect();
    let wanted = json!([
        ["gift.refunded", "a1", "ann", {"count": 0, "value": {"amount": -100, "currency": "EUR"}}, "one was broken"],
        ["gift.retracted", "a1", "ann", {"count": -3, "value": {"amount": -200, "currency": "EUR"}}, null],
        ["gift.retracted", "plain", "bob", {"count": -1}, "rude"],
    ]);
    assert_eq!(json!(told), wanted);
}

async fn all_rows_of_a_user_go_at_once() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    for (id, user) in [("a", "u:1"), ("b", "u&2"), ("c", "u:1"), ("d", "u&2")] {
        app.give("show", &gift(id).by(user)).await;
    }
    let mut watcher = app.watch("show").await;
    let said = app.call("DELETE", "/v1/feeds/show/rows?user=u%262", None).await;
    assert_eq!((said.status, said.json()), (200, json!({"removed": 2})));
    let left = app.get_feed("show").await;
    let users: Vec<&Value> = left["rows"].as_array().unwrap().iter().map(|row| &row["user"]["id"]).collect();
    assert_eq!(users, ["u:1", "u:1"]);
    watcher.wait_for_the_list().await;
    let said = app.call("DELETE", "/v1/feeds/show/rows?user=nobody", None).await;
    assert_eq!(said.json(), json!({"removed": 0}));
    for bad in ["/v1/feeds/show/rows", "/v1/feeds/show/rows?user=", "/v1/feeds/show/rows?user=a&user=b"] {
        app.call("DELETE", bad, None).await.problem(422);
    }
}

async fn control(app: &TestApp, body: Value) -> crate::support::api::Said {
    app.call("POST", "/v1/feeds/show/control", Some(&body.to_string())).await
}

async fn overlays_are_told_and_newcomers_learn_what_holds() {
    let app = TestApp::start().await;
    let row = app.give("show", &gift("a1")).await["row"].clone();
    let mut watcher = app.watch("show").await;
    for (n, body) in [
        json!({"action": "pause"}),
        json!({"action": "mute"}),
        json!({"action": "replay", "row": row}),
        json!({"action": "skip"}),
    ]
    .into_iter()
    .enumerate()
    {
        let said = control(&app, body).await;
        assert_eq!((said.status, said.json()), (200, json!({"seq": n + 2})));
    }
    assert_eq!(control(&app, json!({"action": "pause"})).await.json(), json!({"seq": 5}));
    let feed = app.get_feed("show").await;
    assert_eq!(feed["control"], json!({"paused": true, "muted": true}));
    watcher.wait_for_the_list().await;
    app.watch("show").await.wait_for_the_list().await;
    control(&app, json!({"action": "resume"})).await;
    control(&app, json!({"action": "unmute"})).await;
    let feed = app.get_feed("show").await;
    assert!(feed.get("control").is_none(), "{feed}");
    watcher.wait_for_the_list().await;
}

async fn an_unknown_control_is_refused_by_name() {
    let app = TestApp::start().await;
    for (body, at) in [
        (json!({}), "/action"),
        (json!({"action": "dance"}), "/action"),
        (json!({"action": "replay"}), "/row"),
        (json!({"action": "pause", "row": "e-1"}), "/row"),
        (json!({"action": "skip", "loud": true}), "/loud"),
    ] {
        assert_eq!(control(&app, body.clone()).await.pointers(), [at], "{body}");
    }
    control(&app, json!({"action": "replay", "row": "e-1"})).await.problem(404);
    assert_eq!(app.get_feed("show").await["epoch"], "0");
}
