//! The shapes that are read and answered (contract sections 1 and 3). Never built: only described.

use serde::Deserialize;
use serde_json::Value as Json;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::drops::{Claimed, Drop, RowDrop};

/// A gift event.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gift {
    /// The event's identity, unique in its feed: the same id again is the same gift. Also accepted as the
    /// header Idempotency-Key. Absent: the server makes one.
    #[schema(required = false, pattern = "^[A-Za-z0-9_.:-]{1,64}$", example = "order-7712")]
    id: String,
    user: User,
    gift: GiftKind,
    /// Units of this event.
    #[schema(required = false, minimum = 1, maximum = 1_000_000, default = 1)]
    count: u64,
    #[schema(required = false)]
    value: Money,
    #[schema(required = false)]
    combo: Combo,
    /// Plain text.
    #[schema(required = false, max_length = 200)]
    message: String,
    /// How much is made of it on screen.
    #[schema(required = false, minimum = 0, maximum = 9)]
    tier: u8,
    /// When it happened at the producer's.
    #[schema(required = false, value_type = String, format = DateTime)]
    occurred_at: String,
    /// Shows the gift then; at once when that has passed. Not beside delay_ms.
    #[schema(required = false, value_type = String, format = DateTime)]
    deliver_at: String,
    /// Shows the gift this much later. Not beside deliver_at.
    #[schema(required = false, minimum = 0, maximum = 604_800_000)]
    delay_ms: u64,
    /// Shown as a test; never counted in totals, drops or reports.
    #[schema(required = false, default = false)]
    test: bool,
    /// Passed through untouched; at most 1 KiB as JSON.
    #[schema(required = false, value_type = Object)]
    meta: Json,
}

/// Who sent a gift.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// At most 64 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 64, example = "u-42")]
    id: String,
    /// Control characters and bidirectional overrides are stripped; an empty rest shows the id.
    #[schema(min_length = 1, max_length = 64, example = "Mia")]
    name: String,
    /// A picture.
    #[schema(required = false, max_length = 512, format = "uri", pattern = "^[Hh][Tt][Tt][Pp][Ss]://")]
    avatar: String,
}

/// What was sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GiftKind {
    /// At most 64 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 64, example = "rose")]
    id: String,
    /// Control characters and bidirectional overrides are stripped; an empty rest shows the id.
    #[schema(min_length = 1, max_length = 64, example = "Rose")]
    name: String,
    /// A picture.
    #[schema(required = false, max_length = 512, format = "uri", pattern = "^[Hh][Tt][Tt][Pp][Ss]://")]
    icon: String,
}

/// What the whole event is worth.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// Minor units.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64, example = 499)]
    amount: u64,
    #[schema(pattern = "^[A-Za-z]{3,12}$", example = "EUR")]
    currency: String,
}

/// An explicit combo: frames of one run of the same gift. Repeated and reordered frames are harmless.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Combo {
    /// At most 128 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 128, example = "run-1")]
    id: String,
    /// Cumulative: how many so far in this run.
    #[schema(minimum = 0, maximum = 4_294_967_295_u64)]
    count: u32,
    /// Closes the run; frames after it change nothing.
    #[schema(required = false, default = false)]
    end: bool,
}

/// Many gifts. Each is judged alone.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    #[schema(min_items = 1, max_items = 128)]
    gifts: Vec<Gift>,
}

macro_rules! words {
    ($($name:ident = [$($word:literal),+],)*) => {$(
        fn $name() -> Object {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$($word),+])).build()
        }
    )*};
}

words! {
    accepted = ["accepted"],
    merged = ["merged"],
    suppressed = ["suppressed"],
    scheduled = ["scheduled"],
    retracted = ["retracted"],
    any_status = ["accepted", "merged", "suppressed", "scheduled", "rejected"],
    dedup = ["combine", "drop", "off"],
    presence = ["off", "count"],
}

fn always() -> Object {
    let yes = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
    yes.description(Some("Only there when the id came before; the rest is the first answer.")).build()
}

/// A new row.
#[derive(Deserialize, ToSchema)]
pub struct Accepted {
    #[schema(schema_with = accepted)]
    status: String,
    id: String,
    epoch: String,
    seq: u64,
    row: String,
    #[schema(required = false, schema_with = always)]
    duplicate: bool,
}

