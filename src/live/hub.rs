//! One per worker thread: passes a board's moves on to the watchers of its thread. A move crosses
//! threads once per worker, never once per watcher.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::task::JoinHandle;

use super::board::Board;
use super::{Lease, Live};
use crate::domain::FeedId;

/// How exact deadlines of connections are. One timer a worker serves them all.
const TICK: Duration = Duration::from_millis(250);

/// Goodbyes go out in batches this far apart.
const BETWEEN_GOODBYES: Duration = Duration::from_millis(20);

/// The watchers of one worker thread.
pub struct Hub {
    live: Arc<Live>,
    feeds: RefCell<HashMap<FeedId, Weak<LocalFeed>>>,
    alarms: RefCell<Slab<Alarm>>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    closing: Cell<bool>,
}

/// A feed that this thread watches.
struct LocalFeed {
    lease: Lease,
    hub: Weak<Hub>,
    wakers: RefCell<Slab<Option<Waker>>>,
    moves: RefCell<Option<JoinHandle<()>>>,
}

struct Alarm {
    at: Instant,
    waker: Option<Waker>,
    /// It is this connection's turn to say goodbye.
    leaving: bool,
}

impl Hub {
    /// For the current thread, which must run a `LocalSet` (an actix worker does).
    pub fn start(live: Arc<Live>) -> Rc<Hub> {
        let hub = Rc::new(Hub {
            live: live.clone(),
            feeds: RefCell::default(),
            alarms: RefCell::default(),
            tasks: RefCell::default(),
            closing: Cell::new(false),
        });
        let ticker = tokio::task::spawn_local(tick(Rc::downgrade(&hub)));
        let closer = tokio::task::spawn_local(close(Rc::downgrade(&hub), live));
        *hub.tasks.borrow_mut() = vec![ticker, closer];
        hub
    }

    /// The watched feeds of the node.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Watches a feed on this thread.
    pub(super) fn watch(self: &Rc<Self>, feed: &FeedId) -> Watch {
        let known = self.feeds.borrow().get(feed).and_then(Weak::upgrade);
        let local = known.unwrap_or_else(|| {
            let lease = self.live.lease(feed);
            let mut moves = lease.board.moves();
            let local = Rc::new(LocalFeed {
                lease,
                hub: Rc::downgrade(self),
                wakers: RefCell::default(),
                moves: RefCell::default(),
            });
            let weak = Rc::downgrade(&local);
            let task = tokio::task::spawn_local(async move {
                while moves.changed().await.is_ok() {
                    let Some(local) = weak.upgrade() else { return };
                    local.wake_all();
                }
            });
            *local.moves.borrow_mut() = Some(task);
            self.feeds.borrow_mut().insert(feed.clone(), Rc::downgrade(&local));
            local
        });
        let slot = local.wakers.borrow_mut().insert(None);
        Watch { local, slot }
    }

    /// Waits until the feed's list is there; false when it is not within `time`.
    pub async fn has_list(self: &Rc<Self>, feed: &FeedId, time: Duration) -> bool {
        let watch = self.watch(feed);
        let mut moves = watch.board().moves();
        let listed = moves.wait_for(|_| watch.board().position().is_some());
        tokio::time::timeout(time, listed).await.is_ok_and(|moved| moved.is_ok())
    }

    /// A deadline of one connection. Woken up to a quarter of a second late.
    pub fn alarm(self: &Rc<Self>) -> AlarmClock {
        let at = Instant::now() + Duration::from_secs(3600);
        let slot = self.alarms.borrow_mut().insert(Alarm { at, waker: None, leaving: self.closing.get() });
        self.live.watchers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        AlarmClock { hub: self.clone(), slot }
    }

