//! One watcher's connection, whatever carries its bytes: the session's frames, what the transport says in
//! between, the goodbye, and the deadline by which it must be asked again.

use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;

use super::sockets::{Output, SocketHandler};
use super::tally::{OpenConnection, Tally};
use crate::http::door::places::WatcherPlace;
use crate::http::inbound::UnsentPermit;
use crate::live::frame::Encoding;
use crate::live::moment::MonoTime;
use crate::live::session::Session;
use crate::live::wake::Wake;
use crate::live::worker::Timer;
use crate::metrics::labels;
use crate::random;

/// How a transport spells frames and listens to its client. Does no I/O.
pub trait Transport: Unpin {
    /// Takes all bytes that came in, unless it has ended. May change what is watched.
    fn receive(&mut self, bytes: &mut &[u8], session: &mut Session, now: MonoTime);
    /// The client is gone.
    fn peer_closed(&mut self);
    /// Ends, or says, what is due by who watches and what the feeds allow. Before anything else goes out.
    fn judge(&mut self, session: &mut Session, now: MonoTime);
    /// Frames of the session went out.
    fn sent_frames(&mut self);
    /// By what a revocation finds the connection; 0 when none concerns it.
    fn mark(&self) -> u32;
    /// Bytes of its own that go before the session's: pongs, pings, errors, a close frame.
    fn urgent(&mut self, now: MonoTime) -> Option<Bytes>;
    /// How the session's frames go over the wire.
    fn encoding(&self) -> Encoding;
    /// The server is about to close the connection, which should come back after this number of milliseconds.
    fn goodbye(&mut self, reason: &str, reconnect_in_ms: u64);
    /// True when no frame of the session may be sent any more.
    fn is_closing(&self) -> bool;
    /// True after the connection's end.
    fn is_over(&self) -> bool;
    /// What it is counted as.
    fn kind(&self) -> labels::Transport;
    /// When the transport itself wants to be asked again.
    fn deadline(&self) -> MonoTime;
}

/// A watcher for as long as its connection lives.
pub struct Connection<T> {
    session: Session,
    transport: T,
    timer: Timer,
    /// When the timer rings at the latest; none: it must be set. It is set anew only to ring earlier, or
    /// after it rang: a deadline moves later with every frame, and touching the clock each time costs.
    rings: Option<MonoTime>,
    said_goodbye: bool,
    open: OpenConnection,
    place: WatcherPlace,
}

impl<T: Transport> Connection<T> {
    /// A connection that serves `session` over `transport`. It is counted in `tally` and keeps `place`
    /// for as long as it lives.
    pub fn new(session: Session, transport: T, tally: Rc<Tally>, place: WatcherPlace) -> Self {
        let open = OpenConnection::new(transport.kind(), tally);
        let timer = session.worker().timer();
        timer.mark(transport.mark());
        Connection { session, transport, timer, rings: None, said_goodbye: false, open, place }
    }
}

impl<T: Transport> SocketHandler for Connection<T> {
    fn receive(&mut self, mut bytes: &[u8], now: MonoTime) {
        if !self.transport.is_over() {
            self.transport.receive(&mut bytes, &mut self.session, now);
            // The client may have shown another token.
            self.timer.mark(self.transport.mark());
        }
    }

    fn peer_closed(&mut self) {
        self.transport.peer_closed();
    }

    fn next_output(&mut self, now: MonoTime, wake: &Wake) -> Poll<Option<Output>> {
        if !self.said_goodbye && self.session.worker().is_closing() && self.timer.is_leaving() {
            self.said_goodbye = true;
            // It rang for the goodbye.
            self.rings = None;
            if !self.transport.is_closing() {
                let most = self.session.worker().live().away_most_ms();
                self.transport.goodbye("shutdown", spread_ms(most));
            }
        }
        if !self.transport.is_closing() {
            self.transport.judge(&mut self.session, now);
        }
        if let Some(bytes) = self.transport.urgent(now) {
            self.open.sent(1, 0, bytes.len());
            return Poll::Ready(Some(Output::Bytes(bytes)));
        }
        if self.transport.is_over() {
            return Poll::Ready(None);
        }
        if !self.transport.is_closing()
            && let Poll::Ready(batch) = self.session.next(now, wake)
        {
            self.transport.sent_frames();
            let encoding = self.transport.encoding();
            self.open.sent(batch.frames(), batch.changes(), batch.bytes(encoding).len());
            return Poll::Ready(Some(Output::Frames(batch, encoding)));
        }
        let deadline = match self.transport.is_closing() {
            true => self.transport.deadline(),
            false => self.transport.deadline().min(self.session.deadline(now)),
        };
        // A task says each time what wakes it.
        let stands = self.rings.is_some_and(|rings| now < rings && rings <= deadline);
        if !stands || matches!(wake, Wake::Task(_)) {
            self.timer.set(deadline, wake);
            self.rings = Some(deadline);
        }
        Poll::Pending
    }

    fn unsent(&mut self, output: &Output, sent: usize) -> Bytes {
        match output {
            Output::Bytes(bytes) => bytes.slice(sent..),
            Output::Frames(batch, encoding) => self.session.unsent(batch, *encoding, sent),
        }
    }

    fn wait_to_send(&self, bytes: usize, wake: &Wake) -> Option<UnsentPermit> {
        let (inbound, address) = (self.place.inbound()?, self.session.address()?);
        let task = self.session.worker().wakes().waker(wake);
        Some(inbound.unsent_to_watcher(address, bytes, &task))
    }
}

/// When this watcher should come back, from 500 ms to `most`, evenly spread over watchers.
fn spread_ms(most: u64) -> u64 {
    500 + random::number() % (most - 499)
}