/// The gift joined a row.
#[derive(Deserialize, ToSchema)]
pub struct Merged {
    #[schema(schema_with = merged)]
    status: String,
    id: String,
    epoch: String,
    seq: u64,
    row: String,
    /// The row's count now.
    count: u64,
    #[schema(required = false, schema_with = always)]
    duplicate: bool,
}

/// Not shown, because of the dedup lock.
#[derive(Deserialize, ToSchema)]
pub struct Suppressed {
    #[schema(schema_with = suppressed)]
    status: String,
    id: String,
    row: String,
    #[schema(required = false, schema_with = always)]
    duplicate: bool,
}

/// Shown later.
#[derive(Deserialize, ToSchema)]
pub struct Scheduled {
    #[schema(schema_with = scheduled)]
    status: String,
    id: String,
    /// It is shown then or shortly after, never before.
    #[schema(value_type = String, format = DateTime)]
    deliver_at: String,
    #[schema(required = false, schema_with = always)]
    duplicate: bool,
}

/// What became of a gift that made no new row just now.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Joined {
    /// It joined a row.
    Merged(Merged),
    /// It is not shown.
    Suppressed(Suppressed),
    /// It came before, and made a row then.
    Accepted(Accepted),
    /// It came before, and waits or was cancelled.
    Scheduled(Scheduled),
}

/// What became of a batch.
#[derive(ToSchema)]
pub struct BatchAnswer {
    accepted: u64,
    merged: u64,
    suppressed: u64,
    /// Repeated ids; their results carry the first answer's status.
    duplicate: u64,
    scheduled: u64,
    rejected: u64,
    /// In the order of the request.
    results: Vec<BatchResult>,
}

/// What became of one gift of a batch.
#[derive(ToSchema)]
pub struct BatchResult {
    index: u64,
    #[schema(schema_with = any_status)]
    status: String,
    #[schema(required = false)]
    id: String,
    #[schema(required = false)]
    epoch: String,
    #[schema(required = false)]
    seq: u64,
    #[schema(required = false)]
    row: String,
    #[schema(required = false)]
    count: u64,
    #[schema(required = false, value_type = String, format = DateTime)]
    deliver_at: String,
    #[schema(required = false, schema_with = always)]
    duplicate: bool,
    #[schema(required = false)]
    error: Problem,
}

/// A row was taken back.
#[derive(ToSchema)]
pub struct Retracted {
    #[schema(schema_with = retracted)]
    status: String,
    row: String,
    epoch: String,
    seq: u64,
}

/// How a feed behaves: the whole policy in force.
#[derive(ToSchema)]
pub struct Policy {
    /// Rows of the list.
    #[schema(minimum = 1, maximum = 100)]
    capacity: u64,
    /// What a repeated gift does.
    #[schema(schema_with = dedup)]
    dedup: String,
    /// How long the dedup lock lasts.
    #[schema(minimum = 0, maximum = 86_400_000)]
    dedup_window_ms: u64,
    /// How long a row lives after its last change; 0 for ever.
    #[schema(minimum = 0, maximum = 604_800_000)]
    row_ttl_ms: u64,
    /// How much later gifts are shown.
    #[schema(minimum = 0, maximum = 604_800_000)]
    delay_ms: u64,
    /// How long changes are gathered for watchers.
    #[schema(minimum = 0, maximum = 1_000)]
    flush_ms: u64,
    /// How long an id is remembered.
    #[schema(minimum = 60_000, maximum = 604_800_000)]
    idempotency_window_ms: u64,
    /// How many of the newest changes a watcher can resume over.
    #[schema(minimum = 0, maximum = 100_000)]
    history: u64,
    /// Whether watchers are told how many watch.
    #[schema(schema_with = presence)]
    presence: String,
}

