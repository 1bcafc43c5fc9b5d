//! One gift's story.

use serde_json::{Value, json};

use super::{NOWHERE, SECRET, cursors};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores!(
    a_gift_is_told_from_the_post_to_the_last_reader,
    gifts_that_nobody_sees_have_a_story_too,
    a_waiting_gift_says_when_it_will_be_shown,
    parts_an_old_client_cannot_read_are_left_out,
    a_row_that_is_taken_back_is_in_the_story_of_each_of_its_gifts,
    an_evicted_user_is_unknown,
    an_entry_that_was_cut_is_lost_to_whom_it_was_not_handed,
);

async fn story(app: &TestApp, id: &str) -> Value {
    let said = app.get(&format!("/v1/feeds/show/gifts/{id}")).await;
    assert_eq!(said.status, 200, "{id}: {said:?}");
    said.json()
}

fn types(story: &Value) -> Vec<&str> {
    story["entries"].as_array().unwrap().iter().map(|entry| entry["type"].as_str().unwrap()).collect()
}

async fn a_gift_is_told_from_the_post_to_the_last_reader() {
    let app = TestApp::with(&Backing::fresh(), |config| config.reports.max_attempts = 2).await;
    app.give("show", &gift("other").by("bob")).await;
    let posted = app.give("show", &gift("a").count(2).value(500, "EUR").with("message", json!("hi"))).await;
    let entries = app.pull(json!({"max": 1})).await;
    assert_eq!(entries[0]["gift"]["id"], "other");
    let told = story(&app, "a").await;
    for (field, wanted) in [("id", json!("a")), ("status", json!("accepted")), ("row", posted["row"].clone())]
    {
        assert_eq!(told[field], wanted, "{field}");
    }
    assert_eq!((&told["seq"], told.get("deliver_at")), (&posted["seq"], None));
    assert_eq!((&told["gift"]["id"], &told["gift"]["message"]), (&json!("a"), &json!("hi")));
    assert_eq!(types(&told), ["gift.accepted"]);
    let delta = json!({"count": 2, "value": {"amount": 500, "currency": "EUR"}});
    assert_eq!((&told["entries"][0]["delta"], &told["entries"][0]["at"]), (&delta, &told["at"]));
    assert_eq!(told["readers"], json!([{"kind": "group", "name": "g", "state": "waiting"}]));
    let entries = app.pull(json!({})).await;
    assert_eq!(entries[0]["cursor"], told["entries"][0]["cursor"]);
    let reader = async || story(&app, "a").await["readers"][0].clone();
    assert_eq!(reader().await, json!({"kind": "group", "name": "g", "state": "pending", "attempts": 1}));
    app.post("/v1/feeds/show/groups/g/ack", &cursors(&entries)).await;
    assert_eq!(reader().await, json!({"kind": "group", "name": "g", "state": "acknowledged"}));
    // A refund is the newest entry now, and takes no part of the story away.
    let refund = json!({"refunded": 100, "reason": "a mistake"});
    assert_eq!(app.post("/v1/feeds/show/gifts/a/refund", &refund).await.status, 200);
    let told = story(&app, "a").await;
    assert_eq!((types(&told), &told["status"]), (vec!["gift.accepted", "gift.refunded"], &json!("accepted")));
    assert_eq!(told["readers"][0]["state"], "waiting");
    app.call("POST", "/v1/feeds/show/gifts/a/retract", None).await;
    let told = story(&app, "a").await;
    assert_eq!(
        (types(&told).len(), &told["status"], &told["gift"]["id"]),
        (3, &json!("retracted"), &json!("a"))
    );
    assert_eq!(
        told["entries"][2]["delta"],
        json!({"count": -2, "value": {"amount": -400, "currency": "EUR"}})
    );
    for _ in 0..2 {
        let entries = app.pull(json!({"wait_ms": 20_000})).await;
        app.post("/v1/feeds/show/groups/g/nack", &cursors(&entries)).await;
    }
    assert_eq!(app.pull(json!({})).await, Vec::<Value>::new());
    let dead = reader().await;
    assert_eq!((&dead["state"], &dead["attempts"]), (&json!("dead"), &json!(2)));
    assert!(dead["last_error"].as_str().unwrap().contains("given back"), "{dead}");
}

