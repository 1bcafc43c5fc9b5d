//! One connection's watching, without I/O: what it asked for, what it is owed, in what order.
//!
//! The transport asks [`Session::next`] whenever its socket can take bytes, and polls again when
//! the worker wakes it. WebSocket and SSE differ only in how they spell the frames.

use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use super::batch::FrameBatch;
use super::board::{Board, Cursor, Start};
use super::bounds::{Admission, Refused, Used};
use super::feeds::Live;
use super::frame::{Encoding, Frame, KEEPALIVE_MS};
use super::local::Watch;
use super::moment::Moment;
use super::wake::Wake;
use super::worker::Worker;
use crate::domain::{Change, FeedId, Millis, Omit, Position};
use crate::engine::{Missed, Wait};
use crate::metrics::labels::{Bound, ResumedFrom};

/// Feeds that one connection may watch.
pub const FEEDS: usize = 64;

/// Changes read from history at once for one watcher: what it costs while it catches up.
const PAGE: usize = 256;

/// How long a newcomer waits for the board to reach what this node knows to be acknowledged.
const FRESH_WITHIN: Duration = Duration::from_secs(1);

/// One second early, so that a tick of a second still keeps the promise.
const KEEPALIVE: Duration = Duration::from_millis(KEEPALIVE_MS - 1000);

/// A connection's watching. Belongs to one worker thread.
pub struct Session {
    worker: Rc<Worker>,
    /// Most sockets watch one feed, which then needs no allocation of its own.
    watches: SmallVec<[Watching; 1]>,
    /// Whose turn it is: no feed starves another on the same socket.
    turn: u32,
    /// Whom it counts for; none when it is not limited.
    address: Option<IpAddr>,
    /// Commands that came, of what may.
    commands: Used,
    /// Bytes of snapshots and missed changes that were sent, of what may.
    replayed: Used,
}

/// How a feed is to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The position that the client has.
    pub since: Option<Position>,
    /// The least time between two deliveries; zero: no such bound.
    pub spacing: Duration,
    /// What it is not told of.
    pub omit: Omit,
    /// It says that it is an overlay, and counts as one.
    pub overlay: bool,
}

struct Watching {
    watch: Watch,
    phase: Phase,
    ready: Option<Rc<FrameBatch>>,
    /// The version of presence that the watcher was told last.
    presence: u64,
    last_sent: Moment,
    /// Least time between two deliveries, from `max_hz`, in microseconds.
    spacing: u32,
    /// What it is not told of.
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

// An idle watcher is hardly more than one of these.
const _: () = assert!(size_of::<Watching>() <= 80 && size_of::<Session>() <= 136);

/// Why a session does not watch another feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// [`FEEDS`] are watched on this connection.
    Connection,
    /// A bound was met.
    Bound(Refused),
}

enum Phase {
    /// Is not where the feed is yet.
    Starting(Box<Starting>),
    /// Follows the board.
    Following(Cursor),
}

/// How a watcher gets to where the feed is.
enum Starting {
    /// Waits for the board's first list, or for it to reach what is known to be acknowledged.
    Opening { since: Option<Position>, known: Option<Position>, until: Moment },
    /// Gets a snapshot as soon as the board is where the store was known to be.
    Stale { since: Position, known: Position, until: Moment },
    /// Reads history from the engine, because the ring does not reach back far enough.
    Reading { since: Position, resumed: bool, page: Wait<'static, HistoryPage> },
}

impl From<Starting> for Phase {
    fn from(starting: Starting) -> Phase {
        Phase::Starting(Box::new(starting))
    }
}

/// What the engine says to a position that the ring does not lead on from.
enum HistoryPage {
    /// The next changes.
    Changes(Vec<Change>),
    /// History does not lead on either; the feed stands here.
    NotCovered(Position),
}

impl Session {
    /// A session that watches nothing yet. `address`: whom it counts for; none when it is not limited.
    pub fn new(worker: Rc<Worker>, address: Option<IpAddr>) -> Self {
        let nothing = Used::nothing(Moment::now());
        Session { worker, watches: SmallVec::new(), turn: 0, address, commands: nothing, replayed: nothing }
    }

    /// Whether another command may come now: so many in a second.
    pub fn may_command(&mut self, now: Moment) -> bool {
        let rate = self.worker.live().bounds().limits().commands;
        let may = self.commands.up_until(rate, now).is_none();
        match may {
            true => self.commands.charge(rate, 1, now),
            false => self.worker.live().bounds().met(Bound::Commands),
        }
        may
    }

