//! A gateway as the tools call it: one feed's part of the API, with retries.

use std::io;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use super::dice::Dice;
use super::unreachable_gateway;
use crate::domain::FeedId;
use crate::outbound::root_cause;

const CONNECT: Duration = Duration::from_secs(3);
/// Above the 5 s after which a gateway that lost its store says so.
const ANSWER: Duration = Duration::from_secs(8);
/// Back-off with full jitter: the ceiling doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is obeyed to the letter.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Which gateway.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewayOptions {
    /// The gateway.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_url)]
    pub url: Url,
    /// A key, where the gateway asks for one. Also taken from the variable TIPCAST_KEY, which other users of this machine
    /// cannot see.
    #[arg(long)]
    pub key: Option<String>,
}

/// Reads an address on the command line.
pub(in crate::tools) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("must be an http:// or https:// address".into());
    }
    Ok(url)
}

/// The answer to a claim. Entries stay as they came: what prints or forwards them changes nothing.
#[derive(Default, Deserialize)]
pub(in crate::tools) struct Claimed {
    pub(in crate::tools) entries: Vec<Box<RawValue>>,
}

/// What became of one attempt.
pub(in crate::tools) enum Attempt {
    /// It was done; the answer, which is JSON.
    Answered(String),
    /// Nothing is known or the gateway is busy; the same again, after this long if it said so.
    Again(Option<Duration>, String),
    /// It will not be done.
    Refused(StatusCode, String),
}

impl Attempt {
    /// How long to wait before the next one, after `tries` tries.
    pub(in crate::tools) fn wait(asked: Option<Duration>, tries: u32, jitter: &mut Dice) -> Duration {
        let ceiling = FIRST_WAIT.saturating_mul(1 << tries.min(10)).min(LAST_WAIT);
        asked.unwrap_or_else(|| ceiling.mul_f64(jitter.unit())).min(LONGEST_WAIT)
    }
}

/// One feed of a gateway.
#[derive(Clone)]
pub(in crate::tools) struct Gateway {
    client: Client,
    url: Url,
    /// `…/v1/feeds/{feed}`
    feed: String,
    key: Option<String>,
}

impl Gateway {
    /// The part of this feed.
    pub(in crate::tools) fn new(options: &GatewayOptions, feed: &FeedId) -> io::Result<Gateway> {
        let no_redirect = reqwest::redirect::Policy::none;
        let client = crate::outbound::client(|builder| {
            builder.connect_timeout(CONNECT).timeout(ANSWER).redirect(no_redirect())
        });
        let client = client.map_err(io::Error::other)?;
        let url = options.url.clone();
        let mut below = url.clone();
        below.set_path(&format!("{}/v1/feeds/{feed}", url.path().trim_end_matches('/')));
        let key = options.key.clone().or_else(|| std::env::var("TIPCAST_KEY").ok());
        Ok(Gateway { client, url, feed: below.into(), key })
    }

    /// Whether anything answers HTTP there, whatever it says; the error says which address, why not, and what to do.
    pub(in crate::tools) async fn reach(&self) -> Result<(), String> {
        let asked = self.client.get(&self.feed).send().await;
        asked.map(drop).map_err(|error| unreachable_gateway(&self.url, &root_cause(&error)))
    }

    /// Calls `path` below the feed once.
    pub(in crate::tools) async fn attempt(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Attempt {
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
        let answer = match response.text().await {
            Ok(answer) => answer,
            Err(error) => return Attempt::Again(None, root_cause(&error)),
        };
        match status.as_u16() {
            // Numbers beyond what a float holds are JSON too: a gift's meta may have them.
            200..=299 if answer.is_empty() || serde_json::from_str::<&RawValue>(&answer).is_ok() => {
                Attempt::Answered(answer)
            }
            200..=299 => Attempt::Refused(status, "with an answer that is no JSON".into()),
            429 | 502..=504 => Attempt::Again(asked, format!("{status} {}", words_of(&answer))),
            _ => Attempt::Refused(status, words_of(&answer)),
        }
    }

    /// Calls until there is an answer; the error is that of a refusal. An answer without a body is `null`.
    pub(in crate::tools) async fn call(
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
                Attempt::Answered(answer) => return Ok(serde_json::from_str(&answer).unwrap_or_default()),
                Attempt::Refused(status, words) => return Err((status, words)),
                Attempt::Again(asked, _) => {
                    tokio::time::sleep(Attempt::wait(asked, tries, &mut jitter)).await;
                    tries += 1;
                }
            }
        }
    }
}

/// What a problem says.
fn words_of(problem: &str) -> String {
    let problem: Value = serde_json::from_str(problem).unwrap_or_default();
    problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or_default().to_owned()
}

/// Whole seconds; a date is not obeyed (the gateway never sends one).
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
