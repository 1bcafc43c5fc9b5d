//! The audit log: one JSON line for every change that somebody with a key makes, and for every use of a key that is
//! refused. Refused requests of strangers are summarized: an address gets a line for its first one, then one every ten
//! seconds that says how many there were.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::rights::Right;
use crate::console;
use crate::domain::Millis;
use crate::metrics::Metrics;
use crate::supervise::lines::{LineTarget, LineWriter};
use crate::supervise::{Part, Parts};

/// How long the end of the process waits for the last lines.
const END_WITHIN: Duration = Duration::from_millis(500);

/// Bytes of a feed's name in a line; a longer one is none.
const MAX_FEED: usize = 64;

/// Bytes of what varies in the path.
const MAX_TARGET: usize = 256;

/// How often refused requests of strangers are summed up.
const SUMMARIZE_EVERY: Duration = Duration::from_secs(10);

/// Lines that are kept in memory, for those who look. One has at most about a kilobyte.
const MAX_RECENT: usize = 1_000;

/// Addresses with lines of their own at a time; all others share a line.
const MAX_ADDRESSES: usize = 1_024;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was done.
    Done,
    /// The key, or that there was none, did not allow it.
    Refused,
    /// It was allowed, and not done: what was asked is wrong, or the store did not take it.
    Failed,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub struct AuditLine<'a> {
    /// When it ended.
    #[serde(serialize_with = "as_text")]
    pub time: Millis,
    /// The name of the key; `None` without a known key.
    pub key: Option<&'a str>,
    /// The right that was needed; `None` if any key will do.
    #[serde(serialize_with = "as_word")]
    pub right: Option<Right>,
    /// The feed that it was about; `*` for all together.
    pub feed: Option<&'a str>,
    /// The method, and of the path what does not vary, as in `DELETE rows`.
    pub action: &'a str,
    /// Of the path what varies, but for the feed; with what was asked where that is one word.
    pub target: &'a str,
    /// What came of it.
    pub outcome: Outcome,
}

fn as_text<S: serde::Serializer>(time: &Millis, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(time)
}

fn as_word<S: serde::Serializer>(right: &Option<Right>, to: S) -> Result<S::Ok, S::Error> {
    match right {
        Some(right) => to.serialize_str(right.as_str()),
        None => to.serialize_none(),
    }
}

/// Where lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AuditSink {
    /// Nowhere.
    #[default]
    Nowhere,
    /// Standard error.
    Stderr,
    /// To the end of this file, which is made when it is missing.
    File(PathBuf),
}

impl AuditSink {
    /// As `[log] audit` spells it.
    pub fn parse(text: &str) -> AuditSink {
        match text {
            "" => AuditSink::Nowhere,
            "stderr" => AuditSink::Stderr,
            path => AuditSink::File(path.into()),
        }
    }

    fn open(&self) -> io::Result<Option<LineTarget>> {
        match self {
            AuditSink::Nowhere => Ok(None),
            AuditSink::Stderr => Ok(Some(console::stderr())),
            AuditSink::File(path) => {
                let mut options = OpenOptions::new();
                options.create(true).append(true);
                // Who did what is nobody else's business.
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let file: File = options.open(path)?;
                Ok(Some(Box::new(file)))
            }
        }
    }
}

/// Keeps and writes the audit log. The default only keeps the newest lines.
#[derive(Default)]
pub struct Audit {
    on: AtomicBool,
    lines: Option<LineWriter>,
    recent: Mutex<RecentLines>,
    /// Refused requests by address since the last summary, without the first that had a line of its own.
    strangers: Mutex<HashMap<Option<IpAddr>, u64>>,
}

/// The newest lines, the oldest first.
#[derive(Default)]
struct RecentLines {
    lines: VecDeque<KeptLine>,
    /// The number of the next one.
    next: u64,
}

