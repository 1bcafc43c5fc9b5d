//! Section 6 of the contract: groups that pull, webhooks that push, dead letters, and the overview.

use super::params::{FeedName, GiftIdInPath, GroupName, LedgerQuery, TimeQuery, WebhookName, WebhookScope};
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::texts::{ClaimedEntries, GiftStory, LedgerPage, LedgerSummary, SigningKeys};
use crate::http::answers::{
    AckResult, DeadLetterList, Group, GroupList, NackResult, Overview, ReplayResult, SeekResult, Webhook,
    WebhookList,
};
use crate::http::bodies::{EntryCursors, GroupClaim, GroupSeek, ReplayRequest, WebhookSpec};
use crate::http::problem::Problem;

/// Read a feed's ledger
///
/// The oldest first, as far as it is kept. Nobody is handed what is read here: no group or webhook is changed. A page of few
/// entries, or of none, has a next where there is more to look at.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/ledger",
    operation_id = "readLedger",
    tag = "reports",
    params(FeedName, LedgerQuery),
    responses((status = 200, description = "A page of entries", body = LedgerPage), Refusals),
)]
pub(super) fn ledger() {}

/// Sum up a feed's ledger
///
/// What the deltas of its entries add up to: compare it with what you credited.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/ledger/summary",
    operation_id = "sumLedger",
    tag = "reports",
    params(FeedName, TimeQuery),
    responses((status = 200, description = "The sums, of what is kept", body = LedgerSummary, example = json!({
        "from": "2026-01-31T00:00:00.000Z", "to": "2026-02-01T00:00:00.000Z", "first": "1795177783042017",
        "last": "1795177783042019", "entries": 3, "types": {"gift.accepted": 2, "gift.retracted": 1}, "count": 1,
        "values": [{"currency": "EUR", "amount": 150}]
    })), Refusals),
)]
pub(super) fn ledger_summary() {}

