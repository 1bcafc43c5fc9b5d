//! Sends a show to a gateway, one gift after the other, each until it is answered.

use std::error::Error;
use std::io::{self, Write};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use super::dice::Dice;
use super::{DemoError, DemoOptions, Show};
use crate::domain::Millis;

const CONNECT: Duration = Duration::from_secs(3);
/// Above the 5 s after which a gateway that lost its store says so.
const ANSWER: Duration = Duration::from_secs(8);
/// Back-off with full jitter: the ceiling doubles from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is obeyed to the letter.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const SUM_UP_EVERY: Duration = Duration::from_secs(10);
/// After how many gifts one is refunded, in a show for a host.
const REFUND_EVERY: u64 = 40;
/// How much of a delay is made up for, so that an outage is not followed by a flood.
const CATCH_UP: Duration = Duration::from_secs(1);

/// What became of one attempt.
enum Attempt {
    Answered(Value),
    /// Nothing is known or the gateway is busy; the same gift again, after this long if it said so.
    Again(Option<Duration>, String),
    Refused(StatusCode, String),
}

#[derive(Default)]
struct Tally {
    sent: u64,
    new: u64,
    merged: u64,
    suppressed: u64,
    in_review: u64,
    refunded: u64,
    duplicate: u64,
    refused: u64,
    retries: u64,
}

pub(super) struct Sender<W> {
    client: Client,
    gifts: Url,
    key: Option<String>,
    /// Whether a gift is refunded now and then.
    refunds: bool,
    out: W,
    jitter: Dice,
    tally: Tally,
    started: Instant,
    summed_up: Instant,
}

impl<W: Write> Sender<W> {
    pub(super) fn new(options: &DemoOptions, out: W) -> Result<Self, DemoError> {
        let no_redirect = reqwest::redirect::Policy::none;
        let client = crate::outbound::client(|builder| {
            builder.connect_timeout(CONNECT).timeout(ANSWER).redirect(no_redirect())
        });
        let client = client.map_err(io::Error::other)?;
        let mut gifts = options.url.clone();
        let path = format!("{}/v1/feeds/{}/gifts", gifts.path().trim_end_matches('/'), options.feed);
        gifts.set_path(&path);
        let now = Instant::now();
        Ok(Sender {
            client,
            gifts,
            key: None,
            refunds: false,
            out,
            jitter: Dice::new(Millis::now().0.unsigned_abs()),
            tally: Tally::default(),
            started: now,
            summed_up: now,
        })
    }

    /// Sends this producer key along.
    pub(super) fn carry(&mut self, key: Option<String>) {
        self.key = key;
    }

    pub(super) fn greet(&mut self, options: &DemoOptions) -> io::Result<()> {
        let DemoOptions { url, feed, rate, seed, .. } = options;
        writeln!(self.out, "playing show {seed} at {rate} gifts/s; watch {url}?feed={feed}; Ctrl-C stops")
    }

    /// Has gifts with a message wait for a host, and plays refunds from now on.
    pub(super) async fn have_reviewed(&mut self, options: &DemoOptions) -> Result<(), DemoError> {
        let policy = json!({"review": "messages", "review_timeout_ms": 30_000, "review_default": "mask"});
        let request = self.client.patch(self.beside("policy")).header(CONTENT_TYPE, "application/json");
        let answer = self.with_key(request).body(policy.to_string()).send().await;
        let answer = answer.map_err(|error| io::Error::other(root_of(&error)))?;
        if !answer.status().is_success() {
            return Err(DemoError::Refused(answer.status(), "the policy cannot be changed".into()));
        }
        self.refunds = true;
        let DemoOptions { url, feed, .. } = options;
        writeln!(self.out, "gifts with a message wait for a host at {url}desk/{feed}")?;
        Ok(())
    }