/// A line that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLine {
    /// Counts the lines of this process.
    pub number: u64,
    /// The feed that it is about.
    pub feed: Option<Box<str>>,
    /// As it was written, without its end.
    pub text: Arc<str>,
}

impl Audit {
    /// Starts the thread that writes. Lines go nowhere until [`Audit::open`].
    pub fn start(metrics: Arc<Metrics>, parts: Arc<Parts>) -> io::Result<Audit> {
        let report = |lost, error: Option<&io::Error>| {
            let error = error.map(tracing::field::display);
            tracing::error!(
                lost,
                error,
                "lines of the audit log ([log] audit) were lost: it cannot be written"
            );
        };
        let restarted = move || parts.restarted(Part::Audit);
        let lines = LineWriter::start("audit", metrics.audit_dropped.clone(), Box::new(report), restarted)?;
        let mut audit = Audit::default();
        audit.lines = Some(lines);
        Ok(audit)
    }

    /// Lines go there from now on; a file is opened anew, so that one that was moved away is let go. On an error they
    /// go where they went before.
    pub fn open(&self, target: &AuditSink) -> io::Result<()> {
        let Some(lines) = &self.lines else { return Ok(()) };
        let target = target.open()?;
        let on = target.is_some();
        lines.set_target(target)?;
        self.on.store(on, Ordering::Release);
        Ok(())
    }

    /// The newest lines older than that of number `before`, the newest first, at most `limit` that `shows` takes.
    pub fn recent(
        &self,
        before: Option<u64>,
        limit: usize,
        shows: impl Fn(&KeptLine) -> bool,
    ) -> Vec<KeptLine> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let older = recent.lines.iter().rev().filter(|line| before.is_none_or(|before| line.number < before));
        older.filter(|line| shows(line)).take(limit).cloned().collect()
    }

    /// Keeps a line, and writes it soon where lines are written. What strangers choose in it is cut.
    pub fn write(&self, line: &AuditLine<'_>) {
        let bounded = AuditLine {
            feed: line.feed.map(|feed| cut(feed, MAX_FEED)),
            target: cut(line.target, MAX_TARGET),
            ..line.clone()
        };
        let Ok(mut text) = serde_json::to_string(&bounded) else { return };
        {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            let number = recent.next;
            recent.next += 1;
            let feed = bounded.feed.map(Into::into);
            recent.lines.push_back(KeptLine { number, feed, text: text.as_str().into() });
            if recent.lines.len() > MAX_RECENT {
                recent.lines.pop_front();
            }
        }
        if let (true, Some(lines)) = (self.on.load(Ordering::Acquire), &self.lines) {
            text.push('\n');
            lines.write(text.into_bytes());
        }
    }

    /// Counts a refused request of somebody without a right key. Returns whether it gets a line of its own, because
    /// the address was quiet before.
    pub fn is_first_refusal(&self, address: Option<IpAddr>) -> bool {
        let mut all = self.strangers();
        let known = all.len() < MAX_ADDRESSES || all.contains_key(&address);
        match all.entry(address.filter(|_| known)) {
            Entry::Vacant(quiet) => {
                quiet.insert(0);
                true
            }
            Entry::Occupied(mut counted) => {
                *counted.get_mut() += 1;
                false
            }
        }
    }

    /// Writes how many requests of each address were refused since the last time, and forgets those that are quiet.
    fn summarize(&self) {
        self.strangers().retain(|address, count| {
            let count = std::mem::take(count);
            if count > 0 {
                let from =
                    address.map_or_else(|| "other addresses".to_owned(), |address| address.to_string());
                self.write(&AuditLine {
                    time: Millis::now(),
                    key: None,
                    right: None,
                    feed: None,
                    action: "requests",
                    target: &format!("{count} more from {from}"),
                    outcome: Outcome::Refused,
                });
            }
            count > 0
        });
    }

    /// Summarizes refused requests for as long as it is awaited.
    pub async fn keep_summarizing(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SUMMARIZE_EVERY).await;
            self.summarize();
        }
    }

    fn strangers(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, u64>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.summarize();
        if let Some(lines) = &self.lines {
            lines.flush(END_WITHIN);
        }
    }
}

