//! One per thread that serves watchers: the feeds they watch, their deadlines, and their goodbyes. A
//! change crosses threads once per worker, never once per watcher.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;

use super::feeds::{Judge, Live};
use super::local::{LocalFeeds, Watch};
use super::moment::MonoTime;
use super::wake::{Wake, WakeQueue};
use super::wheel::{NEVER, Wheel};
use crate::domain::FeedId;
use crate::supervise::{Part, faults};

/// Goodbyes go out in batches this far apart.
const BETWEEN_GOODBYES: Duration = Duration::from_millis(20);

/// The watchers of one worker thread.
pub struct Worker {
    live: Arc<Live>,
    feeds: Rc<LocalFeeds>,
    timers: RefCell<Slab<TimerSlot>>,
    wheel: RefCell<Wheel>,
    /// Notified when the wheel's next tick has come closer.
    closer: Rc<Notify>,
    wakes: Rc<WakeQueue>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    closing: Cell<bool>,
}

struct TimerSlot {
    at: MonoTime,
    /// The tick under which the wheel has it, or [`NEVER`].
    filed: u64,
    wake: Option<Wake>,
    /// It is this connection's turn to say goodbye.
    leaving: bool,
    /// See [`Timer::mark`].
    mark: u32,
}

impl Worker {
    /// For the current thread, which must run a `LocalSet` (an actix worker does).
    pub fn start(live: Arc<Live>) -> Rc<Worker> {
        let wakes = Rc::<WakeQueue>::default();
        let worker = Rc::new(Worker {
            live: live.clone(),
            feeds: LocalFeeds::new(wakes.clone()),
            timers: RefCell::default(),
            wheel: RefCell::new(Wheel::new(MonoTime::now())),
            closer: Rc::default(),
            wakes,
            tasks: RefCell::default(),
            closing: Cell::new(false),
        });
        let ticking = Rc::downgrade(&worker);
        let ticks = live.parts().clone().keep(Part::Ticks, move |_| tick(ticking.clone()));
        let ticker = tokio::task::spawn_local(ticks);
        let judge = tokio::task::spawn_local(judge_again(Rc::downgrade(&worker), live.judging.subscribe()));
        let closer = tokio::task::spawn_local(close(Rc::downgrade(&worker), live));
        *worker.tasks.borrow_mut() = vec![ticker, closer, judge];
        worker
    }

    /// The watched feeds of the node.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// True once watchers are being closed.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// The sockets of this thread that have something to do.
    pub fn wakes(&self) -> &Rc<WakeQueue> {
        &self.wakes
    }

    /// Whether somebody watches this feed on this thread, and its list is there.
    pub fn has_list(&self, feed: &FeedId) -> bool {
        self.feeds.has_list(feed)
    }

    /// Watches a feed on this thread.
    pub(super) fn watch(&self, feed: &FeedId) -> Watch {
        self.feeds.watch(&self.live, feed)
    }

    /// A deadline of one connection. Woken up to a hundredth of a second late, or a quarter when it
    /// was more than a second away.
    pub fn timer(self: &Rc<Self>) -> Timer {
        let at = MonoTime::now() + Duration::from_secs(3600);
        let leaving = self.closing.get();
        let slot =
            self.timers.borrow_mut().insert(TimerSlot { at, filed: NEVER, wake: None, leaving, mark: 0 });
        self.live.arrived();
        Timer { worker: self.clone(), slot }
    }

    /// Files every deadline anew: a panic may have lost some that were taken out of the wheel.
    fn wind(&self) {
        let mut wheel = Wheel::new(MonoTime::now());
        for (slot, timer) in self.timers.borrow_mut().iter_mut() {
            if timer.wake.is_some() {
                timer.filed = wheel.tick(timer.at);
                wheel.file(slot as u32, timer.filed);
            }
        }
        *self.wheel.borrow_mut() = wheel;
    }

    /// Wakes every connection whose deadline has passed. It wakes them after the borrows end, because
    /// waking may drop a connection, which then borrows to leave.
    fn ring(&self, now: MonoTime) {
        faults::pass_blocking("ticks");
        let mut woken = Vec::new();
        {
            let (mut timers, mut wheel) = (self.timers.borrow_mut(), self.wheel.borrow_mut());
            for (tick, entries) in wheel.turn(now) {
                for entry in entries {
                    // It has been filed under another tick since, or the slot is another connection's now.
                    let Some(timer) = timers.get_mut(entry as usize).filter(|a| a.filed == tick) else {
                        continue;
                    };
                    timer.filed = NEVER;
                    if timer.at <= now {
                        woken.extend(timer.wake.take());
                    } else {
                        timer.filed = wheel.tick(timer.at);
                        wheel.file(entry, timer.filed);
                    }
                }
            }
        }
        woken.into_iter().for_each(|wake| self.wakes.wake(wake));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks.get_mut().iter().for_each(JoinHandle::abort);
    }
}

