//! The shapes of texts that are put together by hand, because they are written often: rows, drops, entries of a
//! ledger, and what holds them. Never built, only described; `tests/it/openapi.rs` holds them and the texts
//! together.

#![allow(dead_code, reason = "only described, never built")]

use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::http::bodies::{Combo, GiftKind, Money, User};

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
    /// As watchers have them at this seq, by name; only there when the feed has any. The counts may be
    /// behind those of GET /v1/feeds/{feed}/drops by a moment.
    #[schema(min_items = 1, max_items = 64)]
    drops: Option<Vec<Drop>>,
    /// Whether overlays are paused or muted; absent while they are neither.
    control: Option<OverlayState>,
    /// What watchers have of totals, with leaders; only there when the feed counts something. May be behind GET
    /// /v1/feeds/{feed}/totals by a moment.
    totals: Option<Totals>,
    /// What watchers have of goals; only there when the feed has any.
    #[schema(min_items = 1, max_items = 16)]
    goals: Option<Vec<Goal>>,
}

/// Totals of the periods that are counted.
#[derive(ToSchema)]
pub struct Totals {
    all: Option<PeriodTotals>,
    session: Option<PeriodTotals>,
    day: Option<PeriodTotals>,
    week: Option<PeriodTotals>,
    month: Option<PeriodTotals>,
}

/// What a period has counted.
#[derive(ToSchema)]
pub struct PeriodTotals {
    #[schema(value_type = String, format = DateTime)]
    since: String,
    gifts: u64,
    units: u64,
    /// Different users.
    gifters: u64,
    points: u64,
    /// The largest first.
    values: Vec<CurrencyTotal>,
    /// By measure; only in what watchers get.
    leaders: Option<std::collections::BTreeMap<String, Vec<Leader>>>,
}

/// Money of one currency.
#[derive(ToSchema)]
pub struct CurrencyTotal {
    #[schema(pattern = "^[A-Za-z]{3,12}$", example = "EUR")]
    currency: String,
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    amount: u64,
}

/// A place of a ranking.
#[derive(ToSchema)]
pub struct Leader {
    #[schema(minimum = 1)]
    rank: u64,
    user: User,
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    score: u64,
}

/// What a feed counts.
#[derive(ToSchema)]
pub struct FeedTotals {
    feed: String,
    totals: Totals,
}

/// A ranking.
#[derive(ToSchema)]
pub struct Leaders {
    period: crate::domain::tally::Period,
    #[schema(value_type = String, format = DateTime)]
    since: String,
    by: String,
    /// The highest first.
    #[schema(max_items = 100)]
    leaders: Vec<Leader>,
    /// The user that was asked for, if ranked.
    user: Option<UserRank>,
}

/// Where a user stands.
#[derive(ToSchema)]
pub struct UserRank {
    #[schema(minimum = 1)]
    rank: u64,
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    score: u64,
}

/// A goal.
#[derive(ToSchema)]
pub struct Goal {
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$", example = "mic")]
    goal: String,
    title: String,
    period: crate::domain::tally::Period,
    #[schema(pattern = "^[A-Za-z]{3,12}$", example = "EUR")]
    by: String,
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    target: u64,
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    value: u64,
    /// When it was reached in the present run of its period.
    #[schema(value_type = Option<String>, format = DateTime)]
    reached_at: Option<String>,
}

/// The goals of a feed, by name.
#[derive(ToSchema)]
pub struct GoalList {
    feed: String,
    #[schema(max_items = 16)]
    goals: Vec<Goal>,
}

/// What overlays do.
#[derive(ToSchema)]
pub struct OverlayState {
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
    value: Option<Money>,
    message: Option<String>,
    #[schema(maximum = 9)]
    tier: Option<u8>,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    #[schema(value_type = String, format = DateTime)]
    updated_at: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<String>,
    combo: Option<Combo>,
    /// The drop that it was sold by.
    drop: Option<RowDrop>,
    test: Option<bool>,
    #[schema(value_type = Option<Object>)]
    meta: Option<Json>,
}

/// The drop that a row was sold by.
#[derive(ToSchema)]
pub struct RowDrop {
    drop: String,
    /// Units that were free right after the sale.
    left: u64,
}

/// A drop. Always free + held + sold = total.
#[derive(ToSchema)]
pub struct Drop {
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$", example = "rocket")]
    drop: String,
    state: crate::domain::Phase,
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    total: u64,
    /// Units that can be claimed.
    free: u64,
    /// Units of unpaid holds.
    held: u64,
    /// Units that were paid for.
    sold: u64,
    gift: GiftKind,
    /// The price of one unit.
    value: Option<Money>,
    per_user: u64,
    hold_ttl_ms: u64,
    max_holds_per_user: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    opens_at: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    closes_at: Option<String>,
}

