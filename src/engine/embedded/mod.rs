//! The engine that needs nothing installed: state in memory, every change on disk before it is
//! acknowledged, on SQLite.
//!
//! One thread (`writer`) owns the file. What arrives while a commit runs goes into the next one,
//! so the price of an fsync is shared by everything in flight.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use super::{
    DeadDue, DueDone, DueRun, DueStore, DueTurn, Engine, EngineError, FeedStore, Head, Missed, NOTICES,
    Notice, PolicyChange, ReportLimits, ScheduledPage, Shards, Snapshot, Subscription, Unscheduled, Wait,
    Wakes,
};
use crate::domain::{DuePlace, FeedId, Gift, GiftId, Millis, Outcome, Policy, Position, RowId};
use crate::engine::presence::Attendance;
use crate::metrics::Metrics;
use crate::supervise::{Part, Parts};

mod claims;
mod drops;
mod feeds;
mod moderation;
mod reports;
mod sources;
mod steady;
mod store;
mod writer;

/// Calls that may wait for the writer; one more is [`EngineError::Overloaded`].
const QUEUE: usize = 8192;

/// How long a call waits for the disk before it is [`EngineError::Unavailable`].
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// A clock that was set is mostly set right again within this time.
const STEADY_FOR: Duration = Duration::from_secs(3_600);

/// How to open the engine.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The folder that holds the database; made when missing.
    pub data_dir: PathBuf,
    /// The policy of feeds that set none.
    pub defaults: Policy,
    /// How long before it opens or closes watchers are reminded of a drop, in milliseconds; 0 never.
    pub drop_reminder_ms: u64,
    /// How many gifts of one feed may wait to be shown.
    pub scheduled_max: u64,
    /// How much is kept of what happened.
    pub reports: ReportLimits,
    /// How long the callers' clock must have run evenly before anything is forgotten by its age.
    pub steady_for: Duration,
    /// Where the writer thread is registered: its end is the end of the process.
    pub parts: Arc<Parts>,
}

impl EmbeddedOptions {
    /// The defaults, in this folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> EmbeddedOptions {
        let (defaults, scheduled_max) = (Policy::default(), super::SCHEDULED_MAX);
        let (data_dir, reports) = (data_dir.into(), ReportLimits::default());
        EmbeddedOptions {
            data_dir,
            defaults,
            scheduled_max,
            drop_reminder_ms: 60_000,
            reports,
            steady_for: STEADY_FOR,
            parts: Arc::default(),
        }
    }
}

/// Feeds in one folder of this machine.
pub struct EmbeddedEngine {
    calls: SyncSender<Call>,
    topics: Arc<Topics>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Who watches: all of them are watched by this process, and gone with it.
    pub(super) attendance: Attendance,
}

/// A call on its way to the writer. The reply is sent once everything it tells of is durable.
enum Call {
    Publish(FeedId, Vec<Gift>, Millis, Reply<Vec<Outcome>>),
    Retract(FeedId, RowId, Millis, Reply<Option<Position>>),
    Policy(FeedId, Reply<Policy>),
    SetPolicy(FeedId, PolicyChange, Millis, Reply<Policy>),
    Snapshot(FeedId, Millis, Reply<Snapshot>),
    Changes(FeedId, Position, usize, Reply<Missed>),
    Heads(Vec<FeedId>, Reply<Vec<Head>>),
    Task(writer::Task),
    Scheduled(FeedId, Option<DuePlace>, usize, Reply<ScheduledPage>),
    Unschedule(FeedId, GiftId, Millis, Reply<Unscheduled>),
    Dead(FeedId, Reply<Vec<DeadDue>>),
    ClaimDue(usize, Millis, Reply<DueTurn>),
    RunDue(FeedId, Millis, Reply<DueRun>),
    Probe(Reply<()>),
    Close(Reply<()>),
}

type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

/// Who listens to which feed, and how far each has come on disk; and who waits for something due or to
/// be sent.
struct Topics {
    by_feed: Mutex<HashMap<FeedId, Topic>>,
    wakes: broadcast::Sender<u64>,
    job_wakes: broadcast::Sender<u64>,
}

impl Default for Topics {
    fn default() -> Topics {
        Topics { by_feed: Mutex::default(), wakes: Wakes::sender(), job_wakes: Wakes::sender() }
    }
}

struct Topic {
    notices: broadcast::Sender<Notice>,
    known: Option<Position>,
}

impl Topics {
    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<FeedId, Topic>> {
        self.by_feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, feed: &FeedId) -> Subscription {
        let mut by_feed = self.locked();
        by_feed.retain(|name, topic| name == feed || topic.notices.receiver_count() > 0);
        let topic = by_feed
            .entry(feed.clone())
            .or_insert_with(|| Topic { notices: broadcast::channel(NOTICES).0, known: None });
        Subscription::new(topic.notices.subscribe())
    }

    /// Tells what has become durable.
    fn tell(&self, feed: &FeedId, notice: Notice) {
        if let Some(topic) = self.locked().get_mut(feed) {
            if let Notice::Changes(changes) = &notice
                && let Some(last) = changes.last()
            {
                topic.known = Some(Position { epoch: last.epoch.clone(), seq: last.seq });
            }
            // Nobody listening is no failure.
            let _ = topic.notices.send(notice);
        }
    }
}