/// The beginning of a text, whole characters.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_did_what_and_a_file_is_opened_anew() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("audit.log");
        let audit = Audit::start(Arc::default(), Arc::default()).unwrap();
        let line = AuditLine {
            time: Millis(0),
            key: Some("host"),
            right: Some(Right::Moderate),
            feed: Some("show"),
            action: "DELETE rows",
            target: "e-1",
            outcome: Outcome::Done,
        };
        audit.write(&line);
        let target = AuditSink::parse(file.to_str().unwrap());
        audit.open(&target).unwrap();
        audit.write(&line);
        let written = "{\"time\":\"1970-01-01T00:00:00.000Z\",\"key\":\"host\",\"right\":\"moderate\",\"feed\":\"show\",\
                    \"action\":\"DELETE rows\",\"target\":\"e-1\",\"outcome\":\"done\"}\n";
        let moved = dir.path().join("audit.log.1");
        let wait = |path: &std::path::Path| {
            audit.lines.as_ref().unwrap().flush(Duration::from_secs(20));
            std::fs::read_to_string(path).unwrap()
        };
        assert_eq!(wait(&file), written, "what came before the file was opened is not in it");
        std::fs::rename(&file, &moved).unwrap();
        audit.open(&target).unwrap();
        audit.write(&line);
        assert_eq!((wait(&file), wait(&moved)), (written.to_owned(), written.to_owned()));
        let unwritable = AuditSink::File(dir.path().join("no/such/folder"));
        assert!(
            audit.open(&unwritable).is_err() && audit.on.load(Ordering::Acquire),
            "it goes on where it was"
        );
        audit.open(&AuditSink::Nowhere).unwrap();
        assert!(!audit.on.load(Ordering::Acquire));
    }

    #[test]
    fn refused_requests_of_an_address_are_a_line_and_then_a_count() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("audit.log");
        let audit = Audit::start(Arc::default(), Arc::default()).unwrap();
        audit.open(&AuditSink::File(file.clone())).unwrap();
        let (one, other) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        assert!(audit.is_first_refusal(one) && audit.is_first_refusal(other));
        assert_eq!((0..99).filter(|_| audit.is_first_refusal(one)).count(), 0);
        audit.summarize();
        assert!(
            !audit.is_first_refusal(one) && audit.is_first_refusal(other),
            "who was quiet has a line again"
        );
        audit.summarize();
        audit.summarize();
        assert!(audit.strangers().is_empty(), "quiet ones are forgotten");
        drop(audit);
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let targets: Vec<_> = lines.map(|line| line["target"].as_str().unwrap().to_owned()).collect();
        assert_eq!(targets, ["99 more from 10.0.0.1", "1 more from 10.0.0.1"]);
    }

    #[test]
    fn addresses_beyond_a_thousand_share_a_line() {
        let audit = Audit::default();
        let addresses = (0..100_000u32).map(|n| Some(IpAddr::from(n.to_be_bytes())));
        let first = addresses.filter(|address| audit.is_first_refusal(*address)).count();
        assert_eq!((first, audit.strangers().len()), (MAX_ADDRESSES + 1, MAX_ADDRESSES + 1));
    }

    #[test]
    fn a_log_line_cuts_values_that_clients_choose() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("audit.log");
        let audit = Audit::start(Arc::default(), Arc::default()).unwrap();
        audit.open(&AuditSink::File(file.clone())).unwrap();
        let long = "é".repeat(5_000);
        audit.write(&AuditLine {
            time: Millis(0),
            key: None,
            right: None,
            feed: Some(&long),
            action: "PUT blocks",
            target: &long,
            outcome: Outcome::Refused,
        });
        drop(audit);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.len() < 500 && text.contains(&format!("\"{}\"", "é".repeat(32))), "{text}");
    }
}
