//! A watcher of many feeds on one socket (`/v1/ws`).

use std::collections::HashMap;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;

use super::api::Api;
use super::case::PATIENCE;
use super::fold::Fold;
use super::watcher::{Brought, Socket, open_socket, read_socket};

/// One socket, many folds.
pub struct Many {
    /// By feed. A feed that was given up stays, and must get no more frames.
    pub folds: HashMap<String, Fold>,
    /// Feeds whose end the server has confirmed; none of their frames may follow.
    pub unsubscribed: Vec<String>,
    /// Error frames so far.
    pub errors: Vec<Value>,
    /// How the socket was closed.
    pub closed: Option<Option<u16>>,
    /// The socket itself, for sending what no client would.
    pub socket: Socket,
}

impl Many {
    /// Connects; nothing is watched yet.
    pub async fn open(api: &Api) -> Many {
        let socket = open_socket(api, "/v1/ws", None).await.expect("a WebSocket");
        Many { folds: HashMap::new(), unsubscribed: vec![], errors: vec![], closed: None, socket }
    }

    /// Sends any text.
    pub async fn say(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// Watches a feed.
    pub async fn subscribe(&mut self, feed: &str) {
        self.subscribe_with(feed, json!({})).await;
    }

    /// Watches a feed, with these members in the command too.
    pub async fn subscribe_with(&mut self, feed: &str, more: Value) {
        let mut fold = Fold::new(feed);
        fold.connected(None);
        self.unsubscribed.retain(|ended| ended != feed);
        self.folds.insert(feed.to_owned(), fold);
        let mut command = json!({"type": "subscribe", "feed": feed});
        command.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.say(&command.to_string()).await;
    }

    /// Watches a feed from where an earlier fold stood.
    pub async fn resume(&mut self, mut fold: Fold) {
        fold.connected(fold.at.clone());
        self.unsubscribed.retain(|ended| *ended != fold.feed);
        let command = json!({"type": "subscribe", "feed": fold.feed, "since": fold.position()});
        self.folds.insert(fold.feed.clone(), fold);
        self.say(&command.to_string()).await;
    }

    /// Stops watching a feed.
    pub async fn unsubscribe(&mut self, feed: &str) {
        self.say(&json!({"type": "unsubscribe", "feed": feed}).to_string()).await;
    }

    /// What a feed's fold has.
    pub fn fold(&self, feed: &str) -> &Fold {
        &self.folds[feed]
    }

    /// Takes the next frame; false when the socket is closed.
    pub async fn step(&mut self) -> bool {
        match read_socket(&mut self.socket).await {
            Brought::Closed(code) => {
                self.closed = Some(code);
                false
            }
            Brought::Frame(frame) if frame["type"] == "error" => {
                assert!(frame["code"].as_u64().is_some() || frame["code"].is_string(), "{frame}");
                assert!(frame["message"].as_str().is_some_and(|m| !m.is_empty()), "{frame}");
                self.errors.push(frame);
                true
            }
            Brought::Frame(frame) if frame["type"] == "goodbye" => {
                self.folds.values_mut().for_each(|fold| fold.take(&frame));
                true
            }
            Brought::Frame(frame) if frame["type"] == "unsubscribed" => {
                self.unsubscribed.push(frame["feed"].as_str().expect("which feed").to_owned());
                true
            }
            Brought::Frame(frame) => {
                let feed = frame["feed"].as_str().unwrap_or_else(|| panic!("of no feed: {frame}"));
                let fold =
                    self.folds.get_mut(feed).unwrap_or_else(|| panic!("of a feed not asked for: {frame}"));
                assert!(!self.unsubscribed.iter().any(|ended| ended == feed), "after its end: {frame}");
                fold.take(&frame);
                true
            }
        }
    }

    /// Takes frames until everything is as wanted.
    pub async fn wait_until(&mut self, what: &str, wanted: impl Fn(&Many) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self) {
            match timeout_at(deadline, self.step()).await {
                Ok(true) => {}
                Ok(false) => panic!("closed with {:?} before {what}; errors {:?}", self.closed, self.errors),
                Err(_) => panic!("no {what} in time; errors {:?}", self.errors),
            }
        }
    }

    /// Takes frames until the server closes; gives the code.
    pub async fn wait_for_close(&mut self) -> Option<u16> {
        let deadline = Instant::now() + PATIENCE;
        while timeout_at(deadline, self.step()).await.expect("a close in time") {}
        self.closed.unwrap()
    }
}
