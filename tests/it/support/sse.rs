//! A watcher on server-sent events that folds strictly.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::api::Api;
use super::case::PATIENCE;
use super::fold::Fold;

/// Watches one feed.
pub struct SseWatcher {
    /// What it has.
    pub fold: Fold,
    /// The newest event id.
    pub last_id: Option<String>,
    /// The newest `retry`, in milliseconds.
    pub retry: Option<u64>,
    answer: Response,
    unread: Vec<u8>,
}

/// A request whose answer does not end by itself.
fn endless(api: &Api, path: &str) -> RequestBuilder {
    api.request("GET", path).timeout(Duration::from_secs(600))
}

impl SseWatcher {
    /// Connects, knowing nothing.
    pub async fn open(api: &Api, feed: &str) -> SseWatcher {
        SseWatcher::open_with(api, feed, "").await
    }

    /// Connects with a query such as `?max_hz=5`.
    pub async fn open_with(api: &Api, feed: &str, query: &str) -> SseWatcher {
        let answer = endless(api, &format!("/v1/feeds/{feed}/sse{query}")).send().await.unwrap();
        let mut fold = Fold::new(feed);
        fold.connected(None);
        SseWatcher::over(answer, fold)
    }

    /// Connects again as a browser does, with `Last-Event-ID`.
    pub async fn reconnect(self, api: &Api) -> SseWatcher {
        let last = self.last_id.clone().expect("an id to resume from");
        let path = format!("/v1/feeds/{}/sse", self.fold.feed);
        let answer = endless(api, &path).header("last-event-id", &last).send().await.unwrap();
        let mut fold = self.fold;
        assert_eq!(fold.position().as_ref(), Some(&last), "the id is the position");
        fold.connected(fold.at.clone());
        SseWatcher { last_id: Some(last), ..SseWatcher::over(answer, fold) }
    }

    /// Connects again with `?since=`.
    pub async fn reconnect_by_query(self, api: &Api) -> SseWatcher {
        let since = self.fold.position().expect("a position");
        let path = format!("/v1/feeds/{}/sse?since={since}", self.fold.feed);
        let answer = endless(api, &path).send().await.unwrap();
        let mut fold = self.fold;
        fold.connected(fold.at.clone());
        SseWatcher::over(answer, fold)
    }

    fn over(answer: Response, fold: Fold) -> SseWatcher {
        assert_eq!(answer.status(), 200);
        let kind = answer.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        SseWatcher { fold, last_id: None, retry: None, answer, unread: vec![] }
    }

    /// Folds the next event; false when the stream has ended.
    pub async fn step(&mut self) -> bool {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                if self.event(std::str::from_utf8(&block).unwrap()) {
                    return true;
                }
                continue;
            }
            match self.answer.chunk().await {
                Ok(Some(bytes)) => self.unread.extend_from_slice(&bytes),
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// One block of lines; false for a comment.
    fn event(&mut self, block: &str) -> bool {
        let (mut name, mut id, mut data) = (None, None, vec![]);
        for line in block.lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => name = Some(value.to_owned()),
                "id" => id = Some(value.to_owned()),
                "data" => data.push(value),
                "retry" => self.retry = Some(value.parse().unwrap_or_else(|_| panic!("{block}"))),
                _ => panic!("an unknown field: {block}"),
            }
        }
        if data.is_empty() {
            assert!(name.is_none(), "an event without data: {block}");
            return false;
        }
        let frame: Value = serde_json::from_str(&data.join("\n")).unwrap_or_else(|e| panic!("{e}: {block}"));
        assert_eq!(frame["type"].as_str(), name.as_deref(), "the event is named as its type: {block}");
        self.fold.take(&frame);
        if name.as_deref() != Some("goodbye") {
            assert_eq!(id, self.fold.position(), "the id is the position: {block}");
            self.last_id = id;
        }
        true
    }

    /// Folds events until the picture is as wanted.
    pub async fn wait_until(&mut self, what: &str, wanted: impl Fn(&Fold) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(&self.fold) {
            match timeout_at(deadline, self.step()).await {
                Ok(true) => {}
                Ok(false) => panic!("the stream ended before {what}\n{}", self.fold.story()),
                Err(_) => panic!("no {what} in time\n{}", self.fold.story()),
            }
        }
    }

    /// Folds events until it has this seq.
    pub async fn wait_for_seq(&mut self, seq: u64) {
        self.wait_until(&format!("seq {seq}"), |fold| fold.at.is_some() && fold.seq() >= seq).await;
    }

    /// Folds what comes until the server ends the stream.
    pub async fn wait_for_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while timeout_at(deadline, self.step()).await.expect("the stream ends in time") {}
    }
}
