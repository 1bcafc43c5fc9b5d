//! Section 9 of the contract: what waits for a host, and who is not shown.

use super::params::{BlockScope, FeedName, GiftIdInPath, UserId};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::texts::ReviewList;
use crate::http::answers::{BlockEntry, BlockList, GiftResult, Unblocked};
use crate::http::bodies::{BlockWish, ReviewDecision};
use crate::http::problem::Problem;

/// List gifts that wait for a decision
///
/// The oldest first. None of them is in the feed, nor in anything that watchers get.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/review",
    operation_id = "listReview",
    tag = "moderation",
    params(FeedName),
    responses((status = 200, description = "Everything that waits", body = ReviewList), Refusals),
)]
pub(super) fn list() {}

/// Decide about a gift that waits
///
/// It is shown in the order of decisions. Deciding the same again answers the same.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/review/{id}",
    operation_id = "decideReview",
    tag = "moderation",
    params(FeedName, GiftIdInPath),
    request_body(content = ReviewDecision, example = json!({"action": "approve"})),
    responses(
        (status = 200, description = "What became of it", body = GiftResult, example = json!(
            {"status": "accepted", "id": "order-7712", "epoch": "00w6f5hrbbqm5", "seq": 7, "row": "00w6f5hrbbqm5-7"}
        )),
        (status = 404, description = "No gift of this id is, or was lately, in review", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "Something else was decided, or time has decided", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn decide() {}

/// Keep a user's gifts from being shown
///
/// Within a second, on every node. They are recorded, reported and counted all the same. What waits in review is denied,
/// what is scheduled is suppressed when it is due, claims are refused.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/blocks/{user}",
    operation_id = "blockUser",
    tag = "moderation",
    params(BlockScope, UserId),
    request_body(content = BlockWish, example = json!({"retract": true})),
    responses(
        (status = 200, description = "The user was blocked before; this block holds now", body = BlockEntry),
        (status = 201, description = "The user is blocked", body = BlockEntry, example = json!(
            {"user": "u-42", "at": "2026-01-31T12:00:00.000Z"}
        )),
        (status = 409, description = "As many users are blocked as may be", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn block() {}

/// Show a user's gifts again
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/blocks/{user}",
    operation_id = "unblockUser",
    tag = "moderation",
    params(BlockScope, UserId),
    responses(
        (status = 200, description = "The user is not blocked any more", body = Unblocked, example = json!({"user": "u-42"})),
        (status = 404, description = "The user is not blocked here", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn unblock() {}

/// List users whose gifts are not shown
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/blocks",
    operation_id = "listBlocks",
    tag = "moderation",
    params(BlockScope),
    responses((status = 200, description = "Blocks that hold", body = BlockList), Refusals),
)]
pub(super) fn blocks() {}
