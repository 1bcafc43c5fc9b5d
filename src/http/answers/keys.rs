//! Answers about keys and what was done with them.

use serde::Serialize;

use crate::auth::{Key, Right};
use crate::domain::Millis;

/// Every key that the configuration has. What opens anything is never shown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct KeyList {
    keys: Vec<KeyView>,
}

/// A key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[cfg_attr(test, schema(as = Key))]
struct KeyView {
    name: String,
    /// Its rights.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    may: Vec<&'static str>,
    /// Names, and beginnings of names with a * at the end.
    feeds: Vec<String>,
    /// Whether requests are signed with it.
    signed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    expires_at: Option<Millis>,
    /// To the second, on the node that is asked; absent if it was not used since that node started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    last_used_at: Option<Millis>,
}

impl KeyList {
    /// These keys.
    pub fn new<'a>(keys: impl Iterator<Item = &'a Key>) -> KeyList {
        let view = |key: &Key| KeyView {
            name: key.name.to_string(),
            may: Right::ALL.into_iter().filter(|right| key.may.has(*right)).map(Right::as_str).collect(),
            feeds: key
                .feeds
                .names()
                .map(|(name, whole)| format!("{name}{}", if whole { "" } else { "*" }))
                .collect(),
            signed: key.secret().is_some(),
            expires_at: key.expires_at,
            last_used_at: key.last_used_at(),
        };
        KeyList { keys: keys.map(view).collect() }
    }
}

/// The newest thousand lines of the audit log of the node that is asked, the newest first.
#[cfg(test)]
#[derive(Serialize, utoipa::ToSchema)]
pub struct AuditPage {
    #[schema(max_items = 1000)]
    audit: Vec<AuditEntry>,
    /// What older lines are asked for with; absent behind the oldest.
    #[schema(required = false)]
    next: String,
}

/// A change that was made with a key, or a use of a key that was refused.
#[cfg(test)]
#[derive(Serialize, utoipa::ToSchema)]
pub struct AuditEntry {
    cursor: String,
    #[schema(format = DateTime)]
    time: String,
    /// The name of the key; null without a known key.
    #[schema(required)]
    key: Option<String>,
    /// The right that was needed; null where any key will do.
    #[schema(required)]
    right: Option<String>,
    /// Null where it was about no feed; * for all feeds together.
    #[schema(required)]
    feed: Option<String>,
    /// The method, and of the path what does not vary.
    action: String,
    /// Of the path what varies.
    target: String,
    /// done, refused or failed
    outcome: String,
}
