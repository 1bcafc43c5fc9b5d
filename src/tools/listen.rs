//! `tipcast listen`: prints a feed's ledger as it grows, or posts it to a program on this machine as a webhook would.

use std::fmt;
use std::future::Future;
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::gateway::{Attempt, Claimed, Gateway, GatewayOptions, parse_url};
use crate::console::complain;
use crate::domain::hook_spec::secret_key;
use crate::domain::signature::{Signers, batch_name};
use crate::domain::{FeedId, GroupId, Millis, text};
use crate::outbound::root_cause;

/// How long a claim waits for entries. Below what the gateway's client waits for an answer.
const CLAIM_WAIT_MS: u64 = 5_000;

/// Short, so that a listener that was killed and started again gets what it had in hand soon. One that is alive keeps its
/// entries however long the program is away: nobody else claims in its group.
const LEASE_MS: u64 = 10_000;

/// Entries in hand.
const CLAIM_MAX: usize = 100;

/// How long the program may take to answer.
const FORWARD_TIME: Duration = Duration::from_secs(15);

/// How long work in hand may still take once the listener is asked to stop, and acknowledging it after that.
const LAST_WORK: Duration = Duration::from_secs(4);
const LAST_ACK: Duration = Duration::from_secs(3);

/// Pauses while the program cannot be reached, and after it refused an entry: they double from the first to the last.
const AWAY_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
const REFUSED_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The options of `tipcast listen`.
#[derive(Clone, Debug, Args)]
pub struct ListenOptions {
    #[command(flatten)]
    gateway: GatewayOptions,
    /// The feed.
    #[arg(long)]
    feed: FeedId,
    /// The group that reads. It remembers where it is; one that is not needed any more is to be deleted.
    #[arg(long, default_value = "listen")]
    group: GroupId,
    /// Where a group begins that is new: with what comes from now on, or with the oldest entry that is kept.
    #[arg(long, value_enum, default_value = "now")]
    from: From,
    /// Post the entries to this address, as a webhook would. What is answered 2xx is acknowledged.
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    forward: Option<Url>,
    /// Sign them with this secret. Without it, one is made and printed.
    #[arg(long, value_name = "whsec_…", requires = "forward", value_parser = parse_secret)]
    secret: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    Now,
    Start,
}

fn parse_secret(text: &str) -> Result<String, String> {
    match secret_key(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("must be whsec_ and base64 of 24 to 64 random bytes".into()),
    }
}

/// Why a listener ended before it was asked to.
#[derive(Debug)]
pub enum ListenError {
    /// The HTTP client could not be made, or standard output cannot be written.
    Io(io::Error),
    /// The gateway refuses; holds its status and words.
    Refused(StatusCode, String),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::Io(error) => write!(f, "cannot go on: {error}"),
            ListenError::Refused(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, words) => write!(
                f,
                "the gateway refuses: {words}. Reading a ledger needs a key with the right `reports`: --key, or the \
                 variable TIPCAST_KEY"
            ),
            ListenError::Refused(status, words) => write!(f, "the gateway refuses: {status} {words}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl std::convert::From<io::Error> for ListenError {
    fn from(error: io::Error) -> Self {
        ListenError::Io(error)
    }
}

/// Listens until `stop` is done, and ends within 10 s then. Survives outages of the gateway and of the program.
///
/// # Errors
/// What does not pass: the gateway refuses, standard output is broken.
///
/// Boxed in this crate, so that the program that awaits it need not compile it.
pub fn run<'a>(
    options: ListenOptions,
    stop: impl Future<Output = ()> + 'a,
) -> Pin<Box<dyn Future<Output = Result<(), ListenError>> + 'a>> {
    Box::pin(listen(options, Box::pin(stop)))
}

