//! The host's desk over HTTP, and as watchers see it.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::{GiftSpec, gift};

on_both_stores![
    a_gift_waits_is_listed_and_decided_about_once,
    watchers_see_nothing_of_what_waits_or_was_denied,
    time_decides_without_anybody,
    an_unknown_decision_is_refused_by_name,
    a_blocked_users_gifts_and_claims_are_not_taken,
    rows_of_a_blocked_user_are_taken_back_where_that_is_wished,
    a_block_of_all_feeds_takes_rows_back_also_where_nobody_watches,
];

fn said(id: &str) -> GiftSpec {
    gift(id).with("message", json!(format!("secret words of {id}")))
}

async fn decide(app: &TestApp, id: &str, action: &str) -> Said {
    let body = json!({"action": action}).to_string();
    app.call("POST", &format!("/v1/feeds/show/review/{id}"), Some(&body)).await
}

async fn waiting(app: &TestApp) -> Vec<Value> {
    let told = app.get("/v1/feeds/show/review").await;
    assert_eq!((told.status, told.header("cache-control")), (200, "no-cache"));
    told.json()["review"].as_array().unwrap().clone()
}

async fn post(app: &TestApp, gift: &GiftSpec) -> Said {
    app.call("POST", "/v1/feeds/show/gifts", Some(&gift.json().to_string())).await
}

async fn a_gift_waits_is_listed_and_decided_about_once() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"review": "all"})).await;
    let first = post(&app, &said("a")).await;
    assert_eq!((first.status, first.json()), (202, json!({"status": "in_review", "id": "a"})));
    let again = post(&app, &said("a")).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)));
    let batch = json!({"gifts": [said("b").json(), said("a").json(), said("t").test().json()]});
    let batch = app.call("POST", "/v1/feeds/show/gifts/batch", Some(&batch.to_string())).await.json();
    assert_eq!(
        (&batch["in_review"], &batch["duplicate"], &batch["accepted"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let list = waiting(&app).await;
    assert_eq!(list.iter().map(|it| it["id"].clone()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(list[0]["gift"]["message"], "secret words of a");
    assert!(list[0]["expires_at"].as_str() > list[0]["at"].as_str(), "{list:?}");
    let done = decide(&app, "b", "approve").await;
    assert_eq!((done.status, done.json()["status"].clone()), (200, json!("accepted")));
    assert_eq!(decide(&app, "b", "approve").await.json(), done.json());
    let other = decide(&app, "b", "deny").await;
    assert_eq!((other.status, other.json()["type"].clone()), (409, json!("/problems/reviewed")));
    assert_eq!(other.json()["decision"], "approve");
    let denied = decide(&app, "a", "deny").await;
    assert_eq!(denied.json(), json!({"status": "denied", "id": "a"}));
    assert_eq!(
        post(&app, &said("a")).await.json(),
        json!({"status": "denied", "id": "a", "duplicate": true})
    );
    decide(&app, "nobody", "deny").await.problem(404);
    assert!(waiting(&app).await.is_empty());
}

async fn watchers_see_nothing_of_what_waits_or_was_denied() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"review": "messages"})).await;
    let mut early = app.watch("show").await;
    for id in ["a", "b", "c"] {
        assert_eq!(post(&app, &said(id)).await.status, 202);
    }
    let mut late = app.watch("show").await;
    decide(&app, "a", "deny").await;
    decide(&app, "b", "mask").await;
    early.wait_until("the masked row", |fold| fold.rows.len() == 1).await;
    late.wait_until("the masked row", |fold| fold.rows.len() == 1).await;
    for fold in [&early.fold, &late.fold] {
        assert_eq!(fold.rows[0]["user"], json!({"id": "ann", "name": "•••"}));
        assert!(!fold.story().contains("secret words"), "{}", fold.story());
    }
    let seen = app.get("/v1/feeds/show").await.text;
    assert!(!seen.contains("secret words"), "{seen}");
    let scheduled = app.get("/v1/feeds/show/scheduled").await.text;
    assert!(!scheduled.contains("secret words"), "{scheduled}");
}

async fn time_decides_without_anybody() {
    let app = TestApp::start().await;
    let policy = json!({"review": "all", "review_timeout_ms": 1000, "review_default": "show"});
    app.patch_policy("show", policy).await;
    let mut watcher = app.watch("show").await;
    assert_eq!(post(&app, &said("a")).await.status, 202);
    watcher.wait_until("the row", |fold| fold.rows.len() == 1).await;
    assert_eq!(watcher.fold.rows[0]["message"], "secret words of a");
    let late = decide(&app, "a", "mask").await;
    assert_eq!((late.status, late.json()["decision"].clone()), (409, json!("approve")));
}

