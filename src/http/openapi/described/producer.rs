//! Section 1 of the contract: writing.

use super::params::{FeedName, IdempotencyKey, RowName};
use super::refusals::{BodyRefusals, Refusals};
use crate::domain::{Policy, PolicyPatch};
use crate::http::answers::{GiftBatchResult, GiftResult, RetractedRow};
use crate::http::bodies::{Gift, GiftBatch};
use crate::http::problem::Problem;

/// Send a gift
///
/// At most 8 KiB. Safe to repeat with the same id: within the idempotency window the first answer comes again,
/// with `"duplicate": true`; the same id with another payload is 422.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts",
    operation_id = "publishGift",
    tag = "producer",
    params(FeedName, IdempotencyKey),
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
        (status = 201, description = "A new row", body = GiftResult, example = json!(
            {"status": "accepted", "id": "order-7712", "epoch": "00w6f5hrbbqm5", "seq": 1, "row": "00w6f5hrbbqm5-1"}
        )),
        (status = 200, description = "It joined a row, is suppressed, or came before", body = GiftResult, example = json!(
            {"status": "merged", "id": "order-7713", "epoch": "00w6f5hrbbqm5", "seq": 2, "row": "00w6f5hrbbqm5-1",
             "count": 4}
        )),
        (status = 202, description = "It is shown later", body = GiftResult, example = json!(
            {"status": "scheduled", "id": "order-7714", "deliver_at": "2026-01-31T12:00:10.000Z"}
        )),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn publish() {}

/// Send many gifts
///
/// 1 to 128 gifts in at most 1 MiB, each judged alone: one bad gift never refuses its neighbours.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts/batch",
    operation_id = "publishGiftBatch",
    tag = "producer",
    params(FeedName),
    request_body(content = GiftBatch, examples(
        ("two" = (summary = "Two gifts", value = json!({"gifts": [
            {"id": "b-1", "user": {"id": "u-42", "name": "Mia"}, "gift": {"id": "rose", "name": "Rose"}},
            {"id": "b-2", "user": {"id": "u-43", "name": "Kim"}, "gift": {"id": "tea", "name": "Tea"}, "count": 2}
        ]}))),
    )),
    responses(
        (status = 200, description = "What became of each, in the order of the request", body = GiftBatchResult),
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
    operation_id = "retractRow",
    tag = "producer",
    params(FeedName, RowName),
    responses(
        (status = 200, description = "It is gone", body = RetractedRow, example = json!(
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
    operation_id = "getPolicy",
    tag = "producer",
    params(FeedName),
    responses((status = 200, description = "The whole policy in force", body = Policy), Refusals),
)]
pub(super) fn policy_get() {}

/// Replace a feed's policy
///
/// What is left out goes back to the server's default. Takes effect on every node within a second.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/policy",
    operation_id = "replacePolicy",
    tag = "producer",
    params(FeedName),
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
    operation_id = "updatePolicy",
    tag = "producer",
    params(FeedName),
    request_body(content = PolicyPatch, examples(
        ("longer" = (summary = "A longer list", value = json!({"capacity": 20}))),
    )),
    responses((status = 200, description = "The whole policy now in force", body = Policy), Refusals, BodyRefusals),
)]
pub(super) fn policy_patch() {}
