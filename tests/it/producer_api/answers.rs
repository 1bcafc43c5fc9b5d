//! What a producer learns about one gift.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores![
    a_new_row_is_201_with_its_place,
    joining_a_row_is_200_with_its_count,
    a_gift_that_is_not_shown_is_200_and_names_the_row,
    the_same_id_again_is_200_with_the_first_answer_and_duplicate,
    the_same_payload_is_compared_after_parsing_and_normalising,
    the_same_id_with_another_payload_is_422_and_changes_nothing,
    without_an_id_the_server_makes_a_uuid_of_version_seven,
    the_idempotency_key_is_the_id,
    a_retracted_row_leaves_once,
    ids_are_unique_per_feed,
];

fn keys(answer: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

async fn a_new_row_is_201_with_its_place() {
    let app = TestApp::start().await;
    let said = app.post_gift("show", &gift("g1")).await;
    assert_eq!(said.status, 201, "{said:?}");
    assert!(said.header("content-type").starts_with("application/json"), "{said:?}");
    let answer = said.json();
    assert_eq!(keys(&answer), ["epoch", "id", "row", "seq", "status"]);
    assert_eq!(
        (&answer["status"], &answer["id"], &answer["seq"]),
        (&json!("accepted"), &json!("g1"), &json!(1))
    );
    let feed = app.get_feed("show").await;
    assert_eq!((&feed["epoch"], &feed["rows"][0]["row"]), (&answer["epoch"], &answer["row"]));
}

async fn joining_a_row_is_200_with_its_count() {
    let app = TestApp::start().await;
    let first = app.give("show", &gift("g1").count(2)).await;
    let said = app.post_gift("show", &gift("g2").count(3)).await;
    assert_eq!(said.status, 200);
    let answer = said.json();
    assert_eq!(keys(&answer), ["count", "epoch", "id", "row", "seq", "status"]);
    assert_eq!(
        (&answer["status"], &answer["count"], &answer["seq"]),
        (&json!("merged"), &json!(5), &json!(2))
    );
    assert_eq!(answer["row"], first["row"]);
}

async fn a_gift_that_is_not_shown_is_200_and_names_the_row() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    let first = app.give("show", &gift("g1")).await;
    let said = app.post_gift("show", &gift("g2")).await;
    assert_eq!(said.status, 200);
    assert_eq!(said.json(), json!({"status": "suppressed", "id": "g2", "row": first["row"]}));
}

async fn the_same_id_again_is_200_with_the_first_answer_and_duplicate() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup_window_ms": 60_000})).await;
    let mut first = app.give("show", &gift("g1")).await;
    let mut joined = app.give("show", &gift("g2")).await;
    app.give("show", &gift("g3")).await;
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    let mut dropped = app.give("show", &gift("g4")).await;
    for (id, answer) in [("g1", &mut first), ("g2", &mut joined), ("g4", &mut dropped)] {
        answer["duplicate"] = json!(true);
        for _ in 0..2 {
            let again = app.post_gift("show", &gift(id)).await;
            assert_eq!((again.status, again.json()), (200, answer.clone()));
        }
    }
    assert_eq!(app.get_feed("show").await["seq"], 3);
}

async fn the_same_payload_is_compared_after_parsing_and_normalising() {
    let app = TestApp::start().await;
    let one = r#"{"id":"g1","user":{"id":"u","name":"Zoe\u0301"},"gift":{"id":"g","name":"G"},
        "count":1,"meta":{"a":1,"b":[true]},"occurred_at":"2026-01-31T12:00:00Z","test":false}"#;
    let same = r#"{"test":false,"occurred_at":"2026-01-31T13:00:00.000+01:00","meta":{"b": [true],"a": 1},
        "gift":{"name":"G","id":"g"},"user":{"name":"Zo\u00e9","id":"u"},"id":"g1"}"#;
    assert_eq!(app.call("POST", "/v1/feeds/show/gifts", Some(one)).await.status, 201);
    let again = app.call("POST", "/v1/feeds/show/gifts", Some(same)).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)), "{again:?}");
}

async fn the_same_id_with_another_payload_is_422_and_changes_nothing() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1").value(5, "EUR")).await;
    let before = app.get_feed("show").await;
    for other in [
        gift("g1"),
        gift("g1").value(6, "EUR"),
        gift("g1").value(5, "USD"),
        gift("g1").value(5, "EUR").count(2),
        gift("g1").value(5, "EUR").with("message", json!("hi")),
        gift("g1").value(5, "EUR").with("meta", json!({"a": 1})),
        gift("g1").value(5, "EUR").test(),
    ] {
        app.post_gift("show", &other).await.problem(422);
    }
    let after = app.get_feed("show").await;
    assert_eq!((&after["seq"], &after["rows"]), (&before["seq"], &before["rows"]));
}

async fn without_an_id_the_server_makes_a_uuid_of_version_seven() {
    let app = TestApp::start().await;
    let mut ids = vec![];
    for _ in 0..2 {
        let answer = app.give("show", &gift("x").without("id")).await;
        let id = answer["id"].as_str().unwrap().to_owned();
        let parts: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!((parts, id.as_bytes()[14]), (vec![8, 4, 4, 4, 12], b'7'), "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
}

async fn the_idempotency_key_is_the_id() {
    let app = TestApp::start().await;
    let post = |key: &'static str, body: Value| {
        let request = app.request("POST", "/v1/feeds/show/gifts").header("idempotency-key", key);
        async move { crate::support::api::Api::send(request.json(&body)).await }
    };
    let bare = gift("x").without("id").json();
    let first = post("key-1", bare.clone()).await;
    assert_eq!((first.status, &first.json()["id"]), (201, &json!("key-1")));
    let again = post("key-1", bare.clone()).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    let by_body = app.post_gift("show", &gift("key-1")).await;
    assert_eq!((by_body.status, &by_body.json()["duplicate"]), (200, &json!(true)), "one and the same thing");
    assert_eq!(post("key-2", gift("key-2").json()).await.status, 200);
    post("key-3", gift("key-4").json()).await.problem(422);
    post("bad key", bare.clone()).await.problem(422);
    post("", bare.clone()).await.problem(422);
    post("0123456789012345678901234567890123456789012345678901234567890123x", bare).await.problem(422);
    assert_eq!(app.get_feed("show").await["seq"], 2);
}

async fn a_retracted_row_leaves_once() {
    let app = TestApp::start().await;
    let row = app.give("show", &gift("g1")).await["row"].as_str().unwrap().to_owned();
    app.retract("other", &row).await.problem(404);
    assert_eq!(app.retract("show", &row).await.status, 200);
    app.retract("show", &row).await.problem(404);
    app.retract("show", "nothing-1").await.problem(404);
    let feed = app.get_feed("show").await;
    assert_eq!((&feed["seq"], &feed["rows"]), (&json!(2), &json!([])));
    app.patch_policy("show", json!({"capacity": 1})).await;
    let old = app.give("show", &gift("g2").by("bob")).await["row"].as_str().unwrap().to_owned();
    app.give("show", &gift("g3").by("eve")).await;
    app.retract("show", &old).await.problem(404);
}

async fn ids_are_unique_per_feed() {
    let app = TestApp::start().await;
    app.give("one", &gift("g1")).await;
    assert_eq!(app.post_gift("two", &gift("g1").by("bob")).await.status, 201);
}
