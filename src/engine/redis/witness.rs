//! What a connection came to, in the words of its stream. The client of Redis says "broken pipe" for whatever happened to a
//! connection, and a server that refuses a TLS client says so after the handshake, when that client is written to already.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::engine::protocol::address::Endpoint;
use crate::engine::protocol::faults::{Fault, FaultKind, failed};

/// The first bytes of a TLS alert or handshake.
const TLS_RECORDS: [[u8; 2]; 2] = [[0x15, 0x03], [0x16, 0x03]];

/// What was read of a stream so far.
#[derive(Clone, Default)]
pub struct Cause(Arc<Mutex<Option<String>>>);

impl Cause {
    /// This fault, with what the stream said where that is why the connection is of no use.
    pub fn explain(&self, to: &Endpoint, fault: Fault) -> Fault {
        match &*self.locked() {
            Some(why) if fault.leave && fault.kind == FaultKind::Unclear => failed(to, why),
            _ => fault,
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, why: impl ToString) {
        *self.locked() = Some(why.to_string());
    }
}

/// A stream whose trouble is noted.
pub struct Witnessed<S> {
    stream: S,
    cause: Cause,
    is_tls: bool,
    /// True until the server has sent anything.
    is_new: bool,
}

impl<S> Witnessed<S> {
    pub fn new(stream: S, is_tls: bool) -> (Witnessed<S>, Cause) {
        let cause = Cause::default();
        (Witnessed { stream, cause: cause.clone(), is_tls, is_new: true }, cause)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Witnessed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        let came = &buf.filled()[before..];
        // A server that wants TLS resets or closes a connection on which something else comes first.
        let tls = match self.is_new && !self.is_tls {
            true => "; perhaps it wants TLS: then write rediss:// in the URL",
            false => "",
        };
        match &read {
            Err(error) => self.cause.note(format_args!("{error}{tls}")),
            Ok(()) if self.is_new && came.is_empty() => {
                self.cause.note(format_args!("it closed the connection before it answered{tls}"));
            }
            Ok(()) if !tls.is_empty() && TLS_RECORDS.iter().any(|record| came.starts_with(record)) => {
                self.cause.note("it speaks TLS; write rediss:// in the URL");
            }
            Ok(()) => {}
        }
        self.is_new = false;
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Witnessed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
