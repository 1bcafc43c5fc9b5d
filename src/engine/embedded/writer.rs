//! The thread that owns the file: takes what waits, applies it, commits once, then answers.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::feeds::{Feed, Feeds, Step};
use super::store::Store;
use super::{Call, EmbeddedOptions, Reply, Topics};
use crate::domain::Policy;
use crate::engine::{DUE_BATCH, EngineError, Head, Snapshot};
use crate::metrics::Metrics;
use crate::supervise::{Beat, faults};

/// Gifts in one commit: past this the answers of the first would wait too long for the last.
const GROUP: usize = 4096;

/// How long another process may take to leave the folder.
const LOCK_WITHIN: Duration = Duration::from_secs(1);

type Answered = Box<dyn FnOnce(Option<&EngineError>) + Send>;

/// A call that brings its own work. Without feeds it is only to be answered: the group has failed.
pub(super) struct Task(Work);

type Work = Box<dyn FnOnce(Option<&mut Feeds>) -> (Answered, Step<()>) + Send>;

impl Task {
    pub(super) fn new<T: Send + 'static>(
        reply: Reply<T>,
        task: impl FnOnce(&mut Feeds) -> Step<T> + Send + 'static,
    ) -> Task {
        Task(Box::new(move |feeds| match feeds.map(task) {
            Some(Ok(value)) => (later(reply, Some(value)), Ok(())),
            Some(Err(e)) => (later(reply, None), Err(e)),
            None => (later(reply, None), Ok(())),
        }))
    }
}

/// Everything the thread owns.
pub(super) struct Writer {
    feeds: Feeds,
    answers: Vec<Answered>,
    topics: Arc<Topics>,
    metrics: Arc<Metrics>,
    /// Held for as long as the folder is ours.
    _lock: File,
}

impl Writer {
    pub(super) fn open(
        options: EmbeddedOptions,
        topics: Arc<Topics>,
        metrics: Arc<Metrics>,
    ) -> Result<Writer, String> {
        let dir = &options.data_dir;
        std::fs::create_dir_all(dir)
            .map_err(|e| format!("the data folder {} cannot be made: {e}", dir.display()))?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(dir.join("tipcast.lock"))
            .map_err(|e| format!("the data folder {} cannot be written: {e}", dir.display()))?;
        own(&lock, dir)?;
        let file = dir.join("tipcast.db");
        let feeds = Feeds::new(Store::open(&file)?, options.clone(), metrics.clone());
        Ok(Writer {
            feeds: feeds.map_err(|e| format!("{} cannot be read: {}", file.display(), sentence(&e)))?,
            answers: Vec::new(),
            topics,
            metrics,
            _lock: lock,
        })
    }

    /// Until every caller is gone or one says close.
    pub(super) fn run(mut self, calls: &Receiver<Call>, beat: &Beat) {
        loop {
            beat.rests();
            let Ok(first) = calls.recv() else { return };
            beat.works();
            faults::pass_blocking("writer");
            let (mut next, mut gifts, mut closing) = (Some(first), 0, None);
            let mut outcome = Ok(());
            while let Some(call) = next {
                match call {
                    Call::Close(reply) => closing = Some(reply),
                    call => {
                        gifts += match &call {
                            Call::Publish(_, gifts, ..) => gifts.len(),
                            Call::RunDue(..) => DUE_BATCH,
                            _ => 1,
                        };
                        // After a failure the rest of the group is only answered: nothing more is applied.
                        match &outcome {
                            Ok(()) => outcome = self.apply(call),
                            Err(_) => self.refuse(call),
                        }
                    }
                }
                let more = gifts < GROUP && closing.is_none();
                next = if more { calls.try_recv().ok() } else { None };
            }
            self.finish(outcome, gifts);
            self.feeds.tidy();
            if let Some(reply) = closing {
                let _ = reply.send(Ok(()));
                return;
            }
        }
    }

    /// Commits the group, then tells watchers, then answers callers: in this order.
    fn finish(&mut self, applied: Step<()>, size: usize) {
        let begun = Instant::now();
        let done = applied.and_then(|()| self.feeds.commit());
        if let Ok(true) = done {
            self.metrics.commit_time.observe(begun.elapsed().as_secs_f64());
            self.metrics.commit_size.observe(size as f64);
        }
        let error = done.err().map(|e| EngineError::Unavailable(sentence(&e)));
        match &error {
            None => {
                self.feeds.told(|feed, notice| self.topics.tell(feed, notice));
                if let Some(in_ms) = self.feeds.sooner() {
                    // Nobody waiting for it is no failure.
                    let _ = self.topics.wakes.send(in_ms);
                }
                if let Some(in_ms) = self.feeds.sooner_job() {
                    let _ = self.topics.job_wakes.send(in_ms);
                }
            }
            Some(error) => {
                tracing::error!(%error, "a commit failed; what it held is refused and was not shown");
                self.feeds.take_back();
            }
        }
        self.answers.drain(..).for_each(|answer| answer(error.as_ref()));
    }

