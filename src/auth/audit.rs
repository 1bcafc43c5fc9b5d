//! The audit log: one JSON line for every change that somebody with a key makes, and for every use of a key that is
//! refused.
//!
//! Lines are written by a thread of their own, so that a disk that hangs delays no request. What does not fit into its
//! queue is dropped and counted, and the log says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::rights::Right;
use crate::domain::Millis;
use crate::metrics::Metrics;
use crate::supervise::{Part, Parts, faults};

/// Lines that may wait for the disk.
const QUEUE: usize = 4_096;

/// How often the log says that lines cannot be written.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// How long the end of the process waits for the last lines.
const END_WITHIN: Duration = Duration::from_millis(500);

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
pub struct Line<'a> {
    /// When it was over.
    #[serde(serialize_with = "as_text")]
    pub time: Millis,
    /// The name of the key; none when none that is known came.
    pub key: Option<&'a str>,
    /// The right that was needed; none when any key will do.
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
pub enum Target {
    /// Nowhere.
    #[default]
    Nowhere,
    /// Standard error.
    Stderr,
    /// To the end of this file, which is made when it is missing.
    File(PathBuf),
}

impl Target {
    /// As `[log] audit` spells it.
    pub fn parse(text: &str) -> Target {
        match text {
            "" => Target::Nowhere,
            "stderr" => Target::Stderr,
            path => Target::File(path.into()),
        }
    }

    fn open(&self) -> io::Result<Option<Box<dyn Write + Send>>> {
        match self {
            Target::Nowhere => Ok(None),
            Target::Stderr => Ok(Some(Box::new(io::stderr()))),
            Target::File(path) => {
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

enum Task {
    Line(String),
    /// From here on lines go there; a file is opened anew, also the same.
    Open(Box<dyn Write + Send>),
    Close,
}

/// The way to the thread that writes. The default goes nowhere.
#[derive(Default)]
pub struct Audit {
    on: AtomicBool,
    tasks: Option<SyncSender<Task>>,
    metrics: Arc<Metrics>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Audit {
    /// Starts the thread. Lines go nowhere until [`Audit::open`].
    pub fn start(metrics: Arc<Metrics>, parts: Arc<Parts>) -> io::Result<Audit> {
        let (tasks, waiting) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("tipcast-audit".into()).spawn({
            let metrics = metrics.clone();
            move || {
                let mut writer = Writer { to: None, metrics, complained: None };
                while catch_unwind(AssertUnwindSafe(|| writer.run(&waiting))).is_err() {
                    // The line that it held.
                    writer.metrics.audit_dropped.inc();
                    parts.restarted(Part::Audit);
                }
            }
        })?;
        Ok(Audit {
            on: AtomicBool::new(false),
            tasks: Some(tasks),
            metrics,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Lines go there from now on; a file is opened anew, so that one that was moved away is let go. On an error they
    /// go where they went before.
    pub fn open(&self, target: &Target) -> io::Result<()> {
        let Some(tasks) = &self.tasks else { return Ok(()) };
        let task = target.open()?.map_or(Task::Close, Task::Open);
        let on = matches!(task, Task::Open(_));
        // The queue may be full while the disk hangs; then the lines behind it are lost anyway.
        tasks.try_send(task).map_err(|_| io::Error::other("the lines before are not written yet"))?;
        self.on.store(on, Ordering::Release);
        Ok(())
    }

    /// Whether anything is written.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Writes a line, soon.
    pub fn write(&self, line: &Line<'_>) {
        let (true, Some(tasks)) = (self.is_on(), &self.tasks) else { return };
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        if tasks.try_send(Task::Line(text)).is_err() {
            self.metrics.audit_dropped.inc();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.tasks = None;
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let until = Instant::now() + END_WITHIN;
        while let Some(thread) = &thread
            && !thread.is_finished()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Writer {
    to: Option<Box<dyn Write + Send>>,
    metrics: Arc<Metrics>,
    complained: Option<Instant>,
}

impl Writer {
    /// Until nobody writes any more.
    fn run(&mut self, waiting: &Receiver<Task>) {
        loop {
            match waiting.recv_timeout(Duration::from_secs(3_600)) {
                Ok(Task::Line(text)) => {
                    faults::pass_blocking("audit");
                    self.write(&text);
                }
                Ok(Task::Open(to)) => self.to = Some(to),
                Ok(Task::Close) => self.to = None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write(&mut self, text: &str) {
        let Some(to) = &mut self.to else { return };
        // In one call, so that lines of several processes do not mix.
        let Err(error) = to.write_all(text.as_bytes()).and_then(|()| to.flush()) else { return };
        self.metrics.audit_dropped.inc();
        let now = Instant::now();
        if self.complained.is_none_or(|at| now.duration_since(at) >= COMPLAIN_EVERY) {
            self.complained = Some(now);
            tracing::error!(%error, "the audit log ([log] audit) cannot be written; its lines are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_did_what_and_a_file_is_opened_anew() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("audit.log");
        let audit = Audit::start(Arc::default(), Arc::default()).unwrap();
        let line = Line {
            time: Millis(0),
            key: Some("host"),
            right: Some(Right::Moderate),
            feed: Some("show"),
            action: "DELETE rows",
            target: "e-1",
            outcome: Outcome::Done,
        };
        audit.write(&line);
        let target = Target::parse(file.to_str().unwrap());
        audit.open(&target).unwrap();
        audit.write(&line);
        let told = "{\"time\":\"1970-01-01T00:00:00.000Z\",\"key\":\"host\",\"right\":\"moderate\",\"feed\":\"show\",\
                    \"action\":\"DELETE rows\",\"target\":\"e-1\",\"outcome\":\"done\"}\n";
        let moved = dir.path().join("audit.log.1");
        let wait = |path: &std::path::Path| {
            let until = Instant::now() + Duration::from_secs(20);
            while std::fs::read_to_string(path).unwrap_or_default().is_empty() && Instant::now() < until {
                std::thread::yield_now();
            }
            std::fs::read_to_string(path).unwrap()
        };
        assert_eq!(wait(&file), told, "what came before the file was opened is not in it");
        std::fs::rename(&file, &moved).unwrap();
        audit.open(&target).unwrap();
        audit.write(&line);
        assert_eq!((wait(&file), wait(&moved)), (told.to_owned(), told.to_owned()));
        let unwritable = Target::File(dir.path().join("no/such/folder"));
        assert!(audit.open(&unwritable).is_err() && audit.is_on(), "it goes on where it was");
        audit.open(&Target::Nowhere).unwrap();
        assert!(!audit.is_on());
    }
}
