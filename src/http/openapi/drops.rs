//! Section 5 of the contract: drops, claims and holds.

use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::producer::{BodyRefusals, Refusals};
use super::schemas::{GiftKind, Problem, User};

fn word_of(words: &[&'static str]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.to_vec())).build()
}

fn state() -> Object {
    word_of(&["pending", "open", "sold_out", "closed"])
}

fn pay() -> Object {
    word_of(&["now", "later"])
}

fn sold() -> Object {
    word_of(&["sold"])
}

fn held() -> Object {
    word_of(&["held"])
}

fn cancelled() -> Object {
    word_of(&["cancelled"])
}

/// How a drop is defined.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropSpec {
    gift: GiftKind,
    /// Units in all. May shrink down to what is sold and held.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    total: u64,
    /// Units of one user, held and sold.
    #[schema(required = false, minimum = 1, maximum = 1_000_000_000, default = 1)]
    per_user: u64,
    /// How long a hold lasts.
    #[schema(required = false, minimum = 1, maximum = 31_536_000_000_u64, default = 1_800_000)]
    hold_ttl_ms: u64,
    /// Unpaid holds that one user may have over all drops of the feed when claiming here.
    #[schema(required = false, minimum = 1, maximum = 1_000_000_000, default = 3)]
    max_holds_per_user: u64,
    /// Claims are refused before.
    #[schema(required = false, value_type = String, format = DateTime)]
    opens_at: String,
    /// Claims are refused from then on; holds can still be confirmed. After opens_at.
    #[schema(required = false, value_type = String, format = DateTime)]
    closes_at: String,
}

/// A drop. Always free + held + sold = total.
#[derive(ToSchema)]
pub struct Drop {
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$", example = "rocket")]
    drop: String,
    /// sold_out: nothing is free, even if units are held.
    #[schema(schema_with = state)]
    state: String,
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    total: u64,
    /// Units that can be claimed.
    free: u64,
    /// Units of unpaid holds.
    held: u64,
    /// Units that were paid for.
    sold: u64,
    gift: GiftKind,
    per_user: u64,
    hold_ttl_ms: u64,
    max_holds_per_user: u64,
    #[schema(required = false, value_type = String, format = DateTime)]
    opens_at: String,
    #[schema(required = false, value_type = String, format = DateTime)]
    closes_at: String,
}

/// The drops of a feed, by name.
#[derive(ToSchema)]
pub struct DropList {
    feed: String,
    drops: Vec<Drop>,
}

/// The drop that a row was sold by.
#[derive(ToSchema)]
pub struct RowDrop {
    drop: String,
    /// Units that were free right after the sale.
    left: u64,
}

/// A claim of units of a drop.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its identity, unique in the drop: the same id again gets the first answer again. May stand in the
    /// header Idempotency-Key instead.
    #[schema(pattern = "^[A-Za-z0-9_.:-]{1,64}$", example = "order-7712")]
    id: String,
    user: User,
    /// Units; the claim is filled whole or refused. At most the drop's per_user.
    #[schema(required = false, minimum = 1, maximum = 1_000_000_000, default = 1)]
    count: u64,
    /// Now: sold and shown at once. Later: held until it is confirmed, cancelled, or its time is over.
    #[schema(schema_with = pay)]
    pay: String,
    /// Plain text, shown with the sale.
    #[schema(required = false, max_length = 200)]
    message: String,
}

/// Sold, and shown.
#[derive(Deserialize, ToSchema)]
pub struct Sold {
    #[schema(schema_with = sold)]
    status: String,
    /// The claim's.
    id: String,
    drop: String,
    count: u64,
    epoch: String,
    /// The change that added the row.
    seq: u64,
    row: String,
}

/// Held until then.
#[derive(Deserialize, ToSchema)]
pub struct Held {
    #[schema(schema_with = held)]
    status: String,
    /// The claim's.
    id: String,
    drop: String,
    count: u64,
    /// For confirming and cancelling.
    hold: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: String,
}

/// What became of a claim.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Claimed {
    /// Paid now.
    Sold(Sold),
    /// To be paid later.
    Held(Held),
}

/// The hold ended; its units are free again.
#[derive(ToSchema)]
pub struct Cancelled {
    #[schema(schema_with = cancelled)]
    status: String,
    hold: String,
}

/// The holds of a user over all drops of a feed, the earliest to end first; at most 1000.
#[derive(ToSchema)]
pub struct Holds {
    holds: Vec<Hold>,
}

/// A hold that still holds.
#[derive(ToSchema)]
pub struct Hold {
    hold: String,
    drop: String,
    /// The claim that made it.
    claim: String,
    count: u64,
    #[schema(value_type = String, format = DateTime)]
    expires_at: String,
}

/// Define or change a drop
///
/// What is left out has its default. Stock, claims and holds stay, and holds keep their ends.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/drops/{drop}",
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("drop" = String, Path, description = "Which drop", example = "rocket", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    request_body(content = DropSpec, examples(
        ("hundred" = (summary = "A hundred rockets, one for each", value = json!(
            {"gift": {"id": "rocket", "name": "Rocket"}, "total": 100}
        ))),
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
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("drop" = String, Path, description = "Which drop", example = "rocket", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    responses(
        (status = 200, description = "How it stands", body = Drop, example = json!(
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
    tag = "drops",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
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
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("drop" = String, Path, description = "Which drop", example = "rocket", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same thing as the body's id",
            pattern = "^[A-Za-z0-9_.:-]{1,64}$"),
    ),
    request_body(content = Claim, examples(
        ("later" = (summary = "Hold one until it is paid for", value = json!(
            {"id": "order-7712", "user": {"id": "u-42", "name": "Mia"}, "count": 1, "pay": "later"}
        ))),
        ("now" = (summary = "It is paid for", value = json!(
            {"id": "order-7713", "user": {"id": "u-43", "name": "Kim"}, "pay": "now", "message": "Mine!"}
        ))),
    )),
    responses(
        (status = 201, description = "It is filled, now or by an earlier request with its id", body = Claimed),
        (status = 404, description = "The feed has no such drop", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It is not filled", body = Problem, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "too-many-holds: in how many seconds the earliest ends"))),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn claim() {}

/// Confirm a hold
///
/// It is paid for: sold, and shown. Takes no body. Safe to repeat: the answer comes again.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/holds/{hold}/confirm",
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("hold" = String, Path, description = "Which hold", example = "rocket~order-7712"),
    ),
    responses(
        (status = 200, description = "It is sold", body = Sold),
        (status = 404, description = "There is no such hold, or it is forgotten", body = Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "Its time is over, or it was cancelled", body = Problem,
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
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("hold" = String, Path, description = "Which hold", example = "rocket~order-7712"),
    ),
    responses(
        (status = 200, description = "It ended", body = Cancelled),
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
    tag = "drops",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("user" = String, Path, description = "The user's id, percent-encoded", example = "u-42"),
    ),
    responses((status = 200, description = "The earliest to end first", body = Holds), Refusals),
)]
pub(super) fn holds() {}
