//! Without keys, and `[http] hosts`: by which names the server is asked, and by which clients it may be asked.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ask;
use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;

const WRITE: &str = "POST /v1/feeds/show/gifts";

async fn post(api: &Api, id: &str, headers: &[(&str, &str)]) -> Said {
    ask(api, WRITE, headers, Some(&gift(id).json().to_string())).await
}

#[tokio::test]
async fn a_page_whose_name_was_made_to_point_here_reads_no_secrets_and_writes_nothing() {
    let app = TestApp::start().await;
    let port = app.authority().rsplit_once(':').unwrap().1;
    let host = format!("evil.example:{port}");
    let origin = format!("http://{host}");
    let hook = r#"{"url":"https://gifts.example/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#;
    for (line, body) in [
        (WRITE, Some(&*gift("g").json().to_string())),
        ("PUT /v1/feeds/show/webhooks/w", Some(hook)),
        ("GET /v1/feeds/show/webhooks", None),
        ("GET /v1/feeds/show/users/u/holds", None),
        ("GET /v1/feeds/show/policy", None),
        ("GET /v1/admin/overview", None),
        ("GET /console", None),
    ] {
        // A browser leaves the origin out where a page reads from its own.
        for headers in [vec![("host", &*host)], vec![("host", &*host), ("origin", &*origin)]] {
            let said = ask(&app, line, &headers, body).await;
            assert_eq!(said.problem(403)["type"], "/problems/keys-needed", "{line}");
        }
        let said = ask(&app, line, &[("x-real-ip", "127.0.0.1")], body).await;
        assert_eq!(said.problem(403)["type"], "/problems/keys-needed", "{line} through a proxy");
        assert!(ask(&app, line, &[], body).await.status < 400, "{line} by a program of this machine");
    }
    assert_eq!(app.get_feed("show").await["seq"], 1);
    let watched = ask(&app, "GET /v1/feeds/show", &[("host", &host)], None).await;
    assert_eq!(watched.status, 200, "a feed is for everybody");
}

#[tokio::test]
async fn the_server_is_asked_by_its_listed_names_only() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.http.hosts = vec!["gifts.example".into(), "127.0.0.1".into()];
    })
    .await;
    for path in ["/", "/healthz", "/v1/feeds/show", "/v1/feeds/show/policy", "/nothing"] {
        let said = ask(&app, &format!("GET {path}"), &[("host", "evil.example")], None).await;
        assert_eq!(said.problem(421)["type"], "/problems/misdirected", "{path}");
    }
    let said = ask(&app, "GET /v1/feeds/show", &[("host", "GIFTS.example:443")], None).await;
    assert_eq!(said.status, 200);
    assert_eq!(post(&app, "g", &[]).await.status, 201);
}

#[tokio::test]
async fn trusted_proxies_without_keys_are_warned_about_at_the_start() {
    let dir = tempfile::TempDir::new().unwrap();
    let args = vec!["--data-dir".to_owned(), dir.path().display().to_string()];
    let env = vec![("TIPCAST_HTTP__TRUSTED_PROXIES".to_owned(), "10.0.0.1".to_owned())];
    let mut gateway = Process::start("127.0.0.1:0", args, env);
    gateway.terminate();
    gateway.wait();
    let said = gateway.said();
    assert!(said.contains("trusted_proxies") && said.contains("tipcast key new"), "{said}");
}

/// What nginx does by `proxy_pass http://127.0.0.1:8080;` and nothing else: HTTP/1.0 to a loopback name, no header of its own.
#[tokio::test]
async fn without_keys_a_proxy_that_adds_no_header_is_seen_by_its_http_1_0() {
    let app = TestApp::start().await;
    let body = gift("g").json().to_string();
    for (version, status) in [("1.0", 403), ("1.1", 201)] {
        let request = format!(
            "POST /v1/feeds/show/gifts HTTP/{version}\r\nHost: {}\r\nConnection: close\r\nUser-Agent: curl/8\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            app.authority(),
            body.len()
        );
        let mut stream = TcpStream::connect(app.authority()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let line = answer.lines().next().unwrap();
        assert!(
            line.ends_with(&format!(" {status} {}", if status == 201 { "Created" } else { "Forbidden" })),
            "{answer}"
        );
        assert_eq!(answer.contains("/problems/keys-needed"), status == 403, "{answer}");
    }
}

#[tokio::test]
async fn without_keys_the_start_the_first_page_and_check_config_say_that_everybody_who_reaches_it_may_write()
{
    let said = "everybody who reaches";
    let app = TestApp::start().await;
    assert!(app.get("/").await.text.contains(said));
    let keyed = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec!["producer-0123456789".to_owned().into()];
    })
    .await;
    assert!(!keyed.get("/").await.text.contains(said));
    let dir = tempfile::TempDir::new().unwrap();
    let args = |more: &[&str]| {
        let mut args: Vec<String> = more.iter().map(|it| (*it).to_owned()).collect();
        args.extend(["--data-dir".to_owned(), dir.path().display().to_string()]);
        args
    };
    let (status, told) = Process::run(&args(&["check-config"]));
    assert!(status.success() && told.contains(said) && told.contains("tunnel"), "{told}");
    let mut gateway = Process::start("127.0.0.1:0", args(&[]), vec![]);
    gateway.terminate();
    gateway.wait();
    assert!(gateway.said().contains(said), "{}", gateway.said());
    let keys = vec![("TIPCAST_AUTH__PRODUCER_KEYS".to_owned(), format!("sha256:{}", "0".repeat(64)))];
    let (_, told) = Process::run_with(&args(&["check-config"]), keys);
    assert!(!told.contains(said), "{told}");
}

/// What packages ship begins with a key, and never opens the server to strangers.
#[test]
fn shipped_files_make_keys_first() {
    for (name, text) in [
        ("compose.yaml", include_str!("../../../compose.yaml")),
        ("nginx.conf", include_str!("../../../packaging/nginx.conf")),
        ("Caddyfile", include_str!("../../../packaging/Caddyfile")),
    ] {
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.contains("key new"), "{name} does not begin with making a key");
        assert!(!text.to_lowercase().contains("insecure"), "{name}");
    }
}