impl EmbeddedEngine {
    /// Opens the folder, takes its lock, and starts the writer.
    pub fn open(options: EmbeddedOptions) -> Result<Arc<EmbeddedEngine>, EngineError> {
        EmbeddedEngine::open_metered(options, Arc::default())
    }

    /// [`EmbeddedEngine::open`], with its commits counted in `metrics`.
    pub fn open_metered(
        options: EmbeddedOptions,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<EmbeddedEngine>, EngineError> {
        let (calls, waiting) = sync_channel(QUEUE);
        let topics = Arc::new(Topics::default());
        let vital = options.parts.vital(Part::Writer);
        let writer = writer::Writer::open(options, topics.clone(), metrics).map_err(EngineError::Open)?;
        let thread = std::thread::Builder::new()
            .name("tipcast-writer".into())
            .spawn(move || {
                writer.run(&waiting, &vital.beat());
                vital.done();
            })
            .map_err(|e| EngineError::Open(format!("no thread for the writer: {e}")))?;
        let attendance = Attendance::default();
        Ok(Arc::new(EmbeddedEngine { calls, topics, writer: Mutex::new(Some(thread)), attendance }))
    }

    fn call<'a, T: Send + 'a>(&'a self, make: impl FnOnce(Reply<T>) -> Call + Send + 'a) -> Wait<'a, T> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.calls.try_send(make(reply)).map_err(|refused| match refused {
                TrySendError::Full(_) => EngineError::Overloaded("queue of the embedded engine"),
                TrySendError::Disconnected(_) => closed(),
            })?;
            match tokio::time::timeout(CALL_TIMEOUT, answer).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(closed())),
                Err(_) => Err(EngineError::Unavailable(
                    "the disk did not take the write in time; look at the disk of the data folder".into(),
                )),
            }
        })
    }
}

impl EmbeddedEngine {
    /// Runs `task` on the feeds, as one step of the writer.
    fn task<'a, T: Send + 'static>(
        &'a self,
        task: impl FnOnce(&mut feeds::Feeds) -> feeds::Step<T> + Send + 'static,
    ) -> Wait<'a, T> {
        self.call(move |reply| Call::Task(writer::Task::new(reply, task)))
    }
}

impl EmbeddedEngine {
    /// [`EmbeddedEngine::task`] of a caller whose clock says `now`.
    fn task_at<'a, T: Send + 'static>(
        &'a self,
        now: Millis,
        task: impl FnOnce(&mut feeds::Feeds) -> feeds::Step<T> + Send + 'static,
    ) -> Wait<'a, T> {
        self.task(move |feeds| {
            feeds.at(now);
            task(feeds)
        })
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("the engine is closed; the gateway is stopping".into())
}

impl FeedStore for EmbeddedEngine {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        self.call(move |reply| Call::Publish(feed.clone(), gifts, now, reply))
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        self.call(move |reply| Call::Retract(feed.clone(), row.clone(), now, reply))
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        self.call(move |reply| Call::Policy(feed.clone(), reply))
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        self.call(move |reply| Call::SetPolicy(feed.clone(), change, now, reply))
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        self.call(move |reply| Call::Snapshot(feed.clone(), now, reply))
    }

    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed> {
        self.call(move |reply| Call::Changes(feed.clone(), since.clone(), max, reply))
    }

    fn heads<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        Box::pin(async move {
            let heads = self.call(move |reply| Call::Heads(feeds.to_vec(), reply)).await?;
            Ok(heads.into_iter().map(Ok).collect())
        })
    }

    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription> {
        Box::pin(async move { Ok(self.topics.subscribe(feed)) })
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        self.topics.locked().get(feed)?.known.clone()
    }
}

impl DueStore for EmbeddedEngine {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        self.call(move |reply| Call::Scheduled(feed.clone(), after, max.max(1), reply))
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, Unscheduled> {
        self.call(move |reply| Call::Unschedule(feed.clone(), id.clone(), now, reply))
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        self.call(move |reply| Call::Dead(feed.clone(), reply))
    }

    fn claim_due(&self, _: Vec<DueDone>, max: usize, now: Millis) -> Wait<'_, DueTurn> {
        self.call(move |reply| Call::ClaimDue(max, now, reply))
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, DueRun> {
        self.call(move |reply| Call::RunDue(feed.clone(), now, reply))
    }

    /// All of them: they share one commit.
    fn due_at_once(&self) -> usize {
        64
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.topics.wakes.subscribe())
    }
}

impl Engine for EmbeddedEngine {
    fn probe(&self) -> Wait<'_, Shards> {
        Box::pin(async move {
            self.call(Call::Probe).await?;
            Ok(Shards::WHOLE)
        })
    }

    fn probe_feed<'a>(&'a self, _: &'a FeedId) -> Wait<'a, ()> {
        self.call(Call::Probe)
    }

    fn close(&self) -> Wait<'_, ()> {
        Box::pin(async move {
            self.call(Call::Close).await?;
            let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            // After its answer the writer only closes the file; waiting for it frees the folder's lock.
            if let Some(thread) = thread {
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
            Ok(())
        })
    }

    fn name(&self) -> &'static str {
        "embedded"
    }
}

impl Drop for EmbeddedEngine {
    /// The writer ends when its last caller is gone; waiting for it frees the folder's lock.
    fn drop(&mut self) {
        let thread = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let (nobody, _) = sync_channel(0);
            drop(std::mem::replace(&mut self.calls, nobody));
            let _ = thread.join();
        }
    }
}
