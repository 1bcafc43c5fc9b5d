//! Section 1 of the contract: writing.

use utoipa::IntoResponses;

use super::schemas::{
    Accepted, Batch, BatchAnswer, Gift, Joined, Policy, PolicyPatch, Problem, Retracted, Scheduled,
};

/// What every write may answer instead.
#[derive(IntoResponses)]
pub(super) enum Refusals {
    #[response(
        status = 401,
        description = "A producer key is needed",
        content_type = "application/problem+json"
    )]
    Unauthenticated(#[to_schema] Problem),
    #[response(
        status = 403,
        description = "This web page or key may not",
        content_type = "application/problem+json"
    )]
    Forbidden(#[to_schema] Problem),
    #[response(
        status = 422,
        description = "Something breaks a rule",
        content_type = "application/problem+json"
    )]
    Invalid(#[to_schema] Problem),
    #[response(
        status = 429,
        description = "Too many requests, or too many gifts wait to be shown",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    TooMany(#[to_schema] Problem),
    #[response(
        status = 503,
        description = "The store does not answer; a retry with the same id is safe",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    Unavailable(#[to_schema] Problem),
}

/// What a write with a body may answer besides.
#[derive(IntoResponses)]
pub(super) enum BodyRefusals {
    #[response(status = 400, description = "The body is not JSON", content_type = "application/problem+json")]
    Syntax(#[to_schema] Problem),
    #[response(
        status = 408,
        description = "The body came too slowly",
        content_type = "application/problem+json"
    )]
    Slow(#[to_schema] Problem),
    #[response(
        status = 413,
        description = "The body is too large",
        content_type = "application/problem+json"
    )]
    TooLarge(#[to_schema] Problem),
    #[response(
        status = 415,
        description = "The body is not said to be JSON",
        content_type = "application/problem+json"
    )]
    MediaType(#[to_schema] Problem),
}

/// Take one gift
///
/// At most 8 KiB. Safe to repeat with the same id: within the idempotency window the first answer comes again,
/// with `"duplicate": true`; the same id with another payload is 422.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts",
    tag = "producer",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same thing as the body's id",
            pattern = "^[A-Za-z0-9_.:-]{1,64}$"),
    ),
    request_body(content = Gift, examples(
        ("least" = (summary = "What a gift needs", value = json!(
            {"user": {"id": "u-42", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}}
        ))),
        ("order" = (summary = "With its identity, money and a message", value = json!({
            "id": "order-7712", "user": {"id": "u-42", "name": "Mia", "avatar": "https://example.com/mia.png"},
            "gift": {"id": "rose", "name": "Rose", "icon": "https://example.com/rose.svg"}, "count": 3,
            "value": {"amount": 1497, "currency": "EUR"}, "message": "Great show!", "tier": 2,
            "occurred_at": "2026-01-31T12:00:00.000Z", "meta": {"campaign": "winter"}
        }))),
        ("combo" = (summary = "A frame of an explicit combo", value = json!({
            "id": "run-1-5", "user": {"id": "u-7", "name": "Lee"}, "gift": {"id": "heart", "name": "Heart"},
            "combo": {"id": "run-1", "count": 5, "end": true}
        }))),
        ("later" = (summary = "Shown in ten seconds", value = json!({
            "id": "order-7714", "user": {"id": "u-42", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"},
            "delay_ms": 10_000
        }))),
        ("test" = (summary = "A test, shown and never counted", value = json!({
            "user": {"id": "u-0", "name": "Test"}, "gift": {"id": "rose", "name": "Rose"}, "test": true
        }))),
    )),
    responses(
        (status = 201, description = "A new row", body = Accepted, example = json!(
            {"status": "accepted", "id": "order-7712", "epoch": "00w6f5hrbbqm5", "seq": 1, "row": "00w6f5hrbbqm5-1"}
        )),
        (status = 200, description = "It joined a row, is suppressed, or came before", body = Joined, example = json!(
            {"status": "merged", "id": "order-7713", "epoch": "00w6f5hrbbqm5", "seq": 2, "row": "00w6f5hrbbqm5-1",
             "count": 4}
        )),
        (status = 202, description = "It is shown later", body = Scheduled, example = json!(
            {"status": "scheduled", "id": "order-7714", "deliver_at": "2026-01-31T12:00:10.000Z"}
        )),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn publish() {}

/// Take many gifts
///
/// 1 to 128 gifts in at most 1 MiB, each judged alone: one bad gift never refuses its neighbours.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts/batch",
    tag = "producer",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    request_body(content = Batch, examples(
        ("two" = (summary = "Two gifts", value = json!({"gifts": [
            {"id": "b-1", "user": {"id": "u-42", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}},
            {"id": "b-2", "user": {"id": "u-43", "name": "Kim"}, "gift": {"id": "tea", "name": "Tea"}, "count": 2}
        ]}))),
    )),
    responses(
        (status = 200, description = "What became of each, in the order of the request", body = BatchAnswer),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn publish_batch() {}

/// Take a row back
///
/// For moderation and refunds: the row leaves every screen.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/rows/{row}",
    tag = "producer",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("row" = String, Path, description = "Which row", example = "00w6f5hrbbqm5-1"),
    ),
    responses(
        (status = 200, description = "It is gone", body = Retracted, example = json!(
            {"status": "retracted", "row": "00w6f5hrbbqm5-1", "epoch": "00w6f5hrbbqm5", "seq": 3}
        )),
        (status = 404, description = "It is not, or no longer, in the list", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn retract() {}

/// Read a feed's policy
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/policy",
    tag = "producer",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    responses((status = 200, description = "The whole policy in force", body = Policy), Refusals),
)]
pub(super) fn policy_get() {}

/// Replace a feed's policy
///
/// What is left out goes back to the server's default. Takes effect on every node within a second.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/policy",
    tag = "producer",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    request_body(content = PolicyPatch, examples(
        ("alerts" = (summary = "Few rows that leave after a minute", value = json!(
            {"capacity": 5, "row_ttl_ms": 60_000, "dedup": "combine", "dedup_window_ms": 10_000}
        ))),
        ("defaults" = (summary = "All of the server's defaults", value = json!({}))),
    )),
    responses((status = 200, description = "The whole policy now in force", body = Policy), Refusals, BodyRefusals),
)]
pub(super) fn policy_put() {}

/// Change a feed's policy
///
/// What is left out stays.
#[utoipa::path(
    patch,
    path = "/v1/feeds/{feed}/policy",
    tag = "producer",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    request_body(content = PolicyPatch, examples(
        ("longer" = (summary = "A longer list", value = json!({"capacity": 20}))),
    )),
    responses((status = 200, description = "The whole policy now in force", body = Policy), Refusals, BodyRefusals),
)]
pub(super) fn policy_patch() {}
