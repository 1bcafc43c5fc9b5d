//! Around every request: its connection is busy until the answer has gone out whole.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::STRICT_TRANSPORT_SECURITY;
use bytes::Bytes;

use super::register::Peer;

/// The largest part of a body that is copied into a connection's buffer at once, in bytes.
const MAX_PIECE_BYTES: usize = 8 << 10;

/// Marks the connection as busy until the answer to `req` is encoded, and ends the answer to a HEAD after its head.
/// Connections that are not registered, as in tests, are not marked.
pub async fn around(
    req: ServiceRequest,
    next: impl AsyncFnOnce(ServiceRequest) -> Result<ServiceResponse<BoxBody>, actix_web::Error>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let attending = req.request().conn_data::<Arc<Peer>>().cloned().map(Attending);
    let is_head = *req.method() == Method::HEAD;
    let mut answer = next(req).await?;
    if is_head && answer.response().body().size() == BodySize::Stream {
        // actix sends nothing of it, but reads it to its end before the next request; an event stream has none.
        answer = answer.map_body(|_, _| BoxBody::new(EmptyStream));
    }
    let Some(attending) = attending else { return Ok(answer) };
    if let Some(value) = attending.0.hsts() {
        answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value.clone());
    }
    match answer.response().body().size() {
        BodySize::Stream => {}
        BodySize::Sized(length) if length > MAX_PIECE_BYTES as u64 => attending.0.enter_sending(),
        _ => return Ok(answer),
    }
    Ok(answer.map_body(|_, body| BoxBody::new(Attended { body, rest: Bytes::new(), attending })))
}

/// The answer of this request waits only for the rest of its body.
pub fn enter_draining(req: &HttpRequest) {
    if let Some(peer) = req.conn_data::<Arc<Peer>>() {
        peer.enter_draining();
    }
}

/// A request that is being answered.
struct Attending(Arc<Peer>);

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.finish_answer();
    }
}

/// What a HEAD gets of a body whose length is not known. Its size is what chooses the headers, which are those of the
/// GET.
struct EmptyStream;

impl MessageBody for EmptyStream {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(None)
    }
}

/// A body whose length is not known, or a large one: the answer lasts for as long as it does. It is given out in pieces,
/// since actix copies what it takes into a buffer of the connection, and takes more once the client took that: so what
/// waits for a slow client stays in the body's own bytes, which many may share.
struct Attended {
    body: BoxBody,
    rest: Bytes,
    attending: Attending,
}

impl MessageBody for Attended {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let Attended { body, rest, attending } = self.get_mut();
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_next(cx)) {
                Some(Ok(bytes)) => *rest = bytes,
                end => return Poll::Ready(end),
            }
        }
        let piece = rest.split_to(rest.len().min(MAX_PIECE_BYTES));
        attending.0.set_untaken(rest.len());
        Poll::Ready(Some(Ok(piece)))
    }
}
