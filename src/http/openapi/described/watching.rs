//! Section 3 of the contract: reading and watching.

use utoipa::IntoResponses;

use super::params::{FeedName, WatchQuery};
use crate::http::answers::Presence;
use crate::http::answers::texts::Feed;
use crate::http::problem::Problem;

/// What reading and watching may answer instead.
#[derive(IntoResponses)]
enum Refusals {
    #[response(
        status = 401,
        description = "The feed is private and no token or key came, or what came is no good",
        content_type = "application/problem+json"
    )]
    Unauthenticated(#[to_schema] Problem),
    #[response(
        status = 403,
        description = "Not from this web page, or not with this token or key",
        content_type = "application/problem+json"
    )]
    Forbidden(#[to_schema] Problem),
    #[response(
        status = 422,
        description = "A name or the query breaks a rule",
        content_type = "application/problem+json"
    )]
    Invalid(#[to_schema] Problem),
    #[response(
        status = 429,
        description = "Too many connections from this address",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    TooMany(#[to_schema] Problem),
    #[response(
        status = 503,
        description = "The store does not answer, or there is no place",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    Unavailable(#[to_schema] Problem),
}

/// What a WebSocket's path answers to what is no handshake.
#[derive(IntoResponses)]
enum NoHandshake {
    #[response(
        status = 400,
        description = "A handshake that breaks RFC 6455",
        content_type = "application/problem+json"
    )]
    Bad(#[to_schema] Problem),
    #[response(
        status = 426,
        description = "A plain GET: this path speaks WebSocket",
        content_type = "application/problem+json"
    )]
    Plain(#[to_schema] Problem),
}

/// Read a feed once
///
/// A feed nobody wrote to is an empty feed with epoch "0" and seq 0, not 404.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}",
    operation_id = "getFeed",
    tag = "watching",
    params(FeedName, ("If-None-Match" = Option<String>, Header, description = "The ETag of what you have")),
    responses(
        (status = 200, description = "The list", body = Feed,
            headers(("ETag" = String, description = "The position, \"epoch:seq\"")),
            example = json!({
                "feed": "show", "epoch": "00w6f5hrbbqm5", "seq": 2, "capacity": 10,
                "server_time": "2026-01-31T12:00:03.000Z",
                "rows": [{
                    "row": "00w6f5hrbbqm5-1", "rev": 2, "seq": 1, "user": {"id": "u-42", "name": "Mia"},
                    "gift": {"id": "rose", "name": "Rose"}, "count": 4, "value": {"amount": 1996, "currency": "EUR"},
                    "at": "2026-01-31T12:00:00.000Z", "updated_at": "2026-01-31T12:00:02.000Z"
                }]
            })
        ),
        (status = 304, description = "You have it"),
        Refusals,
    ),
)]
pub(super) fn feed() {}

/// Ask how many watch a feed
///
/// The sum over all nodes, at most 5 s old.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/presence",
    operation_id = "getPresence",
    tag = "watching",
    params(FeedName),
    responses(
        (status = 200, description = "How many there are", body = Presence, example = json!(
            {"feed": "show", "watchers": 1204, "overlays": 2, "nodes": 3, "at": "2026-01-31T12:00:00.000Z"}
        )),
        Refusals,
    ),
)]
pub(super) fn presence() {}

/// Watch a feed on a WebSocket
///
/// Text frames, one JSON object each: `snapshot` or `resumed` first, then `delta` and `keepalive`. Who may is judged
/// after the handshake, so that browsers see why not. See /asyncapi.yaml.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/ws",
    operation_id = "watchFeed",
    tag = "watching",
    params(FeedName, WatchQuery),
    responses((status = 101, description = "The WebSocket is open"), NoHandshake, Refusals),
)]
pub(super) fn ws() {}

/// Watch a feed as server-sent events
///
/// Events `snapshot`, `resumed`, `delta`, `keepalive`, `goodbye` with the same JSON as on a WebSocket; the id of an
/// event is the position after it.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/sse",
    operation_id = "streamFeed",
    tag = "watching",
    params(FeedName, WatchQuery, ("Last-Event-ID" = Option<String>, Header, description = "The position you have; newer than since")),
    responses(
        (status = 200, description = "Events, for as long as you like", body = String,
            content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) fn sse() {}

/// Watch many feeds on one WebSocket
///
/// Send `{"type":"subscribe","feed":…,"since"?:…,"without"?:"totals"}` and `{"type":"unsubscribe","feed":…}`, for up to 64 feeds.
#[utoipa::path(
    get,
    path = "/v1/ws",
    operation_id = "watchFeeds",
    tag = "watching",
    responses((status = 101, description = "The WebSocket is open"), NoHandshake, Refusals),
)]
pub(super) fn many() {}
