//! Viewers whose tokens are revoked, and the audit log.

use std::time::Duration;

use serde_json::{Value, json};
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, Socket, open_socket, read_socket};

on_both_stores![
    a_revoked_viewer_is_refused_everywhere_and_its_sockets_are_closed,
    a_token_whose_issuer_has_a_clock_ahead_does_not_survive_a_revocation,
    a_wrong_revocation_is_explained,
];

const SECRET: &str = "a secret of the tests, longer than it must be";
const ADMIN: &str = "admin-key-0123456789";
const PRODUCER: &str = "producer-0123456789";

/// A gateway that takes tokens, on this store.
async fn on(backing: &Backing) -> TestApp {
    TestApp::with(backing, |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.auth.admin_keys = vec![ADMIN.to_owned().into()];
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
        config.feeds.visibility = "private".into();
    })
    .await
}

/// A token of this viewer that was issued `ms` milliseconds ago.
fn token(sub: &str, age_ms: i64) -> String {
    let now = Millis::now().0;
    let (iat, exp) = ((now - age_ms) as f64 / 1e3, (now + 600_000) as f64 / 1e3);
    let claims = json!({"sub": sub, "iat": iat, "exp": exp, "feeds": ["*"], "may": ["hold"]});
    Minter::secret(SECRET).sign(&claims, None).unwrap()
}

async fn ask(api: &Api, key: &str, method: &str, path: &str, body: Option<Value>) -> Said {
    let request = api.request(method, path).bearer_auth(key);
    Api::send(match body {
        Some(body) => request.json(&body),
        None => request,
    })
    .await
}

