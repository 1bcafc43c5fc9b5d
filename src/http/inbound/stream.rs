//! The bytes of a registered connection.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::{Framing, Malformed};
use super::phase::PeerPhase;
use super::register::{Peer, UnsentPermit};
use crate::http::abort::Abort;

/// A connection's bytes on their way to the server, and back. The server gets the next request only when the answer
/// to the one before is encoded: actix keeps the method of one request per connection, so a HEAD and a GET that it has
/// decoded both exchange their framing. A head with a bare LF is made unreadable, so that the server refuses it.
#[derive(Debug)]
pub struct Stream<T> {
    io: T,
    peer: Arc<Peer>,
    /// What was read and not given to the server yet. While there is any, nothing is read: so it is bounded by one read,
    /// and a client that pipelines is noticed to be gone when its answer is written.
    received: Bytes,
    waited: bool,
    framing: Framing,
    malformed: bool,
    /// Bytes that the server got since it last had to wait for some.
    burst: usize,
    /// The client takes nothing now.
    unsent: Option<Box<UnsentPermit>>,
}

/// Bytes that the server reads in one go; then it decodes them and the handler takes them. Without this bound it reads up to 128 KiB
/// per connection, and may hold as much again in its queue of chunks. One read has the same bound: whatever is read at once becomes one
/// chunk, and the queue counts chunks only when they are in it.
const READ_BYTES: usize = 8 << 10;

/// Beside a connection: its feed's list was waited for already, in vain.
#[derive(Clone, Copy, Debug)]
pub struct Waited;

impl<T> Stream<T> {
    /// Around `io`, which `peer` represents, and of which `received` was read before; `waited` as in [`Waited`].
    pub fn new(io: T, peer: Arc<Peer>, received: Bytes, waited: bool) -> Self {
        Stream {
            io,
            peer,
            received,
            waited,
            framing: Framing::default(),
            malformed: false,
            burst: 0,
            unsent: None,
        }
    }

    /// The connection in the register.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// See [`Waited`].
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    /// Judges the next bytes. Returns how many of them the server gets now; the others belong to the next request.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let answered = self.peer.answered();
        if self.framing.heads() == answered {
            self.framing.answered();
        }
        let taken = match self.malformed {
            true => Err(Malformed),
            false => self.framing.scan(bytes, answered),
        };
        let taken = taken.unwrap_or_else(|Malformed| {
            self.malformed = true;
            bytes.len()
        });
        let rest = match (self.framing.in_head(), self.framing.in_body()) {
            (true, _) => PeerPhase::Head,
            (_, true) => PeerPhase::Rest,
            _ => PeerPhase::Idle,
        };
        self.peer.set_next(rest);
        match self.framing.heads() == self.peer.answered() {
            true => self.peer.enter(rest),
            false => self.peer.continue_request(),
        }
        taken
    }
}

impl<T: Abort> Stream<T> {
    fn check(&self, cx: &Context<'_>) -> io::Result<()> {
        self.peer.watch(cx.waker());
        if self.peer.state().is_aborted() {
            self.io.abort();
        }
        match self.peer.state().is_cut() {
            true => Err(io::Error::new(ErrorKind::ConnectionAborted, "the connection took too long")),
            false => Ok(()),
        }
    }
}

impl<T: AsyncRead + Abort + Unpin> AsyncRead for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        // Begun anew also where there is nothing to read now.
        let burst = std::mem::take(&mut self.burst);
        if burst >= READ_BYTES {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let taken = if self.received.is_empty() {
            ready!(
                Pin::new(&mut tokio::io::AsyncReadExt::take(&mut self.io, READ_BYTES as u64))
                    .poll_read(cx, buf)
            )?;
            let came = &buf.filled()[before..];
            if came.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let taken = self.take(came);
            if taken < came.len() {
                self.received = Bytes::copy_from_slice(&came[taken..]);
            }
            buf.set_filled(before + taken);
            taken
        } else {
            let mut received = std::mem::take(&mut self.received);
            let taken = self.take(&received[..received.len().min(buf.remaining())]);
            buf.put_slice(&received.split_to(taken));
            self.received = received;
            taken
        };
        if self.malformed {
            buf.filled_mut()[before..].fill(0);
        }
        if taken == 0 {
            self.peer.state().wake_when_answered();
            return Poll::Pending;
        }
        self.burst = burst + taken;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Abort + Unpin> AsyncWrite for Stream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        self.peer.note_progress();
        let sent = Pin::new(&mut self.io).poll_write(cx, buf);
        match sent {
            Poll::Ready(_) => self.unsent = None,
            Poll::Pending if self.unsent.is_none() => {
                self.unsent = self.peer.unsent(buf.len()).map(Box::new);
            }
            Poll::Pending => {}
        }
        sent
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