    /// What stands beside the feed's gifts.
    fn beside(&self, path: &str) -> Url {
        let mut url = self.gifts.clone();
        let feed = url.path().trim_end_matches("gifts").to_owned();
        url.set_path(&format!("{feed}{path}"));
        url
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Takes a gift back, as after a refund. One that cannot be taken back is left.
    async fn refund(&mut self, gift: &Value) {
        let path = format!("gifts/{}/retract", gift["id"].as_str().unwrap_or_default());
        let asked = self.with_key(self.client.post(self.beside(&path))).send().await;
        self.tally.refunded += u64::from(asked.is_ok_and(|answer| answer.status().is_success()));
    }

    /// Ends only with an error.
    pub(super) async fn play(&mut self, mut show: Show, rate: f64) -> Result<(), DemoError> {
        let mut due = Instant::now();
        while let Some(gift) = show.next() {
            due += Duration::from_secs_f64(show.pace() / rate);
            sleep_until(due).await;
            if let Some(late) = Instant::now().checked_sub(CATCH_UP) {
                due = due.max(late);
            }
            self.deliver(&gift).await?;
            if self.refunds && self.tally.sent.is_multiple_of(REFUND_EVERY) {
                self.refund(&gift).await;
            }
            if self.summed_up.elapsed() >= SUM_UP_EVERY {
                self.summed_up = Instant::now();
                self.sum_up()?;
            }
        }
        Ok(())
    }

    /// Sends one gift until there is an answer. Its id makes another attempt harmless.
    async fn deliver(&mut self, gift: &Value) -> Result<(), DemoError> {
        let body = gift.to_string();
        let mut tries = 0;
        loop {
            match self.attempt(&body).await {
                Attempt::Answered(answer) => {
                    self.count(&answer);
                    if tries > 0 {
                        writeln!(self.out, "answered again after {tries} retries")?;
                    }
                    return Ok(());
                }
                Attempt::Again(asked, why) => {
                    if tries == 0 {
                        writeln!(self.out, "trying again: {why}")?;
                    }
                    let wait = asked.unwrap_or_else(|| self.back_off(tries)).min(LONGEST_WAIT);
                    tries += 1;
                    self.tally.retries += 1;
                    sleep(wait).await;
                }
                Attempt::Refused(status, words) => {
                    // These are about the caller or the address, not about one gift.
                    if matches!(status.as_u16(), 401 | 403 | 404 | 405) || status.is_redirection() {
                        return Err(DemoError::Refused(status, words));
                    }
                    self.tally.refused += 1;
                    writeln!(self.out, "refused: {status} {words} {body}")?;
                    return Ok(());
                }
            }
        }
    }

    async fn attempt(&self, body: &str) -> Attempt {
        let request = self.client.post(self.gifts.clone()).header(CONTENT_TYPE, "application/json");
        let response = match self.with_key(request).body(body.to_owned()).send().await {
            Ok(response) => response,
            Err(error) => return Attempt::Again(None, root_of(&error)),
        };
        let status = response.status();
        let asked = retry_after(&response);
        let answer = match response.bytes().await {
            Ok(bytes) => serde_json::from_slice::<Value>(&bytes),
            Err(error) => return Attempt::Again(None, root_of(&error)),
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

    fn back_off(&mut self, tries: u32) -> Duration {
        let ceiling = FIRST_WAIT.saturating_mul(1 << tries.min(10)).min(LAST_WAIT);
        ceiling.mul_f64(self.jitter.unit())
    }

    fn count(&mut self, answer: &Value) {
        self.tally.sent += 1;
        let which = match answer["status"].as_str() {
            _ if answer["duplicate"] == true => &mut self.tally.duplicate,
            Some("merged") => &mut self.tally.merged,
            Some("suppressed") => &mut self.tally.suppressed,
            Some("in_review") => &mut self.tally.in_review,
            _ => &mut self.tally.new,
        };
        *which += 1;
    }

    pub(super) fn sum_up(&mut self) -> io::Result<()> {
        let Tally { sent, new, merged, suppressed, in_review, refunded, duplicate, refused, retries } =
            self.tally;
        let seconds = self.started.elapsed().as_secs();
        writeln!(
            self.out,
            "{seconds} s: {sent} sent: {new} new, {merged} merged, {suppressed} suppressed, \
             {duplicate} duplicate; {refused} refused, {retries} retries"
        )?;
        if self.refunds {
            writeln!(self.out, "for the host: {in_review} to review, {refunded} refunded")?;
        }
        Ok(())
    }
}

/// Whole seconds; a date is not obeyed (the gateway never sends one).
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The innermost cause: "Connection refused" says more than "error sending request".
fn root_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request per connection, in order, and gives back the bodies it got. An empty
    /// answer cuts the connection.
    async fn gateway(answers: Vec<&'static str>) -> (DemoOptions, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let bodies = tokio::spawn(async move {
            let mut bodies = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = String::new();
                while !request.ends_with('}') {
                    let mut part = [0; 4096];
                    let n = socket.read(&mut part).await.unwrap();
                    request.push_str(std::str::from_utf8(&part[..n]).unwrap());
                }
                assert!(request.starts_with("POST /v1/feeds/room/gifts HTTP/1.1\r\n"), "{request}");
                assert!(request.contains("content-type: application/json\r\n"), "{request}");
                bodies.push(request.split("\r\n\r\n").nth(1).unwrap().to_owned());
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            bodies
        });
        (
            DemoOptions {
                url,
                feed: "room".parse().unwrap(),
                rate: 1_000.0,
                seed: 1,
                key: None,
                host: false,
            },
            bodies,
        )
    }

    const BUSY: &str = "HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    const LIMITED: &str =
        "HTTP/1.1 429 x\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const TAKEN: &str =
        "HTTP/1.1 201 x\r\ncontent-length: 21\r\nconnection: close\r\n\r\n{\"status\":\"accepted\"}";
    const FORBIDDEN: &str =
        "HTTP/1.1 401 x\r\ncontent-length: 18\r\nconnection: close\r\n\r\n{\"title\":\"no key\"}";

    #[tokio::test]
    async fn a_gift_is_sent_again_unchanged_until_it_is_answered() {
        let (options, bodies) = gateway(vec![BUSY, "", LIMITED, TAKEN]).await;
        let mut sender = Sender::new(&options, Vec::new()).unwrap();
        let gift = Show::new(1).next().unwrap();
        sender.deliver(&gift).await.unwrap();
        let bodies = bodies.await.unwrap();
        assert_eq!(bodies, vec![gift.to_string(); 4]);
        assert_eq!((sender.tally.sent, sender.tally.new, sender.tally.retries), (1, 1, 3));
    }

    #[tokio::test]
    async fn a_refusal_that_does_not_pass_ends_the_show() {
        let (options, bodies) = gateway(vec![TAKEN, FORBIDDEN]).await;
        let mut sender = Sender::new(&options, Vec::new()).unwrap();
        let end = sender.play(Show::new(1), options.rate).await;
        assert!(matches!(end, Err(DemoError::Refused(_, words)) if words == "no key"));
        assert_eq!(bodies.await.unwrap().len(), 2);
    }
}
