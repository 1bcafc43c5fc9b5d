//! Key sets that are fetched, from a server that hangs, lies, changes its keys and goes away.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;

const KEYS: &str = include_str!("../../src/auth/token/testdata/jwks.json");
const EC: &str = include_str!("../../src/auth/token/testdata/ec.pem");
const ED: &str = include_str!("../../src/auth/token/testdata/ed.pem");

/// A set is fetched again after ten seconds at the earliest, and these wait for it on a busy machine.
const FETCHED_WITHIN: Duration = Duration::from_secs(90);

/// What the server does.
#[derive(Clone, Debug)]
enum Mode {
    /// Never answers.
    Hang,
    /// Closes every connection.
    Gone,
    /// Answers this.
    Says(String),
}

struct Server {
    url: String,
    mode: Arc<Mutex<Mode>>,
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(mode: Mode) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let mode = Arc::new(Mutex::new(mode));
        let [asked, at_once, running] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn({
            let (mode, asked, at_once) = (mode.clone(), asked.clone(), at_once.clone());
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (mode, asked, at_once, running) =
                        (mode.lock().unwrap().clone(), asked.clone(), at_once.clone(), running.clone());
                    tokio::spawn(async move {
                        at_once.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        serve(stream, mode, &asked).await;
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            }
        });
        Server { url, mode, asked, at_once, task }
    }

    fn does(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn until_asked(&self, times: usize) {
        let wait = async {
            while self.asked() < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(FETCHED_WITHIN, wait).await.expect("it is asked again");
    }
}

async fn serve(mut stream: TcpStream, mode: Mode, asked: &AtomicUsize) {
    let mut head = [0; 2048];
    let _ = stream.read(&mut head).await;
    asked.fetch_add(1, Ordering::SeqCst);
    match mode {
        Mode::Gone => {}
        // Until the other side gives up.
        Mode::Hang => drop(stream.read(&mut head).await),
        Mode::Says(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
}

fn answer(status: &str, body: &str) -> Mode {
    Mode::Says(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

/// The set with these of its keys only.
fn keys(kids: &[&str]) -> Mode {
    let mut set: Value = serde_json::from_str(KEYS).unwrap();
    set["keys"].as_array_mut().unwrap().retain(|key| kids.contains(&key["kid"].as_str().unwrap()));
    answer("200 OK", &set.to_string())
}

fn token(pem: &str, kid: &str) -> String {
    let now = Millis::now().0 / 1_000;
    let claims = json!({"iat": now, "exp": now + 600, "feeds": ["*"]});
    Minter::private_pem(pem.as_bytes()).unwrap().sign(&claims, Some(kid)).unwrap()
}

async fn app(server: &Server) -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.auth.tokens.jwks_url.clone_from(&server.url);
        config.feeds.visibility = "private".into();
    })
    .await
}

async fn read(api: &Api, token: &str) -> Said {
    Api::send(api.request("GET", "/v1/feeds/show").bearer_auth(token)).await
}

async fn until_answered(api: &Api, token: &str, status: u16) {
    let wait = async {
        while read(api, token).await.status != status {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(FETCHED_WITHIN, wait).await.unwrap_or_else(|_| panic!("never {status}"));
}

#[tokio::test]
async fn before_there_were_keys_tokens_are_told_to_come_back_and_nothing_else_waits() {
    let server = Server::start(Mode::Hang).await;
    let app = app(&server).await;
    let good = token(ED, "ed");
    let huge = format!("{{\"keys\":[{}]}}", "1,".repeat(300_000));
    let lies = [
        answer("200 OK", "<html>sign in</html>"),
        answer("200 OK", "{\"keys\":[]}"),
        answer("200 OK", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\",\"kid\":\"ed\"}]}"),
        answer("500 Oops", KEYS),
        answer("302 Found\r\nlocation: http://127.0.0.1:1/", ""),
        answer("200 OK", &huge),
        Mode::Gone,
        Mode::Says("nonsense".into()),
    ];
    for lie in lies {
        let said = read(&app, &good).await;
        assert_eq!(said.problem(503)["type"], "/problems/keys-unavailable");
        assert!(!said.header("retry-after").is_empty() && said.header("www-authenticate").is_empty());
        // One that can never be good is refused as such.
        read(&app, "no.token.this").await.problem(401);
        assert_eq!(app.get("/readyz").await.status, 200, "readiness does not depend on it");
        server.does(lie);
        // The pauses between tries grow to ten seconds: three lies in a row are enough of a wait.
        if server.asked() < 3 {
            server.until_asked(server.asked() + 1).await;
        }
    }
    server.does(keys(&["ed"]));
    until_answered(&app, &good, 200).await;
    assert_eq!(server.at_once.load(Ordering::SeqCst), 1, "one fetch at a time");
}

#[tokio::test]
async fn a_key_that_is_new_is_fetched_once_for_many_and_the_last_good_set_stays_while_the_server_is_gone() {
    let server = Server::start(keys(&["ed"])).await;
    let app = app(&server).await;
    let (first, second) = (token(ED, "ed"), token(EC, "ec"));
    until_answered(&app, &first, 200).await;
    server.does(Mode::Gone);
    let before = server.asked();
    for _ in 0..300 {
        read(&app, &second).await.problem(401);
    }
    assert!(server.asked() <= before + 2, "{} fetches for strangers' tokens", server.asked() - before);
    server.until_asked(before + 1).await;
    assert_eq!(read(&app, &first).await.status, 200, "what was good stays");
    server.does(keys(&["ec"]));
    until_answered(&app, &second, 200).await;
    read(&app, &first).await.problem(401);
    assert_eq!(server.at_once.load(Ordering::SeqCst), 1, "one fetch at a time");
}