/// Waits until a read with this token is answered so.
async fn until_answered(api: &Api, token: &str, status: u16) {
    let wait = async {
        while ask(api, token, "GET", "/v1/feeds/show", None).await.status != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never {status}"));
}

async fn watch(api: &Api, path: &str, token: &str) -> Socket {
    let mut socket = open_socket(api, &format!("{path}?token={token}"), None).await.unwrap();
    let first = read_socket(&mut socket).await;
    assert!(matches!(&first, Brought::Frame(frame) if frame["type"] == "snapshot"), "{first:?}");
    socket
}

/// The error before the close, and its code.
async fn ended(socket: &mut Socket) -> (String, u16) {
    let mut code = String::new();
    loop {
        match tokio::time::timeout(PATIENCE, read_socket(socket)).await.unwrap() {
            Brought::Frame(frame) if frame["type"] == "error" => {
                code = frame["code"].as_str().unwrap().into()
            }
            Brought::Frame(_) => {}
            Brought::Closed(closed) => return (code, closed.unwrap()),
        }
    }
}

async fn a_revoked_viewer_is_refused_everywhere_and_its_sockets_are_closed() {
    let backing = Backing::fresh();
    let first = on(&backing).await;
    // Of an embedded store there is one node.
    let second = match &backing {
        Backing::Folder(_) => None,
        Backing::Redis(..) => Some(on(&backing).await),
    };
    let nodes: Vec<&TestApp> = [Some(&first), second.as_ref()].into_iter().flatten().collect();
    let (ann, eve) = (token("ann", 5_000), token("eve", 5_000));
    let mut sockets = Vec::new();
    for node in &nodes {
        until_answered(node, &ann, 200).await;
        sockets.push(watch(node, "/v1/feeds/show/ws", &ann).await);
    }
    let mut other = watch(&first, "/v1/feeds/show/ws", &eve).await;
    let said = ask(&first, ADMIN, "POST", "/v1/viewers/ann/revoke", None).await;
    assert_eq!(said.status, 200, "{said:?}");
    let before = Millis::parse(said.json()["before"].as_str().unwrap()).unwrap();
    assert!(before <= Millis::now());
    for socket in &mut sockets {
        assert_eq!(ended(socket).await, ("forbidden".into(), 4003));
    }
    for node in &nodes {
        until_answered(node, &ann, 401).await;
        let said = ask(node, &ann, "GET", "/v1/feeds/show", None).await;
        assert_eq!(said.problem(401)["type"], "/problems/bad-token");
        assert_eq!(said.header("www-authenticate"), "Bearer error=\"invalid_token\"");
        ask(node, &ann, "GET", "/v1/feeds/show/users/ann/holds", None).await.problem(401);
        let mut again = open_socket(node, &format!("/v1/feeds/show/ws?token={ann}"), None).await.unwrap();
        assert_eq!(ended(&mut again).await, ("bad_token".into(), 4003));
        assert_eq!(ask(node, &eve, "GET", "/v1/feeds/show", None).await.status, 200);
        // One that was issued since is another matter.
        assert_eq!(ask(node, &token("ann", -1_000), "GET", "/v1/feeds/show", None).await.status, 200);
    }
    // It never moves back.
    let earlier = json!({"before": "2020-01-01T00:00:00Z"});
    let said = ask(&first, ADMIN, "POST", "/v1/viewers/ann/revoke", Some(earlier)).await;
    assert_eq!(said.json()["before"], before.to_string());
    ask(&first, PRODUCER, "POST", "/v1/feeds/show/gifts", Some(gift("g1").json())).await;
    let next = read_socket(&mut other).await;
    assert!(matches!(&next, Brought::Frame(frame) if frame["seq"] == 1), "others stay: {next:?}");
    drop((sockets, second));
    drop(first);
    let restarted = on(&backing).await;
    until_answered(&restarted, &eve, 200).await;
    assert_eq!(
        ask(&restarted, &ann, "GET", "/v1/feeds/show", None).await.status,
        401,
        "it outlives the process"
    );
}

async fn a_token_whose_issuer_has_a_clock_ahead_does_not_survive_a_revocation() {
    let app = on(&Backing::fresh()).await;
    let ahead = token("ann", -4_000);
    assert_eq!(ask(&app, &ahead, "GET", "/v1/feeds/show", None).await.status, 200);
    let mut socket = watch(&app, "/v1/feeds/show/ws", &ahead).await;
    assert_eq!(ask(&app, ADMIN, "POST", "/v1/viewers/ann/revoke", None).await.status, 200);
    assert_eq!(ended(&mut socket).await, ("forbidden".into(), 4003));
    assert_eq!(ask(&app, &ahead, "GET", "/v1/feeds/show", None).await.status, 401);
    // Who names a time means that time.
    let (older, newer) = (token("eve", 3_000), token("eve", 1_000));
    let before = json!({"before": Millis(Millis::now().0 - 2_000).to_string()});
    assert_eq!(ask(&app, ADMIN, "POST", "/v1/viewers/eve/revoke", Some(before)).await.status, 200);
    assert_eq!(ask(&app, &older, "GET", "/v1/feeds/show", None).await.status, 401);
    assert_eq!(ask(&app, &newer, "GET", "/v1/feeds/show", None).await.status, 200);
}

async fn a_wrong_revocation_is_explained() {
    let app = on(&Backing::fresh()).await;
    let path = "/v1/viewers/ann/revoke";
    let future = (Millis::now().plus(60_000)).to_string();
    for wrong in [json!({"before": future}), json!({"before": 5}), json!({"before": "x"})] {
        assert_eq!(ask(&app, ADMIN, "POST", path, Some(wrong)).await.pointers(), ["/before"]);
    }
    assert_eq!(ask(&app, ADMIN, "POST", path, Some(json!({"after": 1}))).await.pointers(), ["/after"]);
    ask(&app, ADMIN, "POST", "/v1/viewers//revoke", None).await.problem(422);
    ask(&app, ADMIN, "POST", &format!("/v1/viewers/{}/revoke", "x".repeat(65)), None).await.problem(422);
    let said = ask(&app, PRODUCER, "POST", path, None).await;
    assert!(said.problem(403)["detail"].as_str().unwrap().contains("admin"), "{said:?}");
    ask(&app, &token("ann", 0), "POST", path, None).await.problem(403);
    assert_eq!(ask(&app, ADMIN, "POST", "/v1/viewers/a%2Fb%20c/revoke", None).await.status, 200);
}

#[tokio::test]
async fn changes_and_refused_keys_are_lines_of_the_audit_log_and_secrets_are_not() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("audit.log");
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.auth.admin_keys = vec![ADMIN.to_owned().into()];
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
        config.log.audit = file.display().to_string();
    })
    .await;
    let hook = json!({"url": "https://example.com/", "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"});
    let asked = [
        (PRODUCER, "PATCH", "/v1/feeds/show/policy", Some(json!({"capacity": 5}))),
        (PRODUCER, "POST", "/v1/feeds/show/gifts", Some(gift("g1").json())),
        (PRODUCER, "GET", "/v1/feeds/show/policy", None),
        (PRODUCER, "POST", "/v1/feeds/show/control", Some(json!({"action": "pause"}))),
        (PRODUCER, "DELETE", "/v1/feeds/show/rows/none", None),
        (PRODUCER, "PUT", "/v1/feeds/show/webhooks/w", Some(hook)),
        (PRODUCER, "POST", "/v1/viewers/ann/revoke", None),
        (ADMIN, "POST", "/v1/viewers/ann/revoke", None),
        ("tck_wrong", "POST", "/v1/feeds/show/gifts", Some(gift("g2").json())),
        (PRODUCER, "PUT", "/v1/feeds/show/policy", Some(json!({"capacity": 0}))),
    ];
    for (key, method, path, body) in asked {
        ask(&app, key, method, path, body).await;
    }
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    let wait = async {
        while lines().lines().count() < 8 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, wait).await;
    let text = lines();
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(Millis::parse(line["time"].as_str().unwrap()).is_some());
        assert_eq!(line.as_object().unwrap().len(), 7, "{line}");
        ["key", "right", "feed", "action", "target", "outcome"]
            .map(|name| line[name].as_str().unwrap_or("-").to_owned())
    };
    let read: Vec<_> = text.lines().map(read).collect();
    let said: Vec<Vec<&str>> = read.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
    let [producer, admin] = ["producer_keys[1]", "admin_keys[1]"];
    assert_eq!(
        said,
        [
            vec![producer, "policy", "show", "PATCH policy", "", "done"],
            vec![producer, "moderate", "show", "POST control", "pause", "done"],
            vec![producer, "moderate", "show", "DELETE rows", "none", "failed"],
            vec![producer, "reports", "show", "PUT webhooks", "w", "done"],
            vec![producer, "admin", "-", "POST viewers/revoke", "ann", "refused"],
            vec![admin, "admin", "-", "POST viewers/revoke", "ann", "done"],
            vec!["-", "gifts", "show", "POST gifts", "", "refused"],
            vec![producer, "policy", "show", "PUT policy", "", "failed"],
        ]
    );
    for secret in [PRODUCER, ADMIN, SECRET, "whsec_", "tck_wrong"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn thousands_of_refused_requests_of_a_stranger_are_two_short_lines_of_the_audit_log() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("audit.log");
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.log.audit = file.display().to_string();
    })
    .await;
    let path = format!("/v1/feeds/show/blocks/{}", "x".repeat(8_000));
    for n in 0..2_000 {
        let key = if n % 2 == 0 { "tck_wrong" } else { "no key at all" };
        let said = ask(&app, key, "PUT", &path, None).await;
        assert!(matches!(said.status, 401 | 429), "{said:?}");
    }
    // A key that is known has its lines all the same.
    ask(&app, PRODUCER, "POST", "/v1/viewers/ann/revoke", None).await;
    app.stop().await;
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_strangers: Vec<_> = lines.iter().filter(|line| line["key"].is_null()).collect();
    let counted = |line: &&&Value| line["action"] == "requests";
    let count = |line: &Value| line["target"].as_str().unwrap().split(' ').next().unwrap().parse::<u64>();
    let counts: u64 = of_strangers.iter().filter(counted).map(|line| count(line).unwrap()).sum();
    assert_eq!(counts, 2_000 - of_strangers.iter().filter(|line| !counted(line)).count() as u64, "{text}");
    // A summary every ten seconds, on a machine that is slow.
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
    assert_eq!(lines.iter().filter(|line| line["key"] == "producer_keys[1]").count(), 1);
}