async fn listen(
    options: ListenOptions,
    mut stop: Pin<Box<dyn Future<Output = ()> + '_>>,
) -> Result<(), ListenError> {
    let gateway = Gateway::new(&options.gateway, &options.feed)?;
    let printer = Printer::start()?;
    let target =
        options.forward.clone().map(|url| ForwardTarget::new(url, options.secret.clone())).transpose()?;
    let reader = GroupReader { gateway, feed: options.feed, group: options.group };
    let mut jitter = Dice::new(Millis::now().0.unsigned_abs());
    let (mut is_reading, mut failed, mut refusals) = (false, 0, 0);
    loop {
        // Without a wait the first time, so that the group is there at once.
        let wait_ms = if is_reading { CLAIM_WAIT_MS } else { 0 };
        let claim = reader.claim(wait_ms, options.from);
        let attempt = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            attempt = claim => attempt,
        };
        let pause = match attempt {
            Attempt::Refused(status, words) => return Err(ListenError::Refused(status, words)),
            Attempt::Again(asked, why) => {
                if failed == 0 {
                    complain(format!(
                        "{} does not answer ({why}); trying until it does",
                        options.gateway.url
                    ));
                }
                failed += 1;
                Attempt::wait(asked, failed, &mut jitter)
            }
            Attempt::Answered(answer) => {
                if !is_reading {
                    complain(format!("listening to feed {} as group {}", reader.feed, reader.group));
                } else if failed > 0 {
                    complain(format!("{} answers again", options.gateway.url));
                }
                (is_reading, failed) = (true, 0);
                let Claimed { entries } = serde_json::from_str(&answer).unwrap_or_default();
                if entries.is_empty() {
                    continue;
                }
                let mut batch = EntryBatch { entries, done: 0, accepted: Vec::new(), refused: Vec::new() };
                let worked = {
                    let mut work = pin!(batch.work(&reader.feed, target.as_ref(), &printer));
                    tokio::select! {
                        worked = &mut work => Some(worked),
                        () = &mut stop => timeout(LAST_WORK, work).await.ok().map(|it| it.and(Err(None))),
                    }
                };
                let is_last = !matches!(worked, Some(Ok(())));
                if is_last {
                    batch.give_back_rest();
                }
                let settled = reader.settle(&batch);
                match is_last {
                    true => drop(timeout(LAST_ACK, settled).await),
                    false => tokio::select! {
                        settled = settled => settled?,
                        () = &mut stop => return Ok(()),
                    },
                }
                match worked {
                    None | Some(Err(None)) => return Ok(()),
                    // As with `| head`: the reader has seen enough.
                    Some(Err(Some(error))) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                    Some(Err(Some(error))) => return Err(error.into()),
                    Some(Ok(())) => {}
                }
                refusals = if batch.refused.is_empty() { 0 } else { refusals + 1 };
                if refusals == 0 {
                    continue;
                }
                pause_after(REFUSED_PAUSES, refusals)
            }
        };
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = sleep(pause) => {}
        }
    }
}

fn pause_after((first, last): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.saturating_sub(1).min(10)).min(last)
}

/// A group of a feed.
struct GroupReader {
    gateway: Gateway,
    feed: FeedId,
    group: GroupId,
}

impl GroupReader {
    async fn claim(&self, wait_ms: u64, from: From) -> Attempt {
        let from = if from == From::Now { "now" } else { "start" };
        let body = json!({
            "consumer": "tipcast listen", "max": CLAIM_MAX, "wait_ms": wait_ms, "lease_ms": LEASE_MS, "from": from
        });
        self.gateway
            .attempt(Method::POST, &format!("groups/{}/claim", self.group), Some(body.to_string()))
            .await
    }

    /// Acknowledges what was accepted, and gives back what was refused.
    async fn settle(&self, batch: &EntryBatch) -> Result<(), ListenError> {
        for (verb, cursors) in [("ack", &batch.accepted), ("nack", &batch.refused)] {
            if cursors.is_empty() {
                continue;
            }
            let path = format!("groups/{}/{verb}", self.group);
            match self.gateway.call(Method::POST, &path, Some(json!({ "cursors": cursors }))).await {
                // Somebody deleted the group; the next claim makes it anew.
                Ok(_) | Err((StatusCode::NOT_FOUND, _)) => {}
                Err((status, words)) => return Err(ListenError::Refused(status, words)),
            }
        }
        Ok(())
    }
}

/// Entries in hand.
struct EntryBatch {
    entries: Vec<Box<RawValue>>,
    /// How many of them, from the front, are accepted or refused.
    done: usize,
    accepted: Vec<String>,
    refused: Vec<String>,
}

impl EntryBatch {
    /// Prints every entry, or has the program take it. `Err(Some)`: standard output cannot be written.
    async fn work(
        &mut self,
        feed: &FeedId,
        target: Option<&ForwardTarget>,
        printer: &Printer,
    ) -> Result<(), Option<io::Error>> {
        let mut size = self.entries.len();
        while self.done < self.entries.len() {
            let some = &self.entries[self.done..(self.done + size).min(self.entries.len())];
            let verdict = match target {
                Some(target) => target.deliver(feed, some).await,
                None => Ok(()),
            };
            match verdict {
                // It is among these: one by one, so that it takes no other along.
                Err(_) if some.len() > 1 => {
                    size = 1;
                    continue;
                }
                Err(why) => {
                    complain(format!(
                        "{why} for the entry {}; it is given back and comes again",
                        cursor_of(&some[0])
                    ));
                    self.refused.extend(some.iter().map(|entry| cursor_of(entry)));
                }
                Ok(()) => {
                    let lines = some.iter().map(|entry| harmless(entry.get()) + "\n").collect();
                    printer.print(lines).await.map_err(Some)?;
                    self.accepted.extend(some.iter().map(|entry| cursor_of(entry)));
                }
            }
            self.done += some.len();
        }
        Ok(())
    }

    /// Gives the entries that are left to the next claimer.
    fn give_back_rest(&mut self) {
        let rest = self.entries[self.done..].iter().map(|entry| cursor_of(entry));
        self.refused.extend(rest);
        self.done = self.entries.len();
    }
}

