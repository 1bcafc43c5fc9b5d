//! Webhooks as they are set and shown.

use serde_json::{Value, json};

use super::{NOWHERE, SECRET, all, hook, kind, with};
use crate::support::TestApp;
use crate::support::app::Backing;

on_both_stores!(
    a_webhook_is_set_changed_shown_listed_and_deleted,
    a_webhook_of_all_feeds_is_spelled_with_a_star,
    every_body_is_checked_and_nothing_private_is_reached,
    there_are_only_so_many_webhooks_of_all_feeds,
    changes_that_meet_each_other_all_happen,
);

const ONE: &str = "/v1/feeds/show/webhooks/w";

async fn a_webhook_is_set_changed_shown_listed_and_deleted() {
    let app = TestApp::start().await;
    app.get(ONE).await.problem(404);
    app.call("DELETE", ONE, None).await.problem(404);
    let said = app.put_hook(ONE, &hook()).await;
    let told = said.json();
    let wanted = json!({"webhook": "w", "feed": "show", "url": NOWHERE, "batch_max": 128, "batch_ms": 1_000,
        "max_age_ms": 0, "delivery": "at_least_once", "state": "active", "last_error": null,
        "created_at": told["created_at"]});
    assert_eq!((said.status, &told), (201, &wanted));
    assert_eq!(app.get(ONE).await.json(), wanted);
    let mut some = hook();
    some["types"] = json!(["gift.*", "drop.sold"]);
    assert_eq!(app.put_hook(ONE, &some).await.json()["types"], some["types"]);
    some["types"] = json!(["gift.*", "present"]);
    app.put_hook(ONE, &some).await.problem(422);
    assert_eq!(app.get(ONE).await.json()["types"], json!(["gift.*", "drop.sold"]));
    let changed = json!({"url": "https://nobody.invalid/2", "secret": SECRET.replace('M', "N"), "batch_max": 1,
        "batch_ms": 0, "max_age_ms": 180_000, "delivery": "best_effort"});
    let said = app.put_hook(ONE, &changed).await;
    let told = said.json();
    assert_eq!((said.status, &told["created_at"]), (200, &wanted["created_at"]));
    for name in ["url", "batch_max", "batch_ms", "max_age_ms", "delivery"] {
        assert_eq!(told[name], changed[name], "{name}");
    }
    app.put_hook("/v1/feeds/show/webhooks/a", &hook()).await;
    app.put_hook("/v1/feeds/other/webhooks/o", &hook()).await;
    let listed = app.get("/v1/feeds/show/webhooks").await;
    assert!(!listed.text.contains("whsec"), "{listed:?}");
    assert_eq!(all(listed.json()["webhooks"].as_array().unwrap(), "/webhook"), ["a", "w"]);
    assert_eq!(app.call("DELETE", ONE, None).await.status, 204);
    app.get(ONE).await.problem(404);
    let listed = app.get("/v1/feeds/show/webhooks").await.json();
    assert_eq!(all(listed["webhooks"].as_array().unwrap(), "/webhook"), ["a"]);
    assert_eq!(app.put_hook(ONE, &hook()).await.status, 201);
}

async fn a_webhook_of_all_feeds_is_spelled_with_a_star() {
    let app = TestApp::start().await;
    let said = app.put_hook("/v1/feeds/*/webhooks/w", &hook()).await;
    assert_eq!((said.status, &said.json()["feed"]), (201, &json!("*")));
    let said = app.put_hook("/v1/feeds/%2A/webhooks/w", &hook()).await;
    assert_eq!(said.status, 200, "the same one");
    assert_eq!(app.get("/v1/feeds/%2a/webhooks/w").await.json(), said.json());
    app.get(ONE).await.problem(404);
    assert_eq!(app.get("/v1/feeds/show/webhooks").await.json(), json!({"webhooks": []}));
    let listed = app.get("/v1/feeds/*/webhooks").await.json();
    assert_eq!(all(listed["webhooks"].as_array().unwrap(), "/feed"), ["*"]);
    assert_eq!(app.get("/v1/feeds/*/webhooks/w/dead").await.json(), json!({"dead": [], "more": false}));
    assert_eq!(app.call("DELETE", "/v1/feeds/*/webhooks/w", None).await.status, 204);
    // It is a word of webhooks only.
    app.get("/v1/feeds/*/groups").await.problem(422);
    app.get("/v1/feeds/*").await.problem(422);
}

