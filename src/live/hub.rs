//! One per worker thread: passes a board's moves on to the watchers of its thread. A move crosses
//! threads once per worker, never once per watcher.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::calls::Calls;
use super::watch::LocalFeed;
use super::wheel::{NEVER, Wheel};
use super::{Live, watch};
use crate::domain::FeedId;
use crate::supervise::{Part, faults};

pub use super::calls::Wake;
pub(super) use super::watch::Watch;

/// Goodbyes go out in batches this far apart.
const BETWEEN_GOODBYES: Duration = Duration::from_millis(20);

/// The watchers of one worker thread.
pub struct Hub {
    live: Arc<Live>,
    feeds: RefCell<HashMap<FeedId, Weak<LocalFeed>>>,
    alarms: RefCell<Slab<Alarm>>,
    wheel: RefCell<Wheel>,
    /// Told when the wheel's next tick has come closer.
    closer: Rc<Notify>,
    /// Sockets that are to be asked.
    calls: Rc<Calls>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    closing: Cell<bool>,
}

struct Alarm {
    at: Instant,
    /// The tick under which the wheel has it, or [`NEVER`].
    filed: u64,
    wake: Option<Wake>,
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
            wheel: RefCell::new(Wheel::new(Instant::now())),
            closer: Rc::default(),
            calls: Rc::default(),
            tasks: RefCell::default(),
            closing: Cell::new(false),
        });
        let ticking = Rc::downgrade(&hub);
        let ticks = live.parts().clone().keep(Part::Ticks, move |_| tick(ticking.clone()));
        let ticker = tokio::task::spawn_local(ticks);
        let closer = tokio::task::spawn_local(close(Rc::downgrade(&hub), live));
        *hub.tasks.borrow_mut() = vec![ticker, closer];
        hub
    }

    /// The watched feeds of the node.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// True once watchers are being told goodbye.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// The sockets of this thread that are to be asked.
    pub fn calls(&self) -> &Rc<Calls> {
        &self.calls
    }

    /// Watches a feed on this thread.
    pub(super) fn watch(self: &Rc<Self>, feed: &FeedId) -> Watch {
        let known = self.feeds.borrow().get(feed).and_then(Weak::upgrade);
        let local = known.unwrap_or_else(|| {
            let local = LocalFeed::follow(self, self.live.lease(feed));
            self.feeds.borrow_mut().insert(feed.clone(), Rc::downgrade(&local));
            local
        });
        watch::Watch::at(local)
    }

    /// Forgets a feed that nobody on this thread watches any more.
    pub(super) fn unwatch(&self, feed: &FeedId) {
        let mut feeds = self.feeds.borrow_mut();
        // A newer entry of the same name is somebody else's.
        if feeds.get(feed).is_some_and(|known| known.strong_count() == 0) {
            feeds.remove(feed);
        }
    }

    /// A deadline of one connection. Woken up to a hundredth of a second late, or a quarter when it
    /// was more than a second away.
    pub fn alarm(self: &Rc<Self>) -> AlarmClock {
        let at = Instant::now() + Duration::from_secs(3600);
        let leaving = self.closing.get();
        let slot = self.alarms.borrow_mut().insert(Alarm { at, filed: NEVER, wake: None, leaving });
        self.live.arrived();
        AlarmClock { hub: self.clone(), slot }
    }

    /// Files every alarm anew: a panic may have lost some that were taken out to be rung.
    fn wind(&self) {
        let mut wheel = Wheel::new(Instant::now());
        for (slot, alarm) in self.alarms.borrow_mut().iter_mut() {
            if alarm.wake.is_some() {
                alarm.filed = wheel.tick(alarm.at);
                wheel.file(slot as u32, alarm.filed);
            }
        }
        *self.wheel.borrow_mut() = wheel;
    }

    /// Wakes whoever is due, after the borrows end: waking may drop a connection, which then borrows to
    /// leave.
    fn ring(&self, now: Instant) {
        faults::pass_blocking("ticks");
        let mut woken = Vec::new();
        {
            let (mut alarms, mut wheel) = (self.alarms.borrow_mut(), self.wheel.borrow_mut());
            for (tick, entries) in wheel.turn(now) {
                for entry in entries {
                    // Filed under another tick since, or somebody else's slot by now.
                    let Some(alarm) = alarms.get_mut(entry as usize).filter(|a| a.filed == tick) else {
                        continue;
                    };
                    alarm.filed = NEVER;
                    if alarm.at <= now {
                        woken.extend(alarm.wake.take());
                    } else {
                        alarm.filed = wheel.tick(alarm.at);
                        wheel.file(entry, alarm.filed);
                    }
                }
            }
        }
        woken.into_iter().for_each(|wake| self.wake(wake));
    }

    /// Wakes a task, or calls a socket of this thread.
    pub(super) fn wake(&self, wake: Wake) {
        match wake {
            Wake::Task(waker) => waker.wake(),
            Wake::Socket(socket) => self.calls.call(socket),
        }
    }

    /// As a future's waker. For a socket this allocates, and works from other threads.
    pub(super) fn waker(&self, wake: &Wake) -> Waker {
        match wake {
            Wake::Task(waker) => waker.clone(),
            Wake::Socket(socket) => self.calls.waker(*socket),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(JoinHandle::abort);
    }
}

