//! The loop of one thread: connections that arrive, sockets that can be read or written, and sockets that
//! were woken because there is something to say on them.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Registry, Token};
use slab::Slab;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::arriving::Arriving;
use super::handler::{SocketHandler, SocketWorker};
use super::handover::Handover;
use super::line::{Plain, TransportIo, tell_when_writable};
use super::listening::Listening;
use super::pace::{Pace, WriteDelay};
use super::seat::Seat;
use super::socket::{Input, Socket};

use crate::http::tls::Tls;
use crate::live::moment::MonoTime;
use crate::live::wake::{Wake, WakeQueue};
use crate::supervise::{Beat, faults};

mod arrivals;

/// Bytes read at once, into one buffer for all sockets of the thread.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// Events taken from the kernel at once.
const EVENTS_PER_POLL: usize = 1024;

/// Connections taken from other threads at once.
const HANDOVERS: usize = 256;

/// Sockets written to before other work of the thread gets its turn.
const MAX_WRITES_PER_ROUND: usize = 1024;

/// Steps of TLS handshakes taken before other work of the thread gets its turn: each may take as long as writing to
/// some fifty watchers.
const HANDSHAKES: usize = 16;

/// Of the listening socket; no socket has it as its key.
const LISTENER: Token = Token(u32::MAX as usize);

/// One thread's sockets.
pub(super) struct EventLoop<H, W: SocketWorker<H>> {
    worker: W,
    beat: Beat,
    seat: Rc<Seat<H>>,
    wakes: Rc<WakeQueue>,
    /// The kernel sends events of the poll as of a socket, so there is one place to wait.
    poll: AsyncFd<Polled>,
    events: Events,
    /// Events of the kernel, of each socket.
    socket_events: Vec<SocketEvent>,
    listening: Option<Listening>,
    sockets: Slab<SocketSlot<H, W::Handler>>,
    buffer: Box<[u8]>,
    /// Sockets that may hold more input, without another event of the kernel.
    unread: Vec<u32>,
    /// Steps of TLS handshakes in this turn.
    handshakes: usize,
    /// Sockets that were woken; the first `attended` of them are done.
    round: Vec<u32>,
    attended: usize,
    /// Time spent on the round so far.
    busy: Duration,
    /// Deliveries that were owed when the round began.
    owed: u64,
    pace: Pace,
    rest: Option<(Pin<Box<Sleep>>, WriteDelay)>,
}

