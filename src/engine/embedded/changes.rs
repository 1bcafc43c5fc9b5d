//! What the commands of one script changed: for the log, for subscribers, and to undo it.

use std::sync::Arc;

use super::effect::{Effect, Name};
use super::stored::{StoredCollection, StoredString};

/// One step back.
#[derive(Debug)]
pub(super) enum Undo {
    String {
        key: Name,
        before: Option<StoredString>,
    },
    Collection {
        key: Name,
        before: Option<StoredCollection>,
    },
    Expires {
        key: Name,
        before: Option<i64>,
    },
    Field {
        key: Name,
        field: Name,
        before: Option<Arc<[u8]>>,
    },
    /// Items were pushed in front, or behind.
    Pushed {
        key: Name,
        front: usize,
        back: usize,
    },
    /// Items were cut off.
    Trimmed {
        key: Name,
        front: Vec<Arc<[u8]>>,
        back: Vec<Arc<[u8]>>,
    },
    Item {
        key: Name,
        index: usize,
        before: Arc<[u8]>,
    },
    Score {
        key: Name,
        member: Name,
        before: Option<f64>,
    },
}

/// What the commands of one script changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// In the order in which it happened.
    pub effects: Vec<Effect>,
    /// Channels, and what was published on them.
    pub messages: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) undo: Vec<Undo>,
}
