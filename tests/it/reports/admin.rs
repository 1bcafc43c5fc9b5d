//! Who may look after reports, and what is seen then.

use serde_json::{Value, json};
use tipcast::domain::HookScope;

use super::dead::with_dead_of;
use super::{all, hook, kind};
use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores!(
    the_overview_shows_feeds_groups_webhooks_and_dead_letters,
    reports_need_a_key_and_the_overview_a_key_of_its_own,
);

const OVERVIEW: &str = "/v1/admin/overview";

async fn the_overview_shows_feeds_groups_webhooks_and_dead_letters() {
    let backing = with_dead_of(HookScope::All, &["show"]).await;
    let app = TestApp::on(&backing).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the list", |fold| fold.snapshots == 1).await;
    app.pull(json!({"max": 1})).await;
    let said = app.get(OVERVIEW).await;
    assert!(said.status == 200 && !said.text.contains("whsec"), "{said:?}");
    let seen = said.json();
    let feed = &seen["feeds"][0];
    assert_eq!((&feed["feed"], &feed["watchers"], &feed["seq"]), (&json!("show"), &json!(1), &json!(2)));
    let group = &seen["groups"][0];
    assert_eq!((&group["feed"], &group["group"], &group["lag"]), (&json!("show"), &json!("g"), &json!(1)));
    assert_eq!((&group["pending"], &group["dead"], &group["lost"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(all(seen["webhooks"].as_array().unwrap(), "/feed"), ["*"]);
    let dead = seen["dead"].as_array().unwrap();
    assert_eq!(all(dead, "/entry/gift/id"), ["show-1", "show-2"]);
    assert_eq!(
        (&dead[0]["scope"], &dead[0]["webhook"], &dead[0]["feed"]),
        (&json!("*"), &json!("w"), &json!("show"))
    );
    assert_eq!(seen["more"], json!({"feeds": false, "groups": false, "webhooks": false, "dead": false}));
    app.call("POST", OVERVIEW, Some("{}")).await.problem(405);
}

async fn as_one(app: &TestApp, key: &str, method: &str, path: &str, body: Option<Value>) -> Said {
    let mut request = app.request(method, path);
    if !key.is_empty() {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    Api::send(request).await
}

async fn reports_need_a_key_and_the_overview_a_key_of_its_own() {
    const PRODUCER: &str = "producer-0123456789";
    const ADMIN: &str = "admin-0123456789";
    let app = TestApp::with(&Backing::fresh(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.auth.admin_keys = vec![ADMIN.to_owned().into()];
    })
    .await;
    for (method, path, body) in [
        ("POST", "/v1/feeds/show/groups/g/claim", Some(json!({"consumer": "t"}))),
        ("POST", "/v1/feeds/show/groups/g/ack", Some(json!({"cursors": ["1"]}))),
        ("POST", "/v1/feeds/show/groups/g/nack", Some(json!({"cursors": ["1"]}))),
        ("GET", "/v1/feeds/show/groups", None),
        ("GET", "/v1/feeds/show/groups/g", None),
        ("GET", "/v1/feeds/show/groups/g/dead", None),
        ("POST", "/v1/feeds/show/groups/g/dead/replay", Some(json!({}))),
        ("PUT", "/v1/feeds/show/webhooks/w", Some(hook())),
        ("GET", "/v1/feeds/show/webhooks/w", None),
        ("GET", "/v1/feeds/*/webhooks", None),
        ("GET", "/v1/feeds/show/webhooks/w/dead", None),
        ("POST", "/v1/feeds/show/webhooks/w/dead/replay", Some(json!({}))),
    ] {
        for wrong in ["", "producer-012345678"] {
            let said = as_one(&app, wrong, method, path, body.clone()).await;
            assert_eq!(kind(&said, 401), "unauthenticated", "{method} {path}");
        }
        for right in [PRODUCER, ADMIN] {
            let said = as_one(&app, right, method, path, body.clone()).await;
            assert!(said.status < 300, "{method} {path}: {said:?}");
        }
    }
    for wrong in ["", PRODUCER] {
        let said = as_one(&app, wrong, "GET", OVERVIEW, None).await;
        match wrong {
            "" => assert_eq!(
                (kind(&said, 401).as_str(), said.header("www-authenticate")),
                ("unauthenticated", "Bearer")
            ),
            _ => {
                assert_eq!(kind(&said, 403), "not-allowed");
                assert!(said.text.contains("admin"), "{said:?}");
            }
        }
    }
    assert_eq!(as_one(&app, ADMIN, "GET", OVERVIEW, None).await.status, 200);
    let said = as_one(&app, ADMIN, "POST", "/v1/feeds/show/gifts", Some(gift("a").json())).await;
    assert_eq!(said.status, 201, "an admin may do everything: {said:?}");
    assert_eq!(as_one(&app, "", "GET", "/console", None).await.status, 200, "the page asks for the key");

    let closed = TestApp::with(&Backing::fresh(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
    })
    .await;
    assert_eq!(kind(&as_one(&closed, PRODUCER, "GET", OVERVIEW, None).await, 403), "not-allowed");
}