async fn every_body_is_checked_and_nothing_private_is_reached() {
    let app = TestApp::start().await;
    let long = format!("https://nobody.invalid/{}", "x".repeat(2_048));
    for (body, pointer) in [
        (json!({"secret": SECRET}), "/url"),
        (json!({"url": NOWHERE}), "/secret"),
        (with(hook(), "url", json!("ftp://nobody.invalid/")), "/url"),
        (with(hook(), "url", json!("https://user:pass@nobody.invalid/")), "/url"),
        (with(hook(), "url", json!("https://nobody.invalid/#x")), "/url"),
        (with(hook(), "url", json!(long)), "/url"),
        (with(hook(), "url", json!("http://127.0.0.1:8080/")), "/url"),
        (with(hook(), "url", json!("http://localhost/")), "/url"),
        (with(hook(), "url", json!("http://[::1]/")), "/url"),
        (with(hook(), "url", json!("http://0x7f000001/")), "/url"),
        (with(hook(), "url", json!("http://169.254.169.254/latest/meta-data")), "/url"),
        (with(hook(), "url", json!("http://[::ffff:10.0.0.1]/")), "/url"),
        (with(hook(), "secret", json!("whsec_c2hvcnQ=")), "/secret"),
        (with(hook(), "secret", json!("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), "/secret"),
        (with(hook(), "batch_max", json!(0)), "/batch_max"),
        (with(hook(), "batch_ms", json!(60_001)), "/batch_ms"),
        (with(hook(), "max_age_ms", json!(180_000)), "/max_age_ms"),
        (with(hook(), "delivery", json!("maybe")), "/delivery"),
        (with(hook(), "state", json!("active")), "/state"),
    ] {
        let said = app.put_hook(ONE, &body).await;
        assert_eq!(said.pointers(), [pointer], "{body}");
        assert!(!said.text.contains("MfKQ9r8"), "a secret is not repeated: {said:?}");
    }
    let said = app.put_hook(ONE, &with(hook(), "url", json!("http://127.0.0.1:8080/"))).await;
    let detail = said.problem(422)["errors"][0]["detail"].to_string();
    assert!(detail.contains("127.0.0.1") && detail.contains("[webhooks] allow_private"), "{detail}");
    app.get(ONE).await.problem(404);
    for name in ["a b", "a~b", "*", "", &"x".repeat(65)] {
        app.put_hook(&format!("/v1/feeds/show/webhooks/{name}"), &hook()).await.problem(422);
    }
    app.call("PUT", ONE, Some("{")).await.problem(400);
    app.call("PUT", ONE, Some(&" ".repeat(9_000))).await.problem(413);
    app.call("POST", ONE, Some("{}")).await.problem(405);

    let mine = TestApp::with(&Backing::fresh(), |config| config.webhooks.allow_private = true).await;
    for url in ["http://127.0.0.1:1/", "http://localhost:1/"] {
        assert!(mine.put_hook(ONE, &with(hook(), "url", json!(url))).await.status < 300, "{url}");
    }
}

async fn there_are_only_so_many_webhooks_of_all_feeds() {
    let app = TestApp::start().await;
    let path = |n: usize| format!("/v1/feeds/*/webhooks/w{n}");
    for n in 0..16 {
        assert_eq!(app.put_hook(&path(n), &hook()).await.status, 201, "{n}");
    }
    assert_eq!(kind(&app.put_hook(&path(16), &hook()).await, 409), "too-many-readers");
    assert_eq!(app.put_hook(&path(3), &hook()).await.status, 200, "changing one is not adding one");
    assert_eq!(app.call("DELETE", &path(3), None).await.status, 204);
    assert_eq!(app.put_hook(&path(16), &hook()).await.status, 201);
}

async fn changes_that_meet_each_other_all_happen() {
    let app = TestApp::start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 1..=6 {
        let api = (*app).clone();
        tasks.spawn(async move { api.put_hook(ONE, &with(hook(), "batch_max", json!(n))).await.status });
    }
    let mut told: Vec<u16> = tasks.join_all().await;
    told.sort_unstable();
    assert_eq!(told, [200, 200, 200, 200, 200, 201]);
    let last: Value = app.get(ONE).await.json();
    assert!((1..=6).contains(&last["batch_max"].as_u64().unwrap()));
}