/// The drops of a feed, by name.
#[derive(ToSchema)]
pub struct DropList {
    feed: String,
    #[schema(max_items = 64)]
    drops: Vec<Drop>,
}

/// Gifts that wait, in the order in which they will be shown.
#[derive(ToSchema)]
pub struct ScheduledGiftPage {
    scheduled: Vec<ScheduledGift>,
    /// For `after` of the next page; null when this is the last.
    #[schema(required)]
    next: Option<String>,
}

/// A gift that waits.
#[derive(ToSchema)]
pub struct ScheduledGift {
    id: String,
    /// It is shown then or shortly after, never before.
    #[schema(value_type = String, format = DateTime)]
    deliver_at: String,
    gift: GiftEvent,
}

/// Gifts that wait for a decision, the oldest first.
#[derive(ToSchema)]
pub struct ReviewList {
    #[schema(max_items = 1000)]
    review: Vec<GiftInReview>,
}

/// A gift that waits for a decision.
#[derive(ToSchema)]
pub struct GiftInReview {
    id: String,
    /// When it came.
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// When the policy's review_default happens.
    #[schema(value_type = String, format = DateTime)]
    expires_at: String,
    gift: GiftEvent,
}

/// A gift as it was accepted: cleaned, with its id, in the members that a producer sends. Of one that was taken back, its id,
/// and its user and gift where they are known.
#[derive(ToSchema)]
pub struct GiftEvent {
    id: String,
    user: Option<User>,
    gift: Option<GiftKind>,
    /// Units of this event.
    #[schema(minimum = 1)]
    count: Option<u64>,
    value: Option<Money>,
    combo: Option<Combo>,
    message: Option<String>,
    #[schema(maximum = 9)]
    tier: Option<u8>,
    #[schema(value_type = Option<String>, format = DateTime)]
    occurred_at: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<String>,
    delay_ms: Option<u64>,
    test: Option<bool>,
    #[schema(value_type = Option<Object>)]
    meta: Option<Json>,
}

/// By how much an entry changes what was given in its feed. Over all entries of a feed the deltas add up to what was given
/// minus what was taken back.
#[derive(ToSchema)]
pub struct Delta {
    /// Units; negative where they were taken back.
    #[schema(minimum = -9_007_199_254_740_991_i64, maximum = 9_007_199_254_740_991_i64)]
    count: i64,
    /// Absent where the gift has no value.
    value: Option<DeltaValue>,
}

/// Money that came, or went where it is negative.
#[derive(ToSchema)]
pub struct DeltaValue {
    /// Minor units.
    #[schema(minimum = -9_007_199_254_740_991_i64, maximum = 9_007_199_254_740_991_i64)]
    amount: i64,
    #[schema(pattern = "^[A-Za-z]{3,12}$")]
    currency: String,
}

/// An entry of a feed's ledger: something that happened. New types and members may come at any time: acknowledge what you do
/// not know.
#[derive(ToSchema)]
pub struct LedgerEntry {
    /// Its number in the feed's ledger; grows by one.
    #[schema(pattern = "^[0-9]{1,16}$", example = "1795177783042017")]
    cursor: String,
    /// The key to recognise a repeat by: the feed and the cursor.
    #[schema(example = "show/1795177783042017")]
    event_id: String,
    /// gift.accepted, gift.merged, gift.suppressed, gift.denied, gift.retracted, gift.refunded, drop.sold, goal.reached,
    /// ledger.lost, or one that is not known yet.
    #[schema(rename = "type", example = "gift.accepted")]
    kind: String,
    feed: String,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// In a claim: how often this group was handed it, this time included. In a delivery: the round of replays.
    #[schema(minimum = 1)]
    attempt: Option<u64>,
    /// The feed's seq then; absent where no watcher saw a change.
    seq: Option<u64>,
    /// The row that shows it, or kept it from being shown.
    row: Option<String>,
    /// True in a test of a webhook; it is in no ledger.
    #[schema(required = false)]
    test: bool,
    /// The step of a trace that brought the gift (W3C Trace Context), where the gateway records traces.
    traceparent: Option<String>,
    /// What the systems that the trace came through noted (W3C Trace Context), where they did.
    #[schema(max_length = 512)]
    tracestate: Option<String>,
    /// The drop that sold it.
    drop: Option<String>,
    /// The hold that was paid.
    hold: Option<String>,
    /// Absent where nothing was given or taken back.
    delta: Option<Delta>,
    /// Why a gift was taken back or refunded, if that was said.
    reason: Option<String>,
    gift: Option<GiftEvent>,
    goal: Option<Goal>,
    lost: Option<LostEntries>,
}