async fn an_unknown_decision_is_refused_by_name() {
    let app = TestApp::start().await;
    for (body, pointer) in
        [("{}", "/action"), (r#"{"action":"show"}"#, "/action"), (r#"{"action":"deny","x":1}"#, "/x")]
    {
        let refused = app.call("POST", "/v1/feeds/show/review/a", Some(body)).await;
        assert_eq!((refused.status, refused.pointers()), (422, vec![pointer.to_owned()]), "{body}");
    }
    app.call("GET", "/v1/feeds/show/review/a", None).await.problem(405);
    app.call("GET", "/v1/feeds/no%20feed/review", None).await.problem(422);
    for bad in
        [json!({"review": "some"}), json!({"review_timeout_ms": 999}), json!({"review_default": "hide"})]
    {
        let pointer = format!("/{}", bad.as_object().unwrap().keys().next().unwrap());
        assert_eq!(app.put_policy("show", bad).await.pointers(), [pointer]);
    }
    let refused = app.call("PUT", "/v1/feeds/show/blocks/u", Some(r#"{"until":"soon","retract":1}"#)).await;
    assert_eq!(refused.pointers(), ["/until", "/retract"]);
}

async fn a_blocked_users_gifts_and_claims_are_not_taken() {
    let app = TestApp::start().await;
    let path = "/v1/feeds/show/blocks/r%20%22u";
    let done = app.call("PUT", path, Some("{}")).await;
    assert_eq!((done.status, done.json()["user"].clone()), (201, json!("r \"u")));
    assert_eq!(app.call("PUT", path, Some("{}")).await.status, 200);
    let taken = post(&app, &gift("a").by("r \"u")).await;
    assert_eq!((taken.status, taken.json()), (200, json!({"status": "suppressed", "id": "a"})));
    let drop = json!({"gift": {"id": "r", "name": "R"}, "total": 5}).to_string();
    app.call("PUT", "/v1/feeds/show/drops/rocket", Some(&drop)).await;
    let claim =
        |id: &str, user: &str| json!({"id": id, "user": {"id": user, "name": "U"}, "pay": "now"}).to_string();
    let claims = "/v1/feeds/show/drops/rocket/claims";
    let refused = app.call("POST", claims, Some(&claim("c1", "r \"u"))).await;
    assert_eq!((refused.status, refused.json()["type"].clone()), (403, json!("/problems/blocked")));
    assert_eq!(app.call("POST", claims, Some(&claim("c2", "other"))).await.status, 201);
    let blocks = app.get("/v1/feeds/show/blocks").await.json();
    assert_eq!(blocks["blocks"][0]["user"], "r \"u");
    assert_eq!(app.call("DELETE", path, None).await.status, 200);
    app.call("DELETE", path, None).await.problem(404);
    assert_eq!(post(&app, &gift("b").by("r \"u")).await.status, 201);
    let everywhere = "/v1/feeds/*/blocks/of-all";
    assert_eq!(app.call("PUT", everywhere, Some("{}")).await.status, 201);
    assert_eq!(post(&app, &gift("c").by("of-all")).await.json()["status"], "suppressed");
    assert_eq!(app.call("DELETE", everywhere, None).await.status, 200);
    app.call("PUT", &format!("/v1/feeds/show/blocks/{}", "x".repeat(65)), Some("{}")).await.problem(422);
}

async fn rows_of_a_blocked_user_are_taken_back_where_that_is_wished() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    for (id, user) in [("a", "rude"), ("b", "kind"), ("c", "rude")] {
        app.give("show", &gift(id).by(user)).await;
    }
    let mut watcher = app.watch("show").await;
    app.call("PUT", "/v1/feeds/show/blocks/kind", Some("{}")).await;
    assert_eq!(app.get_feed("show").await["rows"].as_array().unwrap().len(), 3);
    app.call("PUT", "/v1/feeds/show/blocks/rude", Some(r#"{"retract":true}"#)).await;
    watcher.wait_until("one row", |fold| fold.rows.len() == 1).await;
    assert_eq!(watcher.fold.rows[0]["user"]["id"], "kind");
}

#[tokio::test]
async fn two_nodes_share_what_waits_and_who_is_blocked_and_a_node_that_goes_takes_nothing_along() {
    let backing = Backing::redis();
    let (a, b) = (TestApp::on(&backing).await, TestApp::on(&backing).await);
    let policy = json!({"review": "messages", "review_timeout_ms": 3000, "review_default": "show"});
    a.patch_policy("show", policy).await;
    for id in ["a", "b"] {
        assert_eq!(post(&a, &said(id)).await.status, 202);
    }
    assert_eq!(waiting(&b).await.len(), 2);
    let (one, other) = tokio::join!(decide(&a, "a", "approve"), decide(&b, "a", "deny"));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{one:?} {other:?}");
    a.call("PUT", "/v1/feeds/*/blocks/rude", Some("{}")).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut n = 0;
    while post(&b, &gift(&format!("r{n}")).by("rude").kind(&n.to_string())).await.json()["status"]
        != "suppressed"
    {
        n += 1;
        assert!(tokio::time::Instant::now() < deadline, "a block of all feeds reaches every node");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let mut watcher = b.watch("show").await;
    a.stop().await;
    watcher
        .wait_until("what time decides", |fold| {
            fold.rows.iter().any(|row| row["message"] == "secret words of b")
        })
        .await;
}

/// At once where somebody watches on this node; on Redis gradually in all others.
async fn a_block_of_all_feeds_takes_rows_back_also_where_nobody_watches() {
    let app = TestApp::start().await;
    let rude = "ru\"de \\ ü";
    let mut feeds: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
    feeds.push("shown".into());
    for feed in &feeds {
        app.give(feed, &gift("a").by(rude)).await;
        app.give(feed, &gift("b").by("kind")).await;
    }
    let mut watcher = app.watch("shown").await;
    watcher.wait_for_seq(2).await;
    let path = format!("/v1/feeds/*/blocks/{}", "ru%22de%20%5C%20%C3%BC");
    assert_eq!(app.call("PUT", &path, Some(r#"{"retract":true}"#)).await.status, 201);
    let users = async |feed: &str| {
        let rows = app.get_feed(feed).await["rows"].clone();
        rows.as_array().unwrap().iter().map(|row| row["user"]["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(users("shown").await, ["kind"]);
    let deadline = tokio::time::Instant::now() + 6 * PATIENCE;
    for feed in &feeds {
        while users(feed).await != ["kind"] {
            assert!(tokio::time::Instant::now() < deadline, "{feed}: {:?}", users(feed).await);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    watcher.wait_for_the_list().await;
}
