//! The feeds that somebody on this node watches: each has a board and a replica task for as long as it is
//! leased, and a while longer.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;

use super::board::{Board, Shown};
use super::bounds::{Admission, Bounds, Refused, WatchLimits};
use super::moment::MonoTime;
use super::presence::{self, Reporter};
use super::replica::Replica;
use crate::domain::{FeedId, Position};
use crate::engine::{Count, FeedHead, Store, StoreError};
use crate::metrics::Metrics;
use crate::supervise::{Beat, Part, Parts, faults};

/// How often positions are compared with the store.
const COMPARE_EVERY: Duration = Duration::from_millis(1500);

/// How long a feed that nobody watches any more is followed: a reload or a deploy comes back.
const IDLE_FEED_TIME: Duration = Duration::from_secs(10);

/// How long newcomers wait for a store that takes long to be read. Longer than it takes to give up.
const READ_WITHIN: Duration = Duration::from_secs(32);

/// After a goodbye watchers are to come back within this, in milliseconds: few, and very many.
const AWAY_MOST_MS: (u64, u64) = (5_000, 60_000);

/// About how many watchers come back in a second after a goodbye, between these two.
const RETURNS_PER_SECOND: u64 = 2_000;

/// Changes of who may watch that wait for a worker; one that has more of them waiting judges all its watchers.
const MAX_QUEUED_CHANGES: usize = 64;

/// Feeds compared in one call.
const COMPARE_AT_ONCE: usize = 256;

/// The watched feeds of this node.
pub struct Live {
    store: Store,
    metrics: Arc<Metrics>,
    parts: Arc<Parts>,
    bounds: Arc<Bounds>,
    /// Where replicas run, whichever worker's watcher asked for them.
    runtime: Handle,
    feeds: Mutex<HashMap<FeedId, OpenFeed>>,
    /// Set once: over how long the goodbyes are spread.
    pub(super) closing: watch::Sender<Option<Duration>>,
    /// Gets the watchers that are to be judged again.
    pub(super) judging: broadcast::Sender<Judge>,
    /// The longest that a watcher is asked to stay away, in milliseconds; see [`Live::close_over`].
    away_most_ms: AtomicU64,
    watchers: AtomicUsize,
    /// Notified when the last watcher has left.
    empty: Notify,
}

/// Whose watchers are to be judged again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Everybody's.
    All,
    /// Those that have this mark, see [`super::worker::Timer::mark`].
    Marked(u32),
}

struct OpenFeed {
    metrics: Arc<Metrics>,
    board: Arc<Board>,
    leases: usize,
    idle_since: Instant,
    heads: watch::Sender<Option<FeedHead>>,
    replica: JoinHandle<()>,
}

impl Drop for OpenFeed {
    fn drop(&mut self) {
        self.replica.abort();
        self.metrics.feeds_watched.dec();
    }
}

impl Live {
    /// Starts following on behalf of watchers to come. Must run inside a tokio runtime whose
    /// threads outlive the watchers.
    pub fn start(store: Store, metrics: Arc<Metrics>, parts: Arc<Parts>) -> Arc<Live> {
        let bounds = Bounds::new(metrics.clone());
        let live = Arc::new(Live {
            bounds,
            store,
            metrics,
            parts: parts.clone(),
            runtime: Handle::current(),
            feeds: Mutex::default(),
            closing: watch::channel(None).0,
            judging: broadcast::channel(MAX_QUEUED_CHANGES).0,
            away_most_ms: AtomicU64::new(AWAY_MOST_MS.0),
            watchers: AtomicUsize::new(0),
            empty: Notify::new(),
        });
        let counted = Arc::downgrade(&live);
        tokio::spawn(parts.clone().keep(Part::Presence, move |beat| keep_telling(counted.clone(), beat)));
        let compared = Arc::downgrade(&live);
        tokio::spawn(parts.keep(Part::Compare, move |beat| compare(compared.clone(), beat)));
        live
    }

    /// The store behind, for resuming watchers.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Bounds what may be watched; none to begin with.
    pub fn limit(&self, limits: WatchLimits) {
        self.bounds.change(limits);
    }

    pub(super) fn bounds(&self) -> &Arc<Bounds> {
        &self.bounds
    }

    /// Leave for an address to watch one more feed; an address of none is not limited.
    pub fn admit(&self, address: Option<IpAddr>, feed: &FeedId) -> Result<Admission, Refused> {
        self.admit_quietly(address, feed).inspect_err(|refused| self.bounds.met(refused.bound()))
    }

    /// Whether a ranking may be read from the store for somebody without a key at this address, who is charged for it.
    pub fn admit_ranking(&self, address: IpAddr) -> bool {
        self.bounds.admit_ranking(address, MonoTime::now())
    }

