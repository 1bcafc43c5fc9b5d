//! Section 3 of the contract: reading and watching.

use utoipa::{IntoResponses, ToSchema};

use super::schemas::{Feed, Problem};

/// What reading and watching may answer instead.
#[derive(IntoResponses)]
enum Refusals {
    #[response(
        status = 403,
        description = "Not from this web page",
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
    tag = "watching",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of what you have"),
    ),
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

/// Who watches a feed.
#[derive(ToSchema)]
struct Presence {
    feed: String,
    /// On all nodes together; at most 5 s old.
    watchers: u64,
    /// Nodes with watchers. One that died is counted for at most 15 s.
    nodes: u64,
    #[schema(value_type = String, format = DateTime)]
    at: String,
}

/// Ask how many watch a feed
///
/// The sum over all nodes, at most 5 s old.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/presence",
    tag = "watching",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    responses(
        (status = 200, description = "How many there are", body = Presence, example = json!(
            {"feed": "show", "watchers": 1204, "nodes": 3, "at": "2026-01-31T12:00:00.000Z"}
        )),
        Refusals,
    ),
)]
pub(super) fn presence() {}

/// Watch a feed on a WebSocket
///
/// Text frames, one JSON object each: `snapshot` or `resumed` first, then `delta` and `keepalive`. See
/// docs/asyncapi.yaml.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/ws",
    tag = "watching",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("since" = Option<String>, Query, description = "The position you have, epoch:seq; one that is not covered \
            gets a snapshot, never a refusal"),
        ("max_hz" = Option<f64>, Query, description = "At most this many frames a second", minimum = 0.01,
            maximum = 1000),
    ),
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
    tag = "watching",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("since" = Option<String>, Query, description = "The position you have, epoch:seq"),
        ("max_hz" = Option<f64>, Query, description = "At most this many frames a second", minimum = 0.01,
            maximum = 1000),
        ("Last-Event-ID" = Option<String>, Header, description = "The position you have; newer than since"),
    ),
    responses(
        (status = 200, description = "Events, for as long as you like", body = String,
            content_type = "text/event-stream"),
        Refusals,
    ),
)]
pub(super) fn sse() {}

/// Watch many feeds on one WebSocket
///
/// Send `{"type":"subscribe","feed":…,"since"?:…}` and `{"type":"unsubscribe","feed":…}`, for up to 64 feeds.
#[utoipa::path(
    get,
    path = "/v1/ws",
    tag = "watching",
    responses((status = 101, description = "The WebSocket is open"), NoHandshake, Refusals),
)]
pub(super) fn many() {}
