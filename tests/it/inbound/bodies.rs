//! Whatever refuses a write, and however early: its answer does not overtake the body, which would end the connection
//! behind the back of a client that sends head and body apart; and where it does, it says so.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{GET, ask, connect, dribble_until_cut, impatient};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;

/// A key, and what the configuration has of it.
const KEY: &str = "tck_an-example-that-is-long-enough-to-be-a-key";

const JSON: &str = "Content-Type: application/json\r\n";

/// Every method and path that writes, with its parameters in braces, as the description of the API has them.
async fn writes(app: &TestApp) -> Vec<(String, String)> {
    let described = app.get("/openapi.json").await.json();
    let paths = described["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys();
        let methods = methods.filter(|name| matches!(name.as_str(), "post" | "put" | "patch" | "delete"));
        methods.map(move |method| (method.to_uppercase(), path.clone()))
    });
    let all: Vec<_> = all.collect();
    assert!(all.len() > 25, "{all:?}");
    all
}

/// The path with `value` in place of every parameter.
fn filled(path: &str, value: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { value } else { part });
    parts.collect::<Vec<_>>().join("/")
}

fn head(method: &str, path: &str, more: &str, length: usize) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {length}\r\n\r\n")
}

fn closes(answer: &str) -> bool {
    answer.to_lowercase().contains("\r\nconnection: close\r\n")
}

