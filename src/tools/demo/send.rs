//! Sends a show to a gateway, one gift after the other, each until it is answered.

use std::io::{self, Write};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::{DemoError, DemoOptions, Show};
use crate::domain::Millis;
use crate::tools::dice::Dice;
use crate::tools::gateway::{Attempt, Gateway};

const SUM_UP_EVERY: Duration = Duration::from_secs(10);
/// After how many gifts one is refunded.
const REFUND_EVERY: u64 = 40;
/// How much of a delay is made up for, so that an outage is not followed by a flood.
const CATCH_UP: Duration = Duration::from_secs(1);

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

pub(super) struct ShowSender<W> {
    gateway: Gateway,
    /// Whether a gift is refunded now and then.
    refunds: bool,
    out: W,
    jitter: Dice,
    tally: Tally,
    started: Instant,
    summed_up: Instant,
}

impl<W: Write> ShowSender<W> {
    pub(super) fn new(gateway: Gateway, out: W) -> Self {
        let now = Instant::now();
        ShowSender {
            gateway,
            refunds: false,
            out,
            jitter: Dice::new(Millis::now().0.unsigned_abs()),
            tally: Tally::default(),
            started: now,
            summed_up: now,
        }
    }

    pub(super) fn greet(&mut self, options: &DemoOptions) -> io::Result<()> {
        let (DemoOptions { feed, rate, seed, .. }, url) = (options, &options.gateway.url);
        writeln!(self.out, "playing show {seed} at {rate} gifts/s; watch {url}?feed={feed}; Ctrl-C stops")
    }

    /// Plays refunds from now on, and says so and what else there is to be said.
    pub(super) fn have_refunds(&mut self, said: &[String]) -> io::Result<()> {
        self.refunds = true;
        said.iter().try_for_each(|line| writeln!(self.out, "{line}"))?;
        writeln!(self.out, "one gift of {REFUND_EVERY} is refunded")
    }

    /// Says a line.
    pub(super) fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    /// Takes a gift back, as after a refund. One that cannot be taken back is left.
    async fn refund(&mut self, gift: &Value) {
        let path = format!("gifts/{}/retract", gift["id"].as_str().unwrap_or_default());
        let taken = self.gateway.attempt(Method::POST, &path, None).await;
        self.tally.refunded += u64::from(matches!(taken, Attempt::Answered(_)));
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
            match self.gateway.attempt(Method::POST, "gifts", Some(body.clone())).await {
                Attempt::Answered(answer) => {
                    self.count(&serde_json::from_str(&answer).unwrap_or_default());
                    if tries > 0 {
                        writeln!(self.out, "answered again after {tries} retries")?;
                    }
                    return Ok(());
                }
                Attempt::Again(asked, why) => {
                    if tries == 0 {
                        writeln!(self.out, "trying again: {why}")?;
                    }
                    let wait = Attempt::wait(asked, tries, &mut self.jitter);
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
            writeln!(self.out, "{in_review} waited for a host, {refunded} refunded")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::tools::gateway::GatewayOptions;

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
                hostile: true,
                gateway: GatewayOptions { url, key: None },
                feed: "room".parse().unwrap(),
                rate: 1_000.0,
                seed: 1,
                host: false,
                gifts_only: true,
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
        let mut sender = ShowSender::new(Gateway::new(&options.gateway, &options.feed).unwrap(), Vec::new());
        let gift = Show::new(1).next().unwrap();
        sender.deliver(&gift).await.unwrap();
        let bodies = bodies.await.unwrap();
        assert_eq!(bodies, vec![gift.to_string(); 4]);
        assert_eq!((sender.tally.sent, sender.tally.new, sender.tally.retries), (1, 1, 3));
    }

    #[tokio::test]
    async fn a_refusal_that_does_not_pass_ends_the_show() {
        let (options, bodies) = gateway(vec![TAKEN, FORBIDDEN]).await;
        let mut sender = ShowSender::new(Gateway::new(&options.gateway, &options.feed).unwrap(), Vec::new());
        let end = sender.play(Show::new(1), options.rate).await;
        assert!(matches!(end, Err(DemoError::Refused(_, words)) if words == "no key"));
        assert_eq!(bodies.await.unwrap().len(), 2);
    }
}
