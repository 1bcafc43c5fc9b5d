//! What one connection is owed of one feed: first where the client left off, or a list, from the ring, the store's history
//! or the board; from then on what comes.

use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::batch::FrameBatch;
use super::board::{Board, Cursor, Start};
use super::feeds::Live;
use super::frame::{Frame, KEEPALIVE_MS};
use super::local::Watch;
use super::moment::MonoTime;
use super::wake::Wake;
use super::worker::Worker;
use crate::domain::{Change, FeedId, Millis, Omit, Position};
use crate::engine::{Missed, StoreError};
use crate::metrics::labels::ResumedFrom;

/// Changes read from history at once for one watcher: what it costs while it catches up.
const CHANGES_PER_READ: usize = 128;

/// How long a newcomer waits for the board to reach what this node knows to be acknowledged.
const FRESH_WITHIN: Duration = Duration::from_secs(1);

/// One second early, so that a tick of a second still keeps the promise.
pub(super) const KEEPALIVE: Duration = Duration::from_millis(KEEPALIVE_MS - 1000);

/// How a feed is to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The position that the client has.
    pub since: Option<Position>,
    /// The least time between two deliveries; zero: no such bound.
    pub spacing: Duration,
    /// What it does not get.
    pub omit: Omit,
    /// It says that it is an overlay, and counts as one.
    pub overlay: bool,
}

/// A feed as one connection watches it.
pub(super) struct Watching {
    watch: Watch,
    phase: CatchUp,
    ready: Option<Rc<FrameBatch>>,
    /// The version of presence that the watcher got last.
    presence: u64,
    last_sent: MonoTime,
    /// Least time between two deliveries, from `max_hz`, in microseconds.
    spacing: u32,
    /// What it does not get.
    omit: Omit,
    /// It counts as an overlay.
    overlay: bool,
    /// It has not been where the feed is yet.
    replaying: bool,
    /// It may be shown also while the feed is private.
    allowed: bool,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.overlay {
            self.watch.board().overlay_left();
        }
    }
}

enum CatchUp {
    /// Is not where the feed is yet.
    Starting(Box<Starting>),
    /// Follows the board.
    Following(Cursor),
}

/// How a watcher gets to where the feed is.
enum Starting {
    /// Waits for the board's first list, or for it to reach what is known to be acknowledged.
    Opening { since: Option<Position>, known: Option<Position>, until: MonoTime },
    /// Gets a snapshot as soon as the board is where the store was known to be.
    Stale { since: Position, known: Position, until: MonoTime },
    /// Reads history from the store, because the ring does not reach back far enough.
    Reading { since: Position, resumed: bool, page: PageRead },
}

impl From<Starting> for CatchUp {
    fn from(starting: Starting) -> CatchUp {
        CatchUp::Starting(Box::new(starting))
    }
}

/// A page of history that is being read.
type PageRead = Pin<Box<dyn Future<Output = Result<HistoryPage, StoreError>> + Send>>;

/// What the store says to a position that the ring does not lead on from.
enum HistoryPage {
    /// The next changes.
    Changes(Vec<Change>),
    /// History does not lead on either; this is the feed's position.
    NotCovered(Position),
}

impl Watching {
    /// From here on, as `options` say.
    pub(super) fn new(worker: &Rc<Worker>, feed: &FeedId, options: WatchOptions) -> Watching {
        let WatchOptions { since, spacing, omit, overlay } = options;
        let watch = worker.watch(feed);
        if overlay {
            watch.board().overlay_arrived();
        }
        let known = worker.live().store().known(feed);
        let phase = Starting::Opening { since, known, until: MonoTime::now() + FRESH_WITHIN }.into();
        Watching {
            watch,
            phase,
            ready: None,
            presence: 0,
            last_sent: MonoTime::now(),
            spacing: u32::try_from(spacing.as_micros()).unwrap_or(u32::MAX),
            omit,
            overlay,
            replaying: true,
            allowed: false,
        }
    }

    /// Which feed it is.
    #[inline]
    pub(super) fn feed(&self) -> &FeedId {
        self.watch.feed()
    }

