//! Reading the body of a write: JSON only, bounded in size and in time.

use std::pin::pin;
use std::time::Duration;

use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use super::payload::{announced, within};
use super::problem::ApiError;

/// A body as it comes.
pub(super) trait Coming: Stream<Item = Result<Bytes, PayloadError>> + Unpin {}

impl<T: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Coming for T {}

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
    payload: impl Coming,
    limit: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    check_type(req)?;
    check_coding(req)?;
    read_counted(req.headers(), payload, limit, time, |_| Ok(())).await
}

/// As [`read`], whatever type it says to be.
pub(super) async fn read_of_any_type(
    req: &HttpRequest,
    payload: web::Payload,
    limit: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    check_coding(req)?;
    read_counted(req.headers(), payload.into_inner(), limit, time, |_| Ok(())).await
}

/// As [`read`], whatever type and coding it says to have: its bytes as they came. `count` gets how many bytes come,
/// before they are kept, and may refuse them.
pub(super) async fn read_counted(
    headers: &HeaderMap,
    payload: impl Coming,
    limit: usize,
    time: Duration,
    count: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    if announced(headers).is_some_and(|n| n > limit as u64) {
        return Err(ApiError::TooLarge(limit));
    }
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    within(time, pin!(collect(payload, limit, count))).await.unwrap_or(Err(ApiError::BodyTimeout(ms)))
}

fn refuse_type<T>(why: &str) -> Result<T, ApiError> {
    Err(ApiError::UnsupportedMediaType(why.to_owned()))
}

pub(super) fn check_coding(req: &HttpRequest) -> Result<(), ApiError> {
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
    match req.headers().get(CONTENT_TYPE).map(HeaderValue::to_str) {
        Some(Ok(value)) if is_json(value) => match is_utf8(value) {
            true => Ok(()),
            false => refuse_type(
                "JSON is read as UTF-8; send it as UTF-8, without another charset in Content-Type",
            ),
        },
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

/// Whether no parameter `charset` names another encoding. US-ASCII is a part of UTF-8.
fn is_utf8(content_type: &str) -> bool {
    let parameters = content_type.split(';').skip(1).filter_map(|one| one.split_once('='));
    let charset = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let known = ["utf-8", "utf8", "us-ascii"];
    charset
        .map(|(_, value)| value.trim().trim_matches('"'))
        .all(|value| known.iter().any(|it| it.eq_ignore_ascii_case(value)))
}

async fn collect(
    mut payload: impl Coming,
    limit: usize,
    mut count: impl FnMut(usize) -> Result<(), ApiError>,
) -> Result<Bytes, ApiError> {
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|e| ApiError::BrokenBody(broken(&e).to_owned()))?;
        if whole.len() + joined.len() + chunk.len() > limit {
            return Err(ApiError::TooLarge(limit));
        }
        count(chunk.len())?;
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
    use super::{is_json, is_utf8};

    #[test]
    fn json_and_its_relatives_are_read_and_nothing_else() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/json", "application/+json", "application/jsonx", "text/plain", "json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[test]
    fn another_charset_than_utf_8_is_not_read() {
        for good in [
            "application/json",
            "application/json; charset=UTF-8",
            "application/json;charset=\"utf-8\"; v=1",
            "application/json; version=utf-16",
            "application/json; charset=us-ascii",
        ] {
            assert!(is_utf8(good), "{good}");
        }
        for bad in [
            "application/json; charset=utf-16",
            "application/json;Charset=\"UTF-16LE\"",
            "application/json; charset=latin1",
            "application/json; charset=",
            "application/json; charset=utf-8; charset=utf-16",
        ] {
            assert!(!is_utf8(bad), "{bad}");
        }
    }
}
