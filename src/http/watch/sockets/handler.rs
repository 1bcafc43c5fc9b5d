//! What a user of the socket threads provides: what becomes of a new connection, what happens on a watcher's
//! socket, and what each thread has beside its sockets. None of it does I/O.

use std::future::Future;
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;

use crate::http::inbound::{Peer, RefusalPermit, UnderWay, UnsentPermit};
use crate::http::tls::Tls;
use crate::live::batch::FrameBatch;
use crate::live::frame::Encoding;
use crate::live::moment::MonoTime;
use crate::live::wake::{Wake, WakeQueue};
use crate::metrics::labels::Turned;

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
    fn receive(&mut self, bytes: &[u8], now: MonoTime);
    /// The other side is gone.
    fn peer_closed(&mut self);
    /// What is to be written next. `None`: close the socket. `Pending`: `wake` is woken when there may be
    /// something.
    fn next_output(&mut self, now: MonoTime, wake: &Wake) -> Poll<Option<Output>>;
    /// The socket took only `sent` bytes of `output`: what must follow first. It is kept for as long as
    /// the socket takes nothing, so it should be short, or shared.
    fn unsent(&mut self, output: &Output, sent: usize) -> Bytes;
    /// The socket takes nothing now, and `bytes` wait for it: counts them for its address, and wakes when it is to be
    /// ended because of them. `None`: nothing bounds them.
    fn wait_to_send(&self, bytes: usize, wake: &Wake) -> Option<UnsentPermit>;
}

/// What becomes of a connection, by what it sent so far. `H` is what was agreed on in a handshake.
pub enum Judgement<H> {
    /// The head is not whole yet.
    More,
    /// A watcher, when this is done; if it comes to nothing, the HTTP server answers.
    Wait(Pin<Box<dyn Future<Output = Option<Entrance<H>>>>>),
    /// A watcher.
    Enter(Entrance<H>),
    /// The HTTP server answers it.
    PassOn,
}

/// A handshake that was agreed on.
pub struct Entrance<H> {
    /// What was agreed on.
    pub handshake: H,
    /// The answer to the handshake.
    pub answer: Vec<u8>,
    /// How long the handshake was, in bytes; what follows is for the handler.
    pub read: usize,
    /// Watchers with the same number are best served by one thread; none: by any.
    pub group: Option<u64>,
}

/// A connection that nothing was agreed on with yet.
pub struct Visitor {
    /// Where it comes from.
    pub address: SocketAddr,
    /// It in the register.
    pub peer: Arc<Peer>,
    /// A [`Judgement::Wait`] came to nothing.
    pub waited: bool,
    /// Its TLS handshake, while that is under way.
    pub handshake: Option<UnderWay>,
}

/// Writes to sockets that carried changes, and how many changes all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Writes.
    pub writes: u64,
    /// Changes: one that was written to a thousand sockets is a thousand.
    pub changes: u64,
}

/// What one thread has beside its sockets. `H` is what was agreed on in a handshake.
pub trait SocketWorker<H> {
    /// What serves one connection.
    type Handler: SocketHandler;
    /// The queue by which connections of this thread are woken.
    fn wakes(&self) -> Rc<WakeQueue>;
    /// Whether another connection may be accepted now; if not, soon.
    fn may_accept(&self) -> bool;
    /// A permit to answer a client why it is refused. `None`: it is closed without a word.
    fn may_refuse(&self) -> Option<RefusalPermit>;
    /// Registers a connection that came in. An error is why there is no place for it.
    fn arrive(&self, address: SocketAddr) -> Result<Arc<Peer>, Turned>;
    /// What connections are encrypted with, if they are.
    fn tls(&self) -> Option<&Arc<ServerConfig>>;
    /// Judges a connection by what it sent so far.
    fn judge(&self, visitor: &Visitor, received: &[u8]) -> Judgement<H>;
    /// Has the HTTP server serve a connection, of which `received` was read. Dropped when too many are on their way
    /// to it: nothing was answered yet, so the client tries again.
    fn pass_on(&self, stream: TcpStream, tls: Option<Box<Tls>>, visitor: Visitor, received: &[u8]);
    /// Begins to serve a watcher.
    fn serve(&self, handshake: H) -> Self::Handler;
    /// What was written since this was last asked.
    fn carried(&self) -> Carried;
    /// A round of writing was long: rounds are `stretch` apart now.
    fn stretched(&self, _stretch: Duration) {}
    /// A piece of work is done: the moment to publish what was counted.
    fn turned(&self) {}
}