/// Any of a policy's fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Rows of the list.
    #[schema(required = false, minimum = 1, maximum = 100)]
    capacity: u64,
    /// What a repeated gift does.
    #[schema(required = false, schema_with = dedup)]
    dedup: String,
    /// How long the dedup lock lasts.
    #[schema(required = false, minimum = 0, maximum = 86_400_000)]
    dedup_window_ms: u64,
    /// How long a row lives after its last change; 0 for ever, else at least 1 000.
    #[schema(required = false, minimum = 0, maximum = 604_800_000)]
    row_ttl_ms: u64,
    /// How much later gifts are shown.
    #[schema(required = false, minimum = 0, maximum = 604_800_000)]
    delay_ms: u64,
    /// How long changes are gathered for watchers.
    #[schema(required = false, minimum = 0, maximum = 1_000)]
    flush_ms: u64,
    /// How long an id is remembered.
    #[schema(required = false, minimum = 60_000, maximum = 604_800_000)]
    idempotency_window_ms: u64,
    /// How many of the newest changes a watcher can resume over.
    #[schema(required = false, minimum = 0, maximum = 100_000)]
    history: u64,
    /// Whether watchers are told how many watch.
    #[schema(required = false, schema_with = presence)]
    presence: String,
}

/// A feed's list at one position.
#[derive(ToSchema)]
pub struct Feed {
    feed: String,
    /// One life of the numbering; "0" when nobody wrote yet.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,32}$")]
    epoch: String,
    /// The number of the last change.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    seq: u64,
    #[schema(minimum = 1, maximum = 100)]
    capacity: u64,
    #[schema(value_type = String, format = DateTime)]
    server_time: String,
    /// Newest first.
    #[schema(max_items = 100)]
    rows: Vec<Row>,
    /// As watchers were told of them at this seq, by name; only there when the feed has any. The counts may be
    /// behind those of GET /v1/feeds/{feed}/drops by a moment.
    #[schema(required = false, min_items = 1, max_items = 64)]
    drops: Vec<Drop>,
    /// What the host told overlays to do; only there while they pause or are muted.
    #[schema(required = false)]
    control: Controls,
}

/// What overlays were told to do; only there while one of the two is true.
#[derive(ToSchema)]
pub struct Controls {
    /// Alerts wait.
    paused: bool,
    /// Alerts make no sound.
    muted: bool,
}

/// One line of the ticker.
#[derive(ToSchema)]
pub struct Row {
    #[schema(pattern = "^[A-Za-z0-9_-]{1,128}$")]
    row: String,
    /// Grows with every change of the row.
    #[schema(minimum = 1)]
    rev: u64,
    /// The change that added the row.
    #[schema(minimum = 1)]
    seq: u64,
    user: User,
    gift: GiftKind,
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    count: u64,
    #[schema(required = false)]
    value: Money,
    #[schema(required = false)]
    message: String,
    #[schema(required = false, maximum = 9)]
    tier: u8,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    #[schema(value_type = String, format = DateTime)]
    updated_at: String,
    #[schema(required = false, value_type = String, format = DateTime)]
    expires_at: String,
    #[schema(required = false)]
    combo: Combo,
    /// The drop that it was sold by.
    #[schema(required = false)]
    drop: RowDrop,
    #[schema(required = false)]
    test: bool,
    #[schema(required = false, value_type = Object)]
    meta: Json,
}

/// Why a request was not answered as it wished (RFC 9457).
#[derive(ToSchema)]
pub struct Problem {
    /// Names the kind of problem; GET it to read what it means.
    #[schema(rename = "type", pattern = "^/problems/[a-z-]+$", example = "/problems/invalid")]
    kind: String,
    title: String,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is said about this occurrence.
    #[schema(required = false)]
    detail: String,
    /// Everything that is wrong with the body, each with its place.
    #[schema(required = false, min_items = 1)]
    errors: Vec<Fault>,
    /// Of already-claimed: the answer to the user's first claim.
    #[schema(required = false)]
    claim: Claimed,
}

/// One thing wrong with a body.
#[derive(ToSchema)]
pub struct Fault {
    /// A JSON pointer (RFC 6901) into the body; empty for the request itself.
    #[schema(example = "/user/id")]
    pointer: String,
    detail: String,
}

/// The process lives.
#[derive(ToSchema)]
pub struct Alive {
    status: String,
}

/// The store answers.
#[derive(ToSchema)]
pub struct Ready {
    /// `ready`, or `degraded` while some of several shards do not answer.
    status: String,
    engine: String,
    /// Only where the store has several.
    shards: Option<Shards>,
}

/// Primaries of a cluster.
#[derive(ToSchema)]
pub struct Shards {
    /// Those that answer.
    up: u64,
    /// Those that do not: their feeds answer 503.
    down: u64,
}
