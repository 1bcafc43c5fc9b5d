//! A watcher's connection as a response body. The server asks it for bytes when the socket took the
//! last ones, so nothing queues per watcher: what a slow socket does not take stays on the board.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use crate::live::frame::Frame;
use crate::live::hub::{AlarmClock, Hub};
use crate::live::session::Session;
use crate::metrics::{Metrics, labels};

/// How a transport spells frames and listens to its client.
pub trait Transport: Unpin {
    /// Reads what the client sent, as far as it is there. May change what is watched.
    fn listen(&mut self, session: &mut Session, cx: &mut Context<'_>);
    /// Bytes of its own that go before the session's: pongs, pings, errors, a close frame.
    fn urgent(&mut self, now: Instant) -> Option<Bytes>;
    /// A frame as it goes over the wire.
    fn spell(&self, frame: &Frame) -> Bytes;
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

/// Streams a session's frames for as long as the transport lives.
pub struct WatchBody<T> {
    session: Session,
    transport: T,
    alarm: AlarmClock,
    hub: Rc<Hub>,
    said_goodbye: bool,
    presence: Presence,
}

impl<T: Transport> WatchBody<T> {
    /// A connection that serves `session` over `transport`.
    pub fn new(session: Session, transport: T, hub: Rc<Hub>) -> Self {
        let presence = Presence::new(transport.kind(), hub.live().metrics().clone());
        WatchBody { session, transport, alarm: hub.alarm(), hub, said_goodbye: false, presence }
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.transport.is_over() {
            self.transport.listen(&mut self.session, cx);
        }
        if !self.said_goodbye && self.alarm.is_leaving() {
            self.said_goodbye = true;
            if !self.transport.is_closing() {
                self.transport
                    .goodbye(&Frame::goodbye("shutdown", spread_ms(self.hub.live().away_most_ms())));
            }
        }
        if let Some(bytes) = self.transport.urgent(Instant::now()) {
            return Poll::Ready(Some(bytes));
        }
        if self.transport.is_over() {
            return Poll::Ready(None);
        }
        if !self.transport.is_closing()
            && let Poll::Ready(frame) = self.session.next(cx)
        {
            return Poll::Ready(Some(self.transport.spell(&frame)));
        }
        let deadline = match self.transport.is_closing() {
            true => self.transport.deadline(),
            false => self.transport.deadline().min(self.session.deadline()),
        };
        self.alarm.set(deadline, cx.waker());
        Poll::Pending
    }
}

impl<T: Transport> MessageBody for WatchBody<T> {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        // Pin: nothing in the body is address-sensitive (Session, Transport and AlarmClock are Unpin).
        let body = self.get_mut();
        let next = body.next(cx);
        if let Poll::Ready(Some(bytes)) = &next {
            body.presence.sent(bytes.len());
        }
        next.map(|bytes| bytes.map(Ok))
    }
}

/// A connection as it is counted, for as long as it is open.
struct Presence {
    kind: labels::Transport,
    metrics: Arc<Metrics>,
}

impl Presence {
    fn new(kind: labels::Transport, metrics: Arc<Metrics>) -> Self {
        metrics.watchers[kind].inc();
        Presence { kind, metrics }
    }

    fn sent(&self, bytes: usize) {
        self.metrics.frames_sent[self.kind].inc();
        self.metrics.bytes_sent[self.kind].inc_by(bytes as u64);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.metrics.watchers[self.kind].dec();
    }
}

/// When this watcher should come back, from 500 ms to `most`, evenly spread over watchers.
fn spread_ms(most: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    500 + RandomState::new().hash_one(0u8) % (most - 499)
}
