//! Requests that are signed with a key that never travels.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tipcast::config::KeyTable;
use tipcast::domain::Millis;

use super::ask;
use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores![a_signed_request_is_taken_once_as_it_was_signed_and_its_secret_never_travels];

const SECRET: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn sign(id: &str, time: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(SECRET).unwrap()).unwrap();
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
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

async fn a_signed_request_is_taken_once_as_it_was_signed_and_its_secret_never_travels() {
    let app = TestApp::with(&Backing::fresh(), |config| {
        config.auth.keys = vec![KeyTable {
            name: "game".into(),
            secret: Some(format!("whsec_{SECRET}").into()),
            feeds: Some(vec!["show-*".into()]),
            may: vec!["gifts".into()],
            signed: true,
            ..KeyTable::default()
        }];
    })
    .await;
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
        let said =
            send(&app, elsewhere, "game", ("msg_4", now, &sign("msg_4", now, &nameless)), &nameless).await;
        assert_eq!(said.problem(403)["type"], "/problems/not-allowed", "{elsewhere}");
    }
    // The secret itself is no key.
    for sent in [SECRET.to_owned(), format!("whsec_{SECRET}")] {
        let bearer = format!("Bearer {sent}");
        ask(&app, POST, &[("authorization", &bearer)], Some(&nameless)).await.problem(401);
    }
    assert_eq!(app.get_feed("show-1").await["seq"], 1);
}
