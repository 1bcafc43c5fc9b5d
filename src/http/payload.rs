//! A request's body on its way, shared by the handler, which reads it or does not, and the guard, which sees to it
//! that it has come before the answer goes out. An answer that overtakes the body ends the connection, since nobody
//! knows where the next request begins in it, and a client that sends head and body apart does not always get the answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_http::ConnectionType;
use actix_web::HttpMessage;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, UPGRADE};
use actix_web::http::{Method, StatusCode};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::inbound;

/// The largest rest of a body that is read on and thrown away so that its connection stays usable, in bytes. (A client
/// that has more to send should be stopped.)
const READ_ON_MOST: usize = 1 << 20;

/// The body of a request. Clones share it.
#[derive(Clone)]
pub(super) struct Body(Rc<RefCell<BodyState>>);

struct BodyState {
    payload: Payload,
    /// Its end was seen, or will never come.
    over: bool,
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.borrow_mut();
        if state.over {
            return Poll::Ready(None);
        }
        let next = Pin::new(&mut state.payload).poll_next(cx);
        state.over = matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}

impl Body {
    /// Takes it from its request. What follows a handshake is no body, and is left where it is.
    pub fn of(req: &mut ServiceRequest) -> Body {
        let payload = if is_tunnel(req) { Payload::None } else { req.take_payload() };
        Body::from(payload)
    }

    /// To be read again, from its beginning: these are all its bytes.
    pub fn put_back(&self, bytes: Bytes) {
        *self.0.borrow_mut() = BodyState { payload: Payload::from(bytes), over: false };
    }

    /// Gives it to the handler of its request.
    pub fn lend(&self, req: &mut ServiceRequest) {
        if !self.0.borrow().over {
            req.set_payload(Payload::Stream { payload: Box::pin(self.clone()) });
        }
    }

    /// Gives an answer back when the rest of the body has come; it says that the connection ends when that is too
    /// large, or does not come within half of `time`, which is what the whole of a body may take: so it goes out
    /// before the connection is cut for what is left. Until then the client is who is waited for, so the connection
    /// may be cut when its place is needed.
    pub async fn before(
        mut self,
        mut answer: ServiceResponse<BoxBody>,
        time: Duration,
    ) -> ServiceResponse<BoxBody> {
        if self.0.borrow().over {
            return answer;
        }
        let announced = announced(answer.request().headers());
        // A stream lasts for long, and who took too long for a body took long enough.
        let waits = answer.response().body().size() != BodySize::Stream
            && answer.status() != StatusCode::REQUEST_TIMEOUT
            && announced.is_none_or(|n| n <= READ_ON_MOST as u64);
        if waits {
            inbound::attend::enter_draining(answer.request());
            if within(time / 2, pin!(self.read_on())).await == Some(true) {
                return answer;
            }
        }
        answer.response_mut().head_mut().set_connection_type(ConnectionType::Close);
        answer.map_body(|_, body| BoxBody::new(Holding { body, _unread: self }))
    }

    /// Throws away what is left. False when that is too much.
    async fn read_on(&mut self) -> bool {
        let mut left = READ_ON_MOST;
        while let Some(Ok(chunk)) = self.next().await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => return false,
            }
        }
        true
    }
}

impl From<Payload> for Body {
    fn from(payload: Payload) -> Body {
        let over = matches!(payload, Payload::None);
        Body(Rc::new(RefCell::new(BodyState { payload, over })))
    }
}

/// Whether what follows the head is no body but another protocol, without an end.
fn is_tunnel(req: &ServiceRequest) -> bool {
    let other = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"websocket");
    *req.method() == Method::CONNECT || req.headers().get_all(UPGRADE).any(|value| other(value.as_bytes()))
}

/// How long the body says to be, in bytes.
pub(super) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse().ok())
}

/// What `work` gives, unless that takes longer than `time`. There is no timer for what is there when the task runs for
/// the second time: the server asks for a body before it has looked whether that came with the head, as most do.
pub(super) async fn within<T>(time: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut waited = false;
    let soon = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if waited => Poll::Ready(None),
        Poll::Pending => {
            waited = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match soon.await {
        Some(done) => Some(done),
        None => tokio::time::timeout(time, work).await.ok(),
    }
}

/// An answer's body, and what is left unread of the request's. Once nobody holds that, actix reads a chunked one on for
/// as long as the client likes to send; while somebody does, it closes the connection instead.
struct Holding {
    body: BoxBody,
    _unread: Body,
}

impl MessageBody for Holding {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(cx)
    }
}
