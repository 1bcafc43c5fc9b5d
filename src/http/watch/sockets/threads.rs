//! The threads that serve sockets, and how connections reach them.

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use super::event_loop::EventLoop;
use super::handler::SocketWorker;
use super::handover::{Handover, Queues};
use crate::supervise::{Beat, Part, Parts};

/// The pause before a thread begins anew.
const PAUSE: Duration = Duration::from_millis(100);

/// A thread that has so many sockets more than another, and an eighth, hands new watchers to it: fan-out is
/// shared by all cores, and most watchers stay where they were accepted.
const UNEVEN: usize = 32;

/// The threads that serve sockets. When this is dropped they end, and cut what is still open.
pub struct SocketThreads<H> {
    shared: Arc<Shared<H>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<H> {
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
    fn listener(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Send + 'static> SocketThreads<H> {
    /// Starts `threads` of them, which accept from `listener`. `worker` makes, on each, what it has beside its
    /// sockets; it does so again when the thread panicked. They are registered with `parts`.
    pub fn start<W>(
        threads: usize,
        listener: TcpListener,
        parts: &Arc<Parts>,
        worker: impl Fn() -> W + Clone + Send + 'static,
    ) -> io::Result<Self>
    where
        W: SocketWorker<H> + 'static,
    {
        let (queues, ends) = Queues::new(threads);
        let shared = Arc::new(Shared {
            listener: Mutex::new(Some(listener)),
            queues,
            open: ends.iter().map(|_| AtomicUsize::new(0)).collect(),
            stop: CancellationToken::new(),
            end: CancellationToken::new(),
        });
        let mut all = SocketThreads { shared: shared.clone(), threads: Vec::new() };
        for (number, mut handovers) in ends.into_iter().enumerate() {
            let (worker, parts, shared) = (worker.clone(), parts.clone(), shared.clone());
            let work = move || {
                let vital = parts.vital(Part::Sockets);
                loop {
                    let run = AssertUnwindSafe(|| {
                        let seat = Rc::new(Seat { number, shared: shared.clone() });
                        run(&worker, seat, &mut handovers, vital.beat())
                    });
                    // A panic costs this thread's watchers their connection, not their server.
                    match catch_unwind(run) {
                        Ok(Ok(())) => break,
                        Ok(Err(error)) => tracing::error!(
                            %error,
                            "a thread of sockets cannot poll them and tries again; its watchers are cut and may come back"
                        ),
                        Err(_) => tracing::error!(
                            "a thread of sockets panicked and begins anew; its watchers are cut and may come back"
                        ),
                    }
                    vital.beat().rests();
                    std::thread::sleep(PAUSE);
                    parts.restarted(Part::Sockets);
                }
                vital.done();
            };
            all.threads.push(std::thread::Builder::new().name(format!("sockets-{number}")).spawn(work)?);
        }
        Ok(all)
    }

    /// From now on the address is not listened on.
    pub fn stop_accepting(&self) {
        drop(self.shared.listener().take());
        self.shared.stop.cancel();
    }
}

impl<H> Drop for SocketThreads<H> {
    fn drop(&mut self) {
        drop(self.shared.listener().take());
        self.shared.end.cancel();
        for thread in self.threads.drain(..) {
            // It ends with its next turn.
            let _ = thread.join();
        }
    }
}

fn run<H: 'static, W: SocketWorker<H>>(
    worker: &impl Fn() -> W,
    seat: Rc<Seat<H>>,
    handovers: &mut mpsc::Receiver<Handover<H>>,
    beat: Beat,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async { EventLoop::new(worker(), seat, beat)?.run(handovers).await })
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
        let seat = |number| Seat { number, shared: shared.clone() };
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
