//! Section 12 of the contract: what the console reads.

use super::params::{AttemptsQuery, AuditQuery, FeedsQuery, StatsQuery, WebhookName, WebhookScope};
use super::refusals::Refusals;
use crate::domain::attempt::DeliveryAttempt;
use crate::http::answers::{AttemptList, AuditPage, FeedList, KeyList, NodeList, Stats, Webhook};
use crate::http::problem::Problem;

/// List feeds
///
/// By name; only those that the key covers. A new feed appears within 5 s. A page may be short, or empty, and have a
/// `next`.
#[utoipa::path(
    get,
    path = "/v1/feeds",
    operation_id = "listFeeds",
    tag = "operations",
    params(FeedsQuery),
    responses((status = 200, description = "A page of feeds", body = FeedList, example = json!(
        {"feeds": [{"feed": "show", "epoch": "00w6f5hrbbqm5", "seq": 7, "watchers": 2, "rows": 3, "visibility": "public",
            "last_at": "2026-01-31T12:00:00.000Z"}], "next": "show"}
    )), Refusals),
)]
pub(super) fn feeds() {}

/// List the nodes that live
///
/// Each by its own report of at most ten seconds ago. A node that died leaves the list within 15 s. While the store does not
/// answer, the node that is asked is the only one.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    operation_id = "listNodes",
    tag = "operations",
    responses((status = 200, description = "Every node", body = NodeList, example = json!(
        {"nodes": [{"node": "web-1:8080", "version": "0.2.0", "started_at": "2026-01-31T12:00:00.000Z", "watchers": 1200,
            "feeds": 4, "gifts_per_second": 12.4, "deliveries_per_second": 9100.2, "p99_ms": 1.9, "rss_bytes": 41000000,
            "cpu": 0.12, "ready": true}]}
    )), Refusals),
)]
pub(super) fn nodes() {}

/// Read what all nodes did lately
///
/// Added up over the nodes, in steps of five seconds; percentiles are those of the slowest node.
#[utoipa::path(
    get,
    path = "/v1/stats",
    operation_id = "readStats",
    tag = "operations",
    params(StatsQuery),
    responses((status = 200, description = "The series, the newest value last", body = Stats), Refusals),
)]
pub(super) fn stats() {}

/// Read the audit log
///
/// The newest thousand lines of the node that is asked, whether they are written to a file or not, the newest first. A key that
/// is for some feeds sees the lines about these.
#[utoipa::path(
    get,
    path = "/v1/audit",
    operation_id = "readAudit",
    tag = "operations",
    params(AuditQuery),
    responses((status = 200, description = "A page of lines", body = AuditPage, example = json!(
        {"audit": [{"cursor": "41", "time": "2026-01-31T12:00:00.000Z", "key": "host", "right": "moderate", "feed": "show",
            "action": "PUT blocks", "target": "u-42", "outcome": "done"}], "next": "41"}
    )), Refusals),
)]
pub(super) fn audit() {}

/// List keys
///
/// Without what opens anything. Needs a key for all feeds.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "listKeys",
    tag = "operations",
    responses((status = 200, description = "Every key of the configuration", body = KeyList, example = json!(
        {"keys": [{"name": "host", "may": ["moderate", "read"], "feeds": ["game-*"], "signed": false,
            "last_used_at": "2026-01-31T12:00:00.000Z"}]}
    )), Refusals),
)]
pub(super) fn keys() {}

/// Read the newest attempts of a webhook
///
/// The newest first, the last 50 are kept. An embedded store forgets them when it is stopped.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/webhooks/{name}/attempts",
    operation_id = "listWebhookAttempts",
    tag = "reports",
    params(WebhookScope, WebhookName, AttemptsQuery),
    responses(
        (status = 200, description = "What was sent, and what came back", body = AttemptList, example = json!(
            {"attempts": [{"at": "2026-01-31T12:00:00.000Z", "feed": "show", "batch": "msg_1", "entries": 3, "status": 503, "ms": 41,
                "error": "the endpoint answered 503", "response": "overloaded"}]}
        )),
        (status = 404, description = "There is no such webhook", body = Problem, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn attempts() {}

/// Try a webhook
///
/// Sends one signed delivery with a sample entry of each type that the webhook wants. It and each of its entries have
/// `"test": true`; they are in no ledger. Nothing is tried again.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/webhooks/{name}/test",
    operation_id = "testWebhook",
    tag = "reports",
    params(WebhookScope, WebhookName),
    responses(
        (status = 200, description = "What came back", body = DeliveryAttempt, example = json!(
            {"at": "2026-01-31T12:00:00.000Z", "feed": "show", "batch": "msg_1", "entries": 9, "status": 204, "ms": 12, "test": true}
        )),
        (status = 404, description = "There is no such webhook", body = Problem, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn test_webhook() {}

/// Let a webhook send at once
///
/// One that waits after a failure tries again now, and one that was disabled is active again. It takes neither an address nor a
/// secret.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/webhooks/{name}/retry",
    operation_id = "retryWebhook",
    tag = "reports",
    params(WebhookScope, WebhookName),
    responses(
        (status = 200, description = "The webhook, without the error that it had", body = Webhook),
        (status = 404, description = "There is no such webhook", body = Problem, content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn retry_webhook() {}
