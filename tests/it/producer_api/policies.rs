//! GET, PUT and PATCH policy.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores![
    a_feed_without_its_own_has_the_defaults,
    each_field_is_taken_at_both_ends_and_refused_beyond,
    patch_keeps_and_put_resets_what_they_leave_out,
    a_wrong_policy_changes_nothing,
    a_put_that_says_nothing_of_visibility_does_not_open_a_private_feed,
    a_policy_alone_does_not_begin_a_feed,
    a_policy_holds_for_the_very_next_gift,
];

fn defaults() -> Value {
    json!({"capacity": 10, "dedup": "combine", "dedup_window_ms": 5000, "row_ttl_ms": 0, "delay_ms": 0, "flush_ms": 50,
        "idempotency_window_ms": 86_400_000, "history": 1024, "visibility": "public", "presence": "off", "review": "off", "review_timeout_ms": 60_000, "review_default": "mask"})
}

fn with(mut policy: Value, patch: &Value) -> Value {
    for (name, value) in patch.as_object().unwrap() {
        policy[name] = value.clone();
    }
    policy
}

async fn a_feed_without_its_own_has_the_defaults() {
    let app = TestApp::start().await;
    assert_eq!(app.get_policy("show").await, defaults());
}

async fn each_field_is_taken_at_both_ends_and_refused_beyond() {
    let app = TestApp::start().await;
    for (field, least, most) in [
        ("capacity", 1, 100),
        ("dedup_window_ms", 0, 86_400_000),
        ("row_ttl_ms", 1_000, 604_800_000),
        ("row_ttl_ms", 0, 0),
        ("delay_ms", 0, 604_800_000),
        ("flush_ms", 0, 1_000),
        ("idempotency_window_ms", 60_000, 604_800_000),
        ("history", 0, 100_000),
        ("review_timeout_ms", 1_000, 3_600_000),
    ] {
        for end in [least, most] {
            let patch = json!({field: end});
            assert_eq!(app.patch_policy("show", patch.clone()).await[field], end);
            let put = app.put_policy("show", patch.clone()).await;
            assert_eq!((put.status, put.json()), (200, with(defaults(), &patch)));
            assert_eq!(app.get_policy("show").await, with(defaults(), &patch));
        }
        let below = least as i64 - 1;
        for wrong in [
            json!(below),
            json!(most as i64 + 1),
            json!(1.5),
            json!("5"),
            json!(null),
            json!([5]),
            json!(1e30),
        ] {
            if field == "row_ttl_ms" && wrong == json!(1) {
                continue;
            }
            let said = app.put_policy("show", json!({field: wrong})).await;
            assert_eq!(said.pointers(), [format!("/{field}")], "{wrong}");
        }
    }
    let said = app.put_policy("show", json!({"row_ttl_ms": 1})).await;
    assert_eq!(said.pointers(), ["/row_ttl_ms"]);
    for dedup in ["combine", "drop", "off"] {
        assert_eq!(app.patch_policy("show", json!({"dedup": dedup})).await["dedup"], dedup);
    }
    for wrong in [json!("Private"), json!(""), json!(null), json!(true)] {
        let said = app.put_policy("show", json!({"visibility": wrong})).await;
        assert_eq!(said.pointers(), ["/visibility"]);
    }
    for wrong in [json!("Combine"), json!(""), json!(null), json!(1)] {
        let said = app.put_policy("show", json!({"dedup": wrong})).await;
        assert_eq!(said.pointers(), ["/dedup"]);
    }
}

async fn patch_keeps_and_put_resets_what_they_leave_out() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"capacity": 3, "flush_ms": 0})).await;
    let patched = app.patch_policy("show", json!({"history": 7})).await;
    assert_eq!(patched, with(defaults(), &json!({"capacity": 3, "flush_ms": 0, "history": 7})));
    assert_eq!(app.patch_policy("show", json!({})).await, patched);
    let put = app.put_policy("show", json!({"dedup": "off"})).await;
    assert_eq!((put.status, put.json()), (200, with(defaults(), &json!({"dedup": "off"}))));
    assert_eq!(app.get_policy("show").await, put.json());
    assert_eq!(app.get_policy("other").await, defaults());
}

async fn a_put_that_says_nothing_of_visibility_does_not_open_a_private_feed() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"visibility": "private"})).await;
    let put = app.put_policy("show", json!({"capacity": 3})).await;
    assert_eq!(put.json(), with(defaults(), &json!({"capacity": 3, "visibility": "private"})));
    let put = app.put_policy("show", json!({"visibility": "public"})).await;
    assert_eq!(put.json(), defaults());
}

async fn a_wrong_policy_changes_nothing() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"capacity": 3})).await;
    let before = app.get_policy("show").await;
    let path = "/v1/feeds/show/policy";
    for method in ["PUT", "PATCH"] {
        let said = app.call(method, path, Some("{\"capacity\":5,\"colour\":1,\"history\":-1}")).await;
        let mut pointers = said.pointers();
        pointers.sort();
        assert_eq!(pointers, ["/colour", "/history"]);
        for (body, status) in [("", 400), ("{", 400), ("[]", 422), ("null", 422), ("5", 422)] {
            app.call(method, path, Some(body)).await.problem(status);
        }
    }
    assert_eq!(app.get_policy("show").await, before);
}

async fn a_policy_alone_does_not_begin_a_feed() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"capacity": 3})).await;
    let feed = app.get_feed("show").await;
    assert_eq!((&feed["epoch"], &feed["seq"], &feed["capacity"]), (&json!("0"), &json!(0), &json!(3)));
}

async fn a_policy_holds_for_the_very_next_gift() {
    let app = TestApp::start().await;
    for n in 0..10 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    app.patch_policy("show", json!({"capacity": 3})).await;
    let feed = app.get_feed("show").await;
    assert_eq!(
        (&feed["seq"], feed["rows"].as_array().unwrap().len()),
        (&json!(11), 3),
        "trimmed at once, with a seq"
    );
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    let answer = app.give("show", &gift("again").by("u9")).await;
    assert_eq!(answer["status"], "suppressed");
    app.patch_policy("show", json!({"dedup": "off"})).await;
    assert_eq!(app.give("show", &gift("more").by("u9")).await["status"], "accepted");
    app.patch_policy("show", json!({"row_ttl_ms": 60_000})).await;
    app.give("show", &gift("mortal").by("u9")).await;
    assert!(app.get_feed("show").await["rows"][0]["expires_at"].is_string());
}
