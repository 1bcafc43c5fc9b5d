//! The threads that serve sockets, and how connections reach them.

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::event_loop::EventLoop;
use super::handler::SocketWorker;
use super::handover::Handover;
use super::seat::{Seat, WorkerPool};
use crate::supervise::{Beat, Part, Parts};

/// The pause before a thread begins anew.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// The threads that serve sockets. When this is dropped they end, and cut what is still open.
pub struct SocketThreads<H> {
    shared: Arc<WorkerPool<H>>,
    threads: Vec<JoinHandle<()>>,
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
        let (shared, ends) = WorkerPool::new(threads, listener);
        let shared = Arc::new(shared);
        let mut all = SocketThreads { shared: shared.clone(), threads: Vec::new() };
        for (number, mut handovers) in ends.into_iter().enumerate() {
            let (worker, parts, shared) = (worker.clone(), parts.clone(), shared.clone());
            let work = move || {
                let vital = parts.vital(Part::Sockets);
                loop {
                    let run = AssertUnwindSafe(|| {
                        let seat = Rc::new(Seat::new(number, shared.clone()));
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
                    std::thread::sleep(RESTART_PAUSE);
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
        self.shared.stop();
    }
}

impl<H> Drop for SocketThreads<H> {
    fn drop(&mut self) {
        self.shared.end();
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
