//! The loop of one thread: arrivals, readable and writable sockets, and calls.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use slab::Slab;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::super::visit::Said;
use super::Arrival;
use super::pace::Pace;
use super::socket::{Fate, Input, Socket};
use crate::live::calls::{Calls, Wake};

/// Bytes read at once, into one buffer for all sockets of the thread.
const BUFFER: usize = 16 << 10;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;

/// Connections taken in at once.
const ARRIVALS: usize = 256;

/// Sockets written to before other work of the thread gets its turn.
const ROUND: usize = 1024;

/// What happens on one socket. Does no I/O.
pub trait Conversation {
    /// Bytes came in.
    fn hear(&mut self, bytes: &[u8], now: Instant);
    /// The other side is gone.
    fn hung_up(&mut self);
    /// What is to be written next. None: close. Pending: `wake` is called when there may be something.
    fn say(&mut self, now: Instant, wake: &Wake) -> Poll<Option<Said>>;
    /// The socket took only `sent` bytes of what was said: what must follow first. It is kept for as
    /// long as the socket takes nothing, so it should be short, or shared.
    fn unsent(&mut self, said: &Said, sent: usize) -> Bytes;
}

/// What a thread has beside its sockets.
pub trait Serving<G, C> {
    /// The calls by which conversations of this thread are woken.
    fn calls(&self) -> Rc<Calls>;
    /// A guest sits down.
    fn seat(&self, guest: G) -> C;
    /// A round of writing was long: rounds are `stretch` apart now.
    fn stretched(&self, _stretch: Duration) {}
    /// A piece of work is done: the moment to tell others what was counted.
    fn turned(&self) {}
}

/// One thread's sockets.
pub(super) struct Loop<G, C, H> {
    hall: H,
    calls: Rc<Calls>,
    /// The kernel tells about the poll as it would about a socket, so there is one place to wait.
    poll: AsyncFd<Polled>,
    events: Events,
    /// Token, readable, writable.
    told: Vec<(u32, bool, bool)>,
    sockets: Slab<Box<Socket<C>>>,
    buffer: Box<[u8]>,
    /// Sockets that may hold more input, of which the kernel will not tell again.
    unread: Vec<u32>,
    /// Sockets that were called; those before `asked` are done.
    round: Vec<u32>,
    asked: usize,
    /// Time spent on the round so far.
    busy: Duration,
    pace: Pace,
    rest: Option<Pin<Box<Sleep>>>,
    guests: PhantomData<G>,
}

struct Polled(mio::Poll);

impl AsRawFd for Polled {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Deprecated because a type may lie about its descriptor; [`Polled`] owns one and always says the same.
/// The successor is `unsafe`, which this crate forbids.
#[allow(deprecated)]
fn waitable(poll: Polled) -> io::Result<AsyncFd<Polled>> {
    AsyncFd::with_interest(poll, tokio::io::Interest::READABLE)
}

impl<G, C: Conversation, H: Serving<G, C>> Loop<G, C, H> {
    /// Inside a tokio runtime with I/O and time.
    pub fn new(hall: H) -> io::Result<Self> {
        Ok(Loop {
            calls: hall.calls(),
            hall,
            poll: waitable(Polled(mio::Poll::new()?))?,
            events: Events::with_capacity(EVENTS),
            told: Vec::new(),
            sockets: Slab::new(),
            buffer: vec![0; BUFFER].into(),
            unread: Vec::new(),
            round: Vec::new(),
            asked: 0,
            busy: Duration::ZERO,
            pace: Pace::default(),
            rest: None,
            guests: PhantomData,
        })
    }

    /// Serves until no more can arrive; then what is still open is cut.
    pub async fn run(mut self, arrivals: &mut mpsc::Receiver<Arrival<G>>) -> io::Result<()> {
        std::future::poll_fn(|cx| self.turn(arrivals, cx)).await
    }

