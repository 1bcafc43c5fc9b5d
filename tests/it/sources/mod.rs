//! Sources over HTTP (contract section 11), on both stores: each platform's deliveries as they come, repeated,
//! forged, too old, refunded, and in any order.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::receiver::hmac;

mod api;
mod deliveries;
mod libraries;
mod shuffled;

const KOFI: &str = include_str!("../../samples/kofi.json");
const STRIPE: &str = include_str!("../../samples/stripe-checkout.json");
const STRIPE_REFUND: &str = include_str!("../../samples/stripe-refund.json");
const COFFEE: &str = include_str!("../../samples/buymeacoffee.json");
const GITHUB: &str = include_str!("../../samples/github-sponsors.json");
const CHEER: &str = include_str!("../../samples/twitch-cheer.json");

const SECRET: &str = "correct horse battery";

/// What a delivery is sent with.
type Headers = Vec<(&'static str, String)>;

fn settings(preset: &str, secret: &str) -> Value {
    json!({"preset": preset, "secret": secret, "default_gift": {"id": "tip", "name": "Tip"}})
}

/// Sets a source of the feed; its path.
async fn set(app: &Api, feed: &str, name: &str, settings: &Value) -> String {
    let said =
        app.call("PUT", &format!("/v1/feeds/{feed}/sources/{name}"), Some(&settings.to_string())).await;
    assert!(matches!(said.status, 200 | 201), "{said:?}");
    said.json()["path"].as_str().unwrap().to_owned()
}

async fn get(app: &Api, feed: &str, name: &str) -> Value {
    let said = app.get(&format!("/v1/feeds/{feed}/sources/{name}")).await;
    assert_eq!(said.status, 200, "{said:?}");
    said.json()
}

async fn deliver(app: &Api, path: &str, headers: Headers, body: &str) -> Said {
    let mut request = app.request("POST", path).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    Api::send(request).await
}

fn hex_hmac(parts: &[&[u8]]) -> String {
    data_encoding::HEXLOWER.encode(&hmac(SECRET.as_bytes(), &parts.concat()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn stripe(body: &str, at: u64) -> Headers {
    let signature = hex_hmac(&[at.to_string().as_bytes(), b".", body.as_bytes()]);
    vec![("stripe-signature", format!("t={at},v1={signature}")), ("content-type", "application/json".into())]
}

fn twitch(id: &str, kind: &str, body: &str, at: u64) -> Headers {
    let time = tipcast::domain::Millis(at as i64 * 1_000).to_string();
    let signature = hex_hmac(&[id.as_bytes(), time.as_bytes(), body.as_bytes()]);
    vec![
        ("twitch-eventsub-message-id", id.into()),
        ("twitch-eventsub-message-timestamp", time),
        ("twitch-eventsub-message-type", kind.into()),
        ("twitch-eventsub-message-signature", format!("sha256={signature}")),
    ]
}

fn github(id: &str, body: &str) -> Headers {
    let signature = format!("sha256={}", hex_hmac(&[body.as_bytes()]));
    vec![("x-github-delivery", id.into()), ("x-hub-signature-256", signature)]
}

fn coffee(body: &str) -> Headers {
    vec![("x-signature-sha256", hex_hmac(&[body.as_bytes()]))]
}

/// As Ko-fi sends it.
fn form(json: &str) -> (Headers, String) {
    let body = url::form_urlencoded::Serializer::new(String::new()).append_pair("data", json).finish();
    (vec![("content-type", "application/x-www-form-urlencoded".into())], body)
}

fn with(sample: &str, pointer: &str, value: Value) -> String {
    let mut body: Value = serde_json::from_str(sample).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[name] = value;
    body.to_string()
}

/// The rows of a feed.
async fn rows(app: &Api, feed: &str) -> Vec<Value> {
    app.get_feed(feed).await["rows"].as_array().unwrap().clone()
}

/// A gateway whose sources may be posted to as often as one likes.
async fn gateway() -> TestApp {
    TestApp::with(&crate::support::app::Backing::fresh(), |config| config.limits.deliveries_per_second = 0)
        .await
}
