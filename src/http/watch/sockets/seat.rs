//! What the threads of sockets know of each other.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::handover::{Handover, Queues};

/// A thread that has this number of sockets more than another, and an eighth, hands new watchers to it: fan-out is
/// shared by all cores, and most watchers stay where they were accepted.
const MAX_IMBALANCE: usize = 32;

/// The same for a thread that watchers come to because others of their group are there.
const UNEVEN_TOGETHER: usize = 1024;

/// What the threads have in common.
pub(super) struct WorkerPool<H> {
    listener: Mutex<Option<TcpListener>>,
    queues: Queues<Handover<H>>,
    /// Sockets of each thread, as it reported last.
    open: Vec<AtomicUsize>,
    stop: CancellationToken,
    end: CancellationToken,
}

/// One thread's place among the others.
pub(super) struct Seat<H> {
    number: usize,
    shared: Arc<WorkerPool<H>>,
}

impl<H> Seat<H> {
    /// The place of thread `number`.
    pub fn new(number: usize, shared: Arc<WorkerPool<H>>) -> Seat<H> {
        Seat { number, shared }
    }

    /// Where connections come from; `None` if no more are to be accepted.
    pub fn listener(&self) -> io::Result<Option<TcpListener>> {
        self.shared.listener().as_ref().map(TcpListener::try_clone).transpose()
    }

    /// Until no more connections are to be accepted.
    pub async fn stopped(&self) {
        self.shared.stop.cancelled().await;
    }

    /// Until the thread is to end.
    pub async fn ended(&self) {
        self.shared.end.cancelled().await;
    }

    /// The thread that should have the next watcher instead of this one, which has `mine` sockets: that of its `group`,
    /// or one that has clearly fewer.
    pub fn other(&self, mine: usize, group: Option<u64>) -> Option<usize> {
        let open = &self.shared.open;
        open[self.number].store(mine, Ordering::Relaxed);
        let has = |n: usize| open[n].load(Ordering::Relaxed);
        let least = (0..open.len()).min_by_key(|n| has(*n))?;
        let is_even = |n: usize, more: usize| has(n) <= has(least) + has(least) / 8 + more;
        let home = group.map(|group| (group % open.len() as u64) as usize);
        let to = match home.filter(|home| is_even(*home, UNEVEN_TOGETHER)) {
            Some(home) => home,
            None if is_even(self.number, MAX_IMBALANCE) => self.number,
            None => least,
        };
        if to == self.number {
            return None;
        }
        // Until that thread reports by itself.
        open[to].fetch_add(1, Ordering::Relaxed);
        Some(to)
    }

    /// Reports how many sockets this thread has.
    pub fn tell(&self, mine: usize) {
        self.shared.open[self.number].store(mine, Ordering::Relaxed);
    }

    /// Hands a watcher to another thread. Given back when too many are on their way.
    pub fn hand_over(&self, to: usize, handover: Handover<H>) -> Result<(), Handover<H>> {
        self.shared.queues.push_from(to, handover)
    }
}

impl<H> WorkerPool<H> {
    /// Of `threads` threads that accept from `listener`, and what each takes watchers from others with.
    pub fn new(threads: usize, listener: TcpListener) -> (WorkerPool<H>, Vec<Receiver<Handover<H>>>) {
        let (queues, ends) = Queues::new(threads);
        let open = ends.iter().map(|_| AtomicUsize::new(0)).collect();
        let (stop, end) = Default::default();
        (WorkerPool { listener: Mutex::new(Some(listener)), queues, open, stop, end }, ends)
    }

    /// From now on the address is not listened on.
    pub fn stop(&self) {
        drop(self.listener().take());
        self.stop.cancel();
    }

    /// The threads end with their next turn.
    pub fn end(&self) {
        self.stop();
        self.end.cancel();
    }

    fn listener(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hands_on_only_what_makes_the_threads_more_even() {
        let (queues, _ends) = Queues::<Handover<()>>::new(3);
        let open = [900, 100, 300].map(AtomicUsize::new).into();
        let (stop, end) = Default::default();
        let shared = Arc::new(WorkerPool { listener: Mutex::new(None), queues, open, stop, end });
        let seat = |number| Seat::new(number, shared.clone());
        assert_eq!(seat(0).other(900, None), Some(1));
        assert_eq!(seat(2).other(300, None), Some(1));
        assert_eq!(seat(1).other(100, None), None);
        // What was handed on counts before its thread reports.
        for _ in 0..2000 {
            seat(0).other(900, None);
        }
        let counts = || shared.open.iter().map(|n| n.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(counts()[1..].iter().all(|n| *n > 700 && *n < 900), "{:?}", counts());
        assert_eq!(seat(0).other(900, None), None);
        seat(1).tell(5);
        assert_eq!(seat(0).other(900, None), Some(1));
    }

    #[test]
    fn watchers_of_a_group_come_together_until_their_thread_has_many_more_than_another() {
        let (queues, _ends) = Queues::<Handover<()>>::new(2);
        let open = [0, 0].map(AtomicUsize::new).into();
        let (stop, end) = Default::default();
        let shared = Arc::new(WorkerPool { listener: Mutex::new(None), queues, open, stop, end });
        let seat = |number| Seat::new(number, shared.clone());
        assert_eq!((seat(0).other(0, Some(7)), seat(1).other(0, Some(7))), (Some(1), None));
        assert_eq!((seat(0).other(0, Some(8)), seat(1).other(0, Some(8))), (None, Some(0)));
        seat(0).tell(100);
        assert_eq!(seat(0).other(100, Some(7)), Some(1));
        seat(1).tell(100 + 100 / 8 + UNEVEN_TOGETHER + 1);
        assert_eq!(seat(0).other(100, Some(7)), None);
        assert_eq!(seat(1).other(1200, Some(7)), Some(0), "too many of them are here");
    }
}
