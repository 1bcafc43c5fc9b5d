//! Connections on their way from one thread to another.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::http::inbound::Peer;
use crate::http::tls::Tls;
use crate::metrics::Metrics;

/// Connections on their way to one thread; when all threads have as many, more are closed unanswered, which a
/// client takes for a lost connection and tries again.
const MAX_QUEUED_CONNECTIONS: usize = 4096;

/// A watcher that goes to a thread with fewer of them.
pub(super) struct Handover<H> {
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// How it is encrypted, if it is.
    pub tls: Option<Box<Tls>>,
    /// What must be written before anything else: the answer to the handshake.
    pub answer: Vec<u8>,
    /// What the client sent after its handshake and was read already.
    pub received: Bytes,
    /// What was agreed on.
    pub handshake: H,
}

/// A connection that is for the HTTP server.
pub struct PassedOn {
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// How it is encrypted, if it is; its handshake is done.
    pub tls: Option<Box<Tls>>,
    /// Where it comes from.
    pub address: SocketAddr,
    /// It in the register.
    pub peer: Arc<Peer>,
    /// What was read already.
    pub received: Bytes,
    /// It has waited for its feed's list already, in vain.
    pub waited: bool,
    /// It waits for its thread.
    pub waiting: HandoverCount,
}

/// Counts a connection on its way to the thread that serves it.
pub struct HandoverCount(Arc<Metrics>);

impl HandoverCount {
    /// It begins to wait.
    pub fn new(metrics: &Arc<Metrics>) -> HandoverCount {
        metrics.handovers_waiting.inc();
        HandoverCount(metrics.clone())
    }
}

impl Drop for HandoverCount {
    fn drop(&mut self) {
        self.0.handovers_waiting.dec();
    }
}

/// The way to several threads, taken in turn.
pub struct Queues<T> {
    queues: Vec<mpsc::Sender<T>>,
    turn: AtomicUsize,
}

impl<T> Queues<T> {
    /// To `threads` threads; each takes one of the receivers.
    pub fn new(threads: usize) -> (Queues<T>, Vec<mpsc::Receiver<T>>) {
        let (queues, ends) = (0..threads.max(1)).map(|_| mpsc::channel(MAX_QUEUED_CONNECTIONS)).unzip();
        (Queues { queues, turn: AtomicUsize::new(0) }, ends)
    }

    /// Hands it to the thread whose turn it is, or the next that has room. Given back when none has.
    pub fn push(&self, one: T) -> Result<(), T> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.push_from(turn, one)
    }

    /// Hands it to this thread, or the next that has room.
    pub(super) fn push_from(&self, first: usize, mut one: T) -> Result<(), T> {
        for n in 0..self.queues.len() {
            match self.queues[(first + n) % self.queues.len()].try_send(one) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                    one = back
                }
            }
        }
        Err(one)
    }
}
