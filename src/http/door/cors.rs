//! The headers of cross-origin answers (the Fetch standard).

use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderValue, ORIGIN, VARY,
};

use super::{AccessClass, AccessRules, Page, RequestHead};

/// Methods that some path below /v1 knows.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");

/// Request headers that mean something here and that a browser asks about.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, \
     Tipcast-Key, Webhook-Id, Webhook-Timestamp, Webhook-Signature, traceparent, tracestate, baggage",
);

/// Answer headers that a page may read beside those that it always may.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("ETag, Retry-After, RateLimit, RateLimit-Policy, WWW-Authenticate");

/// How long a browser may remember a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Lets `page` see the answer to what it wanted, if it may. No credentials are ever allowed: a key goes
/// along by the page's own doing or not at all.
pub(super) fn put(
    rules: &AccessRules,
    page: Page,
    want: AccessClass,
    preflight: bool,
    head: &RequestHead<'_>,
    headers: &mut HeaderMap,
) {
    // What producers get is not cached, so programs need not get what only browsers heed.
    let unheeded = page == Page::Unnamed && want.needs_key();
    if unheeded || rules.check_page(page, want, preflight).is_err() {
        return;
    }
    if rules.origins.is_any() {
        // The same for everybody, so that caches need not keep an answer for each origin.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let origin = head.all(&ORIGIN).next().and_then(|origin| HeaderValue::from_bytes(origin).ok());
        let (Page::Named, Some(origin)) = (page, origin) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    if preflight {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    } else if page != Page::Unnamed {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}