/// What is open.
enum SocketSlot<H, C> {
    Arriving(Box<Arriving<H>>),
    Watching(Box<Socket<C, Plain>>),
    /// A watcher over TLS.
    Secured(Box<Socket<C, Box<Tls>>>),
    /// It is being judged.
    Taken,
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

impl<H: 'static, W: SocketWorker<H>> EventLoop<H, W> {
    /// Inside a tokio runtime with I/O and time.
    pub fn new(worker: W, seat: Rc<Seat<H>>, beat: Beat) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let listening = match seat.listener()? {
            Some(listener) => Some(Listening::new(listener, poll.registry(), LISTENER)?),
            None => None,
        };
        Ok(EventLoop {
            beat,
            seat,
            wakes: worker.wakes(),
            worker,
            poll: waitable(Polled(poll))?,
            events: Events::with_capacity(EVENTS_PER_POLL),
            socket_events: Vec::new(),
            listening,
            sockets: Slab::new(),
            buffer: vec![0; READ_BUFFER_BYTES].into(),
            unread: Vec::new(),
            handshakes: 0,
            round: Vec::new(),
            attended: 0,
            busy: Duration::ZERO,
            owed: 0,
            pace: Pace::default(),
            rest: None,
        })
    }

    /// Serves until the threads are to end; then what is still open is cut.
    pub async fn run(mut self, handovers: &mut mpsc::Receiver<Handover<H>>) -> io::Result<()> {
        let seat = self.seat.clone();
        let (mut stopped, mut ended) = (Box::pin(seat.stopped()), Box::pin(seat.ended()));
        std::future::poll_fn(|cx| {
            if self.listening.is_some() && stopped.as_mut().poll(cx).is_ready() {
                self.listening = None;
            }
            match ended.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Ok(())),
                Poll::Pending => self.turn(handovers, cx),
            }
        })
        .await
    }

    /// A bounded piece of everything there is to do.
    fn turn(
        &mut self,
        handovers: &mut mpsc::Receiver<Handover<H>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.beat.works();
        faults::pass_blocking("sockets");
        let now = MonoTime::now();
        self.handshakes = 0;
        let mut again = true;
        for _ in 0..HANDOVERS {
            let Poll::Ready(Some(handover)) = handovers.poll_recv(cx) else {
                again = false;
                break;
            };
            let Handover { stream, tls, answer, received, handshake } = handover;
            let stream = TcpStream::from_std(stream);
            self.serve(None, (stream, tls), (handshake, answer), &received, now);
        }
        for socket in std::mem::take(&mut self.unread) {
            self.attend(SocketEvent { readable: true, ended: true, ..SocketEvent::woken(socket) }, now);
        }
        again |= self.listen(now, cx)?;
        again |= self.accept(now, cx);
        again |= self.attend_woken(now, cx) || !self.unread.is_empty();
        self.worker.turned();
        self.seat.tell(self.sockets.len());
        if again {
            // Tasks of this thread that wake sockets get their turn first.
            cx.waker().wake_by_ref();
        }
        self.beat.rests();
        Poll::Pending
    }

    /// Reads events of the kernel. Returns true if it may have more.
    fn listen(&mut self, now: MonoTime, cx: &mut Context<'_>) -> io::Result<bool> {
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
        let mut all = std::mem::take(&mut self.socket_events);
        all.extend(self.events.iter().map(SocketEvent::by));
        for event in all.drain(..) {
            match &mut self.listening {
                Some(listening) if event.key == LISTENER.0 as u32 => listening.wake(),
                _ => self.attend(event, now),
            }
        }
        self.socket_events = all;
        Ok(true)
    }

    /// Writes to the sockets that were woken, unless the thread rests. True when more are left.
    fn attend_woken(&mut self, now: MonoTime, cx: &mut Context<'_>) -> bool {
        if self.rests(cx) {
            return false;
        }
        if self.attended == self.round.len() {
            self.round.clear();
            self.attended = 0;
            self.owed = self.wakes.take_owed();
            self.wakes.take(&mut self.round, cx.waker());
            if self.round.is_empty() {
                return false;
            }
        }
        let end = (self.attended + MAX_WRITES_PER_ROUND).min(self.round.len());
        for n in self.attended..end {
            self.attend(SocketEvent::woken(self.round[n]), now);
        }
        self.attended = end;
        let done = MonoTime::now();
        self.busy += done.since(now);
        if self.attended == self.round.len() {
            let (busy, owed) = (std::mem::take(&mut self.busy), std::mem::take(&mut self.owed));
            if let Some(rest) = self.pace.round(busy, owed, self.worker.carried(), done) {
                self.worker.stretched(self.pace.stretch());
                self.rest = Some((Box::pin(tokio::time::sleep_until(rest.least.instant().into())), rest));
            }
        }
        true
    }

    /// Whether the thread still rests. It is woken when it does no more.
    fn rests(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((sleep, rest)) = &mut self.rest else { return false };
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= rest.most.instant().into() {
                self.rest = None;
                return false;
            }
            sleep.as_mut().reset(rest.most.instant().into());
            rest.least_is_over = true;
        }
        if rest.least_is_over && self.wakes.owes(rest.enough, cx.waker()) {
            self.rest = None;
        }
        self.rest.is_some()
    }

    /// Reads and writes one socket, as far as it can be.
    fn attend(&mut self, event: SocketEvent, now: MonoTime) {
        let key = event.key;
        let buffer = &mut self.buffer;
        let (input, next) = match self.sockets.get_mut(key as usize) {
            Some(SocketSlot::Watching(socket)) => event.heed(socket, buffer, now),
            Some(SocketSlot::Secured(socket)) => event.heed(socket, buffer, now),
            Some(entry @ SocketSlot::Arriving(_)) => {
                if let SocketSlot::Arriving(arriving) = std::mem::replace(entry, SocketSlot::Taken) {
                    self.attend_arriving(event, arriving, now);
                }
                return;
            }
            Some(SocketSlot::Taken) | None => return,
        };
        if input == Input::More {
            self.unread.push(key);
        }
        self.attended(key, next);
    }

    /// After a socket was written to: it is closed, or an event comes when it takes more.
    fn attended(&mut self, key: u32, next: ControlFlow<()>) {
        let registry = self.poll.get_ref().0.registry();
        let armed = match self.sockets.get_mut(key as usize) {
            Some(SocketSlot::Watching(socket)) => arm(socket, key, registry),
            Some(SocketSlot::Secured(socket)) => arm(socket, key, registry),
            _ => return,
        };
        if next.is_break() || armed.is_err() {
            self.sockets.remove(key as usize);
            if self.sockets.len() * 4 < self.sockets.capacity() {
                self.sockets.shrink_to_fit();
            }
        }
    }
}

/// What is known of a socket that is attended.
#[derive(Clone, Copy)]
struct SocketEvent {
    key: u32,
    readable: bool,
    /// It may have ended. An end that came together with the last bytes has no event of its own, so it is
    /// read until there is nothing; otherwise a read that fills less than its buffer has taken everything.
    ended: bool,
    writable: bool,
}

impl SocketEvent {
    /// Nothing but that it has something to say.
    fn woken(key: u32) -> SocketEvent {
        SocketEvent { key, readable: false, ended: false, writable: false }
    }

    fn by(event: &Event) -> SocketEvent {
        let key = event.token().0 as u32;
        let (readable, ended) = (event.is_readable(), event.is_read_closed());
        SocketEvent { key, readable: readable || ended, ended, writable: event.is_writable() }
    }

    /// Reads and writes, as far as it can be.
    fn heed<C: SocketHandler, L: TransportIo>(
        &self,
        socket: &mut Socket<C, L>,
        buffer: &mut [u8],
        now: MonoTime,
    ) -> (Input, ControlFlow<()>) {
        if self.writable {
            socket.unblock();
        }
        let wake = Wake::Socket(self.key);
        let input = if self.readable { socket.read(buffer, self.ended, now) } else { Input::Dry };
        let next = match input {
            Input::End => socket.end(now, &wake),
            Input::Dry | Input::More => socket.write(now, &wake),
        };
        (input, next)
    }
}

/// Asks for an event when a socket that was never blocked before takes bytes again.
fn arm<C: SocketHandler, L: TransportIo>(
    socket: &mut Socket<C, L>,
    key: u32,
    registry: &Registry,
) -> io::Result<()> {
    match socket.must_arm() {
        true => tell_when_writable(&mut socket.stream, key, registry),
        false => Ok(()),
    }
}
