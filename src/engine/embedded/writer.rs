//! The thread that owns the file: runs what waits, commits once, then answers.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use tokio::sync::oneshot;

use super::fault::{Fault, Step};
use super::feeds::Feeds;
use super::topics::Topics;
use crate::domain::Millis;
use crate::engine::EngineError;
use crate::engine::folder::Folder;
use crate::metrics::Metrics;
use crate::supervise::{Beat, faults};

/// Gifts in one commit: past this the answers of the first would wait too long for the last.
const GROUP: usize = 4096;

/// A call on its way to the writer. The answer is sent once everything it tells of is durable.
pub(super) struct Task {
    /// How many gifts it may bring.
    weight: usize,
    /// The caller's clock, if it has one.
    now: Option<Millis>,
    work: Box<dyn Work>,
}

/// To the writer.
pub(super) enum Call {
    Task(Task),
    /// Finish what came before, and end.
    Close(Reply<()>),
}

pub(super) type Reply<T> = oneshot::Sender<Answered<T>>;

/// What a caller gets.
pub(super) struct Answered<T> {
    pub answer: Result<T, EngineError>,
    /// What the call brought, for its caller's thread to drop: the allocator keeps what a thread frees for that thread,
    /// and has to lock for what another one allocated.
    pub _brought: Option<Box<dyn Send>>,
}

trait Work: Send {
    /// Does it. A group that is run again does it again.
    fn run(&mut self, feeds: &mut Feeds) -> Option<Fault>;

    fn answer(self: Box<Self>);
}

struct Job<T, F> {
    /// Until it is answered.
    reply: Option<Reply<T>>,
    work: F,
    done: Option<Step<T>>,
}

impl<T: Send + 'static, F: FnMut(&mut Feeds) -> Step<T> + Send + 'static> Work for Job<T, F> {
    fn run(&mut self, feeds: &mut Feeds) -> Option<Fault> {
        let done = (self.work)(feeds);
        let fault = done.as_ref().err().cloned();
        self.done = Some(done);
        fault
    }

    fn answer(mut self: Box<Self>) {
        let answer = match self.done.take() {
            Some(done) => done.map_err(EngineError::from),
            None => Err(EngineError::Unavailable("it was not done; try again".into())),
        };
        let Some(reply) = self.reply.take() else { return };
        // A caller that stopped waiting needs no answer.
        let _ = reply.send(Answered { answer, _brought: Some(self) });
    }
}

impl Task {
    pub(super) fn new<T: Send + 'static>(
        (weight, now): (usize, Option<Millis>),
        reply: Reply<T>,
        work: impl FnMut(&mut Feeds) -> Step<T> + Send + 'static,
    ) -> Task {
        Task { weight, now, work: Box::new(Job { reply: Some(reply), work, done: None }) }
    }

    fn run(&mut self, feeds: &mut Feeds) -> Option<Fault> {
        if let Some(now) = self.now {
            feeds.heard(now);
        }
        self.work.run(feeds)
    }
}

/// Everything the thread owns.
pub(super) struct Writer {
    pub(super) feeds: Feeds,
    pub(super) topics: Arc<Topics>,
    pub(super) metrics: Arc<Metrics>,
    /// Held for as long as the folder is ours.
    pub(super) _folder: Folder,
}

impl Writer {
    /// Until every caller is gone or one says close.
    pub(super) fn run(mut self, calls: &Receiver<Call>, beat: &Beat) {
        let mut group = Vec::new();
        loop {
            beat.rests();
            let Ok(first) = calls.recv() else { return self.feeds.close() };
            beat.works();
            faults::pass_blocking("writer");
            let (mut next, mut weight, mut closing) = (Some(first), 0, None);
            let mut ran = Ok(());
            while let Some(call) = next {
                match call {
                    Call::Close(reply) => closing = Some(reply),
                    Call::Task(mut task) => {
                        weight += task.weight;
                        // At once, so that what comes in the meantime is part of this commit and not of the next.
                        if ran.is_ok() {
                            ran = self.run_one(&mut task);
                        }
                        group.push(task);
                    }
                }
                let more = weight < GROUP && closing.is_none();
                next = if more { calls.try_recv().ok() } else { None };
            }
            self.serve(&mut group, ran, weight);
            let now = group.iter().rev().find_map(|task| task.now);
            group.drain(..).for_each(|task| task.work.answer());
            if let Some(now) = now {
                self.feeds.tidy(now);
            }
            if let Some(reply) = closing {
                self.feeds.close();
                let _ = reply.send(Answered { answer: Ok(()), _brought: None });
                return;
            }
        }
    }

    /// Commits what a group of calls changed, then tells watchers. `ran`: how it went; after a fault it did not
    /// run to its end.
    ///
    /// When a feed turns out to be damaged that has its part in the group, the group is run again without it; when a
    /// page of the file cannot be read, it is run again after the file was mended. When the disk refuses, it is run once more with every write refused, for those who only read.
    fn serve(&mut self, group: &mut [Task], mut ran: Step<()>, weight: usize) {
        let begun = Instant::now();
        loop {
            let failed = match ran {
                Ok(()) if self.feeds.db.is_refusing() => None,
                Ok(()) => match self.feeds.commit() {
                    Ok(wrote) => {
                        if wrote {
                            self.metrics.commit_time.observe(begun.elapsed().as_secs_f64());
                            self.metrics.commit_size.observe(weight as f64);
                        }
                        return self.tell();
                    }
                    Err(fault) => Some(fault),
                },
                Err(fault) => Some(fault),
            };
            let (refusing, rerun) = (self.feeds.db.is_refusing(), self.feeds.must_rerun());
            self.feeds.take_back();
            match failed {
                // Each time there is one feed less.
                Some(_) if rerun => {}
                // Once in a while: damage that shows soon after it is its feed's.
                Some(Fault::Unreadable(why)) if !refusing => {
                    if let Err(why) = self.feeds.mend(&why) {
                        self.refuse(why);
                    }
                }
                Some(fault) if !refusing => self.refuse(fault.why()),
                _ => return self.feeds.refuse(None),
            }
            ran = group.iter_mut().try_for_each(|task| self.run_one(task));
        }
    }

    fn refuse(&mut self, why: String) {
        if !self.feeds.is_refused() {
            tracing::error!(
                error = why,
                "a commit failed; what it held is refused and was not shown, and so is what follows until writing \
                 works again"
            );
        }
        self.feeds.refuse(Some(why));
    }

    /// Runs a call; an error when it found that the group cannot go on.
    fn run_one(&mut self, task: &mut Task) -> Step<()> {
        let fault = task.run(&mut self.feeds);
        if self.feeds.must_rerun() {
            return Err(Fault::garbled("a feed of this group is damaged"));
        }
        if let Some(why) = self.feeds.must_mend() {
            return Err(Fault::Unreadable(why));
        }
        match fault {
            Some(fault @ Fault::Unreadable(_)) if self.feeds.may_mend() => Err(fault),
            Some(fault @ Fault::Disk(_)) if !self.feeds.db.is_refusing() => Err(fault),
            _ => Ok(()),
        }
    }

    fn tell(&mut self) {
        self.feeds.told(|feed, notice| self.topics.tell(feed, notice));
        // Nobody waiting for it is no failure.
        if let Some(in_ms) = self.feeds.common.agenda.sooner() {
            let _ = self.topics.wakes.send(in_ms);
        }
        if let Some(in_ms) = self.feeds.common.jobs.sooner() {
            let _ = self.topics.job_wakes.send(in_ms);
        }
    }
}
