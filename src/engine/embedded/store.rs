//! The store that others ask: two threads, one with the data and one with the file, and the way to them.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::disk;
use super::events::{Call, PublishHook, QueueLoad, QueuedBytes, StoreEvent, StoreRequest};
use super::group::{Answer, CallRefusal};
use super::host::{ScriptHost, ScriptText};
use super::recover::would_save;
use super::steady::Steady;
use super::tables::{CHECKPOINT_BYTES, Opened, Tables};
use super::worker::StoreThread;
use crate::engine::folder::{Folder, OpenFiles};
use crate::engine::protocol::owner::Owners;
use crate::engine::protocol::words::Words;
use crate::metrics::Metrics;
use crate::supervise::{Part, Parts};

/// Calls that may wait.
const MAX_QUEUED_CALLS: usize = 8_192;

/// Bytes of calls that may wait.
const MAX_QUEUED_BYTES: usize = 256 << 20;

/// How to open a store.
pub struct EmbeddedOptions {
    /// The folder that holds the file; made when it is missing.
    pub data_dir: PathBuf,
    /// Whose each key is.
    pub owners: Owners,
    /// Hears what scripts publish, when it is durable.
    pub on_publish: PublishHook,
    /// Bytes of the log that are moved together to where they stay.
    pub stretch: usize,
    /// Bytes of memory that the data may take.
    pub max_bytes: u64,
    /// Where commits are counted.
    pub metrics: Arc<Metrics>,
    /// Where the threads are registered: the end of one is the end of the process.
    pub parts: Arc<Parts>,
}

impl EmbeddedOptions {
    /// The defaults, for this folder.
    pub fn new(data_dir: PathBuf, owners: Owners, on_publish: PublishHook) -> EmbeddedOptions {
        let (metrics, parts) = Default::default();
        EmbeddedOptions {
            data_dir,
            owners,
            on_publish,
            stretch: CHECKPOINT_BYTES,
            max_bytes: u64::MAX,
            metrics,
            parts,
        }
    }
}

/// A handle to the two threads. Dropping it closes the store.
pub struct EmbeddedStore {
    events: Sender<StoreEvent>,
    waiting: Arc<QueueLoad>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    life: String,
    metrics: Arc<Metrics>,
    max_bytes: u64,
    clock: Steady,
    files: Arc<OpenFiles>,
}

impl EmbeddedStore {
    /// Opens the folder, takes its lock, reads the file, and starts the threads. Blocks.
    ///
    /// # Errors
    /// What is wrong and what to do, for the operator.
    pub fn open(options: EmbeddedOptions) -> Result<EmbeddedStore, String> {
        let EmbeddedOptions { data_dir, owners, on_publish, stretch, max_bytes, metrics, parts } = options;
        let folder = Folder::own(&data_dir)?;
        let file = folder.database();
        if folder.unfinished().exists() {
            return Err(format!(
                "a `tipcast store restore` or `recover` in the data folder {} was interrupted; run it again, or remove {} to start without it",
                data_dir.display(),
                folder.unfinished().display()
            ));
        }
        folder.make_private().map_err(|e| format!("{} cannot be written: {e}", file.display()))?;
        let opened = Tables::open(&file, owners, stretch);
        let Opened { tables, space, damaged, life, clock } = opened.map_err(|why| {
            // What a recovery would come to is for somebody to decide on it.
            match why.contains("is damaged").then(|| would_save(&folder, owners)).flatten() {
                Some(feeds) => {
                    format!("{why}. `tipcast store recover` would save what can be read of {feeds} feeds")
                }
                None => why,
            }
        })?;
        let files = Arc::new(folder.open_files());
        let shared_metrics = metrics.clone();
        let shared_clock = clock.clone();
        let shared_files = files.clone();
        let (events, to_worker) = channel();
        let (to_disk, groups) = channel();
        let (vital, to_events) = (parts.vital(Part::Writer), events.clone());
        let disk = std::thread::Builder::new().name("tipcast-disk".into()).spawn(move || {
            disk::run(tables, &shared_files, &groups, &to_events, &vital.beat());
            vital.done();
        });
        let vital = parts.vital(Part::Writer);
        let worker = std::thread::Builder::new().name("tipcast-store".into()).spawn(move || {
            match ScriptHost::new(space) {
                Ok(host) => {
                    let worker = StoreThread::new(host, to_disk, on_publish, metrics, clock, max_bytes)
                        .with_damaged(owners, damaged);
                    worker.run(&to_worker, &vital.beat());
                }
                Err(error) => tracing::error!(%error, "Lua cannot be set up"),
            }
            vital.done();
            // Free for the next one when nothing is written any more.
            drop(folder);
        });
        let no_thread = |e: std::io::Error| format!("no thread for the store: {e}");
        let threads = Mutex::new(vec![worker.map_err(no_thread)?, disk.map_err(no_thread)?]);
        let waiting = Arc::default();
        Ok(EmbeddedStore {
            events,
            waiting,
            threads,
            life,
            metrics: shared_metrics,
            max_bytes,
            clock: shared_clock,
            files,
        })
    }

