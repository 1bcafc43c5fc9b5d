//! One socket: writes what its handler has to say for as long as the kernel takes it.

use std::ops::ControlFlow;
use std::task::Poll;

use bytes::{Buf, Bytes};
use mio::net::TcpStream;

use super::handler::{Output, SocketHandler};
use super::line::{Plain, ReadResult, TransportIo};
use crate::http::abort::Abort;
use crate::http::inbound::UnsentPermit;
use crate::http::tls::Tls;
use crate::live::moment::MonoTime;
use crate::live::wake::Wake;

/// Reads of one socket at once, so that a chatty client can't keep its thread busy.
const MAX_READS: usize = 4;

/// A socket and what is output on it.
pub(super) struct Socket<C, L> {
    pub stream: TcpStream,
    line: L,
    handler: C,
    /// What the kernel did not take; none nearly always.
    rest: Option<Box<UnsentBytes>>,
    /// The kernel takes nothing now; an event comes when it does.
    blocked: bool,
    /// The kernel was asked for an event when it takes bytes; from then on it always sends one.
    armed: bool,
}

/// What the kernel did not take, of one frame, whose bytes others share.
struct UnsentBytes {
    bytes: Bytes,
    /// Counts it for its address.
    permit: Option<UnsentPermit>,
}

// A watcher in the clear pays nothing for TLS, one over it a pointer.
const _: () = assert!(
    size_of::<Socket<[u64; 4], Plain>>() + size_of::<Box<Tls>>() == size_of::<Socket<[u64; 4], Box<Tls>>>()
);

/// What a read left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Everything there is was read; an event comes when there is more.
    Dry,
    /// There may be more.
    More,
    /// The other side is gone, or sends no more.
    End,
}

impl<C: SocketHandler, L: TransportIo> Socket<C, L> {
    /// To be greeted next.
    pub fn new(stream: TcpStream, line: L, handler: C) -> Self {
        Socket { stream, line, handler, rest: None, blocked: false, armed: false }
    }

    /// Hears what was read before, and answers the handshake.
    pub fn begin(&mut self, answer: &[u8], received: &[u8], now: MonoTime, wake: &Wake) -> ControlFlow<()> {
        if !received.is_empty() {
            self.handler.receive(received, now);
        }
        self.greet(answer, now, wake)
    }

    /// The kernel takes bytes again.
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    /// True once, when it is blocked for the first time.
    pub fn must_arm(&mut self) -> bool {
        self.blocked && !std::mem::replace(&mut self.armed, true)
    }

    /// Nothing more will come: answers what came last, if the kernel takes it, and ends.
    pub fn end(&mut self, now: MonoTime, wake: &Wake) -> ControlFlow<()> {
        let _ = self.write(now, wake);
        self.handler.peer_closed();
        ControlFlow::Break(())
    }

    /// Reads what came, through the thread's `buffer`; `ended`: the other side may have ended.
    pub fn read(&mut self, buffer: &mut [u8], ended: bool, now: MonoTime) -> Input {
        let (line, handler) = (&mut self.line, &mut self.handler);
        for _ in 0..MAX_READS {
            match line.read(&mut self.stream, buffer, |bytes| handler.receive(bytes, now)) {
                ReadResult::Bytes(n) if n < buffer.len() && !ended => return Input::Dry,
                ReadResult::Bytes(_) => {}
                ReadResult::Nothing => return Input::Dry,
                ReadResult::End => return Input::End,
            }
        }
        Input::More
    }

    /// Writes until there is nothing to say or the kernel takes no more. `Break`: the socket is to be closed.
    pub fn write(&mut self, now: MonoTime, wake: &Wake) -> ControlFlow<()> {
        if self.rest.as_ref().is_some_and(|rest| rest.permit.as_ref().is_some_and(UnsentPermit::is_cut)) {
            self.stream.abort();
            return ControlFlow::Break(());
        }
        if self.blocked {
            return ControlFlow::Continue(());
        }
        if !self.line.is_flushed() {
            match self.line.flush(&mut self.stream) {
                Err(_) => return ControlFlow::Break(()),
                Ok(false) => {
                    self.blocked = true;
                    return ControlFlow::Continue(());
                }
                Ok(true) => {}
            }
        }
        if let Some(mut rest) = self.rest.take() {
            match self.push(&rest.bytes) {
                Err(()) => return ControlFlow::Break(()),
                Ok(0) if rest.permit.is_some() => self.rest = Some(rest),
                Ok(sent) if sent < rest.bytes.len() => {
                    rest.bytes.advance(sent);
                    // Given up before it is counted again, as one that took some just now.
                    rest.permit = None;
                    rest.permit = self.handler.wait_to_send(rest.bytes.len(), wake);
                    self.rest = Some(rest);
                }
                Ok(_) => {}
            }
        }
        while !self.blocked {
            match self.handler.next_output(now, wake) {
                Poll::Ready(Some(output)) => {
                    let bytes = output.bytes();
                    match self.push(&bytes) {
                        Err(()) => return ControlFlow::Break(()),
                        Ok(sent) if sent < bytes.len() => {
                            let bytes = self.handler.unsent(&output, sent);
                            let permit = self.handler.wait_to_send(bytes.len(), wake);
                            self.rest = Some(Box::new(UnsentBytes { bytes, permit }));
                        }
                        Ok(_) => {}
                    }
                }
                Poll::Ready(None) => {
                    self.line.close(&mut self.stream);
                    return ControlFlow::Break(());
                }
                Poll::Pending => break,
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes `head`, the answer to the handshake, together with what is output first: one write, one packet.
    fn greet(&mut self, head: &[u8], now: MonoTime, wake: &Wake) -> ControlFlow<()> {
        let first = match self.handler.next_output(now, wake) {
            Poll::Ready(Some(output)) => output,
            Poll::Ready(None) | Poll::Pending => Output::Bytes(Bytes::new()),
        };
        let body = first.bytes();
        let Ok(sent) = self.line.write_both(&mut self.stream, head, &body) else {
            return ControlFlow::Break(());
        };
        if sent < head.len() + body.len() {
            let then = self.handler.unsent(&first, sent.saturating_sub(head.len()));
            // Nearly always it took the head, so that the bytes that others share need no copy.
            let bytes = match &head[sent.min(head.len())..] {
                [] => then,
                left => [left, &then].concat().into(),
            };
            self.rest = Some(Box::new(UnsentBytes { bytes, permit: None }));
        }
        self.write(now, wake)
    }

    /// How much of it went out; less than all: it is blocked now.
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        let sent = self.line.write(&mut self.stream, bytes).map_err(drop)?;
        self.blocked = sent < bytes.len() || !self.line.is_flushed();
        Ok(sent)
    }
}
