//! Whatever is done with policies, tokens and subscriptions, in whatever order: nobody is shown what they may not see.

use std::time::Duration;

use serde_json::{Value, json};
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;
use tokio_tungstenite::tungstenite::Message;

use futures_util::SinkExt;

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::dice::Dice;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, Socket, open_socket, read_socket};

on_both_stores![no_sequence_of_commands_shows_a_gift_to_somebody_who_may_not_see_it];

const SECRET: &str = "a secret of the tests, longer than it must be";
const PRODUCER: &str = "producer-0123456789";
const FEEDS: [&str; 3] = ["a1", "a2", "b1"];
const SCOPES: [&[&str]; 4] = [&["a*"], &["b1"], &["*"], &[]];
const STEPS: usize = 120;

/// A client of `/v1/ws`.
struct Client {
    socket: Socket,
    /// What its last good token is for.
    scope: Option<&'static [&'static str]>,
    open: bool,
}

fn covers(scope: Option<&[&str]>, feed: &str) -> bool {
    scope.unwrap_or(&[]).iter().any(|one| match one.strip_suffix('*') {
        Some(start) => feed.starts_with(start),
        None => *one == feed,
    })
}

fn token(scope: &[&str]) -> String {
    let now = Millis::now().0 / 1_000;
    let claims = json!({"sub": "ann", "iat": now, "exp": now + 600, "feeds": scope});
    Minter::secret(SECRET).sign(&claims, None).unwrap()
}

async fn by_key(app: &Api, method: &str, path: &str, body: Value) -> u16 {
    Api::send(app.request(method, path).bearer_auth(PRODUCER).json(&body)).await.status
}

impl Client {
    async fn open(app: &Api) -> Client {
        Client { socket: open_socket(app, "/v1/ws", None).await.unwrap(), scope: None, open: true }
    }

    async fn send(&mut self, command: Value) {
        self.open &= self.socket.send(Message::text(command.to_string())).await.is_ok();
    }

    /// The frames that come while nothing is silent for longer than this.
    async fn frames(&mut self, silence: Duration) -> Vec<Value> {
        let mut all = Vec::new();
        while self.open {
            match tokio::time::timeout(silence, read_socket(&mut self.socket)).await {
                Ok(Brought::Frame(frame)) => all.push(frame),
                Ok(Brought::Closed(_)) => self.open = false,
                Err(_) => break,
            }
        }
        all
    }
}

async fn no_sequence_of_commands_shows_a_gift_to_somebody_who_may_not_see_it() {
    let app = TestApp::with(&Backing::fresh(), |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
        config.limits.commands_per_second = 0;
        config.limits.new_feeds_per_second = 0;
    })
    .await;
    let mut dice = Dice(0x5E_C2E7);
    let mut private = [false; FEEDS.len()];
    // Gifts that were posted while their feed was private and has been since.
    let mut hidden: Vec<(usize, String)> = Vec::new();
    let mut clients = vec![Client::open(&app).await, Client::open(&app).await, Client::open(&app).await];
    let (mut looked_at, mut posted) = (0, 0);
    for step in 0..STEPS {
        let feed = dice.below(FEEDS.len() as u64) as usize;
        let who = dice.below(clients.len() as u64) as usize;
        let name = FEEDS[feed];
        match dice.below(10) {
            0 | 1 => {
                private[feed] = !private[feed];
                if !private[feed] {
                    // What comes from here on may show them.
                    look(&mut clients, &hidden, &mut looked_at).await;
                    hidden.retain(|(of, _)| *of != feed);
                }
                let word = if private[feed] { "private" } else { "public" };
                let path = format!("/v1/feeds/{name}/policy");
                assert_eq!(by_key(&app, "PATCH", &path, json!({"visibility": word})).await, 200);
            }
            2..=4 => clients[who].send(json!({"type": "subscribe", "feed": name})).await,
            5 => clients[who].send(json!({"type": "unsubscribe", "feed": name})).await,
            6 => {
                let scope = SCOPES[dice.below(SCOPES.len() as u64) as usize];
                clients[who].send(json!({"type": "auth", "token": token(scope)})).await;
                let answered = async {
                    loop {
                        for frame in clients[who].frames(Duration::from_millis(20)).await {
                            check(&frame, clients[who].scope, &hidden, &mut looked_at);
                            // A refusal of a feed names it.
                            if frame["type"] == "auth" {
                                return true;
                            }
                            if frame["type"] == "error" && frame["feed"].is_null() {
                                return false;
                            }
                        }
                        if !clients[who].open {
                            return false;
                        }
                    }
                };
                if tokio::time::timeout(PATIENCE, answered).await.expect("auth is answered") {
                    clients[who].scope = Some(scope);
                }
            }
            7 => {
                clients[who] = Client::open(&app).await;
            }
            _ => {
                let id = format!("g{step}");
                // Taken down before it is posted: nobody may be quicker.
                if private[feed] {
                    hidden.push((feed, id.clone()));
                }
                assert_eq!(
                    by_key(
                        &app,
                        "POST",
                        &format!("/v1/feeds/{name}/gifts"),
                        gift(&id).by(&format!("u-{id}")).json()
                    )
                    .await,
                    201
                );
                posted += 1;
                for scope in SCOPES {
                    let path = format!("/v1/feeds/{name}");
                    let said = Api::send(app.request("GET", &path).bearer_auth(token(scope))).await;
                    let may = !private[feed] || covers(Some(scope), name);
                    assert_eq!(said.status, if may { 200 } else { 403 }, "{name} {scope:?}");
                }
            }
        }
        look(&mut clients, &hidden, &mut looked_at).await;
    }
    assert!(looked_at > 20 && posted > 10, "{looked_at} frames, {posted} gifts: it says little");
}

/// Reads what has come, and fails if somebody was shown what is hidden from them.
async fn look(clients: &mut [Client], hidden: &[(usize, String)], looked_at: &mut usize) {
    for client in clients {
        for frame in client.frames(Duration::from_millis(25)).await {
            check(&frame, client.scope, hidden, looked_at);
        }
    }
}

fn check(frame: &Value, scope: Option<&[&str]>, hidden: &[(usize, String)], looked_at: &mut usize) {
    *looked_at += 1;
    let text = frame.to_string();
    for (feed, id) in hidden {
        let name = FEEDS[*feed];
        let shown = frame["feed"] == name && text.contains(&format!("\"id\":\"u-{id}\""));
        assert!(!shown || covers(scope, name), "{id} of {name} was shown to {scope:?}: {text}");
    }
}
