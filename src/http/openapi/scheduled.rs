//! Gifts that wait to be shown.

use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::producer::Refusals;
use super::schemas::{Gift, Problem};

fn cancelled() -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["cancelled"])).build()
}

fn kind() -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["gift", "unknown"])).build()
}

/// Gifts that wait, in the order in which they will be shown.
#[derive(Deserialize, ToSchema)]
pub struct ScheduledPage {
    scheduled: Vec<ScheduledGift>,
    /// For `after` of the next page; null when this is the last.
    #[schema(required)]
    next: Option<String>,
}

/// A gift that waits.
#[derive(Deserialize, ToSchema)]
pub struct ScheduledGift {
    id: String,
    /// It is shown then or shortly after, never before.
    #[schema(value_type = String, format = DateTime)]
    deliver_at: String,
    /// The event as it was accepted.
    gift: Gift,
}

/// The gift will not be shown.
#[derive(Deserialize, ToSchema)]
pub struct Cancelled {
    #[schema(schema_with = cancelled)]
    status: String,
    id: String,
    /// When it would have been shown.
    #[schema(value_type = String, format = DateTime)]
    deliver_at: String,
}

/// What was due and could not be done, the newest first.
#[derive(Deserialize, ToSchema)]
pub struct DeadPage {
    #[schema(max_items = 100)]
    dead: Vec<Dead>,
}

/// Something that was due and was given up after five tries.
#[derive(Deserialize, ToSchema)]
pub struct Dead {
    #[schema(schema_with = kind)]
    kind: String,
    /// A gift's id, for a gift.
    id: String,
    /// When it was due, the last time.
    #[schema(value_type = String, format = DateTime)]
    due: String,
    /// When it was given up.
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// Why.
    reason: String,
}

/// List gifts that wait to be shown
///
/// In the order in which they will be shown: by time, then by arrival.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/scheduled",
    tag = "producer",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("limit" = Option<u32>, Query, description = "Gifts in the page; 100 when absent", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
    ),
    responses((status = 200, description = "A page", body = ScheduledPage), Refusals),
)]
pub(super) fn list() {}

/// Cancel a gift that waits to be shown
///
/// Its id stays used: the same gift sent again is a duplicate and not shown either.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/scheduled/{id}",
    tag = "producer",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("id" = String, Path, description = "The gift's id", example = "order-7712"),
    ),
    responses(
        (status = 200, description = "It will not be shown", body = Cancelled, example = json!(
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
    tag = "producer",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    responses((status = 200, description = "What was given up", body = DeadPage), Refusals),
)]
pub(super) fn dead() {}
