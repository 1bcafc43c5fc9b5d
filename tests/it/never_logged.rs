//! Tokens and keys are in no log, metric, audit line or answer, whichever way they came and however wrong they are; and
//! who may not see a feed does not learn whether there is one.

use futures_util::SinkExt;
use serde_json::json;
use tempfile::TempDir;
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;
use tokio_tungstenite::tungstenite::Message;

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::{Brought, open_socket, read_socket};

const SECRET: &str = "a secret of the tests, longer than it must be";
const PRODUCER: &str = "producer-0123456789";

fn token(feeds: &str, ends_in_ms: i64) -> String {
    let now = Millis::now().0;
    let claims = json!({"sub": "ann", "iat": (now - 600_000) as f64 / 1e3, "feeds": [feeds],
        "exp": (now + ends_in_ms) as f64 / 1e3});
    Minter::secret(SECRET).sign(&claims, None).unwrap()
}

/// A gateway that says all it can, with a private feed "show"; every feed is private by default.
async fn gateway(dir: &TempDir) -> Process {
    let file = dir.path().join("tipcast.toml");
    let text = format!(
        "[feeds]\nvisibility = \"private\"\n[auth]\nproducer_keys = [{PRODUCER:?}]\n[auth.tokens]\n\
         hs256_secrets = [{SECRET:?}]\n[log]\nlevel = \"trace\"\naudit = \"stderr\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let mut args = Backing::folder().args();
    args.extend(["--config".to_owned(), file.display().to_string()]);
    let gateway = tokio::task::spawn_blocking(move || Process::serve(&args)).await.unwrap();
    let post = gateway.request("POST", "/v1/feeds/show/gifts").bearer_auth(PRODUCER).json(&gift("g1").json());
    assert_eq!(Api::send(post).await.status, 201);
    gateway
}

/// What a socket says until it is closed or has nothing more to say for now.
async fn socket(api: &Api, path: &str, auth: Option<&str>) -> String {
    let mut socket = match open_socket(api, path, None).await {
        Ok(socket) => socket,
        Err(status) => return status.to_string(),
    };
    if let Some(token) = auth {
        let frame = json!({"type": "auth", "token": token}).to_string();
        socket.send(Message::text(frame)).await.unwrap();
    }
    match read_socket(&mut socket).await {
        Brought::Frame(frame) => frame.to_string(),
        Brought::Closed(code) => format!("closed with {code:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_a_key_are_said_nowhere() {
    let dir = TempDir::new().unwrap();
    let gateway = gateway(&dir).await;
    let good = token("show", 600_000);
    let broken = format!("{}x", token("show", 601_000));
    let all =
        [good, broken, token("show", -60_000), token("other", 600_000), "tck_".to_owned() + &"0f".repeat(32)];
    let mut answers = String::new();
    for token in &all {
        for path in ["", "/ws", "/sse", "/totals", "/leaders", "/policy", "/gifts", "/nowhere", "/claims"] {
            let path = format!("/v1/feeds/show{path}?token={token}");
            for (method, with_header) in [("GET", false), ("GET", true), ("POST", true), ("DELETE", true)] {
                if path.contains("/sse") && method == "GET" {
                    continue;
                }
                let mut request = gateway.request(method, &path).json(&json!({"token": 1}));
                if with_header {
                    request = request.bearer_auth(token);
                }
                answers += &format!("{:?}\n", Api::send(request).await);
            }
        }
        answers += &socket(&gateway, &format!("/v1/feeds/show/ws?token={token}"), None).await;
        answers += &socket(&gateway, "/v1/feeds/show/ws", Some(token)).await;
        answers += &socket(&gateway, &format!("/v1/ws?token={token}"), Some(token)).await;
        answers += &socket(&gateway, &format!("/v1/ws?token={token}&token={token}"), Some("no token")).await;
    }
    let metrics = Api::send(gateway.request("GET", "/metrics").bearer_auth(PRODUCER)).await;
    answers += &format!("{metrics:?}");
    assert!(answers.contains("snapshot") && answers.contains("401") && answers.contains("403"), "{answers}");
    let said = gateway.said();
    assert!(said.contains("TRACE") || said.contains("DEBUG"), "it says all it can:\n{said}");
    for token in all.iter().map(String::as_str).chain([PRODUCER, SECRET]) {
        // Claims and a signature are as good as the whole.
        for part in token.split('.').filter(|part| part.len() > 15).skip(usize::from(token.contains('.'))) {
            let shown = |text: &str| text.lines().find(|line| line.contains(part)).map(str::to_owned);
            assert_eq!(shown(&said), None, "a log line has {part}");
            assert_eq!(shown(&answers), None, "an answer has {part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_watcher_does_not_learn_whether_the_feed_exists() {
    let dir = TempDir::new().unwrap();
    let gateway = gateway(&dir).await;
    let stranger = token("elsewhere", 600_000);
    for bearer in [None, Some(&stranger)] {
        for path in [
            "",
            "/sse",
            "/totals",
            "/leaders",
            "/goals",
            "/drops",
            "/presence",
            "/policy",
            "/review",
            "/scheduled",
        ] {
            let mut told = vec![];
            // One with a gift and one that nobody ever wrote to, with names of one length.
            for feed in ["show", "none"] {
                let mut request = gateway.request("GET", &format!("/v1/feeds/{feed}{path}"));
                if let Some(token) = bearer {
                    request = request.bearer_auth(token);
                }
                let answer = Api::send(request).await;
                assert!([401, 403].contains(&answer.status), "{path}: {answer:?}");
                told.push(format!("{} {}", answer.status, answer.text).replace(feed, "FEED"));
            }
            assert_eq!(told[0], told[1], "{path}");
        }
        let query = bearer.map(|token| format!("?token={token}")).unwrap_or_default();
        if bearer.is_some() {
            let there = socket(&gateway, &format!("/v1/feeds/show/ws{query}"), None).await;
            let not = socket(&gateway, &format!("/v1/feeds/none/ws{query}"), None).await;
            assert_eq!(there.replace("show", "FEED"), not.replace("none", "FEED"));
        }
    }
}