/// A connection's one deadline, served by the worker's wheel.
pub struct AlarmClock {
    hub: Rc<Hub>,
    slot: usize,
}

impl AlarmClock {
    /// True once this connection should say goodbye.
    pub fn is_leaving(&self) -> bool {
        self.hub.alarms.borrow().get(self.slot).is_some_and(|alarm| alarm.leaving)
    }

    /// Wakes at `at`, or when it is time to say goodbye.
    pub fn set(&self, at: Instant, wake: &Wake) {
        let mut alarms = self.hub.alarms.borrow_mut();
        let Some(alarm) = alarms.get_mut(self.slot) else { return };
        alarm.at = at;
        if !alarm.wake.as_ref().is_some_and(|known| known.same(wake)) {
            alarm.wake = Some(wake.clone());
        }
        // A deadline that moved later stays where it is filed until that tick comes.
        let mut wheel = self.hub.wheel.borrow_mut();
        let tick = wheel.tick(at);
        if tick < alarm.filed {
            alarm.filed = tick;
            let closer = wheel.wake_at().is_none_or(|next| at < next);
            wheel.file(self.slot as u32, tick);
            if closer {
                self.hub.closer.notify_one();
            }
        }
    }
}

impl Drop for AlarmClock {
    fn drop(&mut self) {
        let mut alarms = self.hub.alarms.borrow_mut();
        alarms.try_remove(self.slot);
        if alarms.len() * 4 < alarms.capacity() {
            alarms.shrink_to_fit();
        }
        drop(alarms);
        self.hub.live.left();
    }
}

async fn tick(hub: Weak<Hub>) {
    if let Some(hub) = hub.upgrade() {
        hub.wind();
    }
    loop {
        // The hub is not held while the task waits: its end aborts the task.
        let (next, closer) = match hub.upgrade() {
            Some(hub) => (hub.wheel.borrow().wake_at(), hub.closer.clone()),
            None => return,
        };
        match next {
            None => closer.notified().await,
            Some(at) => drop(tokio::time::timeout_at(at.into(), closer.notified()).await),
        }
        let Some(hub) = hub.upgrade() else { return };
        hub.ring(Instant::now());
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
            let wake = hub.alarms.borrow_mut().get_mut(*slot).and_then(|alarm| {
                alarm.leaving = true;
                alarm.wake.take()
            });
            if let Some(wake) = wake {
                hub.wake(wake);
            }
        }
        told = due;
        tokio::time::sleep(BETWEEN_GOODBYES).await;
    }
}
