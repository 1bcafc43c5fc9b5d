//! The shapes of bodies that are read (contract sections 1, 5 and 6). `domain` reads them field by field, to
//! name everything that is wrong at once; here they are only described. `tests/it/openapi.rs` sends the examples
//! of the document, and the rules are in `domain`.

#![allow(dead_code, reason = "only described, never built")]

use std::collections::BTreeMap;

use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::domain::control::Action;
use crate::domain::tally::Period;
use crate::domain::{Decision, Delivery, Pay, Start};

/// A gift event. Not both of deliver_at and delay_ms.
#[derive(ToSchema)]
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

/// Who sent a gift. Unknown fields are refused in a request.
#[derive(ToSchema)]
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
    /// Counted in totals, and never ranked.
    #[schema(required = false)]
    anonymous: bool,
}

/// What was sent. Unknown fields are refused in a request.
#[derive(ToSchema)]
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

/// What the whole event is worth. Unknown fields are refused in a request.
#[derive(ToSchema)]
pub struct Money {
    /// Minor units.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64, example = 499)]
    amount: u64,
    #[schema(pattern = "^[A-Za-z]{3,12}$", example = "EUR")]
    currency: String,
}

/// An explicit combo: frames of one run of the same gift. Repeated and reordered frames are harmless. Unknown fields
/// are refused in a request.
#[derive(ToSchema)]
pub struct Combo {
    /// At most 128 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 128, example = "run-1")]
    id: String,
    /// Cumulative: how many so far in this run.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    count: u64,
    /// Closes the run; frames after it change nothing.
    #[schema(required = false, default = false)]
    end: bool,
}

/// Many gifts. Each is judged alone.
#[derive(ToSchema)]
pub struct GiftBatch {
    #[schema(min_items = 1, max_items = 128)]
    gifts: Vec<Gift>,
}

/// What a host decides about a gift that waits.
#[derive(ToSchema)]
pub struct ReviewDecision {
    action: Decision,
}

/// How a user is blocked.
#[derive(ToSchema)]
pub struct BlockWish {
    /// Until when; absent for ever.
    #[schema(required = false, value_type = String, format = DateTime)]
    until: String,
    /// Whether rows that are shown are taken back.
    #[schema(required = false, default = false)]
    retract: bool,
}

/// A session's name.
#[derive(ToSchema)]
pub struct SessionStart {
    /// At most 64 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 64, example = "friday-7")]
    id: String,
}

/// How a goal is defined.
#[derive(ToSchema)]
pub struct GoalSpec {
    #[schema(min_length = 1, max_length = 64, example = "New mic")]
    title: String,
    /// The period that it goes by, and with which it begins anew.
    period: Period,
    /// points, units, or a currency.
    #[schema(pattern = "^[A-Za-z]{3,12}$", example = "EUR")]
    by: String,
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64, example = 20_000)]
    target: u64,
}

/// From when on a viewer's tokens are refused.
#[derive(ToSchema)]
pub struct Revocation {
    /// Tokens with an `iat` before this are; now when it is absent, and not in the future.
    #[schema(required = false, format = DateTime)]
    before: String,
}

