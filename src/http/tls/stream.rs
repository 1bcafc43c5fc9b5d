//! An encrypted connection as the HTTP server reads and writes it.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::{Heard, MAX_RECORD_BYTES, Tls};
use crate::http::abort::Abort;

/// Bytes over `io`, encrypted. The handshake is done.
#[derive(Debug)]
pub struct TlsStream<T> {
    io: T,
    tls: Box<Tls>,
    /// Decrypted, and not asked for yet: the rest of what one read brought.
    plain: Bytes,
    /// Nothing more can be read.
    ended: bool,
    /// The end was said, so what still comes is not looked at.
    closed: bool,
}

impl<T> TlsStream<T> {
    /// Over `io`, where `tls` has shaken hands.
    pub fn new(io: T, tls: Box<Tls>) -> Self {
        TlsStream { io, tls, plain: Bytes::new(), ended: false, closed: false }
    }
}

impl<T: Abort> Abort for TlsStream<T> {
    fn abort(&self) {
        self.io.abort();
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> TlsStream<T> {
    /// Sends what waits to be sent. Done when nothing waits any more.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = &mut self.io;
        match self.tls.flush(|bytes| write(io, cx, bytes)) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Writes as a non-blocking socket does.
fn write<T: AsyncWrite + Unpin>(io: &mut T, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<usize> {
    match Pin::new(io).poll_write(cx, bytes) {
        Poll::Ready(sent) => sent,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.plain.is_empty() {
            let mut raw = [MaybeUninit::uninit(); MAX_RECORD_BYTES];
            let mut plain = Vec::new();
            while plain.is_empty() && !this.ended {
                let mut raw = ReadBuf::uninit(&mut raw);
                ready!(Pin::new(&mut this.io).poll_read(cx, &mut raw))?;
                if raw.filled().is_empty() {
                    this.ended = true;
                    if !this.closed {
                        return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
                    }
                } else if !this.closed {
                    let heard = this.tls.receive(raw.filled_mut(), |bytes| plain.extend_from_slice(bytes));
                    // What cannot be sent now goes out before whatever is sent next.
                    let _ = this.poll_send(cx)?;
                    this.ended = heard != Heard::Open;
                    if heard == Heard::Broken {
                        return Poll::Ready(Err(ErrorKind::InvalidData.into()));
                    }
                }
            }
            this.plain = plain.into();
        }
        let n = this.plain.len().min(buf.remaining());
        buf.put_slice(&this.plain[..n]);
        this.plain.advance(n);
        if this.plain.is_empty() {
            this.plain = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let io = &mut this.io;
        match this.tls.write(buf, |bytes| write(io, cx, bytes)) {
            Ok(0) if !buf.is_empty() => Poll::Pending,
            written => Poll::Ready(written),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.closed, true) {
            let io = &mut this.io;
            this.tls.close(|bytes| write(io, cx, bytes))?;
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