/// Read one gift's story
///
/// What became of a gift: its entries, and what each group and webhook has done with the newest of them. For as long as the
/// id is remembered.
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/gifts/{id}",
    operation_id = "getGift",
    tag = "reports",
    params(FeedName, GiftIdInPath),
    responses(
        (status = 200, description = "Its story", body = GiftStory, example = json!({
            "id": "order-17", "status": "accepted",
            "gift": {"id": "order-17", "user": {"id": "u7", "name": "Ann"}, "gift": {"id": "rose", "name": "Rose"}, "count": 1},
            "row": "0mwx17xraca7uf-5", "seq": 5, "at": "2026-01-31T20:00:00.000Z",
            "entries": [{"cursor": "1795177783042017", "type": "gift.accepted", "at": "2026-01-31T20:00:00.000Z",
                "delta": {"count": 1}}],
            "readers": [{"kind": "group", "name": "game", "state": "pending", "attempts": 2},
                {"kind": "webhook", "name": "crm", "state": "dead", "attempts": 9, "last_error": "the endpoint answered 400"}]
        })),
        (status = 404, description = "No gift of this id is remembered", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn gift_story() {}

/// Claim entries of a feed's ledger
///
/// First those whose lease ran out or that were given back, then new ones. The first claim makes the group. With
/// wait_ms the answer comes as soon as there is something. Entries come at least once: know repeats by event_id.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/groups/{group}/claim",
    operation_id = "claimEntries",
    tag = "reports",
    params(FeedName, GroupName),
    request_body(content = GroupClaim, examples(
        ("short" = (summary = "Whatever there is", value = json!({"consumer": "game-1"}))),
        ("whole" = (summary = "A few at a time, from now on", value = json!(
            {"consumer": "game-1", "max": 10, "wait_ms": 100, "lease_ms": 60_000, "from": "now"}
        ))),
    )),
    responses(
        (status = 200, description = "Entries, or none", body = ClaimedEntries),
        (status = 409, description = "The feed has as many readers as may be", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn claim() {}

/// Acknowledge entries
///
/// They are done with, also when their lease ran out meanwhile. What the group does not have pending changes nothing.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/groups/{group}/ack",
    operation_id = "ackEntries",
    tag = "reports",
    params(FeedName, GroupName),
    request_body(content = EntryCursors),
    responses(
        (status = 200, description = "How many were pending, and how many were not", body = AckResult, example = json!({"acked": 2, "unknown": 0})),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn ack() {}

/// Give entries back
///
/// The next claimer gets them after a pause of 1, 2, 4 … 60 s, by attempt; after as many attempts as the operator allows they are dead letters.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/groups/{group}/nack",
    operation_id = "nackEntries",
    tag = "reports",
    params(FeedName, GroupName),
    request_body(content = EntryCursors),
    responses(
        (status = 200, description = "How many were pending", body = NackResult, example = json!({"nacked": 1})),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn nack() {}

/// Move a group
///
/// The next entry that it is handed is the one with the cursor, or the first at or after the time, as far as that is kept.
/// What it has pending is dropped from it; dead letters stay. The answered cursor, given back, leads to the same place.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/groups/{group}/seek",
    operation_id = "seekGroup",
    tag = "reports",
    params(FeedName, GroupName),
    request_body(content = GroupSeek, examples(
        ("start" = (summary = "From the oldest entry that is kept", value = json!({"to": "start"}))),
        ("cursor" = (summary = "From an entry", value = json!({"cursor": "1795177783042017"}))),
        ("at" = (summary = "From a time", value = json!({"at": "2026-01-31T20:00:00Z"}))),
    )),
    responses(
        (status = 200, description = "Where it is now", body = SeekResult, example = json!({"cursor": "1795177783042017"})),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn seek() {}

/// Read a group's progress
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/groups/{group}",
    operation_id = "getGroup",
    tag = "reports",
    params(FeedName, GroupName),
    responses(
        (status = 200, description = "The present state", body = Group, example = json!(
            {"group": "game", "lag": 0, "pending": 3, "oldest_ms": 412, "dead": 0, "lost": 0}
        )),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn group() {}

/// List the groups of a feed
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/groups",
    operation_id = "listGroups",
    tag = "reports",
    params(FeedName),
    responses((status = 200, description = "By name", body = GroupList), Refusals),
)]
pub(super) fn groups() {}

/// Delete a group
///
/// With all it has: its place in the ledger, what is pending, its dead letters.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/groups/{group}",
    operation_id = "deleteGroup",
    tag = "reports",
    params(FeedName, GroupName),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn delete_group() {}

/// List a group's dead letters
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/groups/{group}/dead",
    operation_id = "listGroupDeadLetters",
    tag = "reports",
    params(FeedName, GroupName),
    responses(
        (status = 200, description = "The oldest first", body = DeadLetterList),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn group_dead() {}

/// Hand a group's dead letters out again
///
/// The next claimers get them, and they are off the list.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/groups/{group}/dead/replay",
    operation_id = "replayGroupDeadLetters",
    tag = "reports",
    params(FeedName, GroupName),
    request_body(content = ReplayRequest),
    responses(
        (status = 200, description = "How many there were", body = ReplayResult),
        (status = 404, description = "The feed has no such group", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn group_replay() {}

/// Set a webhook
///
/// A new one sends what comes from now on. Setting one again enables it if it was disabled; a secret that is replaced
/// signs beside the new one for a day, unless the operator chose another time.
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/webhooks/{name}",
    operation_id = "setWebhook",
    tag = "reports",
    params(WebhookScope, WebhookName),
    request_body(content = WebhookSpec, examples(
        ("all" = (summary = "Every gift, however long it takes", value = json!(
            {"url": "https://games.invalid/gifts", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
        ))),
        ("fresh" = (summary = "What is older than three minutes is of no use", value = json!({
            "url": "https://games.invalid/gifts", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "batch_max": 50, "batch_ms": 250, "max_age_ms": 180_000, "delivery": "best_effort"
        }))),
    )),
    responses(
        (status = 201, description = "It is new", body = Webhook),
        (status = 200, description = "It was there, and is this now", body = Webhook),
        (status = 409, description = "There are as many readers as may be", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn put_webhook() {}

/// Read a webhook
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/webhooks/{name}",
    operation_id = "getWebhook",
    tag = "reports",
    params(WebhookScope, WebhookName),
    responses(
        (status = 200, description = "The present state", body = Webhook),
        (status = 404, description = "There is no such webhook", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn webhook() {}

/// Read the key of signatures
///
/// The public half of the Ed25519 key with which this installation signs deliveries (`v1a`), as a JSON Web Key Set. It is the
/// same on every node, and stays the same after a restart, a move and an update.
#[utoipa::path(
    get,
    path = "/.well-known/jwks.json",
    operation_id = "getSigningKeys",
    tag = "reports",
    responses((status = 200, description = "The set, of one key", body = SigningKeys)),
)]
pub(super) fn signing_keys() {}

/// List webhooks
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/webhooks",
    operation_id = "listWebhooks",
    tag = "reports",
    params(WebhookScope),
    responses((status = 200, description = "By name", body = WebhookList), Refusals),
)]
pub(super) fn webhooks() {}

/// Delete a webhook
///
/// With all it has; what was not sent yet is not sent any more.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/webhooks/{name}",
    operation_id = "deleteWebhook",
    tag = "reports",
    params(WebhookScope, WebhookName),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "There is no such webhook", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn delete_webhook() {}

/// List a webhook's dead letters
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/webhooks/{name}/dead",
    operation_id = "listWebhookDeadLetters",
    tag = "reports",
    params(WebhookScope, WebhookName),
    responses(
        (status = 200, description = "The oldest of each feed first", body = DeadLetterList),
        (status = 404, description = "There is no such webhook", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn webhook_dead() {}

/// Send a webhook's dead letters again
///
/// Before anything else, and they are off the list.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/webhooks/{name}/dead/replay",
    operation_id = "replayWebhookDeadLetters",
    tag = "reports",
    params(WebhookScope, WebhookName),
    request_body(content = ReplayRequest),
    responses(
        (status = 200, description = "How many there were", body = ReplayResult),
        (status = 404, description = "There is no such webhook", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn webhook_replay() {}

/// Read the overview
///
/// What /console shows. Needs an admin key; when there are none, it is there only for this machine, and only while
/// there are no producer keys either.
#[utoipa::path(
    get,
    path = "/v1/admin/overview",
    operation_id = "getOverview",
    tag = "operations",
    responses(
        (status = 200, description = "Feeds, groups, webhooks and dead letters", body = Overview),
        Refusals,
    ),
)]
pub(super) fn overview() {}
