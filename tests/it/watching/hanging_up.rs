//! A client that is gone costs nothing any more.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use super::slow_readers::pour;
use crate::support::TestApp;
use crate::support::case::PATIENCE;
use crate::support::watcher::open_socket;

on_both_stores_and_over_tls![a_watcher_that_hangs_up_while_it_does_not_read_is_gone_at_once];

async fn a_watcher_that_hangs_up_while_it_does_not_read_is_gone_at_once() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    let mut stuck = open_socket(&app, "/v1/feeds/show/ws", Some(16_384)).await.unwrap();
    // More than the kernel holds for it, so that the server could not write a byte when it hangs up.
    pour(&app, 0..10).await;
    stuck.get_mut().shutdown().await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !app.get("/metrics").await.text.contains("tipcast_watchers{transport=\"ws\"} 0\n") {
        assert!(Instant::now() < deadline, "it is still counted");
        sleep(Duration::from_millis(20)).await;
    }
}