async fn gifts_that_nobody_sees_have_a_story_too() {
    let app = TestApp::start().await;
    app.put_policy("show", json!({"dedup": "drop"})).await;
    let first = app.give("show", &gift("a")).await;
    app.give("show", &gift("b")).await;
    let told = story(&app, "b").await;
    assert_eq!((&told["status"], &told["row"]), (&json!("suppressed"), &first["row"]));
    assert_eq!((told.get("seq"), types(&told)), (None, vec!["gift.suppressed"]));
    app.give("show", &gift("tested").by("bob").test()).await;
    let told = story(&app, "tested").await;
    assert_eq!((&told["status"], &told["entries"]), (&json!("accepted"), &json!([])));
    assert!(told["at"].as_str().unwrap() >= first["at"].as_str().unwrap_or_default());
    app.put_policy("show", json!({"review": "all"})).await;
    app.post_gift("show", &gift("c").by("cid")).await;
    app.post("/v1/feeds/show/review/c", &json!({"action": "deny"})).await;
    let told = story(&app, "c").await;
    assert_eq!((&told["status"], types(&told)), (&json!("denied"), vec!["gift.denied"]));
    assert_eq!(told["gift"]["id"], "c");
}

async fn a_waiting_gift_says_when_it_will_be_shown() {
    let app = TestApp::start().await;
    let posted = app.post_json("show", &json!({
        "id": "later", "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"}, "delay_ms": 600_000
    })).await.json();
    let told = story(&app, "later").await;
    assert_eq!((&told["status"], &told["deliver_at"]), (&json!("scheduled"), &posted["deliver_at"]));
    assert_eq!(
        (&told["gift"]["id"], &told["entries"], &told["readers"]),
        (&json!("later"), &json!([]), &json!([]))
    );
    let (at, deliver_at) = (told["at"].as_str().unwrap(), told["deliver_at"].as_str().unwrap());
    assert!(at < deliver_at, "{at}");
    app.call("DELETE", "/v1/feeds/show/scheduled/later", None).await;
    let told = story(&app, "later").await;
    assert_eq!((&told["status"], &told["deliver_at"]), (&json!("cancelled"), &posted["deliver_at"]));
    assert!((at..deliver_at).contains(&told["at"].as_str().unwrap()), "{told}");
    app.put_policy("show", json!({"review": "all"})).await;
    app.post_gift("show", &gift("looked-at")).await;
    let told = story(&app, "looked-at").await;
    assert_eq!((&told["status"], &told["gift"]["id"]), (&json!("in_review"), &json!("looked-at")));
    assert_eq!(told.get("deliver_at"), None);
    app.post("/v1/feeds/show/review/looked-at", &json!({"action": "approve"})).await;
    let told = story(&app, "looked-at").await;
    assert_eq!((&told["status"], types(&told)), (&json!("accepted"), vec!["gift.accepted"]));
}

