//! Reports (contract section 6) over HTTP, as a game backend meets them.

mod admin;
mod claims;
mod dead;
mod ledger;
mod story;
mod webhooks;

use serde_json::{Value, json};
use tipcast::domain::Policy;
use tipcast::engine::Store;
use tipcast::engine::store::StoreOptions;

use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::gifts::gift;

/// A secret as a webhook takes it.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Where nothing is, and never will be (RFC 6761).
const NOWHERE: &str = "https://nobody.invalid/gifts";

impl Api {
    async fn post(&self, path: &str, body: &Value) -> Said {
        self.call("POST", path, Some(&body.to_string())).await
    }

    /// Claims of the group `g` of the feed `show`; must be answered.
    async fn pull(&self, wish: Value) -> Vec<Value> {
        let mut body = json!({"consumer": "test"});
        body.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        let said = self.post("/v1/feeds/show/groups/g/claim", &body).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()["entries"].as_array().unwrap().clone()
    }

    /// The group `g` of the feed `show`.
    async fn group(&self) -> Value {
        let said = self.get("/v1/feeds/show/groups/g").await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    /// Gives roses with these ids to the feed `show`.
    async fn roses(&self, ids: &[&str]) {
        for id in ids {
            self.give("show", &gift(id).by(id)).await;
        }
    }

    async fn put_hook(&self, path: &str, body: &Value) -> Said {
        self.call("PUT", path, Some(&body.to_string())).await
    }
}

/// The members of each entry at this pointer.
fn all(entries: &[Value], pointer: &str) -> Vec<Value> {
    entries.iter().map(|entry| entry.pointer(pointer).cloned().unwrap_or_default()).collect()
}

/// The cursors of entries, as a body.
fn cursors(entries: &[Value]) -> Value {
    json!({"cursors": all(entries, "/cursor")})
}

fn hook() -> Value {
    json!({"url": NOWHERE, "secret": SECRET})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn kind(said: &Said, status: u16) -> String {
    said.problem(status)["type"].as_str().unwrap().trim_start_matches("/problems/").to_owned()
}

/// An engine on a store that no gateway runs on just now.
async fn engine_on(backing: &Backing) -> Store {
    let defaults = Policy::default();
    match backing {
        Backing::Folder(dir) => {
            let options = StoreOptions { defaults, ..StoreOptions::new("") };
            Store::embedded(options, dir.path().to_owned()).await.unwrap()
        }
        Backing::Redis(corner, url) => {
            let prefix = corner.prefix.clone();
            let options = StoreOptions { prefix, defaults, ..StoreOptions::new(url.clone()) };
            Store::redis(options).await.unwrap()
        }
    }
}
