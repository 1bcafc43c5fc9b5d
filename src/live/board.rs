//! What a node shows of one feed: the list, its position, and a ring of the last frames. One
//! replica writes it, every watcher's cursor reads it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::frame::Frame;
use crate::domain::{Change, FeedId, FeedList, Millis, Omit, Position};
use crate::metrics::Metrics;
use crate::metrics::labels::{ResumedFrom, SnapshotCause};

mod ring;
#[cfg(test)]
mod tests;
mod watcher_count;

use ring::Ring;
use watcher_count::WatcherCount;

/// Ops in one frame: a longer flush is several frames, so that no frame grows without bound.
const FRAME_OPS: usize = 256;

/// One feed as this node shows it.
pub struct Board {
    feed: FeedId,
    state: Mutex<BoardState>,
    /// Counts moves. A reader who reads it before the state may see a newer state, never an older one.
    version: AtomicU64,
    moves: watch::Sender<u64>,
    /// Changes appended since the board is there.
    appended: AtomicU64,
    metrics: Arc<Metrics>,
    skew_ms: AtomicI64,
    hurry: Notify,
    /// Notified when somebody wants to resume from before the ring.
    resume: Notify,
    watchers: AtomicUsize,
    /// Those of them that are overlays.
    overlays: AtomicUsize,
    /// Only who was allowed to may see the list.
    private: AtomicBool,
    /// The store refused to be read for its replica, and has not answered since.
    unread: AtomicBool,
    presence: WatcherCount,
}

struct BoardState {
    /// Grows when the list was replaced instead of changed: cursors from before need a snapshot.
    /// 0 until the first list is there.
    generation: u64,
    list: FeedList,
    /// Whether the list is that of a replica that runs.
    listed: bool,
    capacity: u64,
    /// The replica has looked in the store's history for what is in front of the ring.
    is_filled: bool,
    ring: Ring,
    /// For newcomers who leave out nothing, and who leave out totals.
    snapshots: [Option<Arc<Frame>>; 2],
    /// Positions from here on may be resumed from; the ring may reach further back for those who
    /// never left.
    covered_from: u64,
    /// Nobody resumes over more changes than these.
    history: u64,
}

/// Where a watcher is. `seq` counts what was taken for its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    generation: u64,
    /// The watcher's position.
    pub at: Position,
}

/// A list as a board shows it.
pub struct Shown {
    /// Where the feed is.
    pub at: Position,
    /// The list, as [`super::frame::list_json`] makes it, in bytes that all share who are shown it.
    pub list: Bytes,
    /// How many rows it holds.
    pub capacity: u64,
    /// The store's clock.
    pub now: Millis,
    /// Only those may see it who are allowed to.
    pub private: bool,
}

/// What is due for a cursor.
#[derive(Debug)]
pub enum CursorDue {
    /// Nothing yet.
    Nothing,
    /// These, in order, not none. The cursor has moved past them.
    Frames(Vec<Arc<Frame>>),
    /// A newer list instead of what it missed.
    Snapshot(Arc<Frame>),
}

/// How a watcher starts.
#[derive(Debug)]
pub enum Start {
    /// The board has no list yet, or is looking in the history for what the watcher missed. It moves when that has ended.
    NotReady,
    /// From here, after this frame.
    At(Cursor, Arc<Frame>),
    /// The ring does not know the position the watcher has; the store's history may.
    AskHistory,
}

impl Board {
    pub(super) fn new(feed: FeedId, metrics: Arc<Metrics>) -> Self {
        let state = BoardState {
            generation: 0,
            list: FeedList::default(),
            listed: false,
            capacity: 0,
            is_filled: false,
            ring: Ring::default(),
            snapshots: [None, None],
            covered_from: 0,
            history: u64::MAX,
        };
        let (moves, hurry, resume) = (watch::channel(0).0, Notify::new(), Notify::new());
        Board {
            feed,
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            skew_ms: AtomicI64::new(0),
            appended: AtomicU64::new(0),
            moves,
            hurry,
            resume,
            watchers: AtomicUsize::new(0),
            overlays: AtomicUsize::new(0),
            private: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            presence: WatcherCount::default(),
            metrics,
        }
    }

    /// The feed's name.
    pub fn feed(&self) -> &FeedId {
        &self.feed
    }

    /// Changes whenever something became due for cursors.
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// Changes appended since the board is there.
    pub(super) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Watchers of the feed on this node.
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Those of them that are overlays.
    pub fn overlays(&self) -> usize {
        self.overlays.load(Ordering::Relaxed)
    }