    /// Whether it has not been where the feed is yet.
    #[inline]
    pub(super) fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// Whether it may be shown also while the feed is private.
    pub(super) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
    }

    /// What was handed out last ended behind this change, whatever was handed out: the rest is handed out again.
    pub(super) fn goes_back(&mut self, seq: u64) {
        if let CatchUp::Following(cursor) = &mut self.phase {
            cursor.at.seq = seq;
        }
    }

    /// The next frames that are owed, or pending: then `wake` is woken when there may be some. What is read from history
    /// counts for `address`.
    pub(super) fn next(
        &mut self,
        worker: &Worker,
        address: Option<IpAddr>,
        now: MonoTime,
        wake: &Wake,
    ) -> Poll<Rc<FrameBatch>> {
        loop {
            // Looked at again after every frame that was taken, since the feed may have turned private before that.
            if self.is_denied() {
                self.watch.wake_with(wake);
                // It may have turned public before there was anything to wake.
                if self.is_denied() {
                    return Poll::Pending;
                }
            }
            if let Some(batch) = self.ready.take() {
                self.last_sent = now;
                return Poll::Ready(batch);
            }
            // Registered before the board is looked at: a move in between wakes.
            self.watch.wake_with(wake);
            let starting = match &mut self.phase {
                CatchUp::Starting(starting) => &mut **starting,
                CatchUp::Following(_) => {
                    if self.follow(now).is_pending() {
                        return Poll::Pending;
                    }
                    continue;
                }
            };
            match starting {
                Starting::Opening { since, known, until } => {
                    let board = self.watch.board();
                    if board.position().is_none() || must_wait(board, known.as_ref(), *until, now) {
                        return Poll::Pending;
                    }
                    match board.start(since.as_ref(), self.omit) {
                        Start::NotReady => return Poll::Pending,
                        Start::At(cursor, frame) => {
                            self.phase = CatchUp::Following(cursor);
                            self.ready = Some(FrameBatch::one(frame));
                        }
                        Start::AskHistory => {
                            let since = since.clone().unwrap_or_else(Position::start);
                            self.phase = read(worker.live(), self.watch.feed(), address, since, false);
                        }
                    }
                }
                Starting::Stale { since, known, until } => {
                    let board = self.watch.board();
                    if must_wait(board, Some(known), *until, now) {
                        return Poll::Pending;
                    }
                    let (cursor, frame) = board.snapshot(Some(since), self.omit);
                    self.phase = CatchUp::Following(cursor);
                    self.ready = Some(FrameBatch::one(frame));
                }
                Starting::Reading { since, resumed, page } => {
                    let waker = worker.wakes().waker(wake);
                    let cx = &mut Context::from_waker(&waker);
                    let Poll::Ready(page) = Pin::new(page).poll(cx) else { return Poll::Pending };
                    let (since, resumed) = (since.clone(), *resumed);
                    self.turn_page(worker.live(), address, since, resumed, page.ok());
                }
            }
        }
    }

    /// Takes what is due to a watcher that is where the feed is; pending: nothing is.
    fn follow(&mut self, now: MonoTime) -> Poll<()> {
        let CatchUp::Following(cursor) = &mut self.phase else { return Poll::Ready(()) };
        let spacing = Duration::from_micros(self.spacing.into());
        let silence = now.since(self.last_sent);
        if silence < spacing {
            return Poll::Pending;
        }
        self.ready = Some(match self.watch.take(cursor, !spacing.is_zero(), self.omit) {
            Some(batch) => batch,
            None if silence >= KEEPALIVE => {
                let frame = Frame::keepalive(self.watch.feed(), &cursor.at, Millis::now());
                FrameBatch::one(Arc::new(frame))
            }
            None => {
                self.replaying = false;
                let Some((version, frame)) = self.watch.board().presence().after(self.presence) else {
                    return Poll::Pending;
                };
                self.presence = version;
                FrameBatch::one(frame)
            }
        });
        Poll::Ready(())
    }

    /// Whether the feed is known to be private, and may not be shown.
    #[inline]
    pub(super) fn is_denied(&self) -> bool {
        !self.allowed && self.watch.board().is_private()
    }

    /// One page of history came, or the store could not say (`None`).
    fn turn_page(
        &mut self,
        live: &Arc<Live>,
        address: Option<IpAddr>,
        since: Position,
        resumed: bool,
        page: Option<HistoryPage>,
    ) {
        let feed = self.watch.feed().clone();
        let until = MonoTime::now() + FRESH_WITHIN;
        let changes = match page {
            Some(HistoryPage::Changes(changes)) => changes,
            // A snapshot is right, once the board is where the store is.
            Some(HistoryPage::NotCovered(head)) => {
                live.bounds().settle_history(address, 0, MonoTime::now());
                self.phase = Starting::Stale { since, known: head, until }.into();
                return;
            }
            // Better none than one older than what the watcher has from another node.
            None => {
                let here = self.watch.board().position();
                let behind = here.is_some_and(|at| at.epoch == since.epoch && at.seq < since.seq);
                self.phase = match behind {
                    true => {
                        Starting::Opening { known: Some(since.clone()), since: Some(since), until }.into()
                    }
                    false => Starting::Stale { known: since.clone(), since, until: MonoTime::now() }.into(),
                };
                return;
            }
        };
        let mut frames = Vec::with_capacity(2);
        if !resumed {
            live.metrics().resumes[ResumedFrom::History].inc();
            frames.push(Arc::new(Frame::resumed(&feed, &since)));
        }
        let mut at = since;
        let mut bytes = 0;
        if let Some(last) = changes.last() {
            let frame = Arc::new(Frame::delta(&feed, &at.epoch, &changes));
            bytes = frame.len();
            frames.push(frame.omitting(self.omit));
            at.seq = last.seq;
        }
        live.bounds().settle_history(address, bytes, MonoTime::now());
        let cursor = self.watch.board().cursor(at.clone());
        // An empty page is the end of history: the board may be a moment behind the store.
        self.phase = match changes.is_empty() || self.watch.board().reaches(&cursor) {
            true => CatchUp::Following(cursor),
            false => read(live, &feed, address, at, true),
        };
        self.ready = (!frames.is_empty()).then(|| FrameBatch::of(frames, false));
    }

    /// When it should be asked again even if nothing woke it.
    #[inline]
    pub(super) fn deadline(&self, now: MonoTime) -> MonoTime {
        if let CatchUp::Starting(starting) = &self.phase {
            match &**starting {
                Starting::Opening { until, .. } | Starting::Stale { until, .. } if *until > now => {
                    return *until;
                }
                // Only a move of the board helps, and that wakes.
                Starting::Opening { .. } | Starting::Stale { .. } => return now + KEEPALIVE,
                Starting::Reading { .. } => {}
            }
        }
        let (sent, spacing) = (self.last_sent, Duration::from_micros(self.spacing.into()));
        match sent + spacing > now {
            true => sent + spacing.min(KEEPALIVE),
            false => sent + KEEPALIVE,
        }
    }
}

