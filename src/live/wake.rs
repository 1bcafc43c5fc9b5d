//! How a watcher is woken: as a task of its own, or as one of the sockets that a thread serves in a loop.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// How a watcher is woken.
#[derive(Clone, Debug)]
pub enum Wake {
    /// A task of its own.
    Task(Waker),
    /// The socket of this number, of the thread's loop.
    Socket(u32),
}

impl Wake {
    /// True when waking either does the same.
    pub fn same(&self, other: &Wake) -> bool {
        match (self, other) {
            (Wake::Task(a), Wake::Task(b)) => a.will_wake(b),
            (Wake::Socket(a), Wake::Socket(b)) => a == b,
            _ => false,
        }
    }
}

/// The sockets of one thread that have something to do, in the order in which they were woken, each once.
/// Bounded by the number of sockets.
#[derive(Debug, Default)]
pub struct WakeQueue {
    local: RefCell<Local>,
    /// Woken by other threads: a store has answered.
    remote: Arc<Remote>,
}

#[derive(Debug, Default)]
struct Local {
    queue: Vec<u32>,
    /// One bit for each socket in the queue.
    queued: Vec<u64>,
    task: Option<Waker>,
    /// See [`WakeQueue::owe`].
    owed: u64,
    /// Woken when so much is owed.
    enough: Option<(u64, Waker)>,
}

#[derive(Debug, Default)]
struct Remote {
    queue: Mutex<(Vec<u32>, Option<Waker>)>,
}

impl WakeQueue {
    /// Wakes a task, or puts its socket into the queue.
    pub(super) fn wake(&self, wake: Wake) {
        match wake {
            Wake::Task(waker) => waker.wake(),
            Wake::Socket(socket) => self.push(socket),
        }
    }

    /// Has the loop attend to this socket. A number that no socket has any more does no harm.
    pub fn push(&self, socket: u32) {
        let mut local = self.local.borrow_mut();
        let (word, bit) = (socket as usize / 64, 1 << (socket % 64));
        if local.queued.len() <= word {
            local.queued.resize(word + 1, 0);
        }
        if local.queued[word] & bit != 0 {
            return;
        }
        local.queued[word] |= bit;
        local.queue.push(socket);
        // Only the first one finds the loop asleep.
        if let Some(task) = local.task.take() {
            drop(local);
            task.wake();
        }
    }

    /// Changes came that make this number of deliveries.
    pub(super) fn owe(&self, deliveries: u64) {
        let mut local = self.local.borrow_mut();
        local.owed += deliveries;
        let owed = local.owed;
        if let Some((_, task)) = local.enough.take_if(|(enough, _)| *enough <= owed) {
            drop(local);
            task.wake();
        }
    }

    /// Deliveries owed since this was last asked.
    pub fn take_owed(&self) -> u64 {
        let mut local = self.local.borrow_mut();
        local.enough = None;
        std::mem::take(&mut local.owed)
    }

    /// Whether this number of deliveries is pending. If not, `task` is woken once they are.
    pub fn owes(&self, enough: u64, task: &Waker) -> bool {
        let mut local = self.local.borrow_mut();
        let owes = local.owed >= enough;
        local.enough = (!owes).then(|| (enough, task.clone()));
        owes
    }

    /// Moves the whole queue to `into`. When it is empty, `task` is woken at the next push.
    pub fn take(&self, into: &mut Vec<u32>, task: &Waker) {
        let mut remote = self.remote.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let far = std::mem::take(&mut remote.0);
        if !remote.1.as_ref().is_some_and(|known| known.will_wake(task)) {
            remote.1 = Some(task.clone());
        }
        drop(remote);
        let mut local = self.local.borrow_mut();
        into.append(&mut local.queue);
        into.extend(far);
        if into.is_empty() {
            local.task = Some(task.clone());
        }
        for socket in into.iter() {
            if let Some(word) = local.queued.get_mut(*socket as usize / 64) {
                *word &= !(1 << (socket % 64));
            }
        }
        // The room that a burst of watchers needed is given back after they left.
        if local.queue.capacity() > 1024 && into.len() * 8 < local.queue.capacity() {
            local.queue.shrink_to(into.len() * 2);
        }
    }

    /// `wake` as the waker of a future. For a socket this allocates, and works from any thread.
    pub fn waker(&self, wake: &Wake) -> Waker {
        match wake {
            Wake::Task(waker) => waker.clone(),
            Wake::Socket(socket) => {
                Waker::from(Arc::new(RemoteWaker { remote: self.remote.clone(), socket: *socket }))
            }
        }
    }
}

struct RemoteWaker {
    remote: Arc<Remote>,
    socket: u32,
}

impl std::task::Wake for RemoteWaker {
    fn wake(self: Arc<Self>) {
        let mut remote = self.remote.queue.lock().unwrap_or_else(PoisonError::into_inner);
        remote.0.push(self.socket);
        if let Some(task) = &remote.1 {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl std::task::Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_watcher_waiting_for_enough_wakes_once_owed() {
        let (queue, counter) = (WakeQueue::default(), Arc::new(Counter::default()));
        let task = Waker::from(counter.clone());
        queue.owe(5);
        assert!(queue.owes(5, &task));
        assert!(!queue.owes(8, &task));
        queue.owe(2);
        assert_eq!(counter.0.load(Ordering::SeqCst), 0);
        queue.owe(1);
        queue.owe(1);
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert_eq!((queue.take_owed(), queue.take_owed()), (9, 0));
        assert!(!queue.owes(1, &task));
        queue.take_owed();
        queue.owe(1);
        assert_eq!(counter.0.load(Ordering::SeqCst), 1, "nobody waits any more");
    }

    #[test]
    fn a_socket_is_queued_once_until_it_is_taken_and_the_loop_wakes_once() {
        let (queue, counter) = (WakeQueue::default(), Arc::new(Counter::default()));
        let task = Waker::from(counter.clone());
        let mut taken = Vec::new();
        queue.take(&mut taken, &task);
        for socket in [7, 200, 7] {
            queue.push(socket);
        }
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        queue.take(&mut taken, &task);
        assert_eq!(taken, [7, 200]);
        queue.push(7);
        taken.clear();
        queue.take(&mut taken, &task);
        assert_eq!(taken, [7]);
        let far = queue.waker(&Wake::Socket(9));
        std::thread::spawn(move || far.wake()).join().unwrap();
        taken.clear();
        queue.take(&mut taken, &task);
        assert_eq!((taken, counter.0.load(Ordering::SeqCst)), (vec![9], 2));
    }
}
