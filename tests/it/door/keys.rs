//! `[auth] producer_keys`, and `tipcast key new`.

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{LOCAL, ask, connect};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::sse::SseWatcher;
use crate::support::watcher::{Brought, read_socket};

/// What `tipcast key new` prints: the key, and the lines for the configuration.
fn new_key() -> (String, String) {
    let (status, said) = Process::run(&["key".into(), "new".into()]);
    assert!(status.success(), "{said}");
    let key = said.lines().next().unwrap().to_owned();
    assert!(key.starts_with("tck_") && key.len() > 40, "{said}");
    let table: toml::Table =
        said.split_once('\n').unwrap().1.parse().unwrap_or_else(|e| panic!("{e}: {said}"));
    let stored = table["auth"]["producer_keys"][0].as_str().unwrap().to_owned();
    assert!(stored.starts_with("sha256:") && !stored.contains(&key[4..]), "{said}");
    (key, stored)
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

#[tokio::test]
async fn producers_need_a_key_and_viewers_none() {
    let (key, stored) = new_key();
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![stored.clone().into()];
    })
    .await;
    let body = gift("g1").json().to_string();
    for (line, body) in [
        ("POST /v1/feeds/show/gifts", Some(&*body)),
        ("POST /v1/feeds/show/gifts/batch", Some("{}")),
        ("DELETE /v1/feeds/show/rows/r", None),
        ("GET /v1/feeds/show/policy", None),
        ("PUT /v1/feeds/show/policy", Some("{}")),
        ("PATCH /v1/feeds/show/policy", Some("{}")),
        ("GET /v1/feeds/show/scheduled", None),
        ("DELETE /v1/feeds/show/scheduled/x", None),
        ("GET /%761/feeds/show/policy", None),
        ("POST /v1/feeds/a%2fb/gifts", Some(&*body)),
        ("POST /v1/nothing", None),
    ] {
        let said = ask(&app, line, &[], body).await;
        let problem = said.problem(401);
        assert_eq!(problem["type"], "/problems/unauthenticated", "{line}");
        assert_eq!(said.header("www-authenticate"), "Bearer", "{line}");
        for wrong in [&stored, "tck_", &key[..key.len() - 1], &key.to_uppercase()] {
            let said = ask(&app, line, &[("authorization", &bearer(wrong))], body).await;
            said.problem(401);
            assert_eq!(said.header("www-authenticate"), "Bearer", "{said:?}");
        }
        let said = ask(&app, line, &[("authorization", &bearer(&key))], body).await;
        assert_ne!(said.status, 401, "{line}: {said:?}");
    }
    let feed = app.get_feed("show").await;
    assert_eq!(feed["rows"].as_array().unwrap().len(), 1, "the one gift that came with the key");
    app.watch("show").await.wait_for_seq(1).await;
    SseWatcher::open(&app, "show").await.wait_for_seq(1).await;
    for path in ["/", "/healthz", "/readyz", "/static/tipcast.js", "/problems/unauthenticated"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn two_keys_are_in_force_at_once_and_an_entry_may_be_the_key_itself() {
    let ((old, stored), plain) = (new_key(), "a key of the operator's own".replace(' ', "-"));
    let mut args = Backing::folder().args();
    let dir = tempfile::TempDir::new().unwrap();
    args[1] = dir.path().display().to_string();
    let env = vec![("TIPCAST_AUTH__PRODUCER_KEYS".to_owned(), format!("{stored}, {plain}"))];
    let mut gateway = Process::start("0.0.0.0:0", args, env);
    let local = gateway.base.replace("0.0.0.0", "127.0.0.1");
    let api = crate::support::api::Api::at(local);
    for (n, key) in [&old, &plain].into_iter().enumerate() {
        let body = gift(&format!("g{n}")).json().to_string();
        let said =
            ask(&api, "POST /v1/feeds/show/gifts", &[("authorization", &bearer(key))], Some(&body)).await;
        assert!(matches!(said.status, 200 | 201), "{said:?}");
    }
    ask(&api, "POST /v1/feeds/show/gifts", &[("authorization", "Bearer nonsense")], Some("{}"))
        .await
        .problem(401);
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
    let said = gateway.said();
    assert!(!said.contains(&old) && !said.contains(&plain) && !said.contains(&stored[7..]), "{said}");
}

#[tokio::test]
async fn a_refused_upload_is_not_read_to_its_end() {
    let (_, stored) = new_key();
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![stored.into()];
    })
    .await;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
    let head = "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = socket.split();
    let endless = async {
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
        while write.write_all(chunk.as_bytes()).await.is_ok() {}
    };
    let hear = async {
        let mut all = Vec::new();
        let _ = read.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all).into_owned()
    };
    let both = async { tokio::join!(endless, hear).1 };
    let told = tokio::time::timeout(crate::support::case::PATIENCE, both).await.expect("an end");
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 401"), "{told}");
    assert_eq!(app.get_feed("show").await["rows"], json!([]));
}

/// Wrong keys are guesses also where nobody needs a key, and in frames.
#[tokio::test]
async fn a_wrong_key_is_a_guess_when_reading_and_in_auth_frames_too() {
    const PRODUCER: &str = "producer-0123456789";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.limits.count_loopback = true;
    })
    .await;
    let wrong = [("authorization", "Bearer tck_wrong")];
    let mut guesses = 0;
    loop {
        let said = ask(&app, "GET /v1/feeds/show", &wrong, None).await;
        if said.status == 429 {
            assert!(!said.header("retry-after").is_empty(), "{said:?}");
            break;
        }
        assert_eq!(said.status, 200);
        guesses += 1;
        assert!(guesses < 2_000, "nobody counts them");
    }
    assert!(guesses >= 100, "{guesses} are not many");
    let right = bearer(PRODUCER);
    assert_eq!(ask(&app, "GET /v1/feeds/show", &[("authorization", &right)], None).await.status, 200);
    assert_eq!(ask(&app, "GET /v1/feeds/show", &[], None).await.status, 200);
    // A token that means nothing here is ignored, as before.
    let token = [("authorization", "Bearer some.other.token")];
    assert_eq!(ask(&app, "GET /v1/feeds/show", &token, None).await.status, 200);
    let mut frames = 0;
    'sockets: loop {
        let mut socket = connect(&app, "/v1/ws", &[], LOCAL).await.unwrap();
        for _ in 0..15 {
            socket.send(Message::text(r#"{"type":"auth","key":"tck_wrong"}"#)).await.unwrap();
            let Brought::Frame(frame) = read_socket(&mut socket).await else { panic!("it was closed") };
            if frame["code"] == "rate_limited" {
                assert!(matches!(read_socket(&mut socket).await, Brought::Closed(Some(4100))));
                break 'sockets;
            }
            assert_eq!(frame["code"], "bad_token", "{frame}");
            frames += 1;
            assert!(frames < 2_000, "nobody counts them");
        }
    }
}
