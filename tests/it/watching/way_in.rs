//! The way in, byte by byte: however a handshake comes, it is heard, and what is no handshake of ours is answered as
//! every request is.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::redis_server::RedisServer;
use crate::support::stores::Corner;

in_the_clear_and_over_tls![
    a_handshake_may_come_in_pieces_of_any_size,
    bytes_behind_the_handshake_are_handled_after_it,
    much_that_comes_with_the_end_of_a_handshake_is_heard_to_its_end,
    a_connection_that_asked_for_something_else_before_may_become_a_watcher,
    a_longer_head_than_most_is_served_all_the_same,
    a_name_may_be_percent_encoded_and_what_it_hides_is_no_other_path,
    a_handshake_that_asks_for_nonsense_is_told_so_as_every_request_is,
    silent_and_half_handshakes_are_answered_with_a_timeout,
    a_handshake_that_waits_for_its_list_in_vain_is_counted_once_as_what_was_answered,
];

fn head(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

async fn connect(app: &TestApp) -> TcpStream {
    let stream = TcpStream::connect(app.authority()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Reads until `enough` says so; gives all that came.
async fn read_until(stream: &mut TcpStream, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut all = Vec::new();
    while !enough(&all) {
        let mut buffer = [0; 4096];
        let n = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("it answers").unwrap();
        assert!(n > 0, "it ended after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..n]);
    }
    all
}

fn has(all: &[u8], what: &str) -> bool {
    all.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Reads the answer to a handshake and the list behind it.
async fn watches(stream: &mut TcpStream) {
    let all = read_until(stream, |all| has(all, "\"type\":\"snapshot\"")).await;
    assert!(all.starts_with(b"HTTP/1.1 101"), "{:?}", String::from_utf8_lossy(&all));
    assert!(has(&all, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
}

async fn a_handshake_may_come_in_pieces_of_any_size() {
    let app = TestApp::start().await;
    let whole = head("/v1/feeds/show/ws", "Cookie: a=b\r\n");
    for piece in [1, 3, 7, 50, whole.len() - 1] {
        let mut stream = connect(&app).await;
        for bytes in whole.as_bytes().chunks(piece) {
            stream.write_all(bytes).await.unwrap();
            // So that most pieces are read alone; it must hold either way.
            tokio::task::yield_now().await;
        }
        watches(&mut stream).await;
    }
}

async fn bytes_behind_the_handshake_are_handled_after_it() {
    let app = TestApp::start().await;
    let mut stream = connect(&app).await;
    // A masked ping with the payload "hi".
    let ping = [0x89, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2];
    let both = [head("/v1/feeds/show/ws", "").as_bytes(), &ping].concat();
    stream.write_all(&both).await.unwrap();
    let all = read_until(&mut stream, |all| has(all, "\u{2}hi")).await;
    assert!(all.windows(4).any(|pong| pong == [0x8a, 2, b'h', b'i']));
}

async fn much_that_comes_with_the_end_of_a_handshake_is_heard_to_its_end() {
    let app = TestApp::start().await;
    let mut stream = connect(&app).await;
    let head = head("/v1/feeds/show/ws", "");
    let (first, last) = head.as_bytes().split_at(20);
    stream.write_all(first).await.unwrap();
    // So that the beginning is mostly read alone, and kept; it must hold either way.
    sleep(Duration::from_millis(100)).await;
    let ping = |a: u8, b: u8| [0x89, 0x82, 1, 2, 3, 4, a ^ 1, b ^ 2];
    let pings = (0..8_000).flat_map(|_| ping(b'n', b'o')).chain(ping(b'z', b'z'));
    let rest: Vec<u8> = last.iter().copied().chain(pings).collect();
    stream.write_all(&rest).await.unwrap();
    read_until(&mut stream, |all| all.ends_with(&[0x8a, 2, b'z', b'z']) || has(all, "\u{2}zz")).await;
}

async fn a_connection_that_asked_for_something_else_before_may_become_a_watcher() {
    let app = TestApp::start().await;
    let mut stream = connect(&app).await;
    stream.write_all(b"GET /v1/feeds/show HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let first = read_until(&mut stream, |all| has(all, "\"rows\":[]") && has(all, "}")).await;
    assert!(first.starts_with(b"HTTP/1.1 200"));
    stream.write_all(head("/v1/feeds/show/ws", "").as_bytes()).await.unwrap();
    watches(&mut stream).await;
}

async fn a_longer_head_than_most_is_served_all_the_same() {
    let app = TestApp::start().await;
    for more in
        [format!("Cookie: {}\r\n", "c".repeat(40_000)), (0..80).map(|n| format!("X-{n}: y\r\n")).collect()]
    {
        let mut stream = connect(&app).await;
        stream.write_all(head("/v1/feeds/show/ws", &more).as_bytes()).await.unwrap();
        watches(&mut stream).await;
    }
}

async fn a_name_may_be_percent_encoded_and_what_it_hides_is_no_other_path() {
    let app = TestApp::start().await;
    let mut stream = connect(&app).await;
    stream.write_all(head("/v1/feeds/sh%6Fw/ws?since=x", "").as_bytes()).await.unwrap();
    let all = read_until(&mut stream, |all| has(all, "\"type\":\"snapshot\"")).await;
    assert!(has(&all, "\"feed\":\"show\""), "{:?}", String::from_utf8_lossy(&all));
    for path in
        ["/v1/feeds/a%2Fb/ws", "/v1/feeds/a%252e/ws", "/v1/feeds/%FF/ws", "/v1/feeds//ws", "/v1/feeds/a/ws/"]
    {
        let mut stream = connect(&app).await;
        stream.write_all(head(path, "").as_bytes()).await.unwrap();
        let told = read_until(&mut stream, |all| has(all, "}")).await;
        assert!(told.starts_with(b"HTTP/1.1 4") && has(&told, "application/problem+json"), "{path}");
    }
}

async fn a_handshake_that_asks_for_nonsense_is_told_so_as_every_request_is() {
    let app = TestApp::start().await;
    for (path, more, name) in [
        ("/v1/feeds/show/ws?max_hz=x", "", "/problems/"),
        ("/v1/feeds/show/ws?without=everything", "", "/problems/"),
        ("/v1/feeds/show/ws", "Sec-WebSocket-Version: 12\r\n", "/problems/bad-handshake"),
        ("/v1/feeds/no+name/ws", "", "/problems/"),
        ("/v1/wss", "", "/problems/"),
    ] {
        let mut stream = connect(&app).await;
        stream.write_all(head(path, more).as_bytes()).await.unwrap();
        let told = read_until(&mut stream, |all| has(all, "}")).await;
        assert!(
            told.starts_with(b"HTTP/1.1 4") && has(&told, name),
            "{path} {}",
            String::from_utf8_lossy(&told)
        );
    }
}

async fn silent_and_half_handshakes_are_answered_with_a_timeout() {
    let app = TestApp::with(&Backing::fresh(), |config| config.http.head_timeout_ms = 300).await;
    for said in ["", "GET /v1/feeds/sh", "GET /v1/feeds/show/ws HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut told = String::new();
        // Over TLS it may be cut in its handshake, when nothing can be said yet.
        while told.is_empty() {
            let mut stream = connect(&app).await;
            let _ = stream.write_all(said.as_bytes()).await;
            let _ = timeout(PATIENCE, stream.read_to_string(&mut told)).await.expect("it ends");
        }
        assert!(told.starts_with("HTTP/1.1 408"), "{said:?}: {told:?}");
    }
    app.stop().await;
}

async fn a_handshake_that_waits_for_its_list_in_vain_is_counted_once_as_what_was_answered() {
    let server = Arc::new(RedisServer::start());
    let corner = Corner { server: server.clone(), prefix: "tipcast".into() };
    let app = TestApp::on(&Backing::corner(corner)).await;
    server.freeze();
    let mut stream = connect(&app).await;
    stream.write_all(head("/v1/feeds/show/ws", "").as_bytes()).await.unwrap();
    let told = read_until(&mut stream, |all| has(all, "}")).await;
    server.thaw();
    assert!(told.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&told));
    let counted = app.get("/metrics").await.text;
    let counts =
        |class| counted.contains(&format!("tipcast_http_requests_total{{route=\"ws\",class=\"{class}\"}} 1"));
    assert!(counts("5xx") && !counts("1xx"), "{counted}");
}
