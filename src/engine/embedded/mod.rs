//! The engine that needs nothing installed: state in memory, every change on disk before it is
//! acknowledged, on SQLite. docs/STORAGE.md says what is stored and how.
//!
//! One thread (`writer`) owns the file. What arrives while a commit runs goes into the next one, so the price of an
//! fsync is shared by everything in flight. A call is a task that runs a rule on a feed, through one value
//! (`txn::FeedTxn`) that happens whole or not at all. From the bottom up:
//!
//! - `fault`, `seal`, `db`: what can go wrong, rows that are checked, the connection; `layouts`, `open`, `pages`, `mend`,
//!   `folder`, `scan`, `files`: the file as a whole, and pages of it that cannot be read.
//! - Tables with their records, and what of them is in memory, by thing: `feed`, `locks`, `log`, `logged_ids`, `id_lines`, `ids`, `due`,
//!   `claims`, `ledger`, `readers`, `hooks`, `jobs`; `journal` and its `frames`: what of it is not in tables yet.
//! - `txn`, and the rules that run on it: `gifts`, `drops`, `due_work`, `entries`, `groups`,
//!   `deliveries`, `moderation`, `sources`, `viewers`,
//!   `requests`.
//! - `feeds`: all of them, the group that is committed next, and damage; `webhooks`, which may read all feeds.
//! - `writer`, `rule`, `operations`: the thread, and what it does for each operation.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{EngineError, ReportLimits, Run, Wakes};
use crate::domain::{FeedId, Millis, Policy, Position};
use crate::engine::folder::Folder;
use crate::engine::presence::Attendance;
use crate::metrics::Metrics;
use crate::supervise::{Part, Parts};
use fault::{Fault, Step};
use feeds::Feeds;
use journal::Journal;
use topics::Topics;
use txn::Common;
use writer::{Call, Reply, Task, Writer};

mod blocking;
mod blocks;
mod claims;
mod db;
mod deliveries;
mod drops;
mod due;
mod due_work;
mod entries;
mod fault;
mod feed;
mod feeds;
pub mod files;

mod frames;
mod gifts;
mod groups;
mod hooks;
mod id_lines;
mod id_run;
mod id_runs;
mod ids;
mod jobs;
mod journal;
mod known_ids;
mod layouts;
mod ledger;
mod locks;
mod log;
mod logged_ids;
mod mend;
mod mending;
mod moderation;
mod open;
mod operations;
mod pages;
mod proof;
mod publishing;
mod readers;
mod requests;
mod reviews;
mod rule;
mod scan;
mod seal;
mod sources;
mod steady;
mod tallies;
#[cfg(test)]
mod tests;
mod topics;
mod totals;
mod txn;
mod upgrades;
mod values;
mod viewers;
mod webhooks;
mod writer;

pub use scan::Damage;

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
        EmbeddedOptions {
            data_dir: data_dir.into(),
            defaults: Policy::default(),
            scheduled_max: super::SCHEDULED_MAX,
            drop_reminder_ms: 60_000,
            reports: ReportLimits::default(),
            steady_for: STEADY_FOR,
            parts: Arc::default(),
        }
    }
}

/// Feeds in one folder of this machine.
pub struct EmbeddedEngine {
    calls: SyncSender<Call>,
    topics: Arc<Topics>,
    data_dir: PathBuf,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Who watches: all of them are watched by this process, and gone with it.
    pub(super) attendance: Attendance,
}

