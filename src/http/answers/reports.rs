//! Answers about groups, webhooks, dead letters, and the overview of all of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

#[cfg(test)]
use super::texts::LedgerEntry;
use crate::domain::{self, HookId};
use crate::domain::{FeedId, GroupId, GroupView, Hook, HookKey, HookScope, HookSpec, Millis};

/// What became of entries that a group acknowledged.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct AckResult {
    /// Those that were pending, and are done with now.
    pub acked: u64,
    /// Cursors that the group does not have pending, such as those that were acknowledged before.
    pub unknown: u64,
}

/// What became of entries that a group gave back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct NackResult {
    /// Those that were pending, and go to the next claimer.
    pub nacked: u64,
}

/// Where a group is now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SeekResult {
    /// The number of the entry that it is handed next, which may be still to come.
    #[cfg_attr(test, schema(pattern = "^[0-9]{1,16}$"))]
    pub cursor: String,
}

/// How a group stands.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Group {
    #[cfg_attr(test, schema(value_type = String))]
    group: GroupId,
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

impl Group {
    /// The group of this name.
    pub fn new(group: &GroupId, view: &GroupView) -> Group {
        let GroupView { lag, pending, oldest_ms, dead, lost } = *view;
        Group { group: group.clone(), lag, pending, oldest_ms, dead, lost }
    }
}

/// The groups of a feed, by name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct GroupList {
    #[cfg_attr(test, schema(max_items = 64))]
    pub groups: Vec<Group>,
}

/// What is shown in the place of a header's value.
const HIDDEN: &str = "***";

/// A webhook as it stands. Its secret is never shown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Webhook {
    #[cfg_attr(test, schema(value_type = String))]
    webhook: HookId,
    /// Whose gifts it sends; "*" for all feeds.
    feed: String,
    url: String,
    batch_max: u64,
    batch_ms: u64,
    max_age_ms: u64,
    delivery: domain::Delivery,
    /// Types of entries that it is sent; absent when that is all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false))]
    types: Vec<String>,
    /// Its own headers. No value is shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schema(required = false, value_type = BTreeMap<String, String>, example = json!({"Authorization": "***"})))]
    headers: BTreeMap<String, &'static str>,
    state: domain::HookState,
    /// What went wrong last, until a delivery works; else null.
    #[cfg_attr(test, schema(required))]
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    last_error_at: Option<Millis>,
    /// Since when nothing has worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    failing_since: Option<Millis>,
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    created_at: Millis,
}

impl Webhook {
    /// The webhook of this key.
    pub fn new(key: &HookKey, hook: &Hook) -> Webhook {
        // Taken apart by name, so that a new field is not shown before somebody decides that it may be.
        let HookSpec { url, batch_max, batch_ms, max_age_ms, delivery, types, headers, secret: _ } =
            &hook.spec;
        let error = hook.last_error.as_ref();
        Webhook {
            webhook: key.name.clone(),
            feed: key.scope.to_string(),
            url: url.clone(),
            batch_max: *batch_max,
            batch_ms: *batch_ms,
            max_age_ms: *max_age_ms,
            delivery: *delivery,
            types: types.clone(),
            headers: headers.keys().map(|name| (name.clone(), HIDDEN)).collect(),
            state: hook.state,
            last_error: error.map(|error| error.text.clone()),
            last_error_at: error.map(|error| Millis(error.at)),
            failing_since: hook.failing_since.map(Millis),
            created_at: Millis(hook.since),
        }
    }
}

/// Webhooks of a feed, or of all, by name.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct WebhookList {
    pub webhooks: Vec<Webhook>,
}

/// Entries that were given up, the oldest first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DeadLetterList {
    #[cfg_attr(test, schema(max_items = 1_000))]
    pub dead: Vec<DeadLetter>,
    /// There are more than are listed.
    pub more: bool,
}

/// An entry that was given up.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DeadLetter {
    /// For replay: the entry's cursor; of a webhook of all feeds, FEED/CURSOR.
    pub id: String,
    #[cfg_attr(test, schema(value_type = String))]
    pub feed: FeedId,
    pub reason: String,
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub died_at: Millis,
    /// How often it was handed out, or sent.
    pub attempts: u64,
    #[cfg_attr(test, schema(value_type = LedgerEntry))]
    pub entry: Box<RawValue>,
}

/// How many dead letters are handed out or sent again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ReplayResult {
    pub replayed: u64,
}

/// How everything stands, of this node and its store; at most a second old.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Overview {
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub server_time: Millis,
    /// Watchers on this node.
    pub watchers: usize,
    /// The most watched on this node.
    #[cfg_attr(test, schema(max_items = 200))]
    pub feeds: Vec<WatchedFeed>,
    #[cfg_attr(test, schema(max_items = 200))]
    pub groups: Vec<OverviewGroup>,
    #[cfg_attr(test, schema(max_items = 200))]
    pub webhooks: Vec<Webhook>,
    #[cfg_attr(test, schema(max_items = 100))]
    pub dead: Vec<OverviewDeadLetter>,
    pub more: More,
}

/// Of what there is more than is shown.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = OverviewMore))]
pub struct More {
    pub feeds: bool,
    pub groups: bool,
    pub webhooks: bool,
    pub dead: bool,
}

/// A feed that is watched on this node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct WatchedFeed {
    #[cfg_attr(test, schema(value_type = String))]
    pub feed: FeedId,
    pub watchers: usize,
    /// On all nodes together, at most 5 s old.
    pub everywhere: u64,
    pub epoch: String,
    /// The number of its last change. Two overviews give its rate.
    pub seq: u64,
}

/// A group of some feed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct OverviewGroup {
    #[cfg_attr(test, schema(value_type = String))]
    pub feed: FeedId,
    #[serde(flatten)]
    pub group: Group,
}

/// A dead letter, and whose it is: a group's or a webhook's.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct OverviewDeadLetter {
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// The feed under which its group or webhook is found; "*" for a webhook of all feeds.
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    group: Option<GroupId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    webhook: Option<HookId>,
}

impl OverviewDeadLetter {
    /// A dead letter of this group.
    pub fn of_group(letter: DeadLetter, group: &GroupId) -> OverviewDeadLetter {
        let scope = letter.feed.to_string();
        OverviewDeadLetter { letter, scope, group: Some(group.clone()), webhook: None }
    }

    /// A dead letter of this webhook.
    pub fn of_webhook(letter: DeadLetter, key: &HookKey) -> OverviewDeadLetter {
        let scope = match &key.scope {
            HookScope::Feed(feed) => feed.to_string(),
            HookScope::All => "*".to_owned(),
        };
        OverviewDeadLetter { letter, scope, group: None, webhook: Some(key.name.clone()) }
    }
}

/// The newest attempts to deliver to a webhook.
#[cfg(test)]
#[derive(Serialize, utoipa::ToSchema)]
pub struct AttemptList {
    #[schema(max_items = 50)]
    attempts: Vec<crate::domain::attempt::DeliveryAttempt>,
}
