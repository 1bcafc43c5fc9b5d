//! Section 9 of the contract, and the taking back of section 8: what a host does while a show runs.

use super::params::{FeedName, GiftIdInPath, UserQuery};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::{ControlResult, RefundedGift, RemovedRows, RetractedGift};
use crate::http::bodies::{GiftRefund, GiftRetraction, OverlayControl};
use crate::http::problem::Problem;

/// Control overlays
///
/// An action that changes nothing makes no change and answers the position of the feed.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/control",
    operation_id = "controlOverlays",
    tag = "moderation",
    params(FeedName),
    request_body(content = OverlayControl, examples(
        ("pause" = (summary = "Alerts wait", value = json!({"action": "pause"}))),
        ("resume" = (summary = "Alerts go on", value = json!({"action": "resume"}))),
    )),
    responses(
        (status = 200, description = "It is said", body = ControlResult, example = json!({"seq": 7})),
        (status = 404, description = "The row of the replay is not, or no longer, in the list", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn control() {}

/// Take back a gift
///
/// What the gift added to its row leaves it, and a row of which nothing is left goes; the ledger gets an entry
/// `gift.retracted` with the negative of what is left of it. Works also when the row has left the list. A scheduled gift is
/// cancelled, one in review denied. The body, with a reason, may be left out.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts/{id}/retract",
    operation_id = "retractGift",
    tag = "moderation",
    params(FeedName, GiftIdInPath),
    request_body(content = Option<GiftRetraction>),
    responses(
        (status = 200, description = "It is taken back, now or before", body = RetractedGift,
            example = json!({"status": "retracted"})),
        (status = 404, description = "No gift of this id is remembered", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn retract_gift() {}

/// Refund a part of a gift's value
///
/// `refunded` is all that is refunded so far: a repeat, a lower amount, or a refund of a gift that was taken back changes nothing.
/// The row, totals, leaders and goals lose the difference, counts stay; the ledger gets an entry `gift.refunded`. Refunding
/// everything takes the gift back. Gifts that were denied or not shown can be refunded too: their money was paid.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts/{id}/refund",
    operation_id = "refundGift",
    tag = "moderation",
    params(FeedName, GiftIdInPath),
    request_body(content = GiftRefund, examples(
        ("part" = (summary = "1.50 of it, so far", value = json!({"refunded": 150, "reason": "chargeback"}))),
    )),
    responses(
        (status = 200, description = "So much is refunded", body = RefundedGift,
            example = json!({"status": "refunded", "refunded": 150, "row": "0mj3k9x2q7a1b-42"})),
        (status = 404, description = "No gift of this id is remembered", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "The gift has no value, or waits", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn refund_gift() {}

/// Take all rows of a user back
///
/// They leave every screen.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/rows",
    operation_id = "retractUserRows",
    tag = "moderation",
    params(FeedName, UserQuery),
    responses(
        (status = 200, description = "How many there were", body = RemovedRows, example = json!({"removed": 2})),
        Refusals,
    ),
)]
pub(super) fn retract_user() {}