    /// A bounded piece of everything there is to do.
    fn turn(
        &mut self,
        arrivals: &mut mpsc::Receiver<Arrival<G>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let now = Instant::now();
        let mut again = true;
        for _ in 0..ARRIVALS {
            match arrivals.poll_recv(cx) {
                Poll::Ready(Some(arrival)) => self.admit(arrival, now),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    again = false;
                    break;
                }
            }
        }
        for socket in std::mem::take(&mut self.unread) {
            self.attend(socket, true, false, now);
        }
        again |= self.listen(now, cx)? || !self.unread.is_empty();
        again |= self.ask_called(now, cx);
        self.hall.turned();
        if again {
            // Tasks of this thread that feed the calls get their turn first.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn admit(&mut self, arrival: Arrival<G>, now: Instant) {
        let mut stream = TcpStream::from_std(arrival.stream);
        let entry = self.sockets.vacant_entry();
        let key = entry.key();
        let registry = self.poll.get_ref().0.registry();
        if let Err(error) = registry.register(&mut stream, Token(key), Interest::READABLE) {
            tracing::warn!(%error, "a watcher's socket cannot be polled and is closed");
            return;
        }
        let mut socket = Box::new(Socket::new(stream, self.hall.seat(arrival.guest), arrival.head));
        if !arrival.heard.is_empty() {
            socket.hear(&arrival.heard, now);
        }
        entry.insert(socket);
        self.attend(key as u32, false, false, now);
    }

    /// Hears what the kernel tells. True when it may have more to tell.
    fn listen(&mut self, now: Instant, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            let Poll::Ready(guard) = self.poll.poll_read_ready_mut(cx) else { return Ok(false) };
            let mut guard = guard?;
            match guard.get_inner_mut().0.poll(&mut self.events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(()) if self.events.is_empty() => guard.clear_ready(),
                Ok(()) => break,
            }
        }
        let told = self.events.iter().map(|e| (e.token().0 as u32, e.is_readable(), e.is_writable()));
        self.told.extend(told);
        for (socket, readable, writable) in std::mem::take(&mut self.told) {
            self.attend(socket, readable, writable, now);
        }
        Ok(true)
    }

    /// Asks the sockets that were called, unless the thread rests. True when more are left.
    fn ask_called(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        if let Some(rest) = &mut self.rest {
            if rest.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.rest = None;
        }
        if self.asked == self.round.len() {
            self.round.clear();
            self.asked = 0;
            self.calls.take(&mut self.round, cx.waker());
            if self.round.is_empty() {
                return false;
            }
        }
        let end = (self.asked + ROUND).min(self.round.len());
        for n in self.asked..end {
            self.attend(self.round[n], false, false, now);
        }
        self.asked = end;
        let done = Instant::now();
        self.busy += done - now;
        if self.asked == self.round.len() {
            self.pace.round(std::mem::take(&mut self.busy), done);
            if let Some(until) = self.pace.resting(done) {
                self.hall.stretched(self.pace.stretch());
                self.rest = Some(Box::pin(tokio::time::sleep_until(until.into())));
            }
        }
        true
    }

    /// Reads and writes one socket, as far as it can be.
    fn attend(&mut self, key: u32, readable: bool, writable: bool, now: Instant) {
        let Some(socket) = self.sockets.get_mut(key as usize) else { return };
        if writable {
            socket.unblock();
        }
        let (input, wake) = match readable {
            true => (socket.read(&mut self.buffer, now), Wake::Socket(key)),
            false => (Input::Dry, Wake::Socket(key)),
        };
        if input == Input::More {
            self.unread.push(key);
        }
        let fate = match input {
            Input::End => socket.end(now, &wake),
            Input::Dry | Input::More => socket.write(now, &wake),
        };
        if fate == Fate::Gone || self.arm(key).is_err() {
            self.sockets.remove(key as usize);
            if self.sockets.len() * 4 < self.sockets.capacity() {
                self.sockets.shrink_to_fit();
            }
        }
    }

    /// Has the kernel tell when a socket that was never blocked before takes bytes again.
    fn arm(&mut self, key: u32) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(key as usize) else { return Ok(()) };
        if socket.must_arm() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = self.poll.get_ref().0.registry();
            registry.reregister(&mut socket.stream, Token(key as usize), interest)?;
        }
        Ok(())
    }
}