    /// Feeds watched now.
    pub fn len(&self) -> usize {
        self.watches.len()
    }

    /// True when nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Starts to watch, from `options.since` where that is covered. Watching a feed again starts it anew.
    pub fn subscribe(&mut self, feed: &FeedId, options: WatchOptions) -> Result<(), Full> {
        self.unsubscribe(feed);
        if self.watches.len() >= FEEDS {
            return Err(Full::Connection);
        }
        let admission = self.worker.live().admit(self.address, feed).map_err(Full::Bound)?;
        self.watch(feed, options, admission);
        Ok(())
    }

    /// Starts to watch what was admitted before, for this session's address.
    pub fn watch(&mut self, feed: &FeedId, options: WatchOptions, admission: Admission) {
        let WatchOptions { since, spacing, omit, overlay } = options;
        let watch = self.worker.watch(feed);
        if overlay {
            watch.board().overlay_arrived();
        }
        let known = self.worker.live().engine().known(feed);
        let phase = Starting::Opening { since, known, until: Moment::now() + FRESH_WITHIN }.into();
        admission.take_over();
        self.watches.push(Watching {
            watch,
            phase,
            ready: None,
            presence: 0,
            last_sent: Moment::now(),
            spacing: u32::try_from(spacing.as_micros()).unwrap_or(u32::MAX),
            omit,
            overlay,
            replaying: true,
            allowed: false,
        });
    }

    /// The feeds that are watched.
    pub fn feeds(&self) -> impl Iterator<Item = &FeedId> {
        self.watches.iter().map(|watching| watching.watch.feed())
    }

    /// Says which of the watched feeds may be shown also while they are private. Nothing of a private feed is
    /// handed out before.
    pub fn allow(&mut self, may_see: impl Fn(&FeedId) -> bool) {
        for watching in &mut self.watches {
            watching.allowed = may_see(watching.watch.feed());
        }
    }

    /// A watched feed that is private and may not be shown.
    #[inline]
    pub fn denied(&self) -> Option<&FeedId> {
        self.watches.iter().find(|watching| watching.is_denied()).map(|watching| watching.watch.feed())
    }

    /// Stops watching a feed.
    pub fn unsubscribe(&mut self, feed: &FeedId) {
        let watched = self.watches.len();
        self.watches.retain(|watching| watching.watch.feed() != feed);
        self.give_back(watched - self.watches.len());
    }

    fn give_back(&self, admissions: usize) {
        (0..admissions).for_each(|_| self.worker.live().bounds().give_back(self.address));
    }

    /// The worker whose session this is.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// The next frames that are owed, or pending: then `wake` is woken when there may be some. What is handed
    /// out counts as sent.
    pub fn next(&mut self, now: Moment, wake: &Wake) -> Poll<Rc<FrameBatch>> {
        let feeds = self.watches.len();
        for n in 0..feeds {
            let at = (self.turn as usize + n) % feeds;
            if self.watches[at].replaying && self.must_pause(now).is_some() {
                continue;
            }
            if let Poll::Ready(batch) = self.watches[at].next(&self.worker, now, wake) {
                self.turn = at as u32;
                if self.watches[at].replaying {
                    self.charge(&batch, now);
                }
                return Poll::Ready(batch);
            }
        }
        Poll::Pending
    }

    /// Until when nothing more is sent to watchers who are not where their feed is.
    #[inline]
    fn must_pause(&self, now: Moment) -> Option<Moment> {
        self.replayed.up_until(self.worker.live().bounds().limits().replay_bytes, now)
    }

    fn charge(&mut self, batch: &FrameBatch, now: Moment) {
        let rate = self.worker.live().bounds().limits().replay_bytes;
        self.replayed.charge(rate, batch.len(), now);
        if self.replayed.up_until(rate, now).is_some() {
            self.worker.live().bounds().met(Bound::ReplayBytes);
        }
    }

    /// The socket took only `sent` bytes of the newest frames: what must follow first. Frames behind
    /// that are not kept, they are handed out again, as they are then.
    pub fn unsent(&mut self, batch: &FrameBatch, encoding: Encoding, sent: usize) -> Bytes {
        let (rest, back) = batch.rest(encoding, sent);
        if let Some(seq) = back
            && let Some(Watching { phase: Phase::Following(cursor), .. }) =
                self.watches.get_mut(self.turn as usize)
        {
            cursor.at.seq = seq;
        }
        rest
    }

