//! Who is to be asked again: a task, or one of the sockets that a thread serves in one loop.

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

/// The sockets of one thread that are to be asked, in the order of their calls, each once. Bounded by
/// the number of sockets.
#[derive(Debug, Default)]
pub struct Calls {
    called: RefCell<Called>,
    /// From other threads: an engine that answers.
    remote: Arc<Remote>,
}

#[derive(Debug, Default)]
struct Called {
    queue: Vec<u32>,
    /// One bit for each socket in the queue.
    queued: Vec<u64>,
    task: Option<Waker>,
}

#[derive(Debug, Default)]
struct Remote {
    called: Mutex<(Vec<u32>, Option<Waker>)>,
}

impl Calls {
    /// Has the loop ask this socket. A number that is nobody's any more does no harm.
    pub fn call(&self, socket: u32) {
        let mut called = self.called.borrow_mut();
        let (word, bit) = (socket as usize / 64, 1 << (socket % 64));
        if called.queued.len() <= word {
            called.queued.resize(word + 1, 0);
        }
        if called.queued[word] & bit != 0 {
            return;
        }
        called.queued[word] |= bit;
        called.queue.push(socket);
        // Only the first call finds the loop asleep.
        if let Some(task) = called.task.take() {
            drop(called);
            task.wake();
        }
    }

    /// Moves all calls to `into`. None: `task` is woken at the next one.
    pub fn take(&self, into: &mut Vec<u32>, task: &Waker) {
        let mut remote = self.remote.called.lock().unwrap_or_else(PoisonError::into_inner);
        let far = std::mem::take(&mut remote.0);
        if !remote.1.as_ref().is_some_and(|known| known.will_wake(task)) {
            remote.1 = Some(task.clone());
        }
        drop(remote);
        let mut called = self.called.borrow_mut();
        into.append(&mut called.queue);
        into.extend(far);
        if into.is_empty() {
            called.task = Some(task.clone());
        }
        for socket in into.iter() {
            if let Some(word) = called.queued.get_mut(*socket as usize / 64) {
                *word &= !(1 << (socket % 64));
            }
        }
        // A burst of watchers that left takes its room with it.
        if called.queue.capacity() > 1024 && into.len() * 8 < called.queue.capacity() {
            called.queue.shrink_to(into.len() * 2);
        }
    }

    /// A waker that calls this socket, from any thread.
    pub(super) fn waker(&self, socket: u32) -> Waker {
        Waker::from(Arc::new(Caller { remote: self.remote.clone(), socket }))
    }
}

struct Caller {
    remote: Arc<Remote>,
    socket: u32,
}

impl std::task::Wake for Caller {
    fn wake(self: Arc<Self>) {
        let mut remote = self.remote.called.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn a_socket_is_called_once_until_it_was_asked_and_the_loop_wakes_once() {
        let (calls, counter) = (Calls::default(), Arc::new(Counter::default()));
        let task = Waker::from(counter.clone());
        let mut asked = Vec::new();
        calls.take(&mut asked, &task);
        for socket in [7, 200, 7] {
            calls.call(socket);
        }
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        calls.take(&mut asked, &task);
        assert_eq!(asked, [7, 200]);
        calls.call(7);
        asked.clear();
        calls.take(&mut asked, &task);
        assert_eq!(asked, [7]);
        let far = calls.waker(9);
        std::thread::spawn(move || far.wake()).join().unwrap();
        asked.clear();
        calls.take(&mut asked, &task);
        assert_eq!((asked, counter.0.load(Ordering::SeqCst)), (vec![9], 2));
    }
}