    pub(super) fn overlay_arrived(&self) {
        self.overlays.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn overlay_left(&self) {
        self.overlays.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn arrived(&self) {
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn left(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many watch, as watchers see it.
    pub(super) fn presence(&self) -> &WatcherCount {
        &self.presence
    }

    /// Announces how many watch, if the feed does that.
    pub(super) fn tell_presence(&self, watchers: u64) {
        if self.presence.announce(&self.feed, watchers) {
            self.moved(self.locked());
        }
    }

    /// Another number whenever the board has moved.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether only those may see the list who were allowed to. Known before the first list is there.
    pub fn is_private(&self) -> bool {
        self.private.load(Ordering::Acquire)
    }

    /// From now on. Wakes every watcher, so that those that may not stay are closed at once.
    pub(super) fn set_private(&self, private: bool) {
        if self.private.swap(private, Ordering::AcqRel) != private {
            self.moved(self.locked());
        }
    }

    /// Asks the replica to put on the board what it has gathered.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Until somebody hurries.
    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// Until somebody wants to resume from before the ring.
    pub(super) async fn resume_wanted(&self) {
        self.resume.notified().await;
    }

    /// The list, unless it is not there or older than `known`.
    pub(super) fn shown(&self, known: Option<&Position>) -> Option<Shown> {
        let mut state = self.locked();
        let at = state.list.at.clone();
        let behind = known.is_some_and(|known| known.epoch != at.epoch || known.seq > at.seq);
        (state.listed && !behind).then(|| Shown {
            at,
            list: state.snapshot(&self.feed, None, Omit::Nothing).1.list(),
            capacity: state.capacity,
            now: Millis(Millis::now().0 + self.skew_ms.load(Ordering::Relaxed)),
            // Read after the list is fixed: a list that came after the change of policy is never taken for a public one.
            private: self.is_private(),
        })
    }

    /// How far the store's clock is ahead of this node's, in milliseconds.
    pub(super) fn skewed(&self, ms: i64) {
        self.skew_ms.store(ms, Ordering::Relaxed);
    }

    /// The board's position; `None` until the first list is there.
    pub fn position(&self) -> Option<Position> {
        let state = self.locked();
        state.listed.then(|| state.list.at.clone())
    }

    /// How a watcher that has `since` starts.
    pub fn start(&self, since: Option<&Position>, omit: Omit) -> Start {
        let mut state = self.locked();
        if !state.listed {
            return Start::NotReady;
        }
        match since {
            Some(since) if since.epoch == state.list.at.epoch && !since.epoch.is_none() => {
                let covered = since.seq >= state.covered_from;
                if since.seq == state.list.at.seq || (covered && state.ring.leads_on(since.seq)) {
                    let cursor = Cursor { generation: state.generation, at: since.clone() };
                    self.metrics.resumes[ResumedFrom::Ring].inc();
                    Start::At(cursor, Arc::new(Frame::resumed(&self.feed, since)))
                } else if !state.is_filled && since.seq < state.list.at.seq {
                    // After a restart everybody comes back at once: the history is read once for all of them.
                    self.resume.notify_one();
                    Start::NotReady
                } else {
                    Start::AskHistory
                }
            }
            _ => {
                self.metrics.snapshots[SnapshotCause::Start].inc();
                let (cursor, frame) = state.snapshot(&self.feed, None, omit);
                Start::At(cursor, frame)
            }
        }
    }

    /// A cursor for a watcher that the store's history brings to `at`.
    pub fn cursor(&self, at: Position) -> Cursor {
        Cursor { generation: self.locked().generation, at }
    }

    /// A snapshot for a watcher that has `since`, and the cursor after it.
    pub fn snapshot(&self, since: Option<&Position>, omit: Omit) -> (Cursor, Arc<Frame>) {
        self.metrics.snapshots[SnapshotCause::Start].inc();
        self.locked().snapshot(&self.feed, since, omit)
    }

    /// True when the ring leads on from `cursor`, or it needs nothing or a snapshot.
    pub fn reaches(&self, cursor: &Cursor) -> bool {
        let state = self.locked();
        cursor.generation != state.generation
            || cursor.at.seq >= state.list.at.seq
            || state.ring.leads_on(cursor.at.seq)
    }

    /// Takes what is due, moving the cursor: shared frames as they are, or `joined` into one for a
    /// watcher that wants few, and without what it leaves out. A cursor that fell off the ring, or is of another generation, is
    /// folded forward: it gets one newer snapshot that says what it skipped.
    pub fn take(&self, cursor: &mut Cursor, joined: bool, omit: Omit) -> CursorDue {
        let mut state = self.locked();
        // A watcher that came from another node may be ahead of a list that was read a moment earlier. It waits: it has seen more, and
        // is never shown less.
        let is_ahead = cursor.at.epoch == state.list.at.epoch && cursor.at.seq > state.list.at.seq;
        if is_ahead || cursor.generation == state.generation && cursor.at.seq >= state.list.at.seq {
            return CursorDue::Nothing;
        }
        let ring = match joined {
            _ if cursor.generation != state.generation => None,
            true => state.ring.joined(&self.feed, cursor.at.seq, omit).map(|frame| vec![frame]),
            false => state.ring.following(&self.feed, cursor.at.seq, omit),
        };
        if let Some(frames) = ring
            && let Some(last) = frames.last()
        {
            cursor.at.seq = last.last();
            return CursorDue::Frames(frames);
        }
        let replaced = cursor.generation != state.generation;
        let cause = if replaced { SnapshotCause::Replace } else { SnapshotCause::Fold };
        self.metrics.snapshots[cause].inc();
        let (moved, frame) = state.snapshot(&self.feed, Some(&cursor.at), omit);
        *cursor = moved;
        CursorDue::Snapshot(frame)
    }

    /// Replaces the list. Every cursor gets a snapshot.
    pub(super) fn replace(&self, list: &FeedList, capacity: u64) {
        let mut state = self.locked();
        state.generation += 1;
        state.listed = true;
        // Older positions may be covered by the store's history; the ring starts anew.
        state.covered_from = list.at.seq;
        state.list = list.clone();
        state.capacity = capacity;
        state.ring.clear();
        state.is_filled = false;
        state.snapshots = [None, None];
        self.moved(state);
    }

    /// Puts changes of the store's history in front of the ring. They end where the ring begins, or nothing is done but to note
    /// that the history was looked at.
    pub(super) fn fill(&self, changes: &[Change]) {
        let mut state = self.locked();
        let first = state.ring.first().unwrap_or(state.list.at.seq + 1);
        let leads_on =
            changes.last().is_some_and(|it| it.seq + 1 == first && it.epoch == state.list.at.epoch);
        if let (Some(oldest), true) = (changes.first(), leads_on) {
            let frames = changes.chunks(FRAME_OPS).map(|ops| Frame::delta(&self.feed, &oldest.epoch, ops));
            let frames: Vec<_> = frames.map(Arc::new).collect();
            state.ring.push_front(frames);
            let covered = state.ring.first().map_or(state.covered_from, |first| first - 1);
            state.covered_from = covered.max(state.list.at.seq.saturating_sub(state.history));
        }
        state.is_filled = true;
        self.moved(state);
    }

    /// The position from which the ring leads on. `None` if the history in front of it was looked at.
    pub(super) fn fill_to(&self) -> Option<Position> {
        let state = self.locked();
        let seq = state.ring.first().map_or(state.list.at.seq, |first| first - 1);
        (!state.is_filled).then(|| Position { seq, ..state.list.at.clone() })
    }

    /// Whether the store refuses to be read.
    pub(super) fn set_unread(&self, unread: bool) {
        self.unread.store(unread, Ordering::Relaxed);
    }

    /// See [`Board::set_unread`].
    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// The list is not to be shown to newcomers until it is replaced. Those who have it keep what they have.
    pub(super) fn forget(&self) {
        self.locked().listed = false;
    }

    /// Appends changes, which follow the board's position; `list` is the feed after them.
    pub(super) fn append(&self, changes: &[Change], list: &FeedList) {
        let frames = changes.chunks(FRAME_OPS).map(|ops| Frame::delta(&self.feed, &list.at.epoch, ops));
        let frames: Vec<Arc<Frame>> = frames.map(Arc::new).collect();
        let mut state = self.locked();
        frames.into_iter().for_each(|frame| state.ring.push(frame));
        state.list.clone_from(list);
        // In the same step as the frames: a watcher that comes now must not resume over more.
        state.covered_from = state.covered_from.max(state.list.at.seq.saturating_sub(state.history));
        state.snapshots = [None, None];
        self.appended.fetch_add(changes.len() as u64, Ordering::Relaxed);
        self.moved(state);
    }

    /// Nobody resumes over more than the newest `history` changes from now on.
    pub(super) fn limit(&self, history: u64) {
        let mut state = self.locked();
        state.history = history;
        state.covered_from = state.covered_from.max(state.list.at.seq.saturating_sub(history));
    }

    fn moved(&self, state: MutexGuard<'_, BoardState>) {
        self.version.fetch_add(1, Ordering::Release);
        drop(state);
        self.moves.send_modify(|n| *n += 1);
    }

    fn locked(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoardState {
    /// The snapshots for newcomers are encoded once per position; one that says what was skipped is
    /// the watcher's own.
    fn snapshot(&mut self, feed: &FeedId, since: Option<&Position>, omit: Omit) -> (Cursor, Arc<Frame>) {
        let skipped = match since {
            Some(since) if since.epoch == self.list.at.epoch => self.list.at.seq.saturating_sub(since.seq),
            _ => 0,
        };
        let omit = self.list.omits(omit);
        let encode = |skipped| Arc::new(Frame::snapshot(feed, &self.list, self.capacity, skipped, omit));
        let kept = usize::from(omit == Omit::Totals);
        let frame = match (skipped, &self.snapshots[kept]) {
            (0, Some(cached)) => cached.clone(),
            (0, None) => {
                let frame = encode(0);
                self.snapshots[kept] = Some(frame.clone());
                frame
            }
            _ => encode(skipped),
        };
        (Cursor { generation: self.generation, at: self.list.at.clone() }, frame)
    }
}
