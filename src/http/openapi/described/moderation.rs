//! Section 9 of the contract, and the taking back of section 8: what a host does while a show runs.

use super::params::{FeedName, GiftIdInPath, UserQuery};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::{ControlResult, RemovedRows, RetractedGift};
use crate::http::bodies::OverlayControl;
use crate::http::problem::Problem;

/// Tell overlays what to do
///
/// An action that changes nothing makes no change and answers where the feed stands.
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

/// Take one gift back
///
/// For refunds. What the gift added to its row leaves it, and a row of which nothing is left goes; the ledger gets an
/// entry `retracted`. Works also when the row has left the list. A scheduled gift is cancelled. A later frame of an
/// explicit combo still says the whole count of its run. No body.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/gifts/{id}/retract",
    operation_id = "retractGift",
    tag = "moderation",
    params(FeedName, GiftIdInPath),
    responses(
        (status = 200, description = "It is taken back, now or before", body = RetractedGift,
            example = json!({"status": "retracted"})),
        (status = 404, description = "No gift of this id is remembered", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn retract_gift() {}

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
