//! Requests that are signed with a key that never travels.

use tipcast::config::{Config, KeyTable};
use tipcast::domain::Millis;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::ask;
use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::receiver;

on_both_stores![
    a_signed_request_is_taken_once_as_it_was_signed_and_its_secret_never_travels,
    a_captured_request_counts_once_whatever_is_changed_around_it,
    a_signed_batch_without_ids_repeats_its_first_answers,
];

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn sign(id: &str, time: i64, body: &str) -> String {
    sign_with(SECRET, id, time, body)
}

fn sign_with(secret: &str, id: &str, time: i64, body: &str) -> String {
    format!("v1,{}", receiver::signature(&format!("whsec_{secret}"), id, &time.to_string(), body))
}

async fn send(
    app: &TestApp,
    line: &str,
    name: &str,
    (id, time, signature): (&str, i64, &str),
    body: &str,
) -> Said {
    let time = time.to_string();
    let headers = [
        ("tipcast-key", name),
        ("webhook-id", id),
        ("webhook-timestamp", &*time),
        ("webhook-signature", signature),
    ];
    ask(app, line, &headers, Some(body)).await
}

/// A gateway with two keys that sign.
async fn on(backing: &Backing, change: impl FnOnce(&mut Config)) -> TestApp {
    TestApp::with(backing, |config| {
        let key = |name: &str, secret: &str| KeyTable {
            name: name.into(),
            secret: Some(format!("whsec_{secret}").into()),
            feeds: Some(vec!["show-*".into()]),
            may: vec!["gifts".into()],
            signed: true,
            ..KeyTable::default()
        };
        config.auth.keys = vec![key("game", SECRET), key("other-game", OTHER)];
        change(config);
    })
    .await
}

async fn a_signed_request_is_taken_once_as_it_was_signed_and_its_secret_never_travels() {
    let app = on(&Backing::fresh(), |_| {}).await;
    const POST: &str = "POST /v1/feeds/show-1/gifts";
    let now = Millis::now().0 / 1_000;
    let nameless = gift("x").without("id").json().to_string();
    let right = sign("msg_1", now, &nameless);
    let said = send(&app, POST, "game", ("msg_1", now, &right), &nameless).await;
    assert_eq!((said.status, &said.json()["id"]), (201, &"msg_1".into()), "{said:?}");
    let again = send(&app, POST, "game", ("msg_1", now, &right), &nameless).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &true.into()), "{again:?}");
    let other = gift("y").by("eve").without("id").json().to_string();
    for (what, name, head, body) in [
        ("another body", "game", ("msg_1", now, &*right), &other),
        ("another id", "game", ("msg_2", now, &*right), &nameless),
        ("another time", "game", ("msg_1", now - 1, &*right), &nameless),
        ("too old", "game", ("msg_3", now - 400, &*sign("msg_3", now - 400, &nameless)), &nameless),
        ("from the future", "game", ("msg_3", now + 400, &*sign("msg_3", now + 400, &nameless)), &nameless),
        ("no signature", "game", ("msg_3", now, ""), &nameless),
        ("no such key", "gamer", ("msg_1", now, &*right), &nameless),
    ] {
        let said = send(&app, POST, name, head, body).await;
        said.problem(401);
        assert_eq!(said.header("www-authenticate"), "Bearer", "{what}");
    }
    for elsewhere in
        ["POST /v1/feeds/other/gifts", "PUT /v1/feeds/show-1/policy", "DELETE /v1/feeds/show-1/rows/r"]
    {
        let signature = sign("msg_4", now, &nameless);
        let said = send(&app, elsewhere, "game", ("msg_4", now, &signature), &nameless).await;
        assert_eq!(said.problem(403)["type"], "/problems/not-allowed", "{elsewhere}");
        // Whether there is such a key shows nowhere.
        if !elsewhere.ends_with("/gifts") {
            let stranger = send(&app, elsewhere, "gamer", ("msg_4", now, &signature), &nameless).await;
            assert_eq!((stranger.status, stranger.json()), (said.status, said.json()), "{elsewhere}");
        }
    }
    // The secret itself is no key.
    for sent in [SECRET.to_owned(), format!("whsec_{SECRET}")] {
        let bearer = format!("Bearer {sent}");
        ask(&app, POST, &[("authorization", &bearer)], Some(&nameless)).await.problem(401);
    }
    assert_eq!(app.get_feed("show-1").await["seq"], 1);
}

/// Sends it with more headers.
async fn send_with(app: &TestApp, line: &str, sent: (&str, i64, &str), body: &str, key: &str) -> Said {
    let (id, time, signature) = (sent.0, sent.1.to_string(), sent.2);
    let headers = [
        ("tipcast-key", "game"),
        ("webhook-id", id),
        ("webhook-timestamp", &*time),
        ("webhook-signature", signature),
        ("idempotency-key", key),
    ];
    ask(app, line, &headers, Some(body)).await
}

