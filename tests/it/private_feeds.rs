//! Private feeds: who may read and watch them, by every way in.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::redis_server::RedisServer;
use crate::support::stores::Corner;
use crate::support::watcher::{Brought, Socket, open_socket, read_socket};

on_both_stores_and_over_tls![
    reading_a_private_feed_needs_a_token_or_a_key_that_is_for_it,
    a_socket_of_a_private_feed_is_judged_after_its_handshake,
    a_socket_of_many_feeds_is_told_and_stays,
    a_feed_that_becomes_private_closes_who_may_not_stay,
    a_token_is_renewed_over_the_socket_and_its_end_ends_it,
    a_viewer_holds_for_itself_only,
    a_viewer_cannot_take_a_claim_id_that_the_backend_or_another_viewer_will_use,
];

const SECRET: &str = "a secret of the tests, longer than it must be";
const PRODUCER: &str = "producer-0123456789";

/// A gateway that takes tokens, with a private feed "show-1" of one row and a public feed "open".
async fn app() -> TestApp {
    app_on(&Backing::fresh()).await
}

async fn app_on(backing: &Backing) -> TestApp {
    let app = TestApp::with(backing, |config| {
        config.auth.producer_keys = vec![PRODUCER.to_owned().into()];
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
    })
    .await;
    for (feed, visibility) in [("show-1", "private"), ("open", "public")] {
        let said =
            by_key(&app, "PATCH", &format!("/v1/feeds/{feed}/policy"), json!({"visibility": visibility}))
                .await;
        assert_eq!(said.status, 200, "{said:?}");
        let said = by_key(&app, "POST", &format!("/v1/feeds/{feed}/gifts"), gift("g1").json()).await;
        assert_eq!(said.status, 201, "{said:?}");
    }
    app
}

async fn by_key(api: &Api, method: &str, path: &str, body: Value) -> Said {
    Api::send(api.request(method, path).bearer_auth(PRODUCER).json(&body)).await
}

/// A token that ends in `ms` milliseconds, with these claims in addition.
fn token(ends_in_ms: i64, more: Value) -> String {
    let now = Millis::now().0;
    let mut claims = json!({"sub": "ann", "iat": (now - 1_000) as f64 / 1e3, "feeds": ["show-*"],
        "exp": (now + ends_in_ms) as f64 / 1e3});
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Minter::secret(SECRET).sign(&claims, None).unwrap()
}

fn good() -> String {
    token(600_000, json!({}))
}

fn elsewhere() -> String {
    token(600_000, json!({"feeds": ["other"]}))
}

async fn get(api: &Api, path: &str, bearer: &str) -> Said {
    let mut request = api.request("GET", path);
    if !bearer.is_empty() {
        request = request.bearer_auth(bearer);
    }
    Api::send(request).await
}

async fn reading_a_private_feed_needs_a_token_or_a_key_that_is_for_it() {
    let app = app().await;
    for path in
        ["/v1/feeds/show-1", "/v1/feeds/show-1/drops", "/v1/feeds/show-1/drops/none", "/v1/feeds/show-1/sse"]
    {
        let nobody = get(&app, path, "").await;
        assert_eq!(nobody.problem(401)["type"], "/problems/unauthenticated", "{path}");
        assert_eq!((nobody.header("www-authenticate"), nobody.header("etag")), ("Bearer", ""), "{path}");
        let other = get(&app, path, &elsewhere()).await;
        assert_eq!(other.problem(403)["type"], "/problems/not-allowed", "{path}");
        let bad = get(&app, path, &format!("{}x", good())).await;
        assert_eq!(bad.problem(401)["type"], "/problems/bad-token", "{path}");
        assert_eq!(bad.header("www-authenticate"), "Bearer error=\"invalid_token\"");
        assert!(!bad.text.contains("show") && !nobody.text.contains("g1"), "{bad:?}");
        let by_address = get(&app, &format!("{path}?token={}", elsewhere()), "").await;
        by_address.problem(403);
    }
    for (path, bearer) in [
        ("/v1/feeds/show-1".to_owned(), good()),
        (format!("/v1/feeds/show-1?token={}", good()), String::new()),
        ("/v1/feeds/show-1".to_owned(), PRODUCER.to_owned()),
        ("/v1/feeds/open".to_owned(), String::new()),
        ("/v1/feeds/open".to_owned(), elsewhere()),
    ] {
        let said = get(&app, &path, &bearer).await;
        assert_eq!((said.status, said.json()["seq"].as_u64()), (200, Some(1)), "{path}");
    }
    get(&app, "/v1/feeds/open", "a.bad.token").await.problem(401);
    let known = app.request("GET", "/v1/feeds/show-1").header("if-none-match", "*");
    Api::send(known).await.problem(401);
}

