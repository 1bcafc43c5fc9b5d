//! What no route answers is a problem too.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::gifts::gift;

on_both_stores![
    an_unknown_path_is_404,
    a_wrong_method_is_405_and_says_which_are_right,
    a_body_of_another_type_is_415,
    a_plain_get_on_a_websocket_path_is_426,
    the_process_says_that_it_lives_and_is_ready,
    a_chunked_body_is_measured_too,
    a_body_that_ends_early_writes_nothing,
];

async fn an_unknown_path_is_404() {
    let app = TestApp::start().await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/feed",
        "/v1/feeds/show/nothing",
        "/v2/feeds/show",
        "/nothing",
        "/v1/feeds/show/gifts/x",
    ] {
        app.get(path).await.problem(404);
    }
    app.call("POST", "/v1/nothing", Some("{}")).await.problem(404);
}

async fn a_wrong_method_is_405_and_says_which_are_right() {
    let app = TestApp::start().await;
    for (method, path, right) in [
        ("GET", "/v1/feeds/show/gifts", "POST"),
        ("DELETE", "/v1/feeds/show/gifts", "POST"),
        ("GET", "/v1/feeds/show/gifts/batch", "POST"),
        ("PUT", "/v1/feeds/show/gifts/batch", "POST"),
        ("POST", "/v1/feeds/show", "GET"),
        ("DELETE", "/v1/feeds/show", "GET"),
        ("POST", "/v1/feeds/show/rows/r-1", "DELETE"),
        ("GET", "/v1/feeds/show/rows/r-1", "DELETE"),
        ("POST", "/v1/feeds/show/policy", "PATCH"),
        ("DELETE", "/v1/feeds/show/policy", "PUT"),
        ("POST", "/v1/feeds/show/sse", "GET"),
        ("POST", "/v1/feeds/show/ws", "GET"),
        ("POST", "/v1/ws", "GET"),
        ("POST", "/healthz", "GET"),
        ("POST", "/readyz", "GET"),
    ] {
        let said = app.call(method, path, None).await;
        said.problem(405);
        let allowed: Vec<_> = said.header("allow").split(',').map(str::trim).collect();
        assert!(allowed.contains(&right) && !allowed.contains(&method), "{method} {path}: {allowed:?}");
    }
}

async fn a_body_of_another_type_is_415() {
    let app = TestApp::start().await;
    let body = gift("g1").json().to_string();
    let post = |path: &'static str, kind: &'static str| {
        let request = app.request(if path.ends_with("policy") { "PUT" } else { "POST" }, path);
        Api::send(request.header("content-type", kind).body(body.clone()))
    };
    for path in ["/v1/feeds/show/gifts", "/v1/feeds/show/gifts/batch", "/v1/feeds/show/policy"] {
        for kind in [
            "text/plain",
            "application/xml",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/json; charset=utf-16",
        ] {
            post(path, kind).await.problem(415);
        }
    }
    assert_eq!(app.get_feed("show").await["epoch"], "0");
    assert_eq!(post("/v1/feeds/show/gifts", "application/json; charset=utf-8").await.status, 201);
    assert_eq!(post("/v1/feeds/show/gifts", "Application/JSON").await.status, 200);
}

async fn a_plain_get_on_a_websocket_path_is_426() {
    let app = TestApp::start().await;
    for path in ["/v1/feeds/show/ws", "/v1/ws"] {
        let said = app.get(path).await;
        said.problem(426);
        assert!(said.header("upgrade").eq_ignore_ascii_case("websocket"), "{said:?}");
    }
}

async fn the_process_says_that_it_lives_and_is_ready() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/healthz").await.status, 200);
    let deadline = tokio::time::Instant::now() + crate::support::case::PATIENCE;
    while app.get("/readyz").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "it does not get ready");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Speaks HTTP by hand, for what no client library sends; gives everything that came back.
async fn raw(app: &TestApp, request: &[u8]) -> String {
    let mut socket = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
    socket.write_all(request).await.unwrap();
    let mut answer = vec![];
    let read = socket.read_to_end(&mut answer);
    tokio::time::timeout(crate::support::case::PATIENCE, read).await.expect("an end in time").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn a_chunked_body_is_measured_too() {
    let app = TestApp::start().await;
    let head = "POST /v1/feeds/show/gifts HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let body = gift("g1").json().to_string();
    let small = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let answer = raw(&app, small.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let spaces = " ".repeat(9_000);
    let large =
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{spaces}\r\n0\r\n\r\n", spaces.len());
    let answer = raw(&app, large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
}

async fn a_body_that_ends_early_writes_nothing() {
    let app = TestApp::start().await;
    let body = gift("g1").json().to_string();
    let head = "POST /v1/feeds/show/gifts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut socket = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len() + 10);
    socket.write_all(request.as_bytes()).await.unwrap();
    drop(socket);
    app.give("other", &gift("g1")).await;
    assert_eq!(app.get_feed("show").await["epoch"], "0");
    assert_eq!(app.get_feed("other").await["seq"], json!(1));
}