impl EmbeddedEngine {
    /// Opens the folder, takes its lock, and starts the writer. Feeds that are damaged answer
    /// [`EngineError::FeedDamaged`] from then on; an error is of the folder as a whole.
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
        let writer = open_writer(&options, topics.clone(), metrics).map_err(EngineError::Open)?;
        let thread = std::thread::Builder::new()
            .name("tipcast-writer".into())
            .spawn(move || {
                writer.run(&waiting, &vital.beat());
                vital.done();
            })
            .map_err(|e| EngineError::Open(format!("no thread for the writer: {e}")))?;
        let (data_dir, writer) = (options.data_dir, Mutex::new(Some(thread)));
        let attendance = Attendance::default();
        Ok(Arc::new(EmbeddedEngine { calls, topics, data_dir, writer, attendance }))
    }

    async fn call<T: Send>(&self, make: impl FnOnce(Reply<T>) -> Call) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.send(make(reply))?;
        match tokio::time::timeout(CALL_TIMEOUT, answer).await {
            Ok(answered) => answered.map_or_else(|_| Err(closed()), |answered| answered.answer),
            Err(_) => Err(late()),
        }
    }

    fn send(&self, call: Call) -> Result<(), EngineError> {
        self.calls.try_send(call).map_err(|refused| match refused {
            TrySendError::Full(_) => EngineError::Overloaded("queue of the embedded engine"),
            TrySendError::Disconnected(_) => closed(),
        })
    }

    /// Has the writer run `work`. `about`: how many gifts it may bring, and the caller's clock if it has one. A group that a
    /// damaged feed spoils is run again, so `work` must be able to run more than once.
    async fn task<T: Send + 'static>(
        &self,
        about: (usize, Option<Millis>),
        work: impl FnMut(&mut Feeds) -> Step<T> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.call(move |reply| Call::Task(Task::new(about, reply, work))).await
    }
}

fn open_writer(
    options: &EmbeddedOptions,
    topics: Arc<Topics>,
    metrics: Arc<Metrics>,
) -> Result<Writer, String> {
    let folder = Folder::own(&options.data_dir)?;
    let file = folder.database();
    folder.make_private().map_err(|e| format!("{} cannot be written: {e}", file.display()))?;
    let (mut db, mut found) = open::open(&file)?;
    // Of a file that is too large to be looked through, damage shows as late as now.
    if let Err(Fault::Unreadable(why)) = Common::read(&db, options, metrics.clone()) {
        drop(db);
        open::mend(&file, &why).map_err(|why| open::damaged(&file, &why.why()))?;
        (db, found) = open::open(&file)?;
    }
    let journal = Journal::open(&file, &db.conn)?;
    let feeds = Feeds::new((db, journal), options, metrics.clone());
    let mut feeds = feeds.map_err(|fault| match fault {
        Fault::Disk(why) => format!("{} cannot be read: {why}", file.display()),
        fault => open::damaged(&file, &fault.why()),
    })?;
    found.false_names.iter().for_each(|name| feeds.disown(name, "a damaged feed stands under this name"));
    for Damage { feed, what } in found.damage {
        match feed {
            Some(feed) => feeds.condemn(&feed, &what),
            None => tracing::error!(
                what,
                "what is stored is damaged, of no feed alone; look at `tipcast store check`"
            ),
        }
    }
    Ok(Writer { feeds, topics, metrics, _folder: folder })
}

fn late() -> EngineError {
    EngineError::Unavailable(
        "the disk did not take the write in time; look at the disk of the data folder".into(),
    )
}

fn closed() -> EngineError {
    EngineError::Unavailable("the engine is closed; the gateway is stopping".into())
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> EngineError {
        match fault {
            Fault::Disk(why) | Fault::Unreadable(why) => EngineError::Unavailable(why),
            Fault::Garbled(why) | Fault::Damaged(why) => EngineError::FeedDamaged(why),
        }
    }
}

impl EmbeddedEngine {
    /// Does `operation`.
    pub async fn run<O: Run<EmbeddedEngine>>(&self, operation: O) -> Result<O::Reply, EngineError> {
        operation.run_on(self).await
    }

    /// Finishes what was accepted and closes the file.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.call(Call::Close).await?;
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // After its answer the writer only closes the file; waiting for it frees the folder's lock.
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        Ok(())
    }

    /// See [`crate::engine::Engine::known`].
    pub fn known(&self, feed: &FeedId) -> Option<Position> {
        self.topics.known(feed)
    }

    /// See [`crate::engine::Engine::due_wakes`].
    pub fn due_wakes(&self) -> Wakes {
        Wakes::new(self.topics.wakes.subscribe())
    }

    /// See [`crate::engine::Engine::job_wakes`].
    pub fn job_wakes(&self) -> Wakes {
        Wakes::new(self.topics.job_wakes.subscribe())
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