    /// When [`Session::next`] should be asked again even if nothing woke the task.
    #[inline]
    pub fn deadline(&self, now: Moment) -> Moment {
        let pause = self.must_pause(now);
        let soonest = self.watches.iter().map(|watching| match pause.filter(|_| watching.replaying) {
            Some(until) => until,
            None => watching.deadline(now),
        });
        let soonest = soonest.min();
        soonest.unwrap_or_else(|| now + KEEPALIVE)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_back(self.watches.len());
    }
}

impl Watching {
    fn next(&mut self, worker: &Worker, now: Moment, wake: &Wake) -> Poll<Rc<FrameBatch>> {
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
                Phase::Starting(starting) => &mut **starting,
                Phase::Following(_) => {
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
                            self.phase = Phase::Following(cursor);
                            self.ready = Some(FrameBatch::one(frame));
                        }
                        Start::AskHistory => {
                            let since = since.clone().unwrap_or_else(Position::start);
                            self.phase = read(worker.live(), self.watch.feed(), since, false);
                        }
                    }
                }
                Starting::Stale { since, known, until } => {
                    let board = self.watch.board();
                    if must_wait(board, Some(known), *until, now) {
                        return Poll::Pending;
                    }
                    let (cursor, frame) = board.snapshot(Some(since), self.omit);
                    self.phase = Phase::Following(cursor);
                    self.ready = Some(FrameBatch::one(frame));
                }
                Starting::Reading { since, resumed, page } => {
                    let waker = worker.wakes().waker(wake);
                    let cx = &mut Context::from_waker(&waker);
                    let Poll::Ready(page) = Pin::new(page).poll(cx) else { return Poll::Pending };
                    let (since, resumed) = (since.clone(), *resumed);
                    self.turn_page(worker.live(), since, resumed, page.ok());
                }
            }
        }
    }

    /// Takes what is due to a watcher that is where the feed is; pending: nothing is.
    fn follow(&mut self, now: Moment) -> Poll<()> {
        let Phase::Following(cursor) = &mut self.phase else { return Poll::Ready(()) };
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
                let Some((version, frame)) = self.watch.board().presence_after(self.presence) else {
                    return Poll::Pending;
                };
                self.presence = version;
                FrameBatch::one(frame)
            }
        });
        Poll::Ready(())
    }

    /// Whether the feed is known to be private, and may not be shown.
    fn is_denied(&self) -> bool {
        !self.allowed && self.watch.board().is_private()
    }

    /// One page of history came, or the engine could not say (`None`).
    fn turn_page(&mut self, live: &Arc<Live>, since: Position, resumed: bool, page: Option<HistoryPage>) {
        let feed = self.watch.feed().clone();
        let until = Moment::now() + FRESH_WITHIN;
        let changes = match page {
            Some(HistoryPage::Changes(changes)) => changes,
            // A snapshot is right, once the board is where the store is.
            Some(HistoryPage::NotCovered(head)) => {
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
                    false => Starting::Stale { known: since.clone(), since, until: Moment::now() }.into(),
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
        if let Some(last) = changes.last() {
            frames.push(Arc::new(Frame::delta(&feed, &at.epoch, &changes)).omitting(self.omit));
            at.seq = last.seq;
        }
        let cursor = self.watch.board().cursor(at.clone());
        // An empty page is the end of history: the board may be a moment behind the store.
        self.phase = match changes.is_empty() || self.watch.board().reaches(&cursor) {
            true => Phase::Following(cursor),
            false => read(live, &feed, at, true),
        };
        self.ready = (!frames.is_empty()).then(|| FrameBatch::of(frames, false));
    }

    #[inline]
    fn deadline(&self, now: Moment) -> Moment {
        if let Phase::Starting(starting) = &self.phase {
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

fn read(live: &Arc<Live>, feed: &FeedId, since: Position, resumed: bool) -> Phase {
    let (engine, feed, from) = (live.engine().clone(), feed.clone(), since.clone());
    let page = Box::pin(async move {
        if let Missed::Changes(changes) = engine.changes(&feed, &from, PAGE).await? {
            return Ok(HistoryPage::Changes(changes));
        }
        let head = engine.heads(&[feed]).await?.into_iter().next().transpose()?;
        Ok(HistoryPage::NotCovered(head.map_or_else(Position::start, |head| head.at)))
    });
    Starting::Reading { since, resumed, page }.into()
}

/// True while the board is not yet where the feed is known to be. What the board still gathers is
/// asked for at once: a newcomer has waited long enough.
fn must_wait(board: &Board, known: Option<&Position>, until: Moment, now: Moment) -> bool {
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
