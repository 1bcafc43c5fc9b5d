//! Reading the body of a write: JSON only, bounded in size and in time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Extensions, Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpMessage, HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use super::problem::ApiError;

/// The whole body of `req`, unread, when it says to be JSON, has at most `limit` bytes and arrives
/// within `time`.
pub(super) fn read(
    req: &HttpRequest,
    payload: web::Payload,
    limit: usize,
    time: Duration,
) -> impl Future<Output = Result<Bytes, ApiError>> {
    read_json(req, payload.into_inner(), limit, time)
}

/// The same for who was not routed.
pub(super) async fn read_json(
    req: &HttpRequest,
    payload: Payload,
    limit: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    check_type(req)?;
    read_whole(req, payload, limit, time).await
}

/// As [`read`], whatever type it says to be.
pub(super) fn read_of_any_type(
    req: &HttpRequest,
    payload: web::Payload,
    limit: usize,
    time: Duration,
) -> impl Future<Output = Result<Bytes, ApiError>> {
    read_whole(req, payload.into_inner(), limit, time)
}

async fn read_whole(
    req: &HttpRequest,
    mut payload: Payload,
    limit: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    check_coding(req)?;
    let announced = req.headers().get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| n > limit as u64) {
        return Err(ApiError::TooLarge(limit));
    }
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let read = within(time, pin!(collect(&mut payload, limit))).await;
    let read = read.unwrap_or(Err(ApiError::BodyTimeout(ms)));
    if matches!(read, Err(ApiError::TooLarge(_) | ApiError::BodyTimeout(_))) {
        leave_unread(&mut req.extensions_mut(), payload);
    }
    read
}

/// The whole body of a request that no handler has seen, whatever its type, under the same limits.
pub(super) async fn read_any(
    req: &mut ServiceRequest,
    limit: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    let announced = req.headers().get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| n > limit as u64) {
        return Err(ApiError::TooLarge(limit));
    }
    let mut payload = req.take_payload();
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let read = within(time, pin!(collect(&mut payload, limit))).await;
    let read = read.unwrap_or(Err(ApiError::BodyTimeout(ms)));
    if matches!(read, Err(ApiError::TooLarge(_) | ApiError::BodyTimeout(_))) {
        leave_unread(&mut req.extensions_mut(), payload);
    }
    read
}

/// What `work` gives, unless that takes longer than `time`. There is no timer for what is there when the task runs for
/// the second time: the server asks for a body before it has looked whether that came with the head, as most do.
async fn within<T>(time: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
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

/// Gives up what is left of a body.
pub(super) fn leave_unread(extensions: &mut Extensions, payload: Payload) {
    extensions.insert(Unread { _payload: payload });
}

/// The rest of a body that was given up. Once nobody holds it, actix reads a chunked body on for as
/// long as the client likes to send; while somebody does, it closes the connection instead.
struct Unread {
    _payload: Payload,
}

/// Statuses of requests whose bodies may be left unread.
const REFUSED_UNREAD: [StatusCode; 5] = [
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::TOO_MANY_REQUESTS,
];

/// Keeps what was left unread of the request until its answer is sent.
pub(super) fn hold_unread(answer: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if !REFUSED_UNREAD.contains(&answer.status()) {
        return answer;
    }
    let unread = answer.request().extensions_mut().remove::<Unread>();
    answer.map_body(|_, body| match unread {
        Some(unread) => BoxBody::new(Holding { body, _unread: unread }),
        None => body,
    })
}

struct Holding {
    body: BoxBody,
    _unread: Unread,
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

fn refuse_type<T>(why: &str) -> Result<T, ApiError> {
    Err(ApiError::UnsupportedMediaType(why.to_owned()))
}

fn check_coding(req: &HttpRequest) -> Result<(), ApiError> {
    let plain = req.headers().get_all(CONTENT_ENCODING).all(|coding| {
        let coding = coding.as_bytes().trim_ascii();
        coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
    });
    match plain {
        true => Ok(()),
        false => refuse_type("compressed bodies are not read; send it without Content-Encoding"),
    }
}

pub(super) fn check_type(req: &HttpRequest) -> Result<(), ApiError> {
    match req.headers().get(CONTENT_TYPE).map(|value| value.to_str().map(is_json)) {
        Some(Ok(true)) => Ok(()),
        Some(_) => refuse_type("the body must be JSON; send Content-Type: application/json"),
        None => refuse_type("the request has no Content-Type; send Content-Type: application/json"),
    }
}

/// `application/json` or `application/*+json`, with any parameters.
fn is_json(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let suffix = subtype.len().checked_sub("+json".len()).and_then(|at| subtype.get(at..));
    kind.eq_ignore_ascii_case("application")
        && (subtype.eq_ignore_ascii_case("json")
            || subtype.len() > "+json".len() && suffix.is_some_and(|end| end.eq_ignore_ascii_case("+json")))
}

async fn collect(
    payload: &mut (impl Stream<Item = Result<Bytes, PayloadError>> + Unpin),
    limit: usize,
) -> Result<Bytes, ApiError> {
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|e| ApiError::BrokenBody(broken(&e).to_owned()))?;
        if whole.len() + joined.len() + chunk.len() > limit {
            return Err(ApiError::TooLarge(limit));
        }
        // Most bodies are one chunk and are never copied.
        if whole.is_empty() && joined.is_empty() {
            whole = chunk;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut whole));
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

fn broken(error: &PayloadError) -> &'static str {
    match error {
        PayloadError::EncodingCorrupted => "the chunks of the body are damaged",
        _ => "the body ended before it was complete",
    }
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn json_and_its_relatives_are_read_and_nothing_else() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/json", "application/+json", "application/jsonx", "text/plain", "json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
