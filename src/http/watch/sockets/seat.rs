//! What the threads of sockets know of each other.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::handover::{Handover, Queues};

/// A thread that has so many sockets more than another, and an eighth, hands new watchers to it: fan-out is
/// shared by all cores, and most watchers stay where they were accepted.
const UNEVEN: usize = 32;

/// What the threads have in common.
pub(super) struct Shared<H> {
    listener: Mutex<Option<TcpListener>>,
    queues: Queues<Handover<H>>,
    /// Sockets of each thread, as it told last.
    open: Vec<AtomicUsize>,
    stop: CancellationToken,
    end: CancellationToken,
}

/// One thread's place among the others.
pub(super) struct Seat<H> {
    number: usize,
    shared: Arc<Shared<H>>,
}

impl<H> Seat<H> {
    /// The place of thread `number`.
    pub fn new(number: usize, shared: Arc<Shared<H>>) -> Seat<H> {
        Seat { number, shared }
    }

    /// Where connections come from; none when no more are to be accepted.
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

    /// The thread that should have the next watcher instead of this one, which has `mine` sockets.
    pub fn lighter(&self, mine: usize) -> Option<usize> {
        let open = &self.shared.open;
        open[self.number].store(mine, Ordering::Relaxed);
        let least = (0..open.len()).min_by_key(|n| open[*n].load(Ordering::Relaxed))?;
        let has = open[least].load(Ordering::Relaxed);
        if mine <= has + has / 8 + UNEVEN {
            return None;
        }
        // Until that thread tells by itself.
        open[least].fetch_add(1, Ordering::Relaxed);
        Some(least)
    }

    /// Tells how many sockets this thread has.
    pub fn tell(&self, mine: usize) {
        self.shared.open[self.number].store(mine, Ordering::Relaxed);
    }

    /// Hands a watcher to another thread. Given back when too many are on their way.
    pub fn hand_over(&self, to: usize, handover: Handover<H>) -> Result<(), Handover<H>> {
        self.shared.queues.push_from(to, handover)
    }
}

impl<H> Shared<H> {
    /// Of so many threads that accept from `listener`, and what each takes watchers from others with.
    pub fn new(threads: usize, listener: TcpListener) -> (Shared<H>, Vec<Receiver<Handover<H>>>) {
        let (queues, ends) = Queues::new(threads);
        let open = ends.iter().map(|_| AtomicUsize::new(0)).collect();
        let (stop, end) = Default::default();
        (Shared { listener: Mutex::new(Some(listener)), queues, open, stop, end }, ends)
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
        let shared = Arc::new(Shared { listener: Mutex::new(None), queues, open, stop, end });
        let seat = |number| Seat::new(number, shared.clone());
        assert_eq!(seat(0).lighter(900), Some(1));
        assert_eq!(seat(2).lighter(300), Some(1));
        assert_eq!(seat(1).lighter(100), None);
        // What was handed on counts before its thread tells.
        for _ in 0..2000 {
            seat(0).lighter(900);
        }
        let told = || shared.open.iter().map(|n| n.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(told()[1..].iter().all(|n| *n > 700 && *n < 900), "{:?}", told());
        assert_eq!(seat(0).lighter(900), None);
        seat(1).tell(5);
        assert_eq!(seat(0).lighter(900), Some(1));
    }
}
