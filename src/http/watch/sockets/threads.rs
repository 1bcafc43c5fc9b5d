//! The threads that serve sockets, and how connections reach them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::event_loop::EventLoop;
use super::handler::SocketWorker;
use super::handover::Handover;
use crate::supervise::{Beat, Part, Parts};

/// Connections on their way to one thread; when all threads have as many, more are closed unanswered,
/// which a client takes for a lost connection and tries again.
const HANDOVERS: usize = 4096;

/// The pause before a thread begins anew.
const PAUSE: Duration = Duration::from_millis(100);

/// The threads that serve sockets. When this is dropped they end, and cut what is still open.
pub struct SocketThreads<H> {
    queues: Vec<mpsc::Sender<Handover<H>>>,
    turn: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<H: Send + 'static> SocketThreads<H> {
    /// Starts `threads` of them. `worker` makes, on each, what it has beside its sockets; it does so again
    /// when the thread panicked. They are registered with `parts`.
    pub fn start<W>(
        threads: usize,
        parts: &Arc<Parts>,
        worker: impl Fn() -> W + Clone + Send + 'static,
    ) -> io::Result<Self>
    where
        W: SocketWorker<H> + 'static,
    {
        let mut all =
            SocketThreads { queues: Vec::new(), turn: AtomicUsize::new(0), threads: Mutex::default() };
        for n in 0..threads.max(1) {
            let (queue, mut handovers) = mpsc::channel(HANDOVERS);
            let (worker, parts) = (worker.clone(), parts.clone());
            let work = move || {
                let vital = parts.vital(Part::Sockets);
                loop {
                    let run = AssertUnwindSafe(|| run(&worker, &mut handovers, vital.beat()));
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
            let thread = std::thread::Builder::new().name(format!("sockets-{n}")).spawn(work)?;
            all.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
            all.queues.push(queue);
        }
        Ok(all)
    }

    /// Hands a connection over. Gives it back when too many are on their way.
    pub(super) fn hand_over(&self, mut handover: Handover<H>) -> Result<(), Handover<H>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for n in 0..self.queues.len() {
            match self.queues[(turn + n) % self.queues.len()].try_send(handover) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                    handover = back;
                }
            }
        }
        Err(handover)
    }
}

impl<H> Drop for SocketThreads<H> {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It ends as soon as its queue is closed.
            let _ = thread.join();
        }
    }
}

fn run<H, W: SocketWorker<H>>(
    worker: &impl Fn() -> W,
    handovers: &mut mpsc::Receiver<Handover<H>>,
    beat: Beat,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async { EventLoop::new(worker(), beat)?.run(handovers).await })
}
