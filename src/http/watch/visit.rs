//! One watcher's visit, whatever carries its bytes: the session's frames, what the transport says in
//! between, the goodbye, and the deadline by which it must be asked again.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;

use crate::live::calls::Wake;
use crate::live::frame::{Encoding, Frame};
use crate::live::hub::{AlarmClock, Hub};
use crate::live::run::Run;
use crate::live::session::Session;
use crate::metrics::{Metrics, labels};

/// How a transport spells frames and listens to its client. Does no I/O.
pub trait Transport: Unpin {
    /// Takes all bytes that came in, unless it is over. May change what is watched.
    fn hear(&mut self, bytes: &mut &[u8], session: &mut Session, now: Instant);
    /// The client is gone.
    fn hung_up(&mut self);
    /// Bytes of its own that go before the session's: pongs, pings, errors, a close frame.
    fn urgent(&mut self, now: Instant) -> Option<Bytes>;
    /// How the session's frames go over the wire.
    fn encoding(&self) -> Encoding;
    /// The server is stopping: say goodbye after this frame.
    fn goodbye(&mut self, frame: &Frame);
    /// True when no frame of the session may be sent any more.
    fn is_closing(&self) -> bool;
    /// True when the connection is over.
    fn is_over(&self) -> bool;
    /// What it is counted as.
    fn kind(&self) -> labels::Transport;
    /// When the transport itself wants to be asked again.
    fn deadline(&self) -> Instant;
}

/// What is to be written next.
pub enum Said {
    /// The transport's own bytes.
    Bytes(Bytes),
    /// Frames of the session, as they are encoded.
    Run(Rc<Run>, Encoding),
}

impl Said {
    /// All of it.
    pub fn bytes(&self) -> Bytes {
        match self {
            Said::Bytes(bytes) => bytes.clone(),
            Said::Run(run, encoding) => run.bytes(*encoding),
        }
    }
}

/// A watcher for as long as its connection lives.
pub struct Visit<T> {
    session: Session,
    transport: T,
    alarm: AlarmClock,
    /// When the alarm rings at the latest; none: it must be set. It is set anew only to ring earlier, or
    /// after it rang: a deadline moves later with every frame, and touching the clock each time costs.
    rings: Option<Instant>,
    hub: Rc<Hub>,
    said_goodbye: bool,
    presence: Presence,
}

impl<T: Transport> Visit<T> {
    /// A visit that serves `session` over `transport`, counted in `tally`.
    pub fn new(session: Session, transport: T, hub: Rc<Hub>, tally: Rc<Tally>) -> Self {
        let presence = Presence::new(transport.kind(), tally);
        let alarm = hub.alarm();
        Visit { session, transport, alarm, rings: None, hub, said_goodbye: false, presence }
    }

    /// Bytes came in.
    pub fn hear(&mut self, mut bytes: &[u8], now: Instant) {
        if !self.transport.is_over() {
            self.transport.hear(&mut bytes, &mut self.session, now);
        }
    }

    /// The client is gone.
    pub fn hung_up(&mut self) {
        self.transport.hung_up();
    }

    /// What is to be written next. None: the connection is over. Pending: `wake` is called when there
    /// may be something.
    pub fn say(&mut self, now: Instant, wake: &Wake) -> Poll<Option<Said>> {
        if !self.said_goodbye && self.hub.is_closing() && self.alarm.is_leaving() {
            self.said_goodbye = true;
            // It rang for the goodbye.
            self.rings = None;
            if !self.transport.is_closing() {
                let most = self.hub.live().away_most_ms();
                self.transport.goodbye(&Frame::goodbye("shutdown", spread_ms(most)));
            }
        }
        if let Some(bytes) = self.transport.urgent(now) {
            self.presence.tally.note(self.presence.kind, 1, bytes.len());
            return Poll::Ready(Some(Said::Bytes(bytes)));
        }
        if self.transport.is_over() {
            return Poll::Ready(None);
        }
        if !self.transport.is_closing()
            && let Poll::Ready(run) = self.session.next(now, wake)
        {
            let encoding = self.transport.encoding();
            self.presence.tally.note(self.presence.kind, run.frames(), run.bytes(encoding).len());
            return Poll::Ready(Some(Said::Run(run, encoding)));
        }
        let deadline = match self.transport.is_closing() {
            true => self.transport.deadline(),
            false => self.transport.deadline().min(self.session.deadline(now)),
        };
        // A task says each time by whom it is woken.
        let stands = self.rings.is_some_and(|rings| now < rings && rings <= deadline);
        if !stands || matches!(wake, Wake::Task(_)) {
            self.alarm.set(deadline, wake);
            self.rings = Some(deadline);
        }
        Poll::Pending
    }

    /// The socket took only `sent` bytes of what was said: what must follow first.
    pub fn unsent(&mut self, said: &Said, sent: usize) -> Bytes {
        match said {
            Said::Bytes(bytes) => bytes.slice(sent..),
            Said::Run(run, encoding) => self.session.unsent(run, *encoding, sent),
        }
    }
}

/// What one thread has sent since it was last told to the metrics: a counter that all threads share
/// costs more than a short write.
pub struct Tally {
    metrics: Arc<Metrics>,
    /// Frames and bytes, by kind of transport.
    sent: [Cell<(u64, u64)>; 3],
}

impl Tally {
    /// Nothing yet.
    pub fn new(metrics: Arc<Metrics>) -> Rc<Self> {
        Rc::new(Tally { metrics, sent: Default::default() })
    }

    fn note(&self, kind: labels::Transport, frames: u64, bytes: usize) {
        let sent = &self.sent[kind as usize];
        let (f, b) = sent.get();
        sent.set((f + frames, b + bytes as u64));
    }

    /// Tells the metrics.
    pub fn flush(&self) {
        for kind in [labels::Transport::Ws, labels::Transport::Many, labels::Transport::Sse] {
            let (frames, bytes) = self.sent[kind as usize].take();
            if frames > 0 {
                self.metrics.frames_sent[kind].inc_by(frames);
                self.metrics.bytes_sent[kind].inc_by(bytes);
            }
        }
    }
}

/// A connection as it is counted, for as long as it is open.
struct Presence {
    kind: labels::Transport,
    tally: Rc<Tally>,
}

impl Presence {
    fn new(kind: labels::Transport, tally: Rc<Tally>) -> Self {
        tally.metrics.watchers[kind].inc();
        Presence { kind, tally }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.tally.metrics.watchers[self.kind].dec();
    }
}

/// When this watcher should come back, from 500 ms to `most`, evenly spread over watchers.
fn spread_ms(most: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    500 + RandomState::new().hash_one(0u8) % (most - 499)
}
