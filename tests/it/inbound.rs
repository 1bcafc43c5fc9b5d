//! Connections of clients: each request has its time-outs, an address has its number, and a client that only waits
//! makes room for those who do something.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, open_socket, read_socket};

mod bodies;
mod descriptors;
mod pipelining;
mod unread;

const GET: &str = "GET /v1/feeds/show HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn impatient() -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.http.head_timeout_ms = 2_000;
        config.http.body_timeout_ms = 2_000;
        config.http.keep_alive_ms = 4_000;
    })
    .await
}

async fn connect(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.authority()).await.unwrap()
}

/// Sends a request and reads its answer, whose body has a length.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let n = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("an answer").unwrap();
        answer.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(n > 0, "the connection ended in {text:?}");
            continue;
        };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return text.into_owned();
        }
    }
}

/// Sends a byte again and again until the server ends the connection.
async fn dribble_until_cut(stream: &mut TcpStream, byte: &[u8]) {
    let (mut read, mut write) = stream.split();
    let dribbling = async {
        while write.write_all(byte).await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = async {
        let mut rest = Vec::new();
        // An error is an end too: the server does not read what is still on its way.
        let _ = read.read_to_end(&mut rest).await;
    };
    let cut = async {
        tokio::select! { () = dribbling => {}, () = ended => {} }
    };
    timeout(PATIENCE, cut).await.expect("the server ends it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_dribbles_is_cut_also_when_it_is_not_the_connections_first() {
    let app = impatient().await;
    for requests in 0..3 {
        let mut stream = connect(&app).await;
        for _ in 0..requests {
            assert!(ask(&mut stream, GET).await.starts_with("HTTP/1.1 200"));
        }
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        dribble_until_cut(&mut stream, b"x").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_cut_although_its_request_was_answered() {
    let app = impatient().await;
    let mut stream = connect(&app).await;
    let chunked = "GET /v1/feeds/show HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(ask(&mut stream, GET).await.starts_with("HTTP/1.1 200"));
    assert!(ask(&mut stream, chunked).await.starts_with("HTTP/1.1 200"));
    dribble_until_cut(&mut stream, b"1\r\nx\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_idle_after_its_requests_is_closed_and_one_that_is_used_is_not() {
    let app = impatient().await;
    let (mut idle, mut used) = (connect(&app).await, connect(&app).await);
    for _ in 0..2 {
        ask(&mut idle, GET).await;
    }
    let mut nothing = [0; 1];
    let mut ended = std::pin::pin!(timeout(PATIENCE, idle.read(&mut nothing)));
    let end = loop {
        tokio::select! {
            end = &mut ended => break end.expect("it is closed"),
            () = sleep(Duration::from_millis(200)) => drop(ask(&mut used, GET).await),
        }
    };
    assert!(matches!(end, Ok(0) | Err(_)));
    assert!(ask(&mut used, GET).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_head_that_end_in_a_bare_line_feed_are_refused_in_every_request() {
    let app = TestApp::start().await;
    for bad in [
        "GET /v1/feeds/show HTTP/1.1\nHost: localhost\n\n",
        "GET /v1/feeds/show HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    ] {
        for before in [0, 1] {
            let mut stream = connect(&app).await;
            for _ in 0..before {
                assert!(ask(&mut stream, GET).await.starts_with("HTTP/1.1 200"));
            }
            assert!(ask(&mut stream, bad).await.starts_with("HTTP/1.1 400"), "{bad:?} after {before}");
        }
    }
    let mut stream = connect(&app).await;
    let body = format!(
        "{}\n",
        serde_json::to_string_pretty(&gift("spread over lines").with("id", "a".into()).json()).unwrap()
    );
    for status in ["201", "200"] {
        let post = format!(
            "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let said = ask(&mut stream, &post).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_so_many_connections_and_the_next_is_told_why() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.count_loopback = true;
        config.limits.connections_per_address = 3;
    })
    .await;
    // The helper that started the gateway may have one open as well.
    let mut open = vec![];
    let said = loop {
        let mut stream = connect(&app).await;
        let said = ask(&mut stream, GET).await;
        if !said.starts_with("HTTP/1.1 200") {
            break said;
        }
        open.push(stream);
        assert!(open.len() <= 3);
    };
    assert!(said.starts_with("HTTP/1.1 429") && said.contains("too-many-connections"), "{said}");
    drop(open.pop());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = ask(&mut connect(&app).await, GET).await;
        if said.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "no place became free: {said}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_and_health_checks_get_in_while_idlers_and_watchers_take_all_they_can() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.connections = 20;
        config.limits.watchers_per_address = 0;
    })
    .await;
    // Of 20 connections watchers have 15.
    let mut watching = vec![];
    for n in 0..20 {
        let mut socket = open_socket(&app, "/v1/feeds/show/ws", None).await.unwrap();
        let Brought::Frame(first) = read_socket(&mut socket).await else { panic!("a frame") };
        assert_eq!(first["type"], if n < 15 { "snapshot" } else { "error" }, "{n}: {first}");
        if n < 15 {
            watching.push(socket);
        }
    }
    let mut idlers = vec![];
    for n in 0..60 {
        idlers.push(connect(&app).await);
        if n % 10 == 0 {
            let said = app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
            assert_eq!(said["status"], "accepted", "{said}");
            assert_eq!(app.get("/healthz").await.status, 200);
        }
    }
    let metrics = app.get("/metrics").await.text;
    let cut =
        metrics.lines().find_map(|it| it.strip_prefix("tipcast_connections_cut_total{reason=\"room\"} "));
    assert!(cut.unwrap().parse::<u64>().unwrap() >= 40, "{cut:?}");
    let Brought::Frame(delta) = read_socket(&mut watching[0]).await else { panic!("it still watches") };
    assert_eq!(delta["feed"], "show");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keep_alive_every_answer_has_connection_close() {
    let app = TestApp::with(&Backing::folder(), |config| config.http.keep_alive_ms = 0).await;
    let body = gift("once").json().to_string();
    let post = format!(
        "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for (request, status) in [(GET, "200"), (&*post, "201"), (GET, "200")] {
        let mut stream = connect(&app).await;
        let said = ask(&mut stream, request).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
        assert!(said.to_lowercase().contains("\r\nconnection: close\r\n"), "{said}");
        let end = timeout(PATIENCE, stream.read(&mut [0])).await.expect("the connection ends");
        assert_eq!(end.unwrap(), 0);
    }
    let mut socket = open_socket(&app, "/v1/feeds/show/ws", None).await.unwrap();
    let Brought::Frame(first) = read_socket(&mut socket).await else { panic!("a frame") };
    assert_eq!(first["type"], "snapshot");
    app.give("show", &gift("another").by("bob")).await;
    let Brought::Frame(delta) = read_socket(&mut socket).await else { panic!("it still watches") };
    assert_eq!(delta["type"], "delta");
}
