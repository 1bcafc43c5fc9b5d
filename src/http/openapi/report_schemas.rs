//! The shapes of section 6: what groups and webhooks are told and tell.

use serde::Deserialize;
use serde_json::Value as Json;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

macro_rules! words {
    ($($name:ident = [$($word:literal),+],)*) => {$(
        fn $name() -> Object {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$($word),+])).build()
        }
    )*};
}

words! {
    from = ["start", "now"],
    status = ["accepted", "merged", "suppressed", "sold"],
    delivery = ["at_least_once", "best_effort"],
    state = ["active", "disabled"],
}

/// What a group wants.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pull {
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
    /// Where the group begins, if this claim makes it: with the oldest entry that is kept, or with what comes.
    #[schema(required = false, schema_with = from, default = "start")]
    from: String,
}

/// Entries for a claimer, in the ledger's order; none when the wait is over.
#[derive(ToSchema)]
pub struct Pulled {
    #[schema(max_items = 1_000)]
    entries: Vec<HandedEntry>,
}

/// An entry of a feed's ledger: what became of a gift.
#[derive(ToSchema)]
pub struct Entry {
    /// Its number in the feed's ledger; grows by one.
    #[schema(pattern = "^[0-9]{1,16}$", example = "1795177783042017")]
    cursor: String,
    #[schema(schema_with = status)]
    status: String,
    /// The feed's seq then; absent for a suppressed gift.
    #[schema(required = false)]
    seq: u64,
    /// The row that shows it, or kept it from being shown.
    #[schema(required = false)]
    row: String,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// The event as it was accepted, with its id; of a sale, with the drop's name.
    #[schema(value_type = Object)]
    gift: Json,
}

/// An entry in a claimer's hands.
#[derive(ToSchema)]
pub struct HandedEntry {
    /// Its number in the feed's ledger, for ack and nack.
    #[schema(pattern = "^[0-9]{1,16}$", example = "1795177783042017")]
    cursor: String,
    /// The how manyth time this group is handed it.
    #[schema(minimum = 1)]
    attempt: u64,
    #[schema(schema_with = status)]
    status: String,
    /// The feed's seq then; absent for a suppressed gift.
    #[schema(required = false)]
    seq: u64,
    /// The row that shows it, or kept it from being shown.
    #[schema(required = false)]
    row: String,
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// The event as it was accepted, with its id; of a sale, with the drop's name.
    #[schema(value_type = Object)]
    gift: Json,
}

/// Entries that a group was handed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Cursors {
    #[schema(max_items = 1_000)]
    cursors: Vec<String>,
}

/// How many are done with.
#[derive(ToSchema)]
pub struct Acked {
    acked: u64,
}

/// How many were given back.
#[derive(ToSchema)]
pub struct Nacked {
    nacked: u64,
}

/// How a group stands.
#[derive(ToSchema)]
pub struct Group {
    group: String,
    /// Entries never handed out.
    lag: u64,
    /// Entries handed out and not acknowledged.
    pending: u64,
    /// The age of the oldest entry that is not acknowledged; 0 when there is none.
    oldest_ms: u64,
    /// Dead letters.
    dead: u64,
    /// Entries that were cut from the ledger before the group had acknowledged them.
    lost: u64,
}

/// The groups of a feed, by name.
#[derive(ToSchema)]
pub struct Groups {
    #[schema(max_items = 64)]
    groups: Vec<Group>,
}

/// Where and how gifts are pushed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
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
    /// What becomes of deliveries that fail for too long: dead letters, or nothing when they are too old.
    #[schema(required = false, schema_with = delivery, default = "at_least_once")]
    delivery: String,
}

/// A webhook as it stands. Its secret is never shown.
#[derive(ToSchema)]
pub struct Webhook {
    webhook: String,
    /// Whose gifts it sends; "*" for all feeds.
    feed: String,
    url: String,
    batch_max: u64,
    batch_ms: u64,
    max_age_ms: u64,
    #[schema(schema_with = delivery)]
    delivery: String,
    /// A disabled one sends nothing until it is set again.
    #[schema(schema_with = state)]
    state: String,
    /// What went wrong last, until a delivery works; else null.
    #[schema(required)]
    last_error: Option<String>,
    #[schema(required = false, value_type = String, format = DateTime)]
    last_error_at: String,
    /// Since when nothing has worked.
    #[schema(required = false, value_type = String, format = DateTime)]
    failing_since: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: String,
}

/// Webhooks of a feed, or of all, by name.
#[derive(ToSchema)]
pub struct Webhooks {
    webhooks: Vec<Webhook>,
}

/// Entries that were given up, the oldest first.
#[derive(ToSchema)]
pub struct DeadLetters {
    #[schema(max_items = 1_000)]
    dead: Vec<DeadLetter>,
    /// There are more than are listed.
    more: bool,
}

/// An entry that was given up.
#[derive(ToSchema)]
pub struct DeadLetter {
    /// For replay: the entry's cursor; of a webhook of all feeds, FEED/CURSOR.
    id: String,
    feed: String,
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    died_at: String,
    /// How often it was handed out, or sent.
    attempts: u64,
    entry: Entry,
}

/// What is to be sent again: `{}` is everything. Ids and a range are not given together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
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

/// How many are sent again.
#[derive(ToSchema)]
pub struct Replayed {
    replayed: u64,
}

/// How everything stands, of this node and its store; at most a second old.
#[derive(ToSchema)]
pub struct Overview {
    #[schema(value_type = String, format = DateTime)]
    server_time: String,
    /// Watchers on this node.
    watchers: u64,
    /// The most watched on this node.
    #[schema(max_items = 200)]
    feeds: Vec<WatchedFeed>,
    #[schema(max_items = 200)]
    groups: Vec<GroupOfFeed>,
    #[schema(max_items = 200)]
    webhooks: Vec<Webhook>,
    #[schema(max_items = 100)]
    dead: Vec<DeadLetterOf>,
    more: More,
}

/// Of what there is more than is shown.
#[derive(ToSchema)]
pub struct More {
    feeds: bool,
    groups: bool,
    webhooks: bool,
    dead: bool,
}

/// A feed that is watched on this node.
#[derive(ToSchema)]
pub struct WatchedFeed {
    feed: String,
    watchers: u64,
    /// On all nodes together, at most 5 s old.
    everywhere: u64,
    epoch: String,
    /// The number of its last change. Two overviews give its rate.
    seq: u64,
}

/// A group of some feed.
#[derive(ToSchema)]
pub struct GroupOfFeed {
    feed: String,
    group: String,
    lag: u64,
    pending: u64,
    oldest_ms: u64,
    dead: u64,
    lost: u64,
}

/// A dead letter, and whose it is: a group's or a webhook's.
#[derive(ToSchema)]
pub struct DeadLetterOf {
    id: String,
    feed: String,
    /// The feed under which its group or webhook is found; "*" for a webhook of all feeds.
    scope: String,
    #[schema(required = false)]
    group: String,
    #[schema(required = false)]
    webhook: String,
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    died_at: String,
    attempts: u64,
    entry: Entry,
}