    fn ring(&self, due: impl Fn(&Alarm) -> bool) {
        // Woken after the borrow ends: waking may drop a connection, which then borrows to leave.
        let woken: Vec<Waker> = {
            let mut alarms = self.alarms.borrow_mut();
            alarms
                .iter_mut()
                .filter(|(_, alarm)| due(alarm))
                .filter_map(|(_, alarm)| alarm.waker.take())
                .collect()
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(JoinHandle::abort);
    }
}

impl LocalFeed {
    fn wake_all(&self) {
        // Woken after the borrow ends, as in `Hub::ring`.
        let woken: Vec<Waker> =
            self.wakers.borrow_mut().iter_mut().filter_map(|(_, waker)| waker.take()).collect();
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for LocalFeed {
    fn drop(&mut self) {
        if let Some(task) = self.moves.get_mut() {
            task.abort();
        }
        if let Some(hub) = self.hub.upgrade() {
            let mut feeds = hub.feeds.borrow_mut();
            let feed = self.lease.board.feed();
            // A newer entry of the same name is somebody else's.
            if feeds.get(feed).is_some_and(|known| known.strong_count() == 0) {
                feeds.remove(feed);
            }
        }
    }
}

/// One watcher's place at a feed.
pub(super) struct Watch {
    local: Rc<LocalFeed>,
    slot: usize,
}

impl Watch {
    pub(super) fn feed(&self) -> &FeedId {
        self.local.lease.board.feed()
    }

    pub(super) fn board(&self) -> &Board {
        &self.local.lease.board
    }

    /// Wakes the task at the board's next move.
    pub(super) fn wake_with(&self, waker: &Waker) {
        let mut wakers = self.local.wakers.borrow_mut();
        if let Some(slot) = wakers.get_mut(self.slot)
            && !slot.as_ref().is_some_and(|known| known.will_wake(waker))
        {
            *slot = Some(waker.clone());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut wakers = self.local.wakers.borrow_mut();
        wakers.try_remove(self.slot);
        if wakers.len() * 4 < wakers.capacity() {
            wakers.shrink_to_fit();
        }
    }
}

/// A connection's one deadline, served by the worker's tick.
pub struct AlarmClock {
    hub: Rc<Hub>,
    slot: usize,
}

impl AlarmClock {
    /// True once this connection should say goodbye.
    pub fn is_leaving(&self) -> bool {
        self.hub.alarms.borrow().get(self.slot).is_some_and(|alarm| alarm.leaving)
    }

    /// Wakes the task at `at`, or when it should say goodbye.
    pub fn set(&self, at: Instant, waker: &Waker) {
        if let Some(alarm) = self.hub.alarms.borrow_mut().get_mut(self.slot) {
            alarm.at = at;
            if !alarm.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                alarm.waker = Some(waker.clone());
            }
        }
    }
}

impl Drop for AlarmClock {
    fn drop(&mut self) {
        self.hub.alarms.borrow_mut().try_remove(self.slot);
        self.hub.live.watchers.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

async fn tick(hub: Weak<Hub>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(hub) = hub.upgrade() else { return };
        let now = Instant::now();
        hub.ring(|alarm| alarm.at <= now);
    }
}

async fn close(hub: Weak<Hub>, live: Arc<Live>) {
    let mut closing = live.closing.subscribe();
    let time = match closing.wait_for(|closing| closing.is_some()).await {
        Ok(time) => time.unwrap_or_default(),
        Err(_) => return,
    };
    let Some(hub) = hub.upgrade() else { return };
    hub.closing.set(true);
    let begun = Instant::now();
    // Who comes from here on is leaving already, so these are all that must be told.
    let slots: Vec<usize> = hub.alarms.borrow().iter().map(|(slot, _)| slot).collect();
    let mut told = 0;
    while told < slots.len() {
        let due = match begun.elapsed() {
            elapsed if elapsed >= time => slots.len(),
            elapsed => (elapsed.as_secs_f64() / time.as_secs_f64() * slots.len() as f64) as usize,
        };
        for slot in &slots[told..due] {
            // A slot that was freed meanwhile may be a newcomer's, who is leaving anyway.
            let waker = hub.alarms.borrow_mut().get_mut(*slot).and_then(|alarm| {
                alarm.leaving = true;
                alarm.waker.take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        told = due;
        tokio::time::sleep(BETWEEN_GOODBYES).await;
    }
}
