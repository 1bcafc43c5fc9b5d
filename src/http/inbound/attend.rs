//! Around every request: its connection is busy until the answer has gone out whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::STRICT_TRANSPORT_SECURITY;
use bytes::Bytes;

use super::register::Peer;

/// See the module. Requests whose connections are not registered, as those of tests without one, pass.
pub async fn around(
    req: ServiceRequest,
    next: impl AsyncFnOnce(ServiceRequest) -> Result<ServiceResponse<BoxBody>, actix_web::Error>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let attending = req.request().conn_data::<Arc<Peer>>().cloned().map(Attending);
    let mut answer = next(req).await?;
    let Some(attending) = attending else { return Ok(answer) };
    if let Some(value) = attending.0.hsts() {
        answer.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value.clone());
    }
    if answer.response().body().size() != BodySize::Stream {
        return Ok(answer);
    }
    Ok(answer.map_body(|_, body| BoxBody::new(Attended { body, _attending: attending })))
}

/// The answer of this request waits only for the rest of its body.
pub fn is_judged(req: &HttpRequest) {
    if let Some(peer) = req.conn_data::<Arc<Peer>>() {
        peer.is_judged();
    }
}

/// A request that is being answered.
struct Attending(Arc<Peer>);

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.answers();
    }
}

/// A body whose length is not known: the answer lasts for as long as it does.
struct Attended {
    body: BoxBody,
    _attending: Attending,
}

impl MessageBody for Attended {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(cx)
    }
}
