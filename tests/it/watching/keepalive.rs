//! Silence is broken every `keepalive_ms`.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::support::TestApp;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::sse::SseWatcher;
use crate::support::watcher::{Brought, open_socket, read_socket};

in_the_clear_and_over_tls![a_silent_feed_says_that_it_lives_every_twenty_five_seconds];

async fn a_silent_feed_says_that_it_lives_every_twenty_five_seconds() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1")).await;
    let mut sse = SseWatcher::open(&app, "show").await;
    let mut many = Many::open(&app).await;
    many.subscribe("show").await;
    let mut socket = open_socket(&app, "/v1/feeds/show/ws", None).await.unwrap();
    let Brought::Frame(snapshot) = read_socket(&mut socket).await else { panic!("a snapshot first") };
    assert_eq!(
        (&snapshot["type"], &snapshot["keepalive_ms"]),
        (&Value::from("snapshot"), &Value::from(25_000))
    );
    let patience = Duration::from_secs(25) + PATIENCE;
    let over_ws = async {
        let Brought::Frame(frame) = read_socket(&mut socket).await else { panic!("it stays open") };
        assert_eq!((&frame["type"], &frame["seq"]), (&Value::from("keepalive"), &Value::from(1)), "{frame}");
    };
    let over_sse = async {
        while sse.fold.keepalives == 0 {
            assert!(sse.step().await, "it stays open");
        }
    };
    let over_many = async {
        while !many.folds.values().any(|fold| fold.keepalives > 0) {
            assert!(many.step().await, "it stays open");
        }
    };
    let all = async { tokio::join!(over_ws, over_sse, over_many) };
    timeout(patience, all).await.expect("a keepalive within 25 seconds of silence");
}