/// Sends the head, and when nothing was said to it the body; the answer. After it the connection is good for more.
async fn answered_to_the_body(app: &TestApp, head: &str, body: &str) -> String {
    let mut stream = connect(app).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let early = timeout(Duration::from_millis(100), stream.read(&mut [0])).await;
    assert!(early.is_err(), "answered before its body came: {head}");
    let said = ask(&mut stream, body).await;
    assert!(!closes(&said), "{head}{said}");
    assert!(ask(&mut stream, GET).await.starts_with("HTTP/1.1 200 "), "{head}{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_to_a_write_overtakes_its_body() {
    let app = TestApp::start().await;
    let app = &app;
    let unknown = "z".repeat(65);
    let large = " ".repeat(70_000);
    let every = writes(app).await;
    let tried = every.iter().flat_map(|(method, path)| {
        let bad = filled(path, &unknown);
        let good = filled(path, "show");
        let other = if *method == "PATCH" { "TRACE" } else { "PATCH" };
        let key = format!("{JSON}Idempotency-Key: \"\"\r\n");
        let text = "Content-Type: text/plain\r\n".to_owned();
        let zipped = format!("{JSON}Content-Encoding: gzip\r\n");
        [
            (method.as_str(), bad, JSON.to_owned(), "{}"),
            (method, good.clone(), key, "{}"),
            (method, good.clone(), text, "{}"),
            (method, good.clone(), zipped, "{}"),
            (method, good.clone(), JSON.to_owned(), "{"),
            (method, good.clone(), JSON.to_owned(), &*large),
            (other, good, JSON.to_owned(), "{}"),
        ]
    });
    for some in tried.collect::<Vec<_>>().chunks(64) {
        let some = some.iter().map(|(method, path, more, body)| async move {
            answered_to_the_body(app, &head(method, path, more, body.len()), body).await
        });
        let said = join_all(some).await;
        assert!(said.iter().all(|said| !said.starts_with("HTTP/1.1 5")), "{said:?}");
    }
    // In chunks, too.
    let chunked = format!(
        "POST /v1/feeds/{unknown}/gifts HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    );
    let said = answered_to_the_body(app, &chunked, "2\r\n{}\r\n0\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 422 "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_what_is_said_at_the_door() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![KEY.to_owned().into()];
    })
    .await;
    let app = &app;
    let asked = writes(app).await.into_iter().map(|(method, path)| async move {
        let said = answered_to_the_body(app, &head(&method, &filled(&path, "show"), JSON, 2), "{}").await;
        let refused = if path.starts_with("/v1/") { "HTTP/1.1 401 " } else { "HTTP/1.1 4" };
        assert!(said.starts_with(refused), "{method} {path}: {said}");
        let foreign = format!("{JSON}Origin: https://elsewhere.example\r\nAuthorization: Bearer {KEY}\r\n");
        answered_to_the_body(app, &head(&method, &filled(&path, "show"), &foreign, 2), "{}").await;
    });
    join_all(asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_too_large_body_is_answered_at_once_with_connection_close() {
    let app = TestApp::start().await;
    let app = &app;
    let asked = writes(app).await.into_iter().map(|(method, path)| async move {
        let mut stream = connect(app).await;
        let said = ask(&mut stream, &head(&method, &filled(&path, "show"), JSON, 2 << 20)).await;
        assert!(closes(&said), "{method} {path}: {said}");
    });
    join_all(asked).await;
    // Nobody knows how much will come.
    let mut stream = connect(app).await;
    let chunked =
        "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(chunked.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let (mut read, mut write) = stream.split();
    let sending = async {
        while write.write_all(chunk.as_bytes()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let mut said = [0; 4096];
    let answer = async { read.read(&mut said).await.unwrap() };
    let answer = async {
        tokio::select! { n = answer => n, () = sending => 0 }
    };
    let n = timeout(PATIENCE, answer).await.expect("an answer");
    let said = String::from_utf8_lossy(&said[..n]);
    assert!(said.starts_with("HTTP/1.1 415 ") && closes(&said), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_wait_for_ever_for_a_body_that_does_not_come() {
    let app = impatient().await;
    for (path, dribbles) in [("/v1/feeds/no%20feed/policy", false), ("/v1/nothing", true)] {
        let mut stream = connect(&app).await;
        stream.write_all(head("PUT", path, JSON, 9_000).as_bytes()).await.unwrap();
        if dribbles {
            stream.write_all(b"{").await.unwrap();
        }
        let said = ask(&mut stream, "").await;
        assert!(said.starts_with("HTTP/1.1 4") && closes(&said), "{said}");
        dribble_until_cut(&mut stream, b"x").await;
    }
}

/// As Java's client does, which asks whether there is HTTP/2 with every request.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_to_another_protocol_gets_connection_close() {
    let app = TestApp::start().await;
    let more = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n";
    let gift = r#"{"user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"}}"#;
    let asked = [
        ("GET", "/v1/feeds/show", "", "200"),
        ("GET", "/nowhere", "", "404"),
        ("POST", "/v1/feeds/show/gifts", gift, "201"),
        ("POST", "/v1/feeds/not%20one/gifts", gift, "422"),
        ("POST", "/v1/feeds/show/gifts/batch", "{", "400"),
        ("POST", "/v1/feeds/show/holds/none/confirm", "", "404"),
    ];
    for (method, path, body, status) in asked {
        let mut stream = connect(&app).await;
        let whole = head(method, path, &format!("{JSON}{more}"), body.len()) + body;
        let said = ask(&mut stream, &whole).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")) && closes(&said), "{whole}{said}");
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it does end: {whole}{said}");
        // Who does not ask keeps it.
        let plain = whole.replace(more, "");
        let said = ask(&mut connect(&app).await, &plain).await;
        assert!(!closes(&said), "{plain}{said}");
    }
}

/// When they came with their head, what the server alone found wrong ended the connection without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_is_spelled_wrong_is_answered_400_however_its_bytes_come() {
    let app = TestApp::start().await;
    let head = format!(
        "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    );
    let body = "{}".to_owned() + &" ".repeat(29);
    for chunks in [
        format!("+1f\r\n{body}\r\n0\r\n\r\n"),
        format!(" 1f\r\n{body}\r\n0\r\n\r\n"),
        format!("1f;a=\rb\r\n{body}\r\n0\r\n\r\n"),
        format!("1f\r\n{body}xx0\r\n\r\n"),
        format!("1f\r\n{body}\r\n+1f\r\n{body}\r\n0\r\n\r\n"),
    ] {
        for together in [true, false] {
            let mut stream = connect(&app).await;
            if !together {
                stream.write_all(head.as_bytes()).await.unwrap();
                // The head is read by then, mostly; either way the answer is the same.
                tokio::task::yield_now().await;
            }
            let rest = if together { head.clone() + &chunks } else { chunks.clone() };
            let _ = stream.write_all(rest.as_bytes()).await;
            let mut said = vec![0; 12];
            let read = timeout(PATIENCE, stream.read_exact(&mut said)).await.expect("an answer");
            read.unwrap_or_else(|e| panic!("{chunks:?} together: {together}: {e}"));
            assert_eq!(said, b"HTTP/1.1 400", "{chunks:?} together: {together}");
        }
    }
    assert_eq!(app.get_feed("show").await["seq"], 0);
}
