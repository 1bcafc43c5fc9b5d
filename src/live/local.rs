//! The feeds that the watchers of one thread watch: which of them are woken when a board moves, and the
//! frames that are due to all who stand at the same position, joined once for all of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use slab::Slab;
use tokio::task::JoinHandle;

use super::batch::FrameBatch;
use super::board::{Board, Cursor, CursorDue};
use super::feeds::{Lease, Live};
use super::wake::{Wake, WakeQueue};
use crate::domain::{FeedId, Omit};
use crate::supervise::{Part, Parts, faults};

/// The feeds watched on one thread, by name.
pub(super) struct LocalFeeds {
    wakes: Rc<WakeQueue>,
    by_name: RefCell<HashMap<FeedId, Weak<LocalFeed>>>,
}

impl LocalFeeds {
    /// None yet; sockets that have something to do are put into `wakes`.
    pub(super) fn new(wakes: Rc<WakeQueue>) -> Rc<LocalFeeds> {
        Rc::new(LocalFeeds { wakes, by_name: RefCell::default() })
    }

    /// Whether a feed is followed here, and its list is there.
    pub(super) fn has_list(&self, feed: &FeedId) -> bool {
        let known = self.by_name.borrow().get(feed).and_then(Weak::upgrade);
        known.is_some_and(|local| local.lease.is_listed())
    }

    /// A new watcher of a feed, which is followed for as long as it has watchers.
    pub(super) fn watch(self: &Rc<Self>, live: &Arc<Live>, feed: &FeedId) -> Watch {
        let known = self.by_name.borrow().get(feed).and_then(Weak::upgrade);
        let local = known.unwrap_or_else(|| {
            let local = LocalFeed::follow(self, live.lease(feed), live.parts().clone());
            self.by_name.borrow_mut().insert(feed.clone(), Rc::downgrade(&local));
            local
        });
        Watch::at(local)
    }
}

/// A feed that this thread watches.
struct LocalFeed {
    lease: Lease,
    feeds: Rc<LocalFeeds>,
    waiting: RefCell<Slab<Option<Wake>>>,
    moves: RefCell<Option<JoinHandle<()>>>,
    /// Changes of the board up to which watchers were woken.
    appended: Cell<u64>,
    shared: RefCell<SharedDelivery>,
}

/// What one version of the board owes to cursors, worked out once for all that stand at the same place.
#[derive(Default)]
struct SharedDelivery {
    version: u64,
    /// A cursor to which nothing is owed.
    end: Option<Cursor>,
    /// By the cursor at which each begins, and what it leaves out. The board's ring and [`Board::take`] bound
    /// their number and size.
    batches: Vec<(Cursor, Omit, Rc<FrameBatch>)>,
}

impl LocalFeed {
    fn follow(feeds: &Rc<LocalFeeds>, lease: Lease, parts: Arc<Parts>) -> Rc<LocalFeed> {
        let (moves, appended) = (lease.board().moves(), lease.board().appended());
        let local = Rc::new(LocalFeed {
            lease,
            feeds: feeds.clone(),
            waiting: RefCell::default(),
            moves: RefCell::default(),
            appended: Cell::new(appended),
            shared: RefCell::default(),
        });
        let weak = Rc::downgrade(&local);
        let task = tokio::task::spawn_local(parts.keep(Part::Moves, move |_| {
            let (weak, mut moves) = (weak.clone(), moves.clone());
            // A run that panicked may have passed the last move on to some only.
            moves.mark_changed();
            async move {
                while moves.changed().await.is_ok() {
                    let Some(local) = weak.upgrade() else { return };
                    faults::pass("moves").await;
                    local.wake_all();
                }
            }
        }));
        *local.moves.borrow_mut() = Some(task);
        local
    }