/// The one deadline of a connection, kept in the worker's timing wheel.
pub struct Timer {
    worker: Rc<Worker>,
    slot: usize,
}

impl Timer {
    /// True once this connection should say goodbye.
    pub fn is_leaving(&self) -> bool {
        self.worker.timers.borrow().get(self.slot).is_some_and(|timer| timer.leaving)
    }

    /// By this mark a connection is woken to be judged again; several may have the same, and 0 is nobody's.
    pub fn mark(&self, mark: u32) {
        if let Some(timer) = self.worker.timers.borrow_mut().get_mut(self.slot) {
            timer.mark = mark;
        }
    }

    /// Wakes at `at`, or when it is time to say goodbye.
    pub fn set(&self, at: MonoTime, wake: &Wake) {
        let mut timers = self.worker.timers.borrow_mut();
        let Some(timer) = timers.get_mut(self.slot) else { return };
        timer.at = at;
        if !timer.wake.as_ref().is_some_and(|known| known.same(wake)) {
            timer.wake = Some(wake.clone());
        }
        // A deadline that moved later stays where it is filed until that tick comes.
        let mut wheel = self.worker.wheel.borrow_mut();
        let tick = wheel.tick(at);
        if tick < timer.filed {
            timer.filed = tick;
            let closer = wheel.wake_at().is_none_or(|next| at < next);
            wheel.file(self.slot as u32, tick);
            if closer {
                self.worker.closer.notify_one();
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut timers = self.worker.timers.borrow_mut();
        timers.try_remove(self.slot);
        if timers.len() * 4 < timers.capacity() {
            timers.shrink_to_fit();
        }
        drop(timers);
        self.worker.live.left();
    }
}

async fn tick(worker: Weak<Worker>) {
    if let Some(worker) = worker.upgrade() {
        worker.wind();
    }
    loop {
        // The worker is not held while the task waits: its end aborts the task.
        let (next, closer) = match worker.upgrade() {
            Some(worker) => (worker.wheel.borrow().wake_at(), worker.closer.clone()),
            None => return,
        };
        match next {
            None => closer.notified().await,
            Some(at) => drop(tokio::time::timeout_at(at.instant().into(), closer.notified()).await),
        }
        let Some(worker) = worker.upgrade() else { return };
        worker.ring(MonoTime::now());
    }
}

/// Wakes connections each time that who may watch has changed.
async fn judge_again(worker: Weak<Worker>, mut asked: broadcast::Receiver<Judge>) {
    loop {
        let whom = match asked.recv().await {
            Ok(whom) => whom,
            Err(RecvError::Lagged(_)) => Judge::All,
            Err(RecvError::Closed) => return,
        };
        let Some(worker) = worker.upgrade() else { return };
        let timers = worker.timers.borrow();
        let meant =
            timers.iter().filter(|(_, timer)| whom == Judge::All || whom == Judge::Marked(timer.mark));
        // Copied: each still waits for its deadline.
        let wakes: Vec<Wake> = meant.filter_map(|(_, timer)| timer.wake.clone()).collect();
        drop(timers);
        wakes.into_iter().for_each(|wake| worker.wakes.wake(wake));
    }
}

async fn close(worker: Weak<Worker>, live: Arc<Live>) {
    let mut closing = live.closing.subscribe();
    let time = match closing.wait_for(|closing| closing.is_some()).await {
        Ok(time) => time.unwrap_or_default(),
        Err(_) => return,
    };
    let Some(worker) = worker.upgrade() else { return };
    worker.closing.set(true);
    let begun = MonoTime::now();
    // A connection that begins from here on is closed at once, so these are all that must be closed here.
    let slots: Vec<usize> = worker.timers.borrow().iter().map(|(slot, _)| slot).collect();
    let mut woken = 0;
    while woken < slots.len() {
        let due = match MonoTime::now().since(begun) {
            elapsed if elapsed >= time => slots.len(),
            elapsed => (elapsed.as_secs_f64() / time.as_secs_f64() * slots.len() as f64) as usize,
        };
        for slot in &slots[woken..due] {
            // A slot that was freed meanwhile may belong to a newer connection, which is leaving anyway.
            let wake = worker.timers.borrow_mut().get_mut(*slot).and_then(|timer| {
                timer.leaving = true;
                timer.wake.take()
            });
            if let Some(wake) = wake {
                worker.wakes.wake(wake);
            }
        }
        woken = due;
        tokio::time::sleep(BETWEEN_GOODBYES).await;
    }
}