async fn a_captured_request_counts_once_whatever_is_changed_around_it() {
    let backing = Backing::fresh();
    let app = on(&backing, |_| {}).await;
    const POST: &str = "POST /v1/feeds/show-1/gifts";
    let now = Millis::now().0 / 1_000;
    let body = gift("x").without("id").json().to_string();
    let captured = ("msg_1", now, &*sign("msg_1", now, &body));
    assert_eq!(send(&app, POST, "game", captured, &body).await.status, 201);
    for n in 0..6 {
        send_with(&app, POST, captured, &body, &format!("key-{n}")).await.problem(422);
    }
    let again = send_with(&app, POST, captured, &body, "msg_1").await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &true.into()), "the same identity twice");
    let elsewhere = [
        ("POST /v1/feeds/show-2/gifts", 409, "/problems/replayed"),
        ("POST /v1/feeds/show-1/gifts/batch", 409, "/problems/replayed"),
        ("DELETE /v1/feeds/show-1/scheduled/x", 403, "/problems/not-allowed"),
        ("GET /v1/feeds/show-1/scheduled", 403, "/problems/not-allowed"),
        ("GET /v1/feeds/show-1/policy", 403, "/problems/not-allowed"),
        ("POST /v1/feeds/show-1/gifts/x/retract", 403, "/problems/not-allowed"),
    ];
    for (line, status, kind) in elsewhere {
        let said = send(&app, line, "game", captured, &body).await;
        assert_eq!(said.problem(status)["type"], kind, "{line}");
    }
    // However the path is spelled, it is the same one.
    assert_eq!(send(&app, "POST /v1/feeds/sh%6Fw-1/gifts", "game", captured, &body).await.status, 200);
    // Another key has ids of its own.
    let other = sign_with(OTHER, "msg_1", now, &body);
    let said = send(&app, "POST /v1/feeds/show-2/gifts", "other-game", ("msg_1", now, &other), &body).await;
    assert_eq!(said.status, 201, "{said:?}");
    // Another node of the store knows it too; an embedded store has one.
    if matches!(backing, Backing::Redis(..)) {
        let second = on(&backing, |_| {}).await;
        send(&second, "POST /v1/feeds/show-3/gifts", "game", captured, &body).await.problem(409);
    }
    drop(app);
    let app = on(&backing, |_| {}).await;
    send(&app, "POST /v1/feeds/show-2/gifts", "game", captured, &body).await.problem(409);
    assert_eq!(send(&app, POST, "game", captured, &body).await.json()["duplicate"], true);
    let seqs = [app.get_feed("show-1").await, app.get_feed("show-2").await, app.get_feed("show-3").await];
    assert_eq!(seqs.map(|feed| feed["seq"].as_u64().unwrap()), [1, 1, 0]);
}

async fn a_signed_batch_without_ids_repeats_its_first_answers() {
    let app = on(&Backing::fresh(), |_| {}).await;
    const POST: &str = "POST /v1/feeds/show-1/gifts/batch";
    let now = Millis::now().0 / 1_000;
    let nameless = |user: &str| gift("x").by(user).without("id").json();
    let named = gift("named").by("eve").json();
    let body = serde_json::json!({"gifts": [nameless("ann"), 7, named, nameless("bob")]}).to_string();
    let captured = ("msg_1", now, &*sign("msg_1", now, &body));
    let first = send(&app, POST, "game", captured, &body).await.json();
    assert_eq!((&first["accepted"], &first["rejected"]), (&3.into(), &1.into()), "{first}");
    assert_eq!(first["results"][2]["id"], "named");
    for _ in 0..3 {
        let again = send(&app, POST, "game", captured, &body).await.json();
        assert_eq!((&again["duplicate"], &again["rejected"]), (&3.into(), &1.into()), "{again}");
        for at in [0, 3] {
            assert_eq!(again["results"][at]["id"], first["results"][at]["id"]);
            assert_eq!(again["results"][at]["row"], first["results"][at]["row"]);
        }
    }
    let elsewhere = send(&app, "POST /v1/feeds/show-2/gifts/batch", "game", captured, &body).await;
    assert_eq!(elsewhere.problem(409)["type"], "/problems/replayed");
    // The same gifts in another request are other gifts.
    let next = ("msg_2", now, &*sign("msg_2", now, &body));
    let next = send(&app, POST, "game", next, &body).await.json();
    assert_eq!(next["duplicate"], 1, "{next}");
    assert_ne!(next["results"][0]["id"], first["results"][0]["id"]);
}

