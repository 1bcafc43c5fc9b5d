//! What a user of the socket threads provides: what happens on one socket, and what each thread has beside
//! its sockets. Neither does I/O.

use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::live::batch::FrameBatch;
use crate::live::frame::Encoding;
use crate::live::wake::{Wake, WakeQueue};

/// What is to be written next.
pub enum Output {
    /// The transport's own bytes.
    Bytes(Bytes),
    /// Frames of the session, as they are encoded.
    Frames(Rc<FrameBatch>, Encoding),
}

impl Output {
    /// All of it.
    pub fn bytes(&self) -> Bytes {
        match self {
            Output::Bytes(bytes) => bytes.clone(),
            Output::Frames(batch, encoding) => batch.bytes(*encoding),
        }
    }
}

/// One connection as its socket sees it.
pub trait SocketHandler {
    /// Bytes came in.
    fn receive(&mut self, bytes: &[u8], now: Instant);
    /// The other side is gone.
    fn peer_closed(&mut self);
    /// What is to be written next. `None`: close the socket. `Pending`: `wake` is woken when there may be
    /// something.
    fn next_output(&mut self, now: Instant, wake: &Wake) -> Poll<Option<Output>>;
    /// The socket took only `sent` bytes of `output`: what must follow first. It is kept for as long as
    /// the socket takes nothing, so it should be short, or shared.
    fn unsent(&mut self, output: &Output, sent: usize) -> Bytes;
}

/// What one thread has beside its sockets. `H` is what was agreed in a handshake.
pub trait SocketWorker<H> {
    /// What serves one connection.
    type Handler: SocketHandler;
    /// The queue by which connections of this thread are woken.
    fn wakes(&self) -> Rc<WakeQueue>;
    /// A connection arrived.
    fn accept(&self, handshake: H) -> Self::Handler;
    /// A round of writing was long: rounds are `stretch` apart now.
    fn stretched(&self, _stretch: Duration) {}
    /// A piece of work is done: the moment to tell others what was counted.
    fn turned(&self) {}
}
