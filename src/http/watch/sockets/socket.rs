//! One socket: writes what its handler has to say for as long as the kernel takes it.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, Bytes};
use mio::net::TcpStream;

use super::handler::{Output, SocketHandler};
use crate::live::wake::Wake;

/// Reads of one socket at once, so that a chatty client can't keep its thread busy.
const READS: usize = 4;

/// A socket and what is output on it.
pub(super) struct Socket<C> {
    pub stream: TcpStream,
    handler: C,
    /// What the kernel did not take, of one frame; none nearly always.
    rest: Option<Box<Bytes>>,
    /// The kernel takes nothing now; it tells when it does.
    blocked: bool,
    /// The kernel was asked to tell when it takes bytes; from then on it always does.
    armed: bool,
}

/// What a read left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Everything there is was read; the kernel tells when there is more.
    Dry,
    /// There may be more.
    More,
    /// The other side is gone, or sends no more.
    End,
}

impl<C: SocketHandler> Socket<C> {
    /// To be greeted next.
    pub fn new(stream: TcpStream, handler: C) -> Self {
        Socket { stream, handler, rest: None, blocked: false, armed: false }
    }

    /// Bytes that were read before.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.handler.receive(bytes, now);
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
    pub fn end(&mut self, now: Instant, wake: &Wake) -> ControlFlow<()> {
        let _ = self.write(now, wake);
        self.handler.peer_closed();
        ControlFlow::Break(())
    }

    /// Reads what came, through the thread's `buffer`.
    pub fn read(&mut self, buffer: &mut [u8], now: Instant) -> Input {
        for _ in 0..READS {
            match self.stream.read(buffer) {
                Ok(0) => return Input::End,
                Ok(n) => {
                    self.handler.receive(&buffer[..n], now);
                    if n < buffer.len() {
                        return Input::Dry;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Input::Dry,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Input::End,
            }
        }
        Input::More
    }

    /// Writes until there is nothing to say or the kernel takes no more. `Break`: the socket is to be closed.
    pub fn write(&mut self, now: Instant, wake: &Wake) -> ControlFlow<()> {
        if self.blocked {
            return ControlFlow::Continue(());
        }
        if let Some(mut rest) = self.rest.take() {
            match self.push(&rest) {
                Err(()) => return ControlFlow::Break(()),
                Ok(sent) if sent < rest.len() => {
                    rest.advance(sent);
                    self.rest = Some(rest);
                    return ControlFlow::Continue(());
                }
                Ok(_) => {}
            }
        }
        loop {
            match self.handler.next_output(now, wake) {
                Poll::Ready(Some(output)) => {
                    let bytes = output.bytes();
                    match self.push(&bytes) {
                        Err(()) => return ControlFlow::Break(()),
                        Ok(sent) if sent < bytes.len() => {
                            self.rest = Some(Box::new(self.handler.unsent(&output, sent)));
                            return ControlFlow::Continue(());
                        }
                        Ok(_) => {}
                    }
                }
                Poll::Ready(None) => {
                    let _ = self.stream.shutdown(Shutdown::Write);
                    return ControlFlow::Break(());
                }
                Poll::Pending => return ControlFlow::Continue(()),
            }
        }
    }

    /// Writes `head`, the answer to the handshake, together with what is output first: one write, one packet.
    pub fn greet(&mut self, head: &[u8], now: Instant, wake: &Wake) -> ControlFlow<()> {
        let first = match self.handler.next_output(now, wake) {
            Poll::Ready(Some(output)) => output,
            Poll::Ready(None) | Poll::Pending => Output::Bytes(Bytes::new()),
        };
        let body = first.bytes();
        let sent = match self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(&body)]) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(_) => return ControlFlow::Break(()),
        };
        if sent < head.len() + body.len() {
            // What the kernel did not take with the first write is as short as it will ever be.
            let then = self.handler.unsent(&first, sent.saturating_sub(head.len()));
            let rest = [&head[sent.min(head.len())..], &then[..]].concat();
            self.rest = Some(Box::new(rest.into()));
        }
        self.write(now, wake)
    }

    /// How much of it the kernel took; less than all: it is blocked now.
    fn push(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(()),
            }
        }
        Ok(sent)
    }
}