/// Entries that were cut before this reader was handed them.
#[derive(ToSchema)]
pub struct LostEntries {
    /// The cursor of the first.
    #[schema(pattern = "^[0-9]{1,16}$")]
    from: String,
    /// The cursor of the last.
    #[schema(pattern = "^[0-9]{1,16}$")]
    to: String,
    count: u64,
}

/// A page of a feed's ledger, the oldest entry first.
#[derive(ToSchema)]
pub struct LedgerPage {
    #[schema(max_items = 1_000)]
    entries: Vec<LedgerEntry>,
    /// For `after` of the next page; absent at the end.
    #[schema(pattern = "^[0-9]{1,16}$")]
    next: Option<String>,
}

/// What the deltas of a feed's entries add up to.
#[derive(ToSchema)]
pub struct LedgerSummary {
    /// As asked for, or when the first of them happened.
    #[schema(value_type = String, format = DateTime)]
    from: String,
    /// As asked for, or now.
    #[schema(value_type = String, format = DateTime)]
    to: String,
    /// The cursor of the first.
    #[schema(pattern = "^[0-9]{1,16}$")]
    first: Option<String>,
    /// The cursor of the last.
    #[schema(pattern = "^[0-9]{1,16}$")]
    last: Option<String>,
    entries: u64,
    /// How many there are of each type.
    types: std::collections::BTreeMap<String, u64>,
    /// Units.
    count: i64,
    /// By currency.
    values: Vec<DeltaValue>,
}

/// What became of a gift, and which readers have it.
#[derive(ToSchema)]
pub struct GiftStory {
    id: String,
    /// accepted, merged, suppressed, scheduled, in_review, denied, retracted or cancelled.
    #[schema(example = "accepted")]
    status: String,
    /// The event; absent where neither the gift waits nor its entry is kept.
    gift: Option<GiftEvent>,
    /// As the answer to it said.
    row: Option<String>,
    /// As the answer to it said.
    seq: Option<u64>,
    /// When it was taken, or cancelled, or began to wait.
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// When it is, or would have been, shown.
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<String>,
    /// The oldest first, as far as they are kept; a test has none.
    entries: Vec<GiftStoryEntry>,
    /// Without those that began to read later, or are not sent its types.
    readers: Vec<GiftStoryReader>,
}

/// An entry of a gift.
#[derive(ToSchema)]
pub struct GiftStoryEntry {
    #[schema(pattern = "^[0-9]{1,16}$")]
    cursor: String,
    #[schema(rename = "type", example = "gift.accepted")]
    kind: String,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    delta: Option<Delta>,
}

/// What a group or a webhook has done with the newest entry of a gift that is for it.
#[derive(ToSchema)]
pub struct GiftStoryReader {
    /// group, or webhook.
    kind: String,
    name: String,
    /// waiting, pending, acknowledged, dead or lost.
    state: String,
    /// How often it was handed out or sent.
    attempts: Option<u64>,
    /// Why the entry was given up, or the last error of the webhook.
    last_error: Option<String>,
}

/// Entries for a claimer, in the ledger's order; an empty list when the wait ended without any.
#[derive(ToSchema)]
pub struct ClaimedEntries {
    #[schema(max_items = 1_000)]
    entries: Vec<LedgerEntry>,
}

/// What a webhook is sent: entries of one feed, in the ledger's order.
#[derive(ToSchema)]
pub struct Delivery {
    /// entries.
    #[schema(rename = "type", example = "entries")]
    kind: String,
    feed: String,
    /// The batch's name: a retry has the same, and the same entries.
    batch: String,
    #[schema(min_items = 1, max_items = 1_000)]
    entries: Vec<LedgerEntry>,
}

/// A JSON Web Key Set (RFC 7517) with the public half of the key of signatures.
#[derive(ToSchema)]
pub struct SigningKeys {
    #[schema(min_items = 1, max_items = 1)]
    keys: Vec<PublicKey>,
}

/// An Ed25519 key as RFC 8037 spells it.
#[derive(ToSchema)]
pub struct PublicKey {
    #[schema(pattern = "^OKP$", example = "OKP")]
    kty: String,
    #[schema(pattern = "^Ed25519$", example = "Ed25519")]
    crv: String,
    #[schema(pattern = "^sig$", example = "sig")]
    r#use: String,
    #[schema(pattern = "^EdDSA$", example = "EdDSA")]
    alg: String,
    /// The key's thumbprint (RFC 7638).
    #[schema(example = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")]
    kid: String,
    /// The 32 bytes in URL-safe base64 without padding.
    #[schema(example = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")]
    x: String,
}