    fn wake_all(&self) {
        // What was shared before is out of date, and is not kept while nobody asks.
        *self.shared.borrow_mut() = SharedDelivery::default();
        let appended = self.lease.board().appended();
        let changes = appended - self.appended.replace(appended);
        self.feeds.wakes.owe(changes * self.waiting.borrow().len() as u64);
        let mut tasks = Vec::new();
        for (_, wake) in self.waiting.borrow_mut().iter_mut() {
            match wake {
                // A socket stays registered until it leaves; a task registers again each time it waits.
                Some(Wake::Socket(socket)) => self.feeds.wakes.push(*socket),
                Some(Wake::Task(_)) => tasks.extend(wake.take()),
                None => {}
            }
        }
        // Woken after the borrow ends: waking may drop a connection, which then borrows to leave.
        tasks.into_iter().for_each(|wake| self.feeds.wakes.wake(wake));
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        if let Some(task) = self.moves.get_mut() {
            task.abort();
        }
        let mut feeds = self.feeds.by_name.borrow_mut();
        let name = self.lease.feed();
        // An entry that is alive is a newer one of the same name.
        if feeds.get(name).is_some_and(|known| known.strong_count() == 0) {
            feeds.remove(name);
        }
    }
}

/// One watcher of a feed.
pub(super) struct Watch {
    local: Rc<LocalFeed>,
    slot: u32,
    /// The socket that is woken at every move from now on; [`NO_SOCKET`] before.
    socket: Cell<u32>,
}

/// No socket has this number.
const NO_SOCKET: u32 = u32::MAX;

impl Watch {
    fn at(local: Rc<LocalFeed>) -> Watch {
        // A thread has fewer sockets than this can count.
        let slot = local.waiting.borrow_mut().insert(None) as u32;
        local.lease.board().arrived();
        Watch { local, slot, socket: Cell::new(NO_SOCKET) }
    }

    pub(super) fn feed(&self) -> &FeedId {
        self.local.lease.board().feed()
    }

    pub(super) fn board(&self) -> &Board {
        self.local.lease.board()
    }

    /// Wakes a task at the board's next move, a socket at every move from now on.
    #[inline]
    pub(super) fn wake_with(&self, wake: &Wake) {
        let socket = match wake {
            Wake::Socket(socket) => *socket,
            Wake::Task(_) => NO_SOCKET,
        };
        if socket != NO_SOCKET && self.socket.replace(socket) == socket {
            return;
        }
        let mut wakes = self.local.waiting.borrow_mut();
        if let Some(slot) = wakes.get_mut(self.slot as usize)
            && !slot.as_ref().is_some_and(|known| known.same(wake))
        {
            *slot = Some(wake.clone());
        }
    }

    /// What is due for a cursor, which moves past it; see [`Board::take`]. Asked by a thousand
    /// watchers in turn, the board is locked once.
    #[inline]
    pub(super) fn take(&self, cursor: &mut Cursor, joined: bool, omit: Omit) -> Option<Rc<FrameBatch>> {
        let board = self.board();
        // Read first: what moves from here on wakes everybody again.
        let version = board.version();
        let mut shared = self.local.shared.borrow_mut();
        if shared.version != version {
            *shared = SharedDelivery { version, ..SharedDelivery::default() };
        }
        if shared.end.as_ref() == Some(cursor) {
            return None;
        }
        let owed = |(from, without, _): &&(Cursor, Omit, _)| from == cursor && *without == omit;
        if !joined && let Some((.., batch)) = shared.batches.iter().find(owed) {
            cursor.at.seq = batch.last();
            return Some(batch.clone());
        }
        let from = (!joined).then(|| cursor.clone());
        match board.take(cursor, joined, omit) {
            CursorDue::Nothing => {
                shared.end = Some(cursor.clone());
                None
            }
            CursorDue::Snapshot(frame) => Some(FrameBatch::one(frame)),
            CursorDue::Frames(frames) => {
                let batch = FrameBatch::of(frames, true);
                shared.batches.extend(from.map(|from| (from, omit, batch.clone())));
                Some(batch)
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.board().left();
        let mut wakes = self.local.waiting.borrow_mut();
        wakes.try_remove(self.slot as usize);
        if wakes.len() * 4 < wakes.capacity() {
            wakes.shrink_to_fit();
        }
    }
}