    fn apply(&mut self, call: Call) -> Step<()> {
        match call {
            Call::Publish(feed, gifts, now, reply) => {
                self.feeds.at(now);
                let done = self.feeds.publish(&feed, gifts, now);
                self.answer(reply, done)
            }
            Call::Retract(feed, row, now, reply) => {
                self.feeds.at(now);
                let done = self.feeds.change(&feed, now, |state, policy, effects| {
                    state.retract(&row, policy, now, effects).then(|| state.position())
                });
                self.answer(reply, done)
            }
            Call::Policy(feed, reply) => {
                let done = self.feeds.look(&feed, |feed, defaults| defaults.with(&feed.state.overrides));
                self.answer(reply, done)
            }
            Call::SetPolicy(feed, change, now, reply) => {
                self.feeds.at(now);
                let done = self.feeds.set_policy(&feed, change, now);
                self.answer(reply, done)
            }
            Call::Snapshot(feed, now, reply) => {
                self.feeds.at(now);
                let swept =
                    self.feeds.change(&feed, now, |state, policy, effects| state.sweep(policy, now, effects));
                let done = swept.and_then(|()| {
                    self.feeds.look(&feed, |feed, defaults| Snapshot {
                        at: feed.state.position(),
                        tag: 0,
                        policy: defaults.with(&feed.state.overrides),
                        rows: feed.state.list.rows.iter().cloned().collect(),
                        drops: feed.state.list.drops.clone(),
                        controls: feed.state.list.controls,
                        now,
                    })
                });
                self.answer(reply, done)
            }
            Call::Changes(feed, since, max, reply) => {
                let done = self.feeds.changes(&feed, &since, max);
                self.answer(reply, done)
            }
            Call::Heads(feeds, reply) => {
                let head = |feed: &Feed, _: &Policy| Head { at: feed.state.position(), tag: 0 };
                let done = feeds.iter().map(|feed| self.feeds.look(feed, head)).collect();
                self.answer(reply, done)
            }
            Call::Task(Task(task)) => {
                let (answer, done) = task(Some(&mut self.feeds));
                self.answers.push(answer);
                done
            }
            Call::Scheduled(feed, after, max, reply) => {
                let done = self.feeds.scheduled(&feed, after, max);
                self.answer(reply, done)
            }
            Call::Unschedule(feed, id, now, reply) => {
                self.feeds.at(now);
                let done = self.feeds.unschedule(&feed, &id, now);
                self.answer(reply, done)
            }
            Call::Dead(feed, reply) => {
                let done = self.feeds.dead(&feed);
                self.answer(reply, done)
            }
            Call::ClaimDue(max, now, reply) => {
                self.feeds.at(now);
                let turn = self.feeds.claim_due(max, now);
                self.answer(reply, Ok(turn))
            }
            Call::RunDue(feed, now, reply) => {
                self.feeds.at(now);
                let done = self.feeds.run_due(&feed, now);
                self.answer(reply, done)
            }
            Call::Probe(reply) => self.answer(reply, Ok(())),
            // The loop keeps this one for after the commit.
            Call::Close(_) => Ok(()),
        }
    }

    /// Answers a call that came after the group had failed.
    fn refuse(&mut self, call: Call) {
        let answer: Answered = match call {
            Call::Publish(_, _, _, reply) => later(reply, None),
            Call::Retract(_, _, _, reply) => later(reply, None),
            Call::Policy(_, reply) | Call::SetPolicy(_, _, _, reply) => later(reply, None),
            Call::Snapshot(_, _, reply) => later(reply, None),
            Call::Changes(_, _, _, reply) => later(reply, None),
            Call::Heads(_, reply) => later(reply, None),
            Call::Task(Task(task)) => task(None).0,
            Call::Scheduled(_, _, _, reply) => later(reply, None),
            Call::Unschedule(_, _, _, reply) => later(reply, None),
            Call::Dead(_, reply) => later(reply, None),
            Call::ClaimDue(_, _, reply) => later(reply, None),
            Call::RunDue(_, _, reply) => later(reply, None),
            Call::Probe(reply) | Call::Close(reply) => later(reply, None),
        };
        self.answers.push(answer);
    }

    /// Keeps the answer until the group is durable; passes a failure on.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, done: Step<T>) -> Step<()> {
        let (value, outcome) = match done {
            Ok(value) => (Some(value), Ok(())),
            Err(e) => (None, Err(e)),
        };
        self.answers.push(later(reply, value));
        outcome
    }
}

/// Takes the folder's lock. A process that is just leaving gets a moment to do so.
fn own(lock: &File, dir: &Path) -> Result<(), String> {
    let patience = Instant::now() + LOCK_WITHIN;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another tipcast process uses the data folder {}; stop it, or give this one its own with \
                     --data-dir",
                    dir.display()
                ));
            }
            Err(TryLockError::Error(e)) => return Err(format!("{} cannot be locked: {e}", dir.display())),
        }
    }
}

/// Sends `value` when the group is durable, the group's failure otherwise.
fn later<T: Send + 'static>(reply: Reply<T>, value: Option<T>) -> Answered {
    Box::new(move |error| {
        let failed = || EngineError::Unavailable("the call before it failed; try again".into());
        let answer = match (error, value) {
            (None, Some(value)) => Ok(value),
            (error, _) => Err(error.cloned().unwrap_or_else(failed)),
        };
        // A caller that stopped waiting needs no answer.
        let _ = reply.send(answer);
    })
}

fn sentence(error: &rusqlite::Error) -> String {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
    };
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "the disk of the data folder is full; free some room",
        Some(ReadOnly) => "the data folder is read-only; make it writable",
        Some(DatabaseBusy) => "another program holds the database; close it",
        Some(DatabaseCorrupt | NotADatabase) => "the database is damaged; stop, and restore it from a backup",
        Some(SystemIoFailure) => "the disk of the data folder fails; look at the system's log",
        _ => "the database refused",
    };
    format!("{advice} ({error})")
}
