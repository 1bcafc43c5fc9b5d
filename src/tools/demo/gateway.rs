//! The gateway as the demo sees it: one feed's part of the API, and what became of a call.

use std::io;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::Value;
use url::Url;

use super::dice::Dice;
use super::{DemoError, DemoOptions};
use crate::outbound::root_cause;

const CONNECT: Duration = Duration::from_secs(3);
/// Above the 5 s after which a gateway that lost its store says so.
const ANSWER: Duration = Duration::from_secs(8);
/// Back-off with full jitter: the ceiling doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is obeyed to the letter.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What became of one attempt.
pub(super) enum Attempt {
    /// It was done.
    Answered(Value),
    /// Nothing is known or the gateway is busy; the same again, after this long if it said so.
    Again(Option<Duration>, String),
    /// It will not be done.
    Refused(StatusCode, String),
}

impl Attempt {
    /// How long to wait before the next one, after so many tries.
    pub(super) fn wait(asked: Option<Duration>, tries: u32, jitter: &mut Dice) -> Duration {
        let ceiling = FIRST_WAIT.saturating_mul(1 << tries.min(10)).min(LAST_WAIT);
        asked.unwrap_or_else(|| ceiling.mul_f64(jitter.unit())).min(LONGEST_WAIT)
    }
}

/// One feed of a gateway.
#[derive(Clone)]
pub(super) struct Gateway {
    client: Client,
    /// `…/v1/feeds/{feed}`
    feed: String,
    key: Option<String>,
}

impl Gateway {
    /// Of the feed that is played into. `key`: sent along with every call.
    pub(super) fn of(options: &DemoOptions, key: Option<String>) -> Result<Gateway, DemoError> {
        let no_redirect = reqwest::redirect::Policy::none;
        let client = crate::outbound::client(|builder| {
            builder.connect_timeout(CONNECT).timeout(ANSWER).redirect(no_redirect())
        });
        let client = client.map_err(io::Error::other)?;
        let mut feed: Url = options.url.clone();
        let path = format!("{}/v1/feeds/{}", feed.path().trim_end_matches('/'), options.feed);
        feed.set_path(&path);
        Ok(Gateway { client, feed: feed.into(), key })
    }

    /// Whether anything answers HTTP there, whatever it says; the error is why not.
    pub(super) async fn reach(&self) -> Result<(), String> {
        self.client.get(&self.feed).send().await.map(drop).map_err(|error| root_cause(&error))
    }

    /// Calls `path` below the feed once.
    pub(super) async fn attempt(&self, method: Method, path: &str, body: Option<String>) -> Attempt {
        let mut request = self.client.request(method, format!("{}/{path}", self.feed));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Attempt::Again(None, root_cause(&error)),
        };
        let status = response.status();
        let asked = retry_after(&response);
        let answer = match response.bytes().await {
            Ok(bytes) => serde_json::from_slice::<Value>(&bytes),
            Err(error) => return Attempt::Again(None, root_cause(&error)),
        };
        let words = match &answer {
            Ok(problem) => problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("").to_owned(),
            Err(_) => String::new(),
        };
        match status.as_u16() {
            429 | 502..=504 => Attempt::Again(asked, format!("{status} {words}")),
            200..=299 => match answer {
                Ok(answer) => Attempt::Answered(answer),
                Err(_) => Attempt::Refused(status, "with an answer that is no JSON".into()),
            },
            _ => Attempt::Refused(status, words),
        }
    }

    /// Calls until there is an answer; the error is that of a refusal.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, (StatusCode, String)> {
        let mut jitter = Dice::new(path.len() as u64);
        let body = body.map(|body| body.to_string());
        let mut tries = 0;
        loop {
            match self.attempt(method.clone(), path, body.clone()).await {
                Attempt::Answered(answer) => return Ok(answer),
                Attempt::Refused(status, words) => return Err((status, words)),
                Attempt::Again(asked, _) => {
                    tokio::time::sleep(Attempt::wait(asked, tries, &mut jitter)).await;
                    tries += 1;
                }
            }
        }
    }
}

/// Whole seconds; a date is not obeyed (the gateway never sends one).
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