    /// What epochs end with that begin on this data: five digits of base 36, the same for as long as the data is.
    pub fn life(&self) -> &str {
        &self.life
    }

    /// The steady time, in milliseconds since 1970, by which windows run.
    pub fn steady(&self) -> i64 {
        self.clock.now()
    }

    /// By how many milliseconds the clock on the wall was set since the machine was started, where somebody should know.
    pub fn clock_was_set_by(&self, wall: i64) -> Option<i64> {
        self.clock.was_set_by(wall)
    }

    /// What the data takes, in bytes, and how much it may.
    pub fn memory(&self) -> (u64, u64) {
        (u64::try_from(self.metrics.store_bytes.get()).unwrap_or(0), self.max_bytes)
    }

    /// Runs a script. Its answer comes when what it reports is durable.
    ///
    /// # Errors
    /// When the script failed or the store takes nothing.
    pub async fn script(&self, script: ScriptText, keys: Words, args: Words, within: Duration) -> Answer {
        self.call(StoreRequest::Script { script, keys, args }, within).await
    }

    /// Runs a command, given as its words. Its answer comes when what it reports is durable.
    ///
    /// # Errors
    /// When the store takes nothing. A command that is refused is an answer.
    pub async fn command(&self, words: Words, within: Duration) -> Answer {
        self.call(StoreRequest::Command(words), within).await
    }

    /// Whether what is written now becomes durable: the disk has room, and a row was taken by it, a moment ago or now.
    ///
    /// # Errors
    /// When it does not.
    pub async fn prove(&self, within: Duration) -> Answer {
        self.files.are_in_place().and_then(|()| self.files.have_room()).map_err(CallRefusal::Unavailable)?;
        self.call(StoreRequest::Row, within).await
    }

    async fn call(&self, work: StoreRequest, within: Duration) -> Answer {
        let bytes = match &work {
            StoreRequest::Script { keys, args, .. } => keys.size() + args.size(),
            StoreRequest::Command(words) => words.size(),
            StoreRequest::Row => 0,
        };
        let place = QueuedBytes { waiting: self.waiting.clone(), bytes };
        let calls = self.waiting.calls.fetch_add(1, Ordering::Relaxed);
        let all = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        if calls >= MAX_QUEUED_CALLS || all.saturating_add(bytes) > MAX_QUEUED_BYTES {
            // Its place is given back as it is dropped.
            return Err(CallRefusal::Overloaded("queue of the embedded store"));
        }
        let (to, answer) = oneshot::channel();
        if self.events.send(StoreEvent::Call(Call { work, to, _place: place })).is_err() {
            return Err(closed());
        }
        match tokio::time::timeout(within, answer).await {
            Ok(answered) => answered.unwrap_or_else(|_| Err(closed())),
            Err(_) => Err(CallRefusal::Unavailable(
                "the disk did not take the write in time; look at the disk of the data folder".into(),
            )),
        }
    }

    /// Finishes what was accepted, and lets the folder go.
    pub async fn close(&self) {
        let _ = self.events.send(StoreEvent::Close);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|it| drop(it.join()))).await;
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let _ = self.events.send(StoreEvent::Close);
        let threads = std::mem::take(self.threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|it| drop(it.join()));
    }
}

fn closed() -> CallRefusal {
    CallRefusal::Unavailable("the engine is closed; the gateway is stopping".into())
}