/// How a drop is defined.
#[derive(ToSchema)]
pub struct DropSpec {
    gift: GiftKind,
    /// Of one unit. A claim costs this by its count, and keeps the price of its time. At most 2^53-1 for as many units as one
    /// user may have.
    #[schema(required = false)]
    value: Money,
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

/// A claim of units of a drop.
#[derive(ToSchema)]
pub struct DropClaim {
    /// Its identity, unique in the drop: the same id again gets the first answer again. Required here or in the
    /// header Idempotency-Key.
    #[schema(required = false, pattern = "^[A-Za-z0-9_.:-]{1,64}$", example = "order-7712")]
    id: String,
    user: User,
    /// Units; the claim is filled whole or refused. At most the drop's per_user.
    #[schema(required = false, minimum = 1, maximum = 1_000_000_000, default = 1)]
    count: u64,
    pay: Pay,
    /// Plain text, shown with the sale.
    #[schema(required = false, max_length = 200)]
    message: String,
}

/// Why a gift is taken back.
#[derive(ToSchema)]
pub struct GiftRetraction {
    /// For the ledger.
    #[schema(max_length = 200, example = "chargeback")]
    reason: Option<String>,
}

/// Why a sale is taken back, and what becomes of its units.
#[derive(ToSchema)]
pub struct SaleRetraction {
    /// For the ledger.
    #[schema(max_length = 200, example = "chargeback")]
    reason: Option<String>,
    /// Makes the units free again, once.
    #[schema(required = false, default = false)]
    restock: bool,
}

/// How much of a gift's value is refunded.
#[derive(ToSchema)]
pub struct GiftRefund {
    /// In minor units, so far.
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    refunded: u64,
    /// For the ledger.
    #[schema(max_length = 200, example = "chargeback")]
    reason: Option<String>,
}

/// Where a group is moved to: one of these.
#[derive(ToSchema)]
pub struct GroupSeek {
    to: Option<Start>,
    /// The entry with this cursor.
    #[schema(pattern = "^[0-9]{1,16}$", example = "1795177783042017")]
    cursor: Option<String>,
    /// The first entry that happened then or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    at: Option<String>,
}

/// What a group wants.
#[derive(ToSchema)]
pub struct GroupClaim {
    /// Who asks, for the log; at most 64 bytes in UTF-8.
    #[schema(min_length = 1, max_length = 64, example = "game-1")]
    consumer: String,
    /// Entries at most.
    #[schema(required = false, minimum = 1, maximum = 1_000, default = 128)]
    max: u64,
    /// How long to wait when there is nothing.
    #[schema(required = false, minimum = 0, maximum = 30_000, default = 0)]
    wait_ms: u64,
    /// How long the entries are this claimer's. Those that are not acknowledged by then go to the next one.
    #[schema(required = false, minimum = 1_000, maximum = 600_000, default = 30_000)]
    lease_ms: u64,
    #[schema(required = false)]
    from: Start,
}

/// Entries that a group was handed.
#[derive(ToSchema)]
pub struct EntryCursors {
    #[schema(max_items = 1_000)]
    cursors: Vec<String>,
}

/// Where and how gifts are pushed.
#[derive(ToSchema)]
pub struct WebhookSpec {
    /// http or https, without credentials and fragment, at most 2048 bytes. Must lead to a public address,
    /// unless the operator allows others.
    #[schema(max_length = 2048, format = "uri", example = "https://games.example/gifts")]
    url: String,
    /// whsec_ and base64 of 24 to 64 random bytes, by which deliveries are signed (Standard Webhooks).
    #[schema(
        pattern = "^whsec_[A-Za-z0-9+/]{32,88}={0,2}$",
        example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    )]
    secret: String,
    /// Entries of one delivery at most.
    #[schema(required = false, minimum = 1, maximum = 1_000, default = 128)]
    batch_max: u64,
    /// How long entries are gathered.
    #[schema(required = false, minimum = 0, maximum = 60_000, default = 1_000)]
    batch_ms: u64,
    /// What is older is dropped and counted; 0 never. With best_effort only.
    #[schema(required = false, minimum = 0, maximum = 604_800_000, default = 0)]
    max_age_ms: u64,
    #[schema(required = false)]
    delivery: Delivery,
    /// Types of entries that are sent, gift.* and the like among them; all when absent. ledger.lost is always sent.
    #[schema(min_items = 1, max_items = 20, example = json!(["gift.*", "drop.sold"]))]
    types: Option<Vec<String>>,
    /// Headers of every delivery, by name: at most 8, and 1024 bytes with their values, which are visible ASCII. None that
    /// belong to HTTP, the connection, Standard Webhooks or a trace. GET shows *** in the place of their values.
    #[schema(example = json!({"Authorization": "Bearer 0123456789"}))]
    headers: Option<BTreeMap<String, String>>,
}

/// What is to be sent again: `{}` is everything. Ids and a range are not given together.
#[derive(ToSchema)]
pub struct ReplayRequest {
    /// Ids of dead letters, or of their gifts.
    #[schema(required = false, max_items = 1_000)]
    ids: Vec<String>,
    /// The first cursor; not for a webhook of all feeds.
    #[schema(required = false, pattern = "^[0-9]{1,16}$")]
    from: String,
    /// The last cursor; not for a webhook of all feeds.
    #[schema(required = false, pattern = "^[0-9]{1,16}$")]
    to: String,
}

/// What overlays are to do.
#[derive(ToSchema)]
pub struct OverlayControl {
    action: Action,
    /// The row of a replay, which needs one, or of a skip.
    #[schema(required = false, pattern = "^[A-Za-z0-9_-]{1,128}$")]
    row: String,
}
