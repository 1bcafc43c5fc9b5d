//! Section 5 of the contract: drops, claims and holds.

use super::params::{ClaimIdInPath, DropName, FeedName, HoldName, IdempotencyKey, UserId};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::texts::{Drop, DropList};
use crate::http::answers::{CancelledHold, ClaimResult, FoundClaim, HoldList, RefundedGift, RetractedGift};
use crate::http::bodies::{DropClaim, DropSpec, GiftRefund, SaleRetraction};
use crate::http::problem::Problem;

/// Define or change a drop
///
/// What is left out has its default. Stock, claims and holds stay, and holds keep their ends.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/drops/{drop}",
    operation_id = "defineDrop",
    tag = "drops",
    params(FeedName, DropName),
    request_body(content = DropSpec, examples(
        ("hundred" = (summary = "A hundred rockets, one for each", value = json!(
            {"gift": {"id": "rocket", "name": "Rocket"}, "total": 100}
        ))),
        ("priced" = (summary = "Each for 4.99", value = json!({
            "gift": {"id": "rocket", "name": "Rocket"}, "value": {"amount": 499, "currency": "EUR"}, "total": 100
        }))),
        ("timed" = (summary = "From a time on, with short holds", value = json!({
            "gift": {"id": "rocket", "name": "Rocket", "icon": "https://example.com/rocket.svg"}, "total": 100,
            "per_user": 2, "hold_ttl_ms": 300_000, "max_holds_per_user": 3, "opens_at": "2026-01-31T20:00:00.000Z"
        }))),
    )),
    responses(
        (status = 201, description = "It is new", body = Drop),
        (status = 200, description = "It was there, and is this now", body = Drop),
        (status = 409, description = "Its total is below what is sold and held", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn put() {}

/// Read a drop
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/drops/{drop}",
    operation_id = "getDrop",
    tag = "drops",
    params(FeedName, DropName),
    responses(
        (status = 200, description = "The present state", body = Drop, example = json!(
            {"drop": "rocket", "state": "open", "total": 100, "free": 37, "held": 3, "sold": 60,
             "gift": {"id": "rocket", "name": "Rocket"}, "per_user": 1, "hold_ttl_ms": 1_800_000, "max_holds_per_user": 3}
        )),
        (status = 404, description = "The feed has no such drop", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn get() {}

/// List the drops of a feed
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/drops",
    operation_id = "listDrops",
    tag = "drops",
    params(FeedName),
    responses((status = 200, description = "As they stand, by name; at most 64", body = DropList), Refusals),
)]
pub(super) fn list() {}

/// Claim units of a drop
///
/// Safe to repeat with the same id: once filled, the first answer comes again, also when the drop is sold out or
/// closed; the same id with another payload is 422. A refusal is not remembered. The kinds of 409 are sold-out,
/// already-claimed (its member claim holds the answer to the user's first claim), too-many-holds and drop-not-open.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/drops/{drop}/claims",
    operation_id = "claimDrop",
    tag = "drops",
    params(FeedName, DropName, IdempotencyKey),
    request_body(content = DropClaim, examples(
        ("later" = (summary = "Hold one until it is paid for", value = json!(
            {"id": "order-7712", "user": {"id": "u-42", "name": "Mia"}, "count": 1, "pay": "later"}
        ))),
        ("now" = (summary = "It is paid for", value = json!(
            {"id": "order-7713", "user": {"id": "u-43", "name": "Kim"}, "pay": "now", "message": "Mine!"}
        ))),
    )),
    responses(
        (status = 201, description = "It is filled, now or by an earlier request with its id", body = ClaimResult),
        (status = 404, description = "The feed has no such drop", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It is not filled", body = Problem, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "too-many-holds: in how many seconds the earliest ends"))),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn claim() {}

/// Look a claim up
///
/// Also by the entry of its sale, whose `gift.id` is the claim's id.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/drops/{drop}/claims/{id}",
    operation_id = "getClaim",
    tag = "drops",
    params(FeedName, DropName, ClaimIdInPath),
    responses(
        (status = 200, description = "What became of it", body = FoundClaim),
        (status = 404, description = "There is no such claim, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn look_up() {}

/// Refund a part of what a sale cost
///
/// `refunded` is all that is refunded so far: a repeat, a lower amount, or a refund of a sale that was taken back changes nothing.
/// The row, totals, leaders and goals lose the difference; the ledger gets an entry `gift.refunded` with the claim's id and `drop`.
/// Refunding everything takes the sale back; its units stay sold.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/drops/{drop}/claims/{id}/refund",
    operation_id = "refundSale",
    tag = "drops",
    params(FeedName, DropName, ClaimIdInPath),
    request_body(content = GiftRefund, examples(
        ("part" = (summary = "1.50 of it, so far", value = json!({"refunded": 150, "reason": "late"}))),
    )),
    responses(
        (status = 200, description = "So much is refunded", body = RefundedGift,
            example = json!({"status": "refunded", "refunded": 150, "row": "0mj3k9x2q7a1b-42"})),
        (status = 404, description = "There is no such claim, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It has no value, or was not sold", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn refund() {}

/// Take a sale back
///
/// Its row goes, and the ledger gets an entry `gift.retracted` with the claim's id, `drop` and the negative of what is left. With
/// `restock` its units are free again, once, also if it was taken back before. A hold that is not paid is cancelled. The body may be
/// left out.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/drops/{drop}/claims/{id}/retract",
    operation_id = "retractSale",
    tag = "drops",
    params(FeedName, DropName, ClaimIdInPath),
    request_body(content = Option<SaleRetraction>, examples(
        ("restock" = (summary = "Somebody else may have it", value = json!({"reason": "chargeback", "restock": true}))),
    )),
    responses(
        (status = 200, description = "It is taken back, now or before", body = RetractedGift,
            example = json!({"status": "retracted"})),
        (status = 404, description = "There is no such claim, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn retract() {}

/// Confirm a hold
///
/// It is paid for: sold, and shown. Takes no body. Safe to repeat: the answer comes again.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/holds/{hold}/confirm",
    operation_id = "confirmHold",
    tag = "drops",
    params(FeedName, HoldName),
    responses(
        (status = 200, description = "It is sold", body = ClaimResult),
        (status = 404, description = "There is no such hold, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It has expired or was cancelled", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn confirm() {}

/// Cancel a hold
///
/// Its units are free again. Takes no body.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/holds/{hold}",
    operation_id = "cancelHold",
    tag = "drops",
    params(FeedName, HoldName),
    responses(
        (status = 200, description = "It ended", body = CancelledHold),
        (status = 404, description = "There is no such hold, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It ended before, or was sold", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn cancel() {}

/// List a user's holds
///
/// Over all drops of the feed, those that still hold.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/users/{user}/holds",
    operation_id = "listUserHolds",
    tag = "drops",
    params(FeedName, UserId),
    responses((status = 200, description = "The earliest to end first", body = HoldList), Refusals),
)]
pub(super) fn holds() {}
