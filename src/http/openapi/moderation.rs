//! Section 9 of the contract, and the taking back of section 8: what a host does while a show runs.

use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::producer::{BodyRefusals, Refusals};
use super::schemas::Problem;

fn action() -> Object {
    let words = ["pause", "resume", "skip", "mute", "unmute", "replay"];
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

fn retracted() -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["retracted"])).build()
}

/// What overlays are to do.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// pause: alerts wait until resume. skip: the one that is shown goes. mute: no sound until unmute. replay: a row is
    /// shown as an alert again, once.
    #[schema(schema_with = action)]
    action: String,
    /// The row of a replay, which needs one, or of a skip.
    #[schema(required = false, pattern = "^[A-Za-z0-9_-]{1,128}$")]
    row: String,
}

/// Where the feed stands afterwards.
#[derive(ToSchema)]
pub struct Controlled {
    seq: u64,
}

/// The gift counts no more.
#[derive(ToSchema)]
pub struct GiftRetracted {
    #[schema(schema_with = retracted)]
    status: String,
}

/// How many rows went.
#[derive(ToSchema)]
pub struct RowsRemoved {
    removed: u64,
}

/// Tell overlays what to do
///
/// An action that changes nothing makes no change and answers where the feed stands.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/control",
    tag = "moderation",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    request_body(content = Control, examples(
        ("pause" = (summary = "Alerts wait", value = json!({"action": "pause"}))),
        ("resume" = (summary = "Alerts go on", value = json!({"action": "resume"}))),
    )),
    responses(
        (status = 200, description = "It is said", body = Controlled, example = json!({"seq": 7})),
        (status = 404, description = "The row of the replay is not, or no longer, in the list", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
    security((), ("producer_key" = [])),
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
    tag = "moderation",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("id" = String, Path, description = "The gift's id", example = "order-7712"),
    ),
    responses(
        (status = 200, description = "It is taken back, now or before", body = GiftRetracted,
            example = json!({"status": "retracted"})),
        (status = 404, description = "No gift of this id is remembered", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn retract_gift() {}

/// Take all rows of a user back
///
/// They leave every screen.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/rows",
    tag = "moderation",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("user" = String, Query, description = "The user's id", example = "u-1"),
    ),
    responses(
        (status = 200, description = "How many there were", body = RowsRemoved, example = json!({"removed": 2})),
        Refusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn retract_user() {}
