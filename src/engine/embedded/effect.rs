//! What a command leaves behind, for the log.

use std::sync::Arc;

/// The name of a key, a field or a member.
pub type Name = Arc<[u8]>;

/// What a key or one element is afterwards. Applied in order to what was there before, or once more to what is there
/// afterwards, effects give the same data. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The key holds this string, until then if a time is given.
    String {
        /// The key.
        key: Name,
        /// The string.
        value: Arc<[u8]>,
        /// When it expires.
        until: Option<i64>,
    },
    /// The key holds nothing that lasts: no string without an expiry, and no collection.
    Deleted {
        /// The key.
        key: Name,
    },
    /// The key holds no string that expires. Strings that expire are written elsewhere than what lasts: what takes one away is
    /// written there too, and kept for as long as it.
    Dropped {
        /// The key.
        key: Name,
        /// When the string would have expired.
        until: i64,
    },
    /// The collection of the key expires then, or never.
    Expires {
        /// The key.
        key: Name,
        /// When it expires.
        until: Option<i64>,
    },
    /// A field of a hash holds this, or is not there.
    Field {
        /// The key of the hash.
        key: Name,
        /// The field.
        field: Name,
        /// What it holds.
        value: Option<Arc<[u8]>>,
    },
    /// An item of a list. Items keep their number for as long as the list is there.
    Item {
        /// The key of the list.
        key: Name,
        /// Its number: one more than that of the item in front of it.
        number: i64,
        /// What it is.
        value: Arc<[u8]>,
    },
    /// A list has items with these numbers and no others.
    Bounds {
        /// The key of the list.
        key: Name,
        /// The number of the first item.
        first: i64,
        /// One more than the number of the last item.
        end: i64,
    },
    /// A member of a sorted set has this score, or is not there.
    Score {
        /// The key of the set.
        key: Name,
        /// The member.
        member: Name,
        /// Its score; never NaN.
        score: Option<f64>,
    },
}

impl Effect {
    /// The key that it is about.
    pub fn key(&self) -> &Name {
        match self {
            Effect::String { key, .. }
            | Effect::Deleted { key }
            | Effect::Dropped { key, .. }
            | Effect::Expires { key, .. }
            | Effect::Field { key, .. }
            | Effect::Item { key, .. }
            | Effect::Bounds { key, .. }
            | Effect::Score { key, .. } => key,
        }
    }

    /// Until when a string that expires, or the word that it is gone, has to be kept; none of what lasts.
    pub fn until(&self) -> Option<i64> {
        match self {
            Effect::String { until, .. } => *until,
            Effect::Dropped { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// About how many bytes it takes in a log.
    pub fn size(&self) -> usize {
        let more = match self {
            Effect::String { value, .. } | Effect::Item { value, .. } => value.len(),
            Effect::Field { field, value, .. } => field.len() + value.as_ref().map_or(0, |value| value.len()),
            Effect::Score { member, .. } => member.len(),
            Effect::Deleted { .. }
            | Effect::Dropped { .. }
            | Effect::Expires { .. }
            | Effect::Bounds { .. } => 0,
        };
        self.key().len() + more + 24
    }
}