#[tokio::test]
async fn a_stranger_is_refused_alike_whether_a_private_feed_is_watched_or_not() {
    let server = Arc::new(RedisServer::start());
    let corner = Corner { server: server.clone(), prefix: "tipcast".into() };
    let app = app_on(&Backing::corner(corner)).await;
    let said = by_key(&app, "PATCH", "/v1/feeds/show-2/policy", json!({"visibility": "private"})).await;
    assert_eq!(said.status, 200, "{said:?}");
    let mut watcher = connect(&app, &format!("/v1/feeds/show-1/ws?token={}", good())).await;
    assert_eq!(frame(&mut watcher).await["type"], "snapshot");
    for feed in ["show-1", "show-2"] {
        assert_eq!(get(&app, &format!("/v1/feeds/{feed}"), "").await.status, 401, "{feed}");
    }
    // What is answered without the store is answered sooner, which strangers can measure. So it is asked.
    server.freeze();
    let refused = ["show-1", "show-2"].map(|feed| format!("/v1/feeds/{feed}"));
    let [watched, unwatched] = [get(&app, &refused[0], "").await, get(&app, &refused[1], "").await];
    let viewed = get(&app, &refused[0], &good()).await;
    server.thaw();
    assert_eq!(watched.problem(503)["type"], unwatched.problem(503)["type"]);
    assert_eq!(viewed.status, 200, "who may see it reads from memory: {viewed:?}");
}

async fn connect(app: &TestApp, path: &str) -> Socket {
    open_socket(app, path, None).await.unwrap()
}