/// Reads the next page of history, unless its budget is used up: then the watcher gets a snapshot, which is never older
/// than what it has.
fn read(live: &Arc<Live>, feed: &FeedId, address: Option<IpAddr>, since: Position, resumed: bool) -> CatchUp {
    let now = MonoTime::now();
    if !live.bounds().reserve_history(address, now) {
        return Starting::Stale { known: since.clone(), since, until: now + FRESH_WITHIN }.into();
    }
    let (store, feed, from) = (live.store().clone(), feed.clone(), since.clone());
    let page = Box::pin(async move {
        if let Missed::Changes(changes) = store.read_changes(&feed, &from, CHANGES_PER_READ).await? {
            return Ok(HistoryPage::Changes(changes));
        }
        let head = store.read_heads(&[feed]).await?.into_iter().next().transpose()?;
        Ok(HistoryPage::NotCovered(head.map_or_else(Position::start, |head| head.at)))
    });
    Starting::Reading { since, resumed, page }.into()
}

/// True while the board is not yet where the feed is known to be. What the board still gathers is
/// asked for at once: a newcomer has waited long enough.
fn must_wait(board: &Board, known: Option<&Position>, until: MonoTime, now: MonoTime) -> bool {
    let behind = match (known, board.position()) {
        (Some(known), Some(at)) => at.epoch != known.epoch || at.seq < known.seq,
        _ => false,
    };
    if behind && now < until {
        board.hurry();
        return true;
    }
    false
}
