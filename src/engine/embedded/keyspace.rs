//! All keys and what they hold. Strings stand apart from collections: there are millions of ids and locks, and a walk over
//! the keys looks for collections only.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::changes::{Changes, Undo};
use super::effect::{Effect, Name};
use super::fields::{Fields, place_at, place_of, scan_step};
use super::stored::{Collection, List, StoredCollection, StoredString, ZSet};

/// What kind of value a key holds, its content in an order that does not depend on memory, and when it expires.
pub type DumpedValue = (&'static str, Vec<Vec<u8>>, Option<i64>);

/// All keys with their values, in memory.
#[derive(Debug, Default)]
pub struct Keyspace {
    strings: HashMap<Name, StoredString, RandomState>,
    collections: HashMap<Name, StoredCollection, RandomState>,
    /// The names of collections with their places, in the order in which they are walked.
    walk: BTreeSet<(u64, Name)>,
    /// Keys by the [`EXPIRY_BUCKET_MS`] in which they may be collected. A key that was written again is in several.
    expiring: BTreeMap<i64, Vec<Name>>,
}

/// Milliseconds in which keys expire that are collected together.
const EXPIRY_BUCKET_MS: i64 = 5_000;

fn is_over(until: Option<i64>, now: i64) -> bool {
    until.is_some_and(|until| until <= now)
}

/// A collection as effects.
fn effects_of<'a>(key: &'a Name, held: &'a StoredCollection) -> Box<dyn Iterator<Item = Effect> + 'a> {
    let elements: Box<dyn Iterator<Item = Effect>> = match &held.value {
        Collection::Hash(fields) => Box::new(fields.iter().map(|(field, value)| Effect::Field {
            key: key.clone(),
            field: field.clone(),
            value: Some(value.clone()),
        })),
        Collection::List(list) => {
            Box::new((list.first..).zip(&list.items).map(|(number, value)| Effect::Item {
                key: key.clone(),
                number,
                value: value.clone(),
            }))
        }
        Collection::Set(set) => Box::new(set.order.from_rank(0).map(|it| Effect::Score {
            key: key.clone(),
            member: it.member.clone(),
            score: Some(it.score),
        })),
    };
    let until = held.until.map(|until| Effect::Expires { key: key.clone(), until: Some(until) });
    Box::new(elements.chain(until))
}

impl Keyspace {
    /// The string of a key that has one, and has not expired.
    pub fn string(&self, key: &[u8], now: i64) -> Option<&StoredString> {
        self.strings.get(key).filter(|it| !is_over(it.until, now))
    }

    /// The collection of a key that has one, and has not expired.
    pub fn collection(&self, key: &[u8], now: i64) -> Option<&StoredCollection> {
        self.collections.get(key).filter(|it| !is_over(it.until, now))
    }

    /// True when the key holds anything.
    pub fn exists(&self, key: &[u8], now: i64) -> bool {
        self.string(key, now).is_some() || self.collection(key, now).is_some()
    }

    /// Some `count` names of collections from this cursor on, and the cursor behind them, as [`Fields::scan`].
    pub fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<&Name>) {
        let first = (place_at(cursor), Arc::from([]));
        scan_step(self.walk.range(first..).map(|(place, name)| (*place, name)), count)
    }

    /// How many keys there are, expired ones too.
    pub fn len(&self) -> usize {
        self.strings.len() + self.collections.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn put_collection(&mut self, key: Name, held: StoredCollection) {
        self.walk.insert((place_of(&key), key.clone()));
        self.collections.insert(key, held);
    }

    fn take_collection(&mut self, key: &[u8]) -> Option<StoredCollection> {
        let (name, held) = self.collections.remove_entry(key)?;
        self.walk.remove(&(place_of(&name), name));
        Some(held)
    }

    /// Sets a string, whatever the key held.
    pub(super) fn set_string(
        &mut self,
        key: &[u8],
        value: Arc<[u8]>,
        until: Option<i64>,
        changes: &mut Changes,
    ) {
        if self.collections.contains_key(key) {
            self.delete(key, changes);
        }
        let key: Name = key.into();
        let before = self.strings.insert(key.clone(), StoredString { value: value.clone(), until });
        // What lasts and what expires are written in two places: what there is in the other one goes.
        match (before.as_ref().map(|it| it.until), until) {
            (Some(Some(was)), None) => changes.effects.push(Effect::Dropped { key: key.clone(), until: was }),
            (Some(None), Some(_)) => changes.effects.push(Effect::Deleted { key: key.clone() }),
            _ => {}
        }
        self.note_expiry(&key, until);
        changes.effects.push(Effect::String { key: key.clone(), value, until });
        changes.undo.push(Undo::String { key, before });
    }

    /// Makes [`Keyspace::collect_garbage`] look at the key after this time.
    fn note_expiry(&mut self, key: &Name, until: Option<i64>) {
        if let Some(until) = until {
            self.expiring.entry(until.div_euclid(EXPIRY_BUCKET_MS)).or_default().push(key.clone());
        }
    }

    /// Takes away what the key holds, expired or not. True when it held something.
    pub(super) fn delete(&mut self, key: &[u8], changes: &mut Changes) -> bool {
        let name: Name = key.into();
        if let Some(before) = self.strings.remove(key) {
            changes.effects.push(match before.until {
                Some(until) => Effect::Dropped { key: name.clone(), until },
                None => Effect::Deleted { key: name.clone() },
            });
            changes.undo.push(Undo::String { key: name, before: Some(before) });
        } else if let Some(before) = self.take_collection(key) {
            changes.effects.push(Effect::Deleted { key: name.clone() });
            changes.undo.push(Undo::Collection { key: name, before: Some(before) });
        } else {
            return false;
        }
        true
    }

    /// What has expired is gone before the key is written to.
    pub(super) fn forget_expired(&mut self, key: &[u8], now: i64, changes: &mut Changes) {
        let string = self.strings.get(key).is_some_and(|it| is_over(it.until, now));
        let collection = self.collections.get(key).is_some_and(|it| is_over(it.until, now));
        if string || collection {
            self.delete(key, changes);
        }
    }

    /// Looks at up to `most` keys that expired a while ago, takes out those that were not written again, and returns how many.
    /// Strings go without a word to `changes`, since a restart leaves out strings that have expired; `forgot` gets each.
    pub fn collect_garbage(
        &mut self,
        now: i64,
        most: usize,
        changes: &mut Changes,
        mut forgot: impl FnMut(&[u8], &StoredString),
    ) -> usize {
        let (mut gone, mut looked) = (0, 0);
        while looked < most
            && let Some(mut span) = self.expiring.first_entry()
            && *span.key() < now.div_euclid(EXPIRY_BUCKET_MS)
        {
            let keys = span.get_mut();
            let some = keys.split_off(keys.len().saturating_sub(most - looked));
            looked += some.len();
            if keys.is_empty() {
                span.remove();
            }
            for key in some {
                if self.strings.get(&key).is_some_and(|it| is_over(it.until, now)) {
                    if let Some(held) = self.strings.remove(&key) {
                        forgot(&key, &held);
                    }
                    gone += 1;
                } else if self.collections.get(&key).is_some_and(|it| is_over(it.until, now)) {
                    gone += usize::from(self.delete(&key, changes));
                }
            }
        }
        gone
    }

    /// Sets when a key expires that holds something.
    pub(super) fn expire(&mut self, key: &[u8], until: Option<i64>, changes: &mut Changes) {
        if let Some(held) = self.strings.get(key) {
            let value = held.value.clone();
            return self.set_string(key, value, until, changes);
        }
        let Some(held) = self.collections.get_mut(key) else { return };
        let before = std::mem::replace(&mut held.until, until);
        let key: Name = key.into();
        self.note_expiry(&key, until);
        changes.undo.push(Undo::Expires { key: key.clone(), before });
        changes.effects.push(Effect::Expires { key, until });
    }

    /// The collection of a key that is to be written to; made by `make` where the key holds nothing. The key must hold no
    /// string and nothing that expired. Behind the write, [`Keyspace::drop_empty`].
    pub(super) fn collection_for(
        &mut self,
        key: &[u8],
        make: impl FnOnce() -> Collection,
        changes: &mut Changes,
    ) -> &mut StoredCollection {
        // A name is made only where there is none yet: `entry` wants one each time.
        if !self.collections.contains_key(key) {
            let name: Name = key.into();
            self.walk.insert((place_of(key), name.clone()));
            changes.undo.push(Undo::Collection { key: name.clone(), before: None });
            let made = StoredCollection { name: name.clone(), value: make(), until: None };
            return self.collections.entry(name).insert_entry(made).into_mut();
        }
        let name = self.collections.get(key).map(|held| held.name.clone()).unwrap_or_else(|| key.into());
        let made = || StoredCollection { name: key.into(), value: make(), until: None };
        self.collections.entry(name).or_insert_with(made)
    }

    /// A collection without anything in it is none.
    pub(super) fn drop_empty(&mut self, key: &[u8], changes: &mut Changes) {
        if self.collections.get(key).is_some_and(|it| it.value.is_empty()) {
            self.delete(key, changes);
        }
    }

    /// Takes back what `changes` did, from the end, and empties it.
    pub fn undo(&mut self, changes: &mut Changes) {
        while let Some(step) = changes.undo.pop() {
            self.undo_step(step);
        }
        changes.effects.clear();
        changes.messages.clear();
    }

    fn undo_step(&mut self, step: Undo) {
        match step {
            Undo::String { key, before: Some(before) } => {
                self.note_expiry(&key, before.until);
                self.strings.insert(key, before);
            }
            Undo::String { key, before: None } => _ = self.strings.remove(&key),
            Undo::Collection { key, before: Some(before) } => self.put_collection(key, before),
            Undo::Collection { key, before: None } => _ = self.take_collection(&key),
            Undo::Expires { key, before } => {
                self.note_expiry(&key, before);
                if let Some(held) = self.collections.get_mut(&key) {
                    held.until = before;
                }
            }
            Undo::Field { key, field, before } => {
                let Some(Collection::Hash(fields)) = self.value_mut(&key) else { return };
                match before {
                    Some(before) => _ = fields.insert(&field, before),
                    None => _ = fields.remove(&field),
                }
            }
            Undo::Score { key, member, before } => {
                let Some(Collection::Set(set)) = self.value_mut(&key) else { return };
                set.set(&member, before);
            }
            Undo::Item { key, index, before } => {
                let Some(Collection::List(list)) = self.value_mut(&key) else { return };
                if let Some(item) = list.items.get_mut(index) {
                    *item = before;
                }
            }
            Undo::Pushed { key, front, back } => {
                let Some(Collection::List(list)) = self.value_mut(&key) else { return };
                list.items.drain(..front);
                list.first += front as i64;
                list.items.truncate(list.items.len() - back);
            }
            Undo::Trimmed { key, front, back } => {
                let Some(Collection::List(list)) = self.value_mut(&key) else { return };
                list.first -= front.len() as i64;
                front.into_iter().rev().for_each(|item| list.items.push_front(item));
                list.items.extend(back);
            }
        }
    }

    fn value_mut(&mut self, key: &[u8]) -> Option<&mut Collection> {
        self.collections.get_mut(key).map(|held| &mut held.value)
    }

    /// Does what an effect says that is not about a list, for [`super::replay::Replay`].
    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::String { key, value, until } => {
                self.take_collection(key);
                self.note_expiry(key, *until);
                self.strings.insert(key.clone(), StoredString { value: value.clone(), until: *until });
            }
            Effect::Deleted { key } => {
                if self.strings.get(key).is_some_and(|it| it.until.is_none()) {
                    self.strings.remove(key);
                }
                self.take_collection(key);
            }
            Effect::Dropped { key, .. } => {
                if self.strings.get(key).is_some_and(|it| it.until.is_some()) {
                    self.strings.remove(key);
                }
            }
            Effect::Expires { key, until } => {
                self.note_expiry(key, *until);
                if let Some(held) = self.collections.get_mut(key) {
                    held.until = *until;
                }
            }
            Effect::Field { key, field, value } => {
                let Collection::Hash(fields) = self.made(key, || Collection::Hash(Fields::default())) else {
                    return;
                };
                match value {
                    Some(value) => _ = fields.insert(field, value.clone()),
                    None => _ = fields.remove(field),
                }
            }
            Effect::Score { key, member, score } => {
                let Collection::Set(set) = self.made(key, || Collection::Set(ZSet::default())) else {
                    return;
                };
                set.set(member, *score);
            }
            // A list may have holes meanwhile, see there.
            Effect::Item { .. } | Effect::Bounds { .. } => {}
        }
    }

    /// Puts a list in the place of whatever the key held.
    pub(super) fn put_list(&mut self, key: Name, first: i64, items: VecDeque<Arc<[u8]>>, until: Option<i64>) {
        self.note_expiry(&key, until);
        self.strings.remove(&key);
        let value = Collection::List(List { items, first });
        self.put_collection(key.clone(), StoredCollection { name: key, value, until });
    }

    /// The collection of a key, of the kind that `make` makes; whatever else it held is gone.
    fn made(&mut self, key: &Name, make: impl Fn() -> Collection) -> &mut Collection {
        self.strings.remove(key);
        let wanted = std::mem::discriminant(&make());
        if self.collections.get(key).is_some_and(|it| std::mem::discriminant(&it.value) != wanted) {
            self.collections.remove(key);
        }
        if !self.collections.contains_key(key) {
            self.walk.insert((place_of(key), key.clone()));
        }
        let made = || StoredCollection { name: key.clone(), value: make(), until: None };
        &mut self.collections.entry(key.clone()).or_insert_with(made).value
    }

    /// Takes over what another one has; of keys that both have, its own goes.
    pub(super) fn merge(&mut self, other: Keyspace) {
        let Keyspace { strings, collections, walk, expiring } = other;
        self.strings.extend(strings);
        self.collections.extend(collections);
        self.walk.extend(walk);
        for (span, keys) in expiring {
            self.expiring.entry(span).or_default().extend(keys);
        }
    }

    /// Keys that hold lists, and how many items each has.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&Name, usize)> {
        self.each_collection().filter_map(|held| match &held.value {
            Collection::List(list) => Some((&held.name, list.items.len())),
            _ => None,
        })
    }

    /// Every string with its key, expired ones too.
    pub fn each_string(&self) -> impl Iterator<Item = (&Name, &StoredString)> {
        self.strings.iter()
    }

    /// Every collection, expired ones too.
    pub fn each_collection(&self) -> impl Iterator<Item = &StoredCollection> {
        self.collections.values()
    }

    /// All of it as effects, which give the same data on nothing.
    pub(super) fn effects(&self) -> impl Iterator<Item = Effect> {
        let strings = self.strings.iter().map(|(key, it)| Effect::String {
            key: key.clone(),
            value: it.value.clone(),
            until: it.until,
        });
        strings.chain(self.collections.iter().flat_map(|(key, held)| effects_of(key, held)))
    }

    /// Every key with its content and its expiry, in one form for all kinds: for tests that compare stores.
    pub fn dump(&self) -> BTreeMap<Vec<u8>, DumpedValue> {
        let strings = self
            .strings
            .iter()
            .map(|(key, it)| (key.to_vec(), ("string", vec![it.value.to_vec()], it.until)));
        let collections = self.collections.iter().map(|(key, it)| {
            let (kind, content) = match &it.value {
                Collection::Hash(fields) => {
                    let mut all: Vec<_> =
                        fields.iter().map(|(field, value)| [&**field, b"=", &**value].concat()).collect();
                    all.sort();
                    ("hash", all)
                }
                Collection::List(list) => ("list", list.items.iter().map(|item| item.to_vec()).collect()),
                Collection::Set(set) => {
                    let spelled = |it: &super::ranked::Ranked| {
                        [&*it.member, b"=", &super::numbers::write_float(it.score)].concat()
                    };
                    ("zset", set.order.from_rank(0).map(spelled).collect())
                }
            };
            (key.to_vec(), (kind, content, it.until))
        });
        strings.chain(collections).collect()
    }
}
