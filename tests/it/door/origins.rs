//! `[http] allowed_origins`: which web pages may do what.

use super::{LOCAL, ask, connect};
use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::app::Backing;
use crate::support::gifts::gift;

const SHOW: &str = "https://show.example";
const EVIL: &str = "https://evil.example";
const WATCHED: [&str; 2] = ["/v1/feeds/show/ws", "/v1/ws"];

async fn with(origins: &[&str], keys: &[&str]) -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.http.allowed_origins = origins.iter().map(|origin| origin.to_string()).collect();
        config.auth.producer_keys = keys.iter().map(|key| key.to_string().into()).collect();
    })
    .await
}

async fn preflight(app: &TestApp, path: &str, origin: &str, method: &str) -> Said {
    let line = format!("OPTIONS {path}");
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    ask(app, &line, &headers, None).await
}

#[tokio::test]
async fn by_default_every_page_may_watch_and_no_foreign_page_may_write() {
    let app = TestApp::start().await;
    for path in WATCHED {
        assert!(connect(&app, path, &[("origin", EVIL)], LOCAL).await.is_ok(), "{path}");
    }
    for path in ["/v1/feeds/show", "/static/tipcast.js"] {
        let said = ask(&app, &format!("GET {path}"), &[("origin", EVIL)], None).await;
        assert_eq!((said.status, said.header("access-control-allow-origin")), (200, "*"), "{path}");
        assert_eq!(said.header("access-control-allow-credentials"), "");
    }
    let body = gift("g1").json().to_string();
    for origin in [EVIL, "null", "http://localhost:1"] {
        let said = ask(&app, "POST /v1/feeds/show/gifts", &[("origin", origin)], Some(&body)).await;
        assert_eq!(said.problem(403)["type"], "/problems/foreign-origin", "{origin}");
        preflight(&app, "/v1/feeds/show/gifts", origin, "POST").await.problem(403);
    }
    let own = app.url();
    let said = ask(&app, "POST /v1/feeds/show/gifts", &[("origin", &own)], Some(&body)).await;
    assert_eq!(said.status, 201, "its own page writes: {said:?}");
    assert_eq!(app.get_feed("show").await["seq"], 1);
}

#[tokio::test]
async fn listed_origins_may_do_everything_and_others_nothing() {
    let app = with(&[SHOW], &[]).await;
    for path in WATCHED {
        assert!(connect(&app, path, &[("origin", SHOW)], LOCAL).await.is_ok(), "{path}");
        assert!(connect(&app, path, &[("origin", &app.url())], LOCAL).await.is_ok(), "its own page: {path}");
        assert!(connect(&app, path, &[], LOCAL).await.is_ok(), "no browser: {path}");
        for origin in [EVIL, "null", "https://show.example.evil.example", "http://show.example"] {
            assert_eq!(
                connect(&app, path, &[("origin", origin)], LOCAL).await.err(),
                Some(403),
                "{path} {origin}"
            );
        }
    }
    let said = ask(&app, "GET /v1/feeds/show/sse", &[("origin", EVIL)], None).await;
    assert_eq!(said.problem(403)["type"], "/problems/foreign-origin");

    let said = ask(&app, "GET /v1/feeds/show", &[("origin", SHOW)], None).await;
    assert_eq!(said.header("access-control-allow-origin"), SHOW);
    assert!(said.header("vary").eq_ignore_ascii_case("origin"), "{said:?}");
    assert!(said.header("access-control-expose-headers").contains("ETag"), "{said:?}");
    let said = ask(&app, "GET /v1/feeds/show", &[("origin", EVIL)], None).await;
    assert_eq!(said.header("access-control-allow-origin"), "", "a browser keeps it from the page");

    let allowed = preflight(&app, "/v1/feeds/show/gifts", SHOW, "POST").await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (204, SHOW));
    assert!(allowed.header("access-control-allow-methods").contains("POST"));
    for name in ["authorization", "content-type", "idempotency-key"] {
        let headers = allowed.header("access-control-allow-headers").to_lowercase();
        assert!(headers.contains(name), "{headers}");
    }
    assert_eq!(
        preflight(&app, "/v1/feeds/show", EVIL, "GET").await.header("access-control-allow-origin"),
        ""
    );
    let body = gift("g1").json().to_string();
    let said = ask(&app, "POST /v1/feeds/show/gifts", &[("origin", SHOW)], Some(&body)).await;
    assert_eq!((said.status, said.header("access-control-allow-origin")), (201, SHOW));
    let said = ask(&app, "POST /v1/feeds/show/gifts", &[("origin", EVIL)], Some(&body)).await;
    said.problem(403);
}

#[tokio::test]
async fn with_keys_a_page_of_any_welcome_origin_may_write_with_one() {
    let key = "a-key-of-the-tests-own";
    let app = with(&["*"], &[key]).await;
    assert_eq!(preflight(&app, "/v1/feeds/show/gifts", EVIL, "POST").await.status, 204);
    let body = gift("g1").json().to_string();
    let line = "POST /v1/feeds/show/gifts";
    let refused = ask(&app, line, &[("origin", EVIL)], Some(&body)).await;
    refused.problem(401);
    assert_eq!(refused.header("access-control-allow-origin"), "*", "its page may read why");
    let bearer = format!("Bearer {key}");
    assert_eq!(
        ask(&app, line, &[("origin", EVIL), ("authorization", &bearer)], Some(&body)).await.status,
        201
    );
}
