//! What the console reads: the list of feeds, nodes and their series, attempts of webhooks, the audit log, keys.

use serde_json::{Value, json};
use tipcast::auth::{KeyHash, fresh_key};
use tipcast::config::KeyTable;
use tokio::time::{Duration, Instant, sleep};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;

mod attempts;
mod feeds;
mod nodes;
mod who;

/// Asks until this holds of the answer.
async fn until(api: &Api, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = api.get(path).await;
        assert_eq!(said.status, 200, "{path}: {}", said.text);
        let json = said.json();
        if holds(&json) {
            return json;
        }
        assert!(Instant::now() < deadline, "{path}: {json}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A scoped key, and its entry in the configuration.
pub fn key(name: &str, feeds: &[&str], may: &[&str]) -> (String, KeyTable) {
    let key = fresh_key();
    let table = KeyTable {
        name: name.into(),
        hash: Some(KeyHash::of(&key).to_string().into()),
        feeds: Some(feeds.iter().map(|it| (*it).to_owned()).collect()),
        may: may.iter().map(|it| (*it).to_owned()).collect(),
        ..KeyTable::default()
    };
    (key, table)
}
