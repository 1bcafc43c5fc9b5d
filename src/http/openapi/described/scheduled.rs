//! Gifts that wait to be shown.

use super::params::{FeedName, GiftIdInPath, PageQuery};
use super::refusals::Refusals;
use crate::http::answers::texts::ScheduledGiftPage;
use crate::http::answers::{CancelledGift, DueFailureList};
use crate::http::problem::Problem;

/// List gifts that wait to be shown
///
/// In the order in which they will be shown: by time, then by arrival.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/scheduled",
    operation_id = "listScheduledGifts",
    tag = "producer",
    params(FeedName, PageQuery),
    responses((status = 200, description = "A page", body = ScheduledGiftPage), Refusals),
)]
pub(super) fn list() {}

/// Cancel a gift that waits to be shown
///
/// Its id stays used: the same gift sent again is a duplicate and not shown either.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/scheduled/{id}",
    operation_id = "cancelScheduledGift",
    tag = "producer",
    params(FeedName, GiftIdInPath),
    responses(
        (status = 200, description = "It will not be shown", body = CancelledGift, example = json!(
            {"status": "cancelled", "id": "order-7712", "deliver_at": "2026-01-31T12:00:00.000Z"}
        )),
        (status = 404, description = "No gift of this id waits, or it was cancelled before", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It was shown already", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn cancel() {}

/// List what was due and could not be done
///
/// Normally nothing. The newest 100 of the feed, each given up after five tries.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/due/dead",
    operation_id = "listDueFailures",
    tag = "producer",
    params(FeedName),
    responses((status = 200, description = "What was given up", body = DueFailureList), Refusals),
)]
pub(super) fn dead() {}
