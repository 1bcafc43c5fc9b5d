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

/// One of these packets cannot be made over TLS from here.
mod in_the_clear {
    use std::io::Write;

    use super::*;

    on_both_stores![a_watcher_whose_end_comes_in_one_packet_with_its_last_bytes_is_gone_at_once];

    async fn a_watcher_whose_end_comes_in_one_packet_with_its_last_bytes_is_gone_at_once() {
        const MORE_FOLLOWS: i32 = 0x8000;
        const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
        let app = TestApp::start().await;
        let watching = |n: usize| format!("tipcast_watchers{{transport=\"ws\"}} {n}\n");
        let told = async |text: String| {
            let deadline = Instant::now() + PATIENCE;
            while !app.get("/metrics").await.text.contains(&text) {
                assert!(Instant::now() < deadline, "not {text}");
                sleep(Duration::from_millis(20)).await;
            }
        };
        let mut socket = std::net::TcpStream::connect(app.authority()).unwrap();
        write!(
            socket,
            "GET /v1/feeds/show/ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            app.authority()
        )
        .unwrap();
        told(watching(1)).await;
        // The kernel holds it back, and sends it with the end.
        socket2::SockRef::from(&socket).send_with_flags(&PING, MORE_FOLLOWS).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        told(watching(0)).await;
    }
}