async fn frame(socket: &mut Socket) -> Value {
    match tokio::time::timeout(PATIENCE, read_socket(socket)).await {
        Ok(Brought::Frame(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

/// Reads up to the error that comes before a close, and the code of that.
async fn ended(socket: &mut Socket) -> (String, u16) {
    let mut code = String::new();
    loop {
        match tokio::time::timeout(PATIENCE, read_socket(socket)).await.unwrap() {
            Brought::Frame(frame) if frame["type"] == "error" => {
                code = frame["code"].as_str().unwrap().to_owned()
            }
            Brought::Frame(_) => {}
            Brought::Closed(closed) => return (code, closed.unwrap()),
        }
    }
}

async fn send(socket: &mut Socket, command: Value) {
    socket.send(Message::text(command.to_string())).await.unwrap();
}

async fn a_socket_of_a_private_feed_is_judged_after_its_handshake() {
    let app = app().await;
    const PATH: &str = "/v1/feeds/show-1/ws";
    let with = |token: String| format!("{PATH}?token={token}");
    assert_eq!(frame(&mut connect(&app, &with(good())).await).await["type"], "snapshot");
    assert_eq!(ended(&mut connect(&app, &with(elsewhere())).await).await, ("forbidden".into(), 4003));
    assert_eq!(ended(&mut connect(&app, &with("bad".into())).await).await, ("bad_token".into(), 4001));
    let past = token(-60_000, json!({}));
    assert_eq!(ended(&mut connect(&app, &with(past)).await).await, ("bad_token".into(), 4001));
    // Nothing is shown until a token or a key comes.
    for credential in [json!({"type": "auth", "token": good()}), json!({"type": "auth", "key": PRODUCER})] {
        let mut socket = connect(&app, PATH).await;
        let nothing = tokio::time::timeout(Duration::from_millis(300), socket.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        send(&mut socket, credential.clone()).await;
        let said = frame(&mut socket).await;
        assert_eq!(
            (&said["type"], said["expires_in_ms"].is_u64()),
            (&json!("auth"), credential["key"].is_null())
        );
        assert_eq!(frame(&mut socket).await["rows"].as_array().unwrap().len(), 1);
    }
    for (text, code, closed) in [
        ("bad".to_owned(), "bad_token", 4001),
        (elsewhere(), "forbidden", 4003),
        ("tck_no".into(), "bad_token", 4001),
    ] {
        let mut socket = connect(&app, PATH).await;
        send(&mut socket, json!({"type": "auth", "token": text})).await;
        assert_eq!(ended(&mut socket).await, (code.into(), closed));
    }
    let begun = std::time::Instant::now();
    assert_eq!(ended(&mut connect(&app, PATH).await).await, ("unauthenticated".into(), 4001));
    assert!(begun.elapsed() >= Duration::from_secs(4), "there was time for an auth frame");
    // By subprotocol: the token is not what is agreed on.
    let mut request = format!("ws://{}{PATH}", app.authority()).into_client_request().unwrap();
    let offered = HeaderValue::from_str(&format!("tipcast.v1, bearer.{}", good())).unwrap();
    request.headers_mut().insert("sec-websocket-protocol", offered);
    let stream = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
    let (mut socket, answer) = client_async(request, stream).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "tipcast.v1");
    assert_eq!(frame(&mut socket).await["type"], "snapshot");
}

async fn a_socket_of_many_feeds_is_told_and_stays() {
    let app = app().await;
    let mut socket = connect(&app, "/v1/ws").await;
    send(&mut socket, json!({"type": "subscribe", "feed": "show-1"})).await;
    let said = frame(&mut socket).await;
    assert_eq!((&said["code"], &said["feed"]), (&json!("unauthenticated"), &json!("show-1")));
    send(&mut socket, json!({"type": "subscribe", "feed": "open"})).await;
    assert_eq!(frame(&mut socket).await["feed"], "open");
    send(&mut socket, json!({"type": "auth", "token": elsewhere()})).await;
    assert_eq!(frame(&mut socket).await["type"], "auth");
    send(&mut socket, json!({"type": "subscribe", "feed": "show-1"})).await;
    assert_eq!(frame(&mut socket).await["code"], "forbidden");
    send(&mut socket, json!({"type": "auth", "token": good()})).await;
    assert_eq!(frame(&mut socket).await["type"], "auth");
    send(&mut socket, json!({"type": "subscribe", "feed": "show-1"})).await;
    let shown = frame(&mut socket).await;
    assert_eq!((&shown["type"], &shown["feed"]), (&json!("snapshot"), &json!("show-1")));
    send(&mut socket, json!({"type": "auth", "token": token(600_000, json!({"sub": "eve"}))})).await;
    assert_eq!(frame(&mut socket).await["code"], "forbidden", "of another viewer");
    send(&mut socket, json!({"type": "auth", "token": elsewhere()})).await;
    assert_eq!(frame(&mut socket).await["code"], "forbidden", "not for what is watched");
    send(&mut socket, json!({"type": "auth", "token": "bad"})).await;
    assert_eq!(frame(&mut socket).await["code"], "bad_token");
    by_key(&app, "POST", "/v1/feeds/show-1/gifts", gift("g2").json()).await;
    assert_eq!(frame(&mut socket).await["type"], "delta", "the old token goes on");
}

async fn a_feed_that_becomes_private_closes_who_may_not_stay() {
    let app = app().await;
    let mut nobody = connect(&app, "/v1/feeds/open/ws").await;
    let mut viewer =
        connect(&app, &format!("/v1/feeds/open/ws?token={}", token(600_000, json!({"feeds": ["*"]})))).await;
    let mut other = connect(&app, &format!("/v1/feeds/open/ws?token={}", elsewhere())).await;
    let mut many = connect(&app, "/v1/ws").await;
    send(&mut many, json!({"type": "subscribe", "feed": "open"})).await;
    for socket in [&mut nobody, &mut viewer, &mut other, &mut many] {
        assert_eq!(frame(socket).await["type"], "snapshot");
    }
    by_key(&app, "PATCH", "/v1/feeds/open/policy", json!({"visibility": "private"})).await;
    by_key(&app, "POST", "/v1/feeds/open/gifts", gift("g2").json()).await;
    assert_eq!(ended(&mut nobody).await, ("unauthenticated".into(), 4001));
    assert_eq!(ended(&mut other).await, ("forbidden".into(), 4003));
    assert_eq!(frame(&mut many).await["code"], "unauthenticated");
    let seen = frame(&mut viewer).await;
    assert!(seen["seq"] == 2 || seen["type"] == "snapshot", "{seen}");
}

async fn a_token_is_renewed_over_the_socket_and_its_end_ends_it() {
    let app = app().await;
    let mut socket = connect(&app, &format!("/v1/feeds/show-1/ws?token={}", token(2_500, json!({})))).await;
    assert_eq!(frame(&mut socket).await["type"], "snapshot");
    let soon = frame(&mut socket).await;
    assert_eq!(soon["type"], "token");
    assert!(soon["expires_in_ms"].as_u64().is_some_and(|ms| ms <= 2_500), "{soon}");
    send(&mut socket, json!({"type": "auth", "token": token(4_500, json!({}))})).await;
    assert_eq!(frame(&mut socket).await["type"], "auth");
    assert_eq!(frame(&mut socket).await["type"], "token", "of the new one");
    let begun = std::time::Instant::now();
    assert_eq!(ended(&mut socket).await, ("token_expired".into(), 4101));
    assert!(begun.elapsed() > Duration::from_millis(1_500), "not with the first one");
    let stream = get(&app, "/v1/feeds/show-1/sse", &token(1_500, json!({}))).await;
    assert!(stream.text.contains("event: snapshot"), "{stream:?}");
    let last = stream.text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: error") && last.contains("token_expired"), "{last}");
}

async fn a_viewer_holds_for_itself_only() {
    let app = app().await;
    let drop = json!({"gift": {"id": "r", "name": "Rocket"}, "total": 5, "per_user": 2, "hold_ttl_ms": 60_000,
        "max_holds_per_user": 3});
    assert_eq!(by_key(&app, "PUT", "/v1/feeds/show-1/drops/d", drop).await.status, 201);
    let holder = token(600_000, json!({"may": ["hold"]}));
    let ask = async |bearer: &str, method: &str, path: &str, body: Value| {
        let request = app.request(method, &format!("/v1/feeds/show-1{path}")).bearer_auth(bearer);
        Api::send(if body.is_null() { request } else { request.json(&body) }).await
    };
    let claim =
        |id: &str, user: &str, pay: &str| json!({"id": id, "user": {"id": user, "name": "A"}, "pay": pay});
    let held = ask(&holder, "POST", "/drops/d/claims", claim("c1", "ann", "later")).await;
    assert_eq!((held.status, &held.json()["status"]), (201, &json!("held")), "{held:?}");
    let hold = held.json()["hold"].as_str().unwrap().to_owned();
    for (bearer, method, path, body) in [
        (&good(), "POST", "/drops/d/claims".to_owned(), claim("c2", "ann", "later")),
        (&holder, "POST", "/drops/d/claims".to_owned(), claim("c2", "ann", "now")),
        (&holder, "POST", "/drops/d/claims".to_owned(), claim("c2", "eve", "later")),
        (&holder, "POST", format!("/holds/{hold}/confirm"), Value::Null),
        (&holder, "GET", "/users/eve/holds".to_owned(), Value::Null),
        (
            &token(600_000, json!({"may": ["hold"], "sub": "eve"})),
            "DELETE",
            format!("/holds/{hold}"),
            Value::Null,
        ),
        (
            &token(600_000, json!({"may": ["hold"], "feeds": ["x"]})),
            "DELETE",
            format!("/holds/{hold}"),
            Value::Null,
        ),
        (&holder, "POST", "/gifts".to_owned(), gift("g9").json()),
        (&holder, "GET", "/policy".to_owned(), Value::Null),
    ] {
        let said = ask(bearer, method, &path, body).await;
        assert_eq!(said.problem(403)["type"], "/problems/not-allowed", "{method} {path}");
    }
    let holds = ask(&holder, "GET", "/users/ann/holds", Value::Null).await;
    assert_eq!(holds.json()["holds"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&holder, "DELETE", &format!("/holds/{hold}"), Value::Null).await.status, 200);
}

async fn a_viewer_cannot_take_a_claim_id_that_the_backend_or_another_viewer_will_use() {
    let app = app().await;
    let drop = json!({"gift": {"id": "r", "name": "Rocket"}, "total": 9, "per_user": 3, "hold_ttl_ms": 60_000,
        "max_holds_per_user": 3});
    assert_eq!(by_key(&app, "PUT", "/v1/feeds/show-1/drops/d", drop).await.status, 201);
    let claims = "/v1/feeds/show-1/drops/d/claims";
    let claim =
        |user: &str, pay: &str| json!({"id": "order-7", "user": {"id": user, "name": "A"}, "pay": pay});
    let hold = async |sub: &str| {
        let token = token(600_000, json!({"may": ["hold"], "sub": sub}));
        let said = Api::send(app.request("POST", claims).bearer_auth(token).json(&claim(sub, "later"))).await;
        assert_eq!((said.status, &said.json()["id"]), (201, &json!("order-7")), "{said:?}");
        said.json()["hold"].as_str().unwrap().to_owned()
    };
    let holds = [hold("ann").await, hold("eve").await];
    assert_ne!(holds[0], holds[1]);
    assert_eq!(hold("ann").await, holds[0], "a retry is the first answer again");
    let sold = by_key(&app, "POST", claims, claim("bob", "now")).await;
    assert_eq!((sold.status, &sold.json()["status"]), (201, &json!("sold")), "{sold:?}");
    let again = by_key(&app, "POST", claims, claim("bob", "now")).await;
    assert_eq!(again.json(), sold.json());
    let listed = by_key(&app, "GET", "/v1/feeds/show-1/users/ann/holds", Value::Null).await.json();
    let listed = &listed["holds"][0];
    assert_eq!((&listed["claim"], &listed["hold"]), (&json!("order-7"), &json!(holds[0])));
    let confirm = format!("/v1/feeds/show-1/holds/{}/confirm", holds[0]);
    let confirmed = Api::send(app.request("POST", &confirm).bearer_auth(PRODUCER)).await;
    assert_eq!((confirmed.status, &confirmed.json()["id"]), (200, &json!("order-7")), "{confirmed:?}");
    let ask = json!({"consumer": "t"});
    let ledger = by_key(&app, "POST", "/v1/feeds/show-1/groups/g/claim", ask).await.json();
    let sold = ledger["entries"].as_array().unwrap().iter().filter(|it| it["gift"]["id"] == "order-7");
    assert_eq!(sold.count(), 2, "{ledger}");
    let view = by_key(&app, "GET", "/v1/feeds/show-1/drops/d", Value::Null).await.json();
    assert_eq!((&view["sold"], &view["held"]), (&json!(2), &json!(1)));
}