fn cursor_of(entry: &RawValue) -> String {
    #[derive(Default, Deserialize)]
    struct KnownMembers {
        cursor: String,
    }
    serde_json::from_str::<KnownMembers>(entry.get()).unwrap_or_default().cursor
}

/// The program that entries are posted to.
struct ForwardTarget {
    client: Client,
    url: Url,
    secret: String,
}

impl ForwardTarget {
    fn new(url: Url, secret: Option<String>) -> io::Result<ForwardTarget> {
        let client = crate::outbound::client(|builder| {
            builder.timeout(FORWARD_TIME).redirect(reqwest::redirect::Policy::none())
        });
        let secret = match secret {
            Some(secret) => secret,
            None => {
                let secret = fresh_secret()?;
                complain(format!("signing with {secret}"));
                secret
            }
        };
        Ok(ForwardTarget { client: client.map_err(io::Error::other)?, url, secret })
    }

    /// Posts these entries until the program is there; the error is why it refuses them.
    async fn deliver(&self, feed: &FeedId, entries: &[Box<RawValue>]) -> Result<(), String> {
        let id = batch_name();
        let all: Vec<&str> = entries.iter().map(|entry| entry.get()).collect();
        let body = format!(
            "{{\"type\":\"entries\",\"feed\":\"{feed}\",\"batch\":\"{id}\",\"entries\":[{}]}}",
            all.join(",")
        );
        let mut away = 0;
        loop {
            match self.post(&id, body.clone()).await {
                Ok(status) if status.is_success() => {
                    complain(format!("{status} for {} of {} entries", self.url, entries.len()));
                    return Ok(());
                }
                // Nobody is behind a proxy, or not yet.
                Ok(status) if !matches!(status.as_u16(), 408 | 425 | 429 | 502..=504) => {
                    return Err(format!("{} answered {status}", self.url));
                }
                missing => {
                    let why = missing.map_or_else(|why| why, |status| status.to_string());
                    if away == 0 {
                        complain(format!("{} is not there ({why}); trying until it is", self.url));
                    }
                    away += 1;
                    sleep(pause_after(AWAY_PAUSES, away)).await;
                }
            }
        }
    }

    async fn post(&self, id: &str, body: String) -> Result<StatusCode, String> {
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        let signers = Signers { secrets: &[&self.secret], key: None };
        for (name, value) in signers.headers(id, Millis::now(), body.as_bytes()) {
            request = request.header(name, value);
        }
        let request = request.body(body);
        request.send().await.map(|answer| answer.status()).map_err(|error| root_cause(&error))
    }
}

fn fresh_secret() -> io::Result<String> {
    let mut key = [0; 24];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(format!("whsec_{}", data_encoding::BASE64.encode(&key)))
}

/// Standard output, on a thread of its own: a pipe that nobody reads must not keep the listener from stopping.
struct Printer(Sender<(String, oneshot::Sender<io::Result<()>>)>);

/// JSON that a terminal shows as it is written: characters that control terminals, turn the direction of text, or break lines are escapes.
fn harmless(json: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // In JSON these are in strings only, and mean the same as their escape.
        let turns = text::is_hazard(c) || matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}');
        if c.is_ascii() && c != '\u{7F}' || !turns {
            out.push(c);
        } else {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
    out
}

impl Printer {
    fn start() -> io::Result<Printer> {
        let (lines, asked): (_, Receiver<(String, oneshot::Sender<_>)>) = channel();
        let work = move || {
            for (text, done) in asked {
                let mut out = io::stdout().lock();
                let _ = done.send(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
            }
        };
        std::thread::Builder::new().name("tipcast-print".into()).spawn(work)?;
        Ok(Printer(lines))
    }

    /// Returns once the text is written. One text at a time is under way.
    async fn print(&self, text: String) -> io::Result<()> {
        let (done, printed) = oneshot::channel();
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send((text, done)).map_err(|_| ended())?;
        printed.await.unwrap_or_else(|_| Err(ended()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_names_neither_control_the_terminal_nor_break_lines() {
        let raw = "{\"a\":\"é🌹\u{9b}31m\u{7f}\u{202e}x\u{2028}y\u{2066}\\n\"}";
        let shown = harmless(raw);
        assert_eq!(shown, "{\"a\":\"é🌹\\u009b31m\\u007f\\u202ex\\u2028y\\u2066\\n\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(raw));
    }

    #[test]
    fn pauses_grow_and_end() {
        let seconds = |times| pause_after(REFUSED_PAUSES, times).as_secs();
        assert_eq!([1, 2, 3, 5, 6, 99].map(seconds), [1, 2, 4, 16, 30, 30]);
    }

    #[test]
    fn a_secret_is_one_that_webhooks_take() {
        assert!(parse_secret(&fresh_secret().unwrap()).is_ok());
        assert!(parse_secret("whsec_short").is_err() && parse_url("ftp://a").is_err());
        assert!(parse_url("http://127.0.0.1:9/x").is_ok());
    }
}
