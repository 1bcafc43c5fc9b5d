//! Sample bodies, written by us after the platforms' public documentation, and what signs them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Event, Headers, Owner, Refusal, Settings, receive};
use crate::domain::hashing::hmac_sha256;
use crate::domain::{Gift, Millis, json as domain_json};

pub const KOFI: &str = include_str!("../../tests/samples/kofi.json");
pub const STRIPE: &str = include_str!("../../tests/samples/stripe-checkout.json");
pub const STRIPE_REFUND: &str = include_str!("../../tests/samples/stripe-refund.json");
pub const COFFEE: &str = include_str!("../../tests/samples/buymeacoffee.json");
pub const GITHUB: &str = include_str!("../../tests/samples/github-sponsors.json");
pub const CHEER: &str = include_str!("../../tests/samples/twitch-cheer.json");
pub const BITS: &str = include_str!("../../tests/samples/twitch-bits.json");
pub const GIFT_SUBS: &str = include_str!("../../tests/samples/twitch-gift-subs.json");

/// 2026-11-20T12:29:43Z
pub const NOW: Millis = Millis(1_795_177_783_000);

/// A sample with one value replaced, or, with null for an absent name, added.
pub fn with(sample: &str, pointer: &str, value: Value) -> String {
    let mut body: Value = serde_json::from_str(sample).unwrap();
    match body.pointer_mut(pointer) {
        Some(at) => *at = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            body.pointer_mut(parent).unwrap()[name] = value;
        }
    }
    body.to_string()
}

pub fn settings(body: Value) -> Settings {
    Settings::parse(domain_json::syntax(body.to_string().as_bytes()).unwrap()).unwrap()
}

pub fn preset(name: &str, credential: &str) -> Settings {
    settings(json!({"preset": name, "secret": credential, "default_gift": {"id": "tip", "name": "Tip"}}))
}

pub fn hex_hmac(key: &[u8], parts: &[&[u8]]) -> String {
    data_encoding::HEXLOWER.encode(&hmac_sha256(key, parts))
}

/// The headers of one delivery.
#[derive(Default, Clone)]
pub struct Sent(pub HashMap<&'static str, String>);

impl Headers for Sent {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl Sent {
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Sent {
        self.0.insert(name, value.into());
        self
    }
}

pub fn stripe_headers(secret: &str, body: &str, at: Millis) -> Sent {
    let time = (at.0 / 1000).to_string();
    let good = hex_hmac(secret.as_bytes(), &[time.as_bytes(), b".", body.as_bytes()]);
    Sent::default().header("stripe-signature", format!("t={time},v0=00,v1=00ff,v1={good}"))
}

pub fn twitch_headers(secret: &str, id: &str, kind: &str, body: &str, at: Millis) -> Sent {
    let time = at.to_string();
    let hex = hex_hmac(secret.as_bytes(), &[id.as_bytes(), time.as_bytes(), body.as_bytes()]);
    Sent::default()
        .header("twitch-eventsub-message-id", id)
        .header("twitch-eventsub-message-timestamp", time)
        .header("twitch-eventsub-message-type", kind)
        .header("twitch-eventsub-message-signature", format!("sha256={hex}"))
}

pub fn github_headers(secret: &str, delivery: &str, body: &str) -> Sent {
    let hex = hex_hmac(secret.as_bytes(), &[body.as_bytes()]);
    Sent::default()
        .header("x-github-event", "sponsorship")
        .header("x-github-delivery", delivery)
        .header("x-hub-signature-256", format!("sha256={hex}"))
}

pub fn coffee_headers(secret: &str, body: &str) -> Sent {
    Sent::default().header("x-signature-sha256", hex_hmac(secret.as_bytes(), &[body.as_bytes()]))
}

pub fn kofi_form(json: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new()).append_pair("data", json).finish()
}

pub fn deliver(settings: &Settings, sent: &Sent, body: &str) -> Result<Event, Refusal> {
    let source = "shop".parse().unwrap();
    receive(settings, Owner { source: &source, salt: "pepper" }, sent, body.as_bytes(), NOW)
}

pub fn gift(read: Result<Event, Refusal>) -> Gift {
    match read {
        Ok(Event::Gift { gift, .. }) => *gift,
        other => panic!("{other:?}"),
    }
}
