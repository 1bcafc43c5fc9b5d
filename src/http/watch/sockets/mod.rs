//! Sockets taken over from the HTTP server after their handshake: a few threads serve them all, each
//! with one poll, one read buffer and one timing wheel. A connection has no task, no timer, no queue
//! and no buffer of its own: what it costs is its state and, at times, the rest of one shared frame.

use std::io;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

mod pace;
mod serve;
mod socket;
pub mod take_over;

pub use serve::{Conversation, Serving};

/// Connections on their way to one thread; when all threads have as many, more are closed unanswered,
/// which a client takes for a lost connection and tries again.
const ARRIVALS: usize = 4096;

/// A connection that comes from the HTTP server.
pub struct Arrival<G> {
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// What must be written before anything else: the answer to the handshake.
    pub head: Bytes,
    /// What the client sent after its handshake and was read already.
    pub heard: Bytes,
    /// What the connection is about.
    pub guest: G,
}

/// The threads that serve sockets. When this is dropped they end, and cut what is still open.
pub struct Sockets<G> {
    doors: Vec<mpsc::Sender<Arrival<G>>>,
    turn: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<G: Send + 'static> Sockets<G> {
    /// Starts `threads` of them. `hall` makes, on each, what turns guests into conversations; again
    /// when one panicked.
    pub fn start<C, H>(threads: usize, hall: impl Fn() -> H + Clone + Send + 'static) -> io::Result<Self>
    where
        C: Conversation + 'static,
        H: Serving<G, C> + 'static,
    {
        let mut sockets = Sockets { doors: Vec::new(), turn: AtomicUsize::new(0), threads: Mutex::default() };
        for n in 0..threads.max(1) {
            let (door, mut arrivals) = mpsc::channel(ARRIVALS);
            let hall = hall.clone();
            let work = move || {
                // A panic costs this thread's watchers their connection, not their server.
                while catch_unwind(AssertUnwindSafe(|| run(&hall, &mut arrivals))).is_err() {
                    tracing::error!("a thread of sockets panicked; its watchers are cut and may come back");
                }
            };
            let thread = std::thread::Builder::new().name(format!("sockets-{n}")).spawn(work)?;
            sockets.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
            sockets.doors.push(door);
        }
        Ok(sockets)
    }

    /// Hands a connection over. Gives it back when too many are on their way.
    pub fn seat(&self, mut arrival: Arrival<G>) -> Result<(), Arrival<G>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for n in 0..self.doors.len() {
            match self.doors[(turn + n) % self.doors.len()].try_send(arrival) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                    arrival = back;
                }
            }
        }
        Err(arrival)
    }
}

impl<G> Drop for Sockets<G> {
    fn drop(&mut self) {
        self.doors.clear();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It ends as soon as its door is closed.
            let _ = thread.join();
        }
    }
}

fn run<G, C: Conversation, H: Serving<G, C>>(
    hall: &impl Fn() -> H,
    arrivals: &mut mpsc::Receiver<Arrival<G>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| {
        let local = LocalSet::new();
        local.block_on(&runtime, async { serve::Loop::new(hall())?.run(arrivals).await })
    });
    if let Err(error) = served {
        tracing::error!(%error, "a thread of sockets cannot poll them; watchers cannot connect to it");
    }
}