#[tokio::test]
async fn the_name_of_a_key_shows_in_no_answer_and_wrong_signatures_count_as_guesses() {
    let app = on(&Backing::folder(), |_| {}).await;
    let now = Millis::now().0 / 1_000;
    let body = gift("x").json().to_string();
    let wrong = sign("msg_1", now, "another body");
    let large = " ".repeat(9_000);
    for (line, sent, body) in [
        ("POST /v1/feeds/show-1/gifts", ("msg_1", now, &*wrong), &body),
        ("POST /v1/feeds/other/gifts", ("msg_1", now, &*wrong), &body),
        ("POST /v1/feeds/*/gifts", ("msg_1", now, &*wrong), &body),
        ("POST /v1/feeds/show-1/gifts/batch", ("msg_1", now, &*wrong), &body),
        ("POST /v1/feeds/show-1/gifts", ("msg_1", now, ""), &body),
        ("POST /v1/feeds/show-1/gifts", ("msg_1", now - 4_000, &*wrong), &body),
        ("POST /v1/feeds/show-1/gifts", ("a.b", now, &*wrong), &body),
        ("POST /v1/feeds/show-1/gifts", ("msg_1", now, &*wrong), &large),
        ("DELETE /v1/feeds/show-1/scheduled/x", ("msg_1", now, &*wrong), &body),
    ] {
        let [known, unknown] =
            [send(&app, line, "game", sent, body).await, send(&app, line, "gamer", sent, body).await];
        assert_eq!((known.status, known.json()), (unknown.status, unknown.json()), "{line} {sent:?}");
        assert!((400..500).contains(&known.status), "{known:?}");
    }
    let mut guesses = 0;
    while send(&app, "POST /v1/feeds/show-1/gifts", "gamer", ("m", now, &wrong), &body).await.status == 401 {
        guesses += 1;
        assert!(guesses < 2_000, "nobody counts them");
    }
    let right = sign("msg_2", now, &body);
    let said = send(&app, "POST /v1/feeds/show-1/gifts", "game", ("msg_2", now, &right), &body).await;
    assert_eq!(said.status, 201, "a right one is let in");
}

/// Sends a batch of a million bytes that says to be signed from this address, or only the first `bytes` of it.
async fn begin_batch(app: &TestApp, from: [u8; 4], bytes: usize) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((std::net::Ipv4Addr::from(from), 0).into()).unwrap();
    let mut stream = socket.connect(app.authority().parse().unwrap()).await.unwrap();
    let now = Millis::now().0 / 1_000;
    let head = format!(
        "POST /v1/feeds/show-1/gifts/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         tipcast-key: game\r\nwebhook-id: a\r\nwebhook-timestamp: {now}\r\nwebhook-signature: v1,a\r\n\
         content-length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // What is refused is not read to its end.
    let _ = stream.write_all(&vec![b' '; bytes]).await;
    stream
}

async fn status(stream: &mut tokio::net::TcpStream) -> String {
    let mut start = [0; 12];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut start)).await.unwrap().unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

async fn until_held(app: &TestApp, wanted: impl Fn(u64) -> bool) {
    let held = async || {
        let text = app.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix("tipcast_unverified_body_bytes "));
        line.unwrap_or_else(|| panic!("{text}")).parse::<u64>().unwrap()
    };
    let wait = async {
        while !wanted(held().await) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

#[tokio::test]
async fn bodies_of_keys_that_were_only_named_have_one_budget_and_each_address_a_part_of_it() {
    let app = on(&Backing::folder(), |config| {
        config.limits.unverified_body_bytes = 1_600_000;
        config.http.body_timeout_ms = 60_000;
    })
    .await;
    let first = begin_batch(&app, [127, 0, 0, 2], 900_000).await;
    until_held(&app, |held| held >= 900_000).await;
    // As much as one largest body from one address.
    let mut same = begin_batch(&app, [127, 0, 0, 2], 1_000_000).await;
    assert_eq!(status(&mut same).await, "HTTP/1.1 429");
    drop(same);
    let mut other = begin_batch(&app, [127, 0, 0, 3], 1_000_000).await;
    assert_eq!(status(&mut other).await, "HTTP/1.1 503");
    drop(other);
    until_held(&app, |held| held == 900_000).await;
    // Who needs little still has room.
    let (now, body) = (Millis::now().0 / 1_000, gift("x").json().to_string());
    let signature = sign("msg_1", now, &body);
    let said = send(&app, "POST /v1/feeds/show-1/gifts", "game", ("msg_1", now, &signature), &body).await;
    assert_eq!(said.status, 201, "{said:?}");
    drop(first);
    until_held(&app, |held| held == 0).await;
}

/// A route that takes 8 KiB keeps no more of a stranger's body, announced or not.
#[tokio::test]
async fn a_signed_gift_is_bounded_as_its_route_is_before_it_is_read() {
    let app = on(&Backing::folder(), |_| {}).await;
    let now = Millis::now().0 / 1_000;
    let head = format!(
        "POST /v1/feeds/show-1/gifts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         tipcast-key: game\r\nwebhook-id: a\r\nwebhook-timestamp: {now}\r\nwebhook-signature: v1,a\r\n"
    );
    let chunk = format!("{:x}\r\n{}\r\n", 9_000, " ".repeat(9_000));
    for rest in [
        "content-length: 2000000\r\n\r\n".to_owned(),
        format!("transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
        stream.write_all(format!("{head}{rest}").as_bytes()).await.unwrap();
        assert_eq!(status(&mut stream).await, "HTTP/1.1 413");
    }
    until_held(&app, |held| held == 0).await;
}