    /// The same, without counting a refusal, which has not been answered yet.
    pub fn admit_quietly(&self, address: Option<IpAddr>, feed: &FeedId) -> Result<Admission, Refused> {
        let (watched, followed) = {
            let feeds = self.locked();
            (feeds.get(feed).map(|entry| entry.board.watchers()), feeds.len())
        };
        self.bounds.admit(address, watched, followed, MonoTime::now())
    }

    /// The list of a feed that somebody watches, if its board is not behind what this node knows to be
    /// acknowledged. The time is the store's.
    pub fn shown(&self, feed: &FeedId) -> Option<Shown> {
        let board = self.locked().get(feed).filter(|entry| entry.leases > 0)?.board.clone();
        board.shown(self.store.known(feed).as_ref())
    }

    /// The register of what must live as long as this does.
    pub fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// What is counted here.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Watchers on this node now.
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    pub(super) fn arrived(&self) {
        self.watchers.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn left(&self) {
        if self.watchers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.empty.notify_waiters();
        }
    }

    /// Until no watcher is left. More may come later.
    pub async fn all_left(&self) {
        loop {
            // Registered before the count is read.
            let empty = self.empty.notified();
            if self.watchers() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Wakes watchers of this node, so that they are judged again: who may watch has changed.
    pub fn judge_again(&self, whom: Judge) {
        // An error is that there are no workers, and so no watchers.
        let _ = self.judging.send(whom);
    }

    /// Whether only those may see this feed who are allowed to, if somebody watches it here.
    pub fn is_private(&self, feed: &FeedId) -> Option<bool> {
        let board = self.locked().get(feed).filter(|entry| entry.leases > 0)?.board.clone();
        board.position().map(|_| board.is_private())
    }

    /// Closes every watcher at once; they leave on their own.
    pub fn close(&self) {
        self.close_over(Duration::ZERO);
    }

    /// Closes the watchers one after the other over `time`; they leave on their own. Newcomers
    /// are closed at once. The more watchers there are, the wider are their returns spread, so that
    /// the nodes that stay are not met by all of them together.
    pub fn close_over(&self, time: Duration) {
        let most = self.watchers() as u64 * 1_000 / RETURNS_PER_SECOND;
        self.away_most_ms.store(most.clamp(AWAY_MOST_MS.0, AWAY_MOST_MS.1), Ordering::SeqCst);
        self.closing.send_replace(Some(time));
    }

    /// The longest that a watcher is asked to stay away after a goodbye, in milliseconds.
    pub fn away_most_ms(&self) -> u64 {
        self.away_most_ms.load(Ordering::SeqCst)
    }

    /// Returns when watchers are closed; at once if they were.
    pub fn leaving(&self) -> impl Future<Output = ()> + use<> {
        let mut closing = self.closing.subscribe();
        async move {
            // Nobody is left to say so when it is gone.
            let _ = closing.wait_for(Option::is_some).await;
        }
    }

    /// The feeds that this node follows.
    pub fn watched(&self) -> Vec<Watched> {
        let feeds = self.locked();
        let all = feeds.iter().map(|(feed, entry)| Watched {
            feed: feed.clone(),
            watchers: entry.board.watchers(),
            overlays: entry.board.overlays(),
            at: entry.board.position().unwrap_or_else(Position::start),
        });
        all.collect()
    }

    /// Boards of feeds whose watchers see how many watch.
    pub(super) fn boards_that_tell_presence(&self) -> Vec<Arc<Board>> {
        let feeds = self.locked();
        feeds
            .values()
            .map(|entry| &entry.board)
            .filter(|board| board.presence().known().is_some())
            .cloned()
            .collect()
    }

    /// The board of a feed, followed for as long as the lease lives.
    pub fn lease(self: &Arc<Self>, feed: &FeedId) -> Lease {
        let mut feeds = self.locked();
        let entry = feeds.entry(feed.clone()).or_insert_with(|| {
            let board = Arc::new(Board::new(feed.clone(), self.metrics.clone()));
            let (heads, comparisons) = watch::channel(None);
            let (store, metrics, kept) = (self.store.clone(), self.metrics.clone(), board.clone());
            let follow = move |beat| {
                // After a panic the list may be anything: newcomers wait for a new one, and so do watchers.
                kept.forget();
                Replica::new(store.clone(), kept.clone(), comparisons.clone(), metrics.clone(), beat).run()
            };
            let replica = self.runtime.spawn(self.parts.clone().keep(Part::Replica, follow));
            self.metrics.feeds_watched.inc();
            let (metrics, idle_since) = (self.metrics.clone(), Instant::now());
            OpenFeed { metrics, board, leases: 0, idle_since, heads, replica }
        });
        entry.leases += 1;
        Lease { live: self.clone(), board: entry.board.clone() }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<FeedId, OpenFeed>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A feed that a node follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name.
    pub feed: FeedId,
    /// Its watchers on this node. It is followed for a while after the last one has left.
    pub watchers: usize,
    /// Those among them that are overlays.
    pub overlays: usize,
    /// The position that this node shows.
    pub at: Position,
}

impl Lease {
    /// The feed that is followed.
    pub fn feed(&self) -> &FeedId {
        self.board.feed()
    }

    /// Whether only those may see the feed who were allowed to; known once its list is there.
    pub fn is_private(&self) -> bool {
        self.board.is_private()
    }

    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    /// Whether the feed's list is there.
    pub fn is_listed(&self) -> bool {
        self.board.position().is_some()
    }

    /// Waits until the feed's list is there; false when it is not within `time`, or half a minute while the store has not refused
    /// to be read, such as in a commit that takes long.
    pub async fn has_list(&self, time: Duration) -> bool {
        if self.is_listed() {
            return true;
        }
        let within = async |time| {
            let mut moves = self.board.moves();
            let listed = moves.wait_for(|_| self.board.position().is_some());
            tokio::time::timeout(time, listed).await.ok().map(|moved| moved.is_ok())
        };
        match within(time).await {
            Some(listed) => listed,
            None if time.is_zero() || self.board.is_unread() => false,
            None => within(READ_WITHIN).await.unwrap_or(false),
        }
    }
}

/// Keeps a feed followed.
pub struct Lease {
    live: Arc<Live>,
    board: Arc<Board>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut feeds = self.live.locked();
        let Some(entry) = feeds.get_mut(self.board.feed()) else { return };
        entry.leases -= 1;
        entry.idle_since = Instant::now();
        // Nobody wrote to it, so there is nothing to come back to: names that a stranger makes up leave nothing.
        if entry.leases == 0 && entry.board.position().is_none_or(|at| at.epoch.is_none()) {
            let gone = feeds.remove(self.board.feed());
            drop(feeds);
            drop(gone);
        }
    }
}

/// Notices may be lost without a word, so every watched feed is compared with the store now and
/// then; feeds that nobody watches any more are let go here too.
async fn compare(live: std::sync::Weak<Live>, beat: Beat) {
    loop {
        beat.rests();
        tokio::time::sleep(COMPARE_EVERY).await;
        let Some(live) = live.upgrade() else { return };
        beat.works();
        faults::pass("compare").await;
        live.bounds.tidy(MonoTime::now());
        let names: Vec<FeedId> = {
            let mut feeds = live.locked();
            feeds.retain(|_, entry| entry.leases > 0 || entry.idle_since.elapsed() < IDLE_FEED_TIME);
            feeds.keys().cloned().collect()
        };
        for names in names.chunks(COMPARE_AT_ONCE) {
            beat.works();
            // A feed whose store does not answer is compared in the next round.
            let Ok(heads) = live.store.read_heads(names).await else { continue };
            let feeds = live.locked();
            for (name, head) in names.iter().zip(heads) {
                if let (Some(entry), Ok(head)) = (feeds.get(name), head) {
                    // A replica that is still busy gets the newest when it is done.
                    entry.heads.send_replace(Some(head));
                }
            }
        }
    }
}

/// Reports to the store how many watch here, and announces how many watch everywhere.
async fn keep_telling(live: std::sync::Weak<Live>, beat: Beat) {
    let mut reporter = Reporter::new(Instant::now());
    loop {
        beat.rests();
        tokio::time::sleep(presence::ANNOUNCE_INTERVAL).await;
        let Some(live) = live.upgrade() else { return };
        beat.works();
        faults::pass("presence").await;
        if let Err(error) = live.store().write_feed_names().await {
            tracing::debug!(%error, "names of new feeds are written later");
        }
        if let Err(error) = tell_presence(&live, &mut reporter).await {
            // Counts are late until the store answers again; other parts log that.
            tracing::debug!(%error, "watchers could not be notified");
        }
    }
}

async fn tell_presence(live: &Live, reporter: &mut Reporter) -> Result<(), StoreError> {
    let watched = live.watched();
    let counts = watched.iter().filter(|it| it.watchers > 0);
    let count = |it: &Watched| Count { watchers: it.watchers as u64, overlays: it.overlays as u64 };
    let counts: HashMap<FeedId, Count> = counts.map(|it| (it.feed.clone(), count(it))).collect();
    reporter.report(live.store(), &counts, Instant::now()).await?;
    let boards = live.boards_that_tell_presence();
    let feeds: Vec<FeedId> = boards.iter().map(|board| board.feed().clone()).collect();
    reporter.tells_only(&feeds);
    if feeds.is_empty() {
        return Ok(());
    }
    let all = live.store().read_presence(&feeds).await?;
    for (board, everywhere) in boards.iter().zip(all) {
        // A watcher that came since the last look counts here before it does in the store.
        let known = board.presence().known().flatten();
        if reporter.is_worth_announcing(board.feed(), known, everywhere.watchers) {
            board.tell_presence(everywhere.watchers);
        }
    }
    Ok(())
}
