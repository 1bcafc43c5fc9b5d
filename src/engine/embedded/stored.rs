//! What a key can hold.

use std::collections::VecDeque;
use std::sync::Arc;

use super::effect::Name;
use super::fields::Fields;
use super::ranked::RankedList;

/// A string, and when it expires.
#[derive(Debug)]
pub struct StoredString {
    /// The string.
    pub value: Arc<[u8]>,
    /// Milliseconds since 1970.
    pub until: Option<i64>,
}

/// What is no string.
#[derive(Debug)]
pub enum Collection {
    /// Fields.
    Hash(Fields<Arc<[u8]>>),
    /// Items.
    List(List),
    /// Members with scores.
    Set(ZSet),
}

/// A collection, and when it expires. None is empty between two commands.
#[derive(Debug)]
pub struct StoredCollection {
    /// Its key, so that effects need no copy.
    pub name: Name,
    /// The collection.
    pub value: Collection,
    /// Milliseconds since 1970.
    pub until: Option<i64>,
}

/// Items in order.
#[derive(Debug, Default)]
pub struct List {
    /// The items.
    pub items: VecDeque<Arc<[u8]>>,
    /// The number of the first item: it moves when items come or go in front, so each item keeps its own.
    pub first: i64,
}

/// Members, by name and in order.
#[derive(Debug, Default)]
pub struct ZSet {
    /// By name.
    pub scores: Fields<f64>,
    /// By score, then by name.
    pub order: RankedList,
}

impl ZSet {
    /// Sets a member's score, or takes it out; the score before.
    pub fn set(&mut self, member: &[u8], score: Option<f64>) -> Option<f64> {
        let before = match score {
            Some(score) => self.scores.insert(member, score),
            None => self.scores.remove(member),
        };
        if let Some(before) = before {
            self.order.remove(before, member);
        }
        if let Some(score) = score {
            self.order.insert(score, member.into());
        }
        before
    }
}

impl Collection {
    /// True without anything in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Collection::Hash(fields) => fields.is_empty(),
            Collection::List(list) => list.items.is_empty(),
            Collection::Set(set) => set.scores.is_empty(),
        }
    }
}
