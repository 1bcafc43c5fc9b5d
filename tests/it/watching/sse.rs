//! The same over server-sent events.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::gifts::gift;
use crate::support::sse::SseWatcher;

on_both_stores_and_over_tls![
    events_are_named_numbered_and_fold_to_the_list,
    the_last_event_id_and_since_resume,
    a_strange_last_event_id_gets_a_snapshot,
    no_cache_may_keep_it,
];

async fn events_are_named_numbered_and_fold_to_the_list() {
    let app = TestApp::start().await;
    let mut watcher = SseWatcher::open(&app, "show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    assert_eq!(watcher.last_id.as_deref(), Some("0:0"));
    for n in 0..12 {
        let message = json!("a\nline: data\r\n\u{2028}event: x");
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{}", n % 5)).with("message", message)).await;
    }
    watcher.wait_for_seq(12).await;
    watcher.fold.assert_is(&app.get_feed("show").await);
    app.patch_policy("show", json!({"capacity": 2})).await;
    watcher.wait_until("the shorter list", |fold| fold.capacity == 2).await;
    watcher.fold.assert_is(&app.get_feed("show").await);
}

async fn the_last_event_id_and_since_resume() {
    let app = TestApp::start().await;
    app.give("show", &gift("g0")).await;
    let mut watcher = SseWatcher::open(&app, "show").await;
    watcher.wait_for_seq(1).await;
    app.give("show", &gift("g1").by("bob")).await;
    let mut watcher = watcher.reconnect(&app).await;
    watcher.wait_for_seq(2).await;
    assert_eq!((watcher.fold.resumes, watcher.fold.snapshots), (1, 1));
    app.give("show", &gift("g2").by("eve")).await;
    let mut watcher = watcher.reconnect_by_query(&app).await;
    watcher.wait_for_seq(3).await;
    assert_eq!((watcher.fold.resumes, watcher.fold.snapshots), (2, 1));
    watcher.fold.assert_is(&app.get_feed("show").await);
}

async fn a_strange_last_event_id_gets_a_snapshot() {
    let app = TestApp::start().await;
    app.give("show", &gift("g0")).await;
    for id in ["", "nonsense", "other:5", "0:0", ":::"] {
        let request = app.request("GET", "/v1/feeds/show/sse").header("last-event-id", id);
        let mut answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut text = String::new();
        while !text.contains("\n\n") {
            text.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert!(text.contains("event: snapshot") || text.contains("event:snapshot"), "{id}: {text}");
    }
}

async fn no_cache_may_keep_it() {
    let app = TestApp::start().await;
    let answer = app.request("GET", "/v1/feeds/show/sse").send().await.unwrap();
    let cache = answer.headers().get("cache-control").map_or("", |v| v.to_str().unwrap()).to_owned();
    assert!(cache.contains("no-store") || cache.contains("no-cache"), "{cache:?}");
    Api::send(app.request("GET", "/v1/feeds/a%20b/sse")).await.problem(422);
}

/// nginx's default towards what is behind it, and old programs.
#[tokio::test]
async fn a_client_of_http_1_0_gets_no_chunks_and_the_end_of_the_connection() {
    let app = TestApp::start().await;
    let mut stream = TcpStream::connect(app.authority()).await.unwrap();
    stream.write_all(b"GET /v1/feeds/show/sse HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
    let (mut lines, mut head) = (BufReader::new(stream).lines(), vec![]);
    loop {
        match lines.next_line().await.unwrap().unwrap().to_ascii_lowercase() {
            line if line.is_empty() => break,
            line => head.push(line),
        }
    }
    let promises = ["transfer-encoding", "content-length", "connection: keep-alive"];
    assert!(!head.iter().any(|line| promises.iter().any(|it| line.starts_with(it))), "{head:?}");
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(
        first.starts_with("event:") || first.starts_with("id:") || first.starts_with("retry:"),
        "{first}"
    );
    app.give("show", &gift("g0").by("Mia")).await;
    while !lines.next_line().await.unwrap().expect("the gift comes").contains("\"Mia\"") {}
}
