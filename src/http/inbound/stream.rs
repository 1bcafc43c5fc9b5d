//! The bytes of a registered connection.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::phase::Phase;
use super::register::Peer;

/// A connection's bytes on their way to the server, and back. Nothing is held up or changed, but a head
/// with a bare LF: that is made unreadable, so that the server refuses it.
#[derive(Debug)]
pub struct Stream<T> {
    io: T,
    peer: Arc<Peer>,
    /// What was read before, and comes first.
    received: Bytes,
    waited: bool,
    framing: Framing,
    malformed: bool,
}

/// Beside a connection: its feed's list was waited for already, in vain.
#[derive(Clone, Copy, Debug)]
pub struct Waited;

impl<T> Stream<T> {
    /// Around `io`, which `peer` stands for, and of which `received` was read before; `waited` as in [`Waited`].
    pub fn new(io: T, peer: Arc<Peer>, received: Bytes, waited: bool) -> Self {
        Stream { io, peer, received, waited, framing: Framing::default(), malformed: false }
    }

    /// The connection in the register.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// See [`Waited`].
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    fn take(&mut self, bytes: &mut [u8]) {
        if self.framing.heads() == self.peer.answered() {
            self.framing.answered();
        }
        self.malformed = self.malformed || self.framing.scan(bytes).is_err();
        if self.malformed {
            bytes.fill(0);
        }
        let rest = match (self.framing.in_head(), self.framing.in_body()) {
            (true, _) => Phase::Head,
            (_, true) => Phase::Rest,
            _ => Phase::Idle,
        };
        self.peer.expects(rest);
        match self.framing.heads() == self.peer.answered() {
            true => self.peer.enter(rest),
            false => self.peer.goes_on(),
        }
    }

    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        self.peer.watch(cx.waker());
        match self.peer.state().is_cut() {
            true => Err(io::Error::new(ErrorKind::ConnectionAborted, "the connection took too long")),
            false => Ok(()),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buf.filled().len();
        let read = match self.received.is_empty() {
            true => Pin::new(&mut self.io).poll_read(cx, buf),
            false => {
                let first = self.received.len().min(buf.remaining());
                buf.put_slice(&self.received.split_to(first));
                Poll::Ready(Ok(()))
            }
        };
        if matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() > before {
            self.take(&mut buf.filled_mut()[before..]);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        self.peer.moved();
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
