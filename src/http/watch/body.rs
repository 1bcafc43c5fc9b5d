//! A watcher's connection as a response body: event streams, and WebSockets on connections that asked for something
//! else before. The server asks it for bytes when the socket took the last ones, so nothing queues per watcher: what
//! a slow socket does not take stays on the board.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::Payload;
use bytes::Bytes;
use futures_core::Stream;

use super::connection::{Connection, Transport};
use super::sockets::SocketHandler;
use super::tally::Tally;
use crate::live::moment::MonoTime;
use crate::live::wake::Wake;

/// Pieces of input handled at once, so that a chatty client can't keep its worker busy.
const PIECES: usize = 16;

/// Streams the frames of a connection for as long as the transport lives.
pub struct WatchBody<T> {
    connection: Connection<T>,
    /// What the client sends after the handshake, where it may send anything.
    input: Option<Payload>,
    tally: Rc<Tally>,
}

impl<T: Transport> WatchBody<T> {
    /// A connection that serves `connection`.
    pub fn new(connection: Connection<T>, input: Option<Payload>, tally: Rc<Tally>) -> Self {
        WatchBody { connection, input, tally }
    }

    fn listen(&mut self, now: MonoTime, cx: &mut Context<'_>) {
        let Some(input) = &mut self.input else { return };
        for _ in 0..PIECES {
            match Pin::new(&mut *input).poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => self.connection.receive(&bytes, now),
                Poll::Ready(_) => {
                    self.connection.peer_closed();
                    self.input = None;
                    return;
                }
                Poll::Pending => return,
            }
        }
        cx.waker().wake_by_ref();
    }
}

impl<T: Transport> MessageBody for WatchBody<T> {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        // Pin: nothing in the body is address-sensitive (all of it is Unpin).
        let body = self.get_mut();
        let now = MonoTime::now();
        body.listen(now, cx);
        let next = body.connection.next_output(now, &Wake::Task(cx.waker().clone()));
        body.tally.flush();
        next.map(|output| output.map(|output| Ok(output.bytes())))
    }
}

/// A body of known bytes without a `Content-Length`: the answer to a WebSocket handshake has none.
pub struct Streamed(pub Option<Bytes>);

impl MessageBody for Streamed {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.get_mut().0.take().map(Ok))
    }
}