async fn parts_an_old_client_cannot_read_are_left_out() {
    let app = TestApp::start().await;
    app.give("show", &gift("early").by("bob")).await;
    let put = async |path: &str, body: Value| {
        assert_eq!(app.put_hook(path, &body).await.status, 201);
    };
    let hook = |types: Value| json!({"url": NOWHERE, "secret": SECRET, "types": types, "batch_ms": 60_000});
    put("/v1/feeds/show/webhooks/all", hook(json!(["gift.*", "drop.sold"]))).await;
    put("/v1/feeds/show/webhooks/refunds", hook(json!(["gift.refunded"]))).await;
    put("/v1/feeds/*/webhooks/every", hook(json!(["gift.*"]))).await;
    app.pull(json!({"from": "now"})).await;
    assert_eq!(story(&app, "early").await["readers"], json!([]));
    app.give("show", &gift("a").value(5, "EUR")).await;
    let readers = async || {
        let told = story(&app, "a").await;
        let all = told["readers"].as_array().unwrap().clone();
        all.iter().map(|it| format!("{} {}", it["kind"], it["name"]).replace('"', "")).collect::<Vec<_>>()
    };
    assert_eq!(readers().await, ["webhook every", "group g", "webhook all"]);
    app.post("/v1/feeds/show/gifts/a/refund", &json!({"refunded": 1})).await;
    assert_eq!(readers().await, ["webhook every", "group g", "webhook all", "webhook refunds"]);
}

async fn a_row_that_is_taken_back_is_in_the_story_of_each_of_its_gifts() {
    let app = TestApp::start().await;
    let row = app.give("show", &gift("a")).await["row"].clone();
    app.give("show", &gift("b").count(3)).await;
    app.give("show", &gift("t").test()).await;
    app.retract("show", row.as_str().unwrap()).await;
    for (id, before) in [("a", "gift.accepted"), ("b", "gift.merged")] {
        let told = story(&app, id).await;
        assert_eq!((&told["status"], types(&told)), (&json!("retracted"), vec![before, "gift.retracted"]));
    }
    // A sale of the same name is another story.
    let drop = json!({"gift": {"id": "r", "name": "R"}, "total": 5});
    app.call("PUT", "/v1/feeds/show/drops/r", Some(&drop.to_string())).await;
    let claim = json!({"id": "b", "user": {"id": "u", "name": "U"}, "pay": "now"});
    assert_eq!(app.post("/v1/feeds/show/drops/r/claims", &claim).await.status, 201);
    assert_eq!(types(&story(&app, "b").await).len(), 2);
}

async fn an_evicted_user_is_unknown() {
    let app = TestApp::start().await;
    for path in ["/v1/feeds/show/gifts/none", "/v1/feeds/show/gifts/a%20b"] {
        let said = app.get(path).await;
        assert_eq!((said.status, &said.json()["type"]), (404, &json!("/problems/not-found")), "{path}");
    }
    app.put_policy("show", json!({"idempotency_window_ms": 1_000})).await;
    app.give("show", &gift("a")).await;
    assert_eq!(app.get("/v1/feeds/show/gifts/a").await.status, 200);
}

async fn an_entry_that_was_cut_is_lost_to_whom_it_was_not_handed() {
    let app = TestApp::with(&Backing::fresh(), |config| {
        (config.reports.ledger_max, config.reports.backlog_max) = (100, 200);
    })
    .await;
    app.give("show", &gift("a").by("ann")).await;
    app.post("/v1/feeds/show/groups/quick/claim", &json!({"consumer": "c", "wait_ms": 0, "max": 1})).await;
    app.pull(json!({"max": 1, "from": "now"})).await;
    let seek = app.post("/v1/feeds/show/groups/g/seek", &json!({"to": "start"})).await;
    assert_eq!(seek.status, 200);
    let claimed =
        app.post("/v1/feeds/show/groups/quick/claim", &json!({"consumer": "c", "wait_ms": 0})).await;
    assert_eq!(claimed.json()["entries"], json!([]));
    let cursor = seek.json()["cursor"].clone();
    let acked = app.post("/v1/feeds/show/groups/quick/ack", &json!({"cursors": [cursor]})).await;
    assert_eq!(acked.json()["acked"], 1);
    for n in 0..300 {
        app.give("show", &gift(&format!("more-{n}")).by(&format!("bob-{n}"))).await;
    }
    let told = story(&app, "a").await;
    assert_eq!((&told["status"], &told["entries"]), (&json!("accepted"), &json!([])));
    assert_eq!(told["readers"], json!([{"kind": "group", "name": "g", "state": "lost"}]));
}
