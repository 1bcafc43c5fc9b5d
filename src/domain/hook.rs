//! A webhook: where a ledger is sent to, its settings and its state (contract section 6).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Entry, EntryStatus, FeedId, HookId, Millis, Reader};

/// The feeds whose gifts a webhook sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookScope {
    /// One feed's.
    Feed(FeedId),
    /// Those of all feeds, still batched per feed; spelled `*`.
    All,
}

impl fmt::Display for HookScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookScope::Feed(feed) => feed.fmt(f),
            HookScope::All => f.write_str("*"),
        }
    }
}

/// The name of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookKey {
    /// The feeds whose gifts it sends.
    pub scope: HookScope,
    /// Its name, unique in its scope.
    pub name: HookId,
}

impl HookKey {
    /// It as a reader of a feed's ledger.
    pub fn reader(&self) -> Reader {
        match self.scope {
            HookScope::Feed(_) => Reader::Hook(self.name.clone()),
            HookScope::All => Reader::HookOfAll(self.name.clone()),
        }
    }

    /// The webhook that reads `feed` as `reader`; none for a group.
    pub fn of(feed: &FeedId, reader: &Reader) -> Option<HookKey> {
        match reader {
            Reader::Group(_) => None,
            Reader::Hook(name) => Some(HookKey { scope: HookScope::Feed(feed.clone()), name: name.clone() }),
            Reader::HookOfAll(name) => Some(HookKey { scope: HookScope::All, name: name.clone() }),
        }
    }
}

/// What becomes of a delivery that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = DeliveryMode))]
pub enum Delivery {
    /// It is tried again until it is acknowledged or dead.
    AtLeastOnce,
    /// The same, but what is older than `max_age_ms` is dropped and counted.
    BestEffort,
}

impl Delivery {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::AtLeastOnce => "at_least_once",
            Delivery::BestEffort => "best_effort",
        }
    }
}

/// What PUT says of a webhook.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    /// Where to: http or https, without credentials.
    pub url: String,
    /// `whsec_` and base64 of 24 to 64 bytes.
    pub secret: String,
    /// Entries of one delivery at most, 1…1000.
    pub batch_max: u64,
    /// How long entries are gathered, in milliseconds.
    pub batch_ms: u64,
    /// What is older is dropped; 0 never. Only with [`Delivery::BestEffort`].
    pub max_age_ms: u64,
    /// What becomes of a delivery that fails.
    pub delivery: Delivery,
    /// Types of entries that are sent, `gift.*` among them; all when there is none. What was lost is always sent.
    #[serde(default)]
    pub types: Vec<String>,
    /// Headers of every delivery, by name. The values may be secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl HookSpec {
    /// Whether `entry` is one to send; others are passed over.
    pub fn wants(&self, entry: &Entry) -> bool {
        let kind = entry.status.kind();
        let fits = |it: &String| it.strip_suffix('*').map_or(it == kind, |family| kind.starts_with(family));
        self.types.is_empty() || entry.status == EntryStatus::Lost || self.types.iter().any(fits)
    }
}

impl fmt::Debug for HookSpec {
    /// Without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSpec").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Whether a webhook sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = WebhookState))]
pub enum HookState {
    /// It sends.
    Active,
    /// It sends nothing until it is set again.
    Disabled,
}

/// A failure as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookFault {
    /// When it happened, in milliseconds since 1970.
    pub at: i64,
    /// What went wrong, in a sentence.
    pub text: String,
}

/// A webhook with its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// As it was set last.
    pub spec: HookSpec,
    /// A secret that was replaced, and until when deliveries are signed with it too.
    pub before: Option<(String, i64)>,
    /// Whether it sends.
    pub state: HookState,
    /// When it was made, in milliseconds since 1970. A webhook of all feeds sends what came since.
    pub since: i64,
    /// What went wrong last, until a delivery works.
    pub last_error: Option<HookFault>,
    /// Since when nothing has worked.
    pub failing_since: Option<i64>,
    /// When it was last set, or asked to send at once, in milliseconds since 1970. A pause from before has ended.
    #[serde(default)]
    pub set_at: i64,
    /// Another one with every change, by which two that change it at the same time find out.
    pub version: u64,
}

impl Hook {
    /// A new one.
    pub fn new(spec: HookSpec, now: Millis) -> Hook {
        let state = HookState::Active;
        let (since, set_at) = (now.0, now.0);
        Hook { spec, before: None, state, since, last_error: None, failing_since: None, set_at, version: 1 }
    }

    /// The same with what PUT says: it sends (again), and a secret that is replaced holds for `overlap_ms`.
    pub fn set(&self, spec: HookSpec, overlap_ms: u64, now: Millis) -> Hook {
        let replaced = spec.secret != self.spec.secret;
        let before = match replaced {
            true => Some((self.spec.secret.clone(), now.plus(overlap_ms).0)),
            false => self.before.clone().filter(|(_, until)| now.0 < *until),
        };
        Hook { before, since: self.since, version: self.version + 1, ..Hook::new(spec, now) }
    }

    /// Whether it sends, and nothing is known to be wrong with it.
    pub fn is_well(&self) -> bool {
        self.state == HookState::Active && self.last_error.is_none()
    }

    /// The secrets to sign with at `now`, the newest first.
    pub fn secrets(&self, now: Millis) -> Vec<&str> {
        let before = self.before.as_ref().filter(|(_, until)| now.0 < *until);
        [Some(self.spec.secret.as_str()), before.map(|(secret, _)| secret.as_str())]
            .into_iter()
            .flatten()
            .collect()
    }
}
