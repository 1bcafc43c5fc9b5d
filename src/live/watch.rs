//! A feed as one thread watches it: who is woken when its board moves, and what is due for those who
//! stand at the same position, made once for all of them.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use slab::Slab;
use tokio::task::JoinHandle;

use super::Lease;
use super::board::{Board, Cursor, Due};
use super::calls::Wake;
use super::hub::Hub;
use super::run::Run;
use crate::domain::FeedId;
use crate::supervise::{Part, faults};

/// A feed that this thread watches.
pub(super) struct LocalFeed {
    lease: Lease,
    hub: Weak<Hub>,
    wakes: RefCell<Slab<Option<Wake>>>,
    moves: RefCell<Option<JoinHandle<()>>>,
    shared: RefCell<Shared>,
}

/// What cursors of one version of the board are due.
#[derive(Default)]
struct Shared {
    version: u64,
    /// At least one cursor has nothing due here.
    end: Option<Cursor>,
    /// By where they begin. The board's ring and [`Board::take`] bound them.
    runs: Vec<(Cursor, Rc<Run>)>,
}

impl LocalFeed {
    pub(super) fn follow(hub: &Rc<Hub>, lease: Lease) -> Rc<LocalFeed> {
        let (moves, parts) = (lease.board.moves(), hub.live().parts().clone());
        let local = Rc::new(LocalFeed {
            lease,
            hub: Rc::downgrade(hub),
            wakes: RefCell::default(),
            moves: RefCell::default(),
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
        let Some(hub) = self.hub.upgrade() else { return };
        // What was shared before is out of date, and is not kept while nobody asks.
        *self.shared.borrow_mut() = Shared::default();
        let mut tasks = Vec::new();
        for (_, wake) in self.wakes.borrow_mut().iter_mut() {
            match wake {
                // Sockets stay called until they leave; tasks say each time that they wait.
                Some(Wake::Socket(socket)) => hub.calls().call(*socket),
                Some(Wake::Task(_)) => tasks.extend(wake.take()),
                None => {}
            }
        }
        // Woken after the borrow ends: waking may drop a connection, which then borrows to leave.
        tasks.into_iter().for_each(|wake| hub.wake(wake));
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        if let Some(task) = self.moves.get_mut() {
            task.abort();
        }
        if let Some(hub) = self.hub.upgrade() {
            hub.unwatch(self.lease.board.feed());
        }
    }
}

/// One watcher's place at a feed.
pub(super) struct Watch {
    local: Rc<LocalFeed>,
    slot: usize,
    /// The socket that is called at every move from now on.
    socket: Cell<Option<u32>>,
}

impl Watch {
    pub(super) fn at(local: Rc<LocalFeed>) -> Watch {
        let slot = local.wakes.borrow_mut().insert(None);
        local.lease.board.arrived();
        Watch { local, slot, socket: Cell::new(None) }
    }

    pub(super) fn feed(&self) -> &FeedId {
        self.local.lease.board.feed()
    }

    pub(super) fn board(&self) -> &Board {
        &self.local.lease.board
    }

    /// Wakes at the board's next move; a socket, at every one.
    pub(super) fn wake_with(&self, wake: &Wake) {
        let socket = match wake {
            Wake::Socket(socket) => Some(*socket),
            Wake::Task(_) => None,
        };
        if socket.is_some() && self.socket.replace(socket) == socket {
            return;
        }
        let mut wakes = self.local.wakes.borrow_mut();
        if let Some(slot) = wakes.get_mut(self.slot)
            && !slot.as_ref().is_some_and(|known| known.same(wake))
        {
            *slot = Some(wake.clone());
        }
    }

    /// What is due for a cursor, which moves past it; see [`Board::take`]. Asked by a thousand
    /// watchers in turn, the board is locked once.
    pub(super) fn take(&self, cursor: &mut Cursor, joined: bool) -> Option<Rc<Run>> {
        let board = self.board();
        // Read first: what moves from here on wakes everybody again.
        let version = board.version();
        let mut shared = self.local.shared.borrow_mut();
        if shared.version != version {
            *shared = Shared { version, ..Shared::default() };
        }
        if shared.end.as_ref() == Some(cursor) {
            return None;
        }
        if !joined && let Some((_, run)) = shared.runs.iter().find(|(from, _)| from == cursor) {
            cursor.at.seq = run.last();
            return Some(run.clone());
        }
        let from = (!joined).then(|| cursor.clone());
        match board.take(cursor, joined) {
            Due::Nothing => {
                shared.end = Some(cursor.clone());
                None
            }
            Due::Snapshot(frame) => Some(Run::one(frame)),
            Due::Frames(frames) => {
                let run = Run::of(frames, true);
                shared.runs.extend(from.map(|from| (from, run.clone())));
                Some(run)
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.board().left();
        let mut wakes = self.local.wakes.borrow_mut();
        wakes.try_remove(self.slot);
        if wakes.len() * 4 < wakes.capacity() {
            wakes.shrink_to_fit();
        }
    }
}
