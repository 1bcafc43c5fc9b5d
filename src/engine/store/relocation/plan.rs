//! What every key of a folder becomes on servers. Most keys are as they were, behind the prefix. What is about several feeds is
//! divided as the servers divide it; a feed's list begins a new epoch; places in walks that mean something to the store of one
//! process only begin anew; and what is worth nothing after a restart stays behind.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::domain::{FeedId, Millis};
use crate::engine::embedded::stored::Collection;
use crate::engine::embedded::{Keyspace, Owner};
use crate::engine::protocol::keys::{Division, Keys, PARTS_MAX, Part, SharedIndex, owner};
use crate::engine::protocol::known::epoch_at;
use crate::engine::store::due::index as due;
use crate::engine::store::reports::index as jobs;

/// A name, a field or a value in the folder.
type Bytes<'a> = &'a [u8];

/// What a key is to hold.
pub(super) enum Content<'a> {
    Text(Cow<'a, [u8]>),
    Hash(Vec<(Bytes<'a>, Bytes<'a>)>),
    List(Vec<Bytes<'a>>),
    /// In order.
    Set(Vec<(Bytes<'a>, f64)>),
}

/// A key of the servers.
pub(super) struct PlannedKey<'a> {
    pub key: String,
    pub content: Content<'a>,
    /// When it expires, by the folder's time.
    pub until: Option<i64>,
}

/// What all epochs have that begin with one move.
pub(super) struct Epochs {
    /// When the move began.
    pub at: Millis,
    /// What they end with.
    pub life: String,
    /// By how many milliseconds the servers' clock is ahead of the steady one, by which windows run in a folder. The steady clock
    /// is late by as long as the machine was off.
    pub ahead: i64,
}

/// How names go on, behind their feed, of keys whose text has the steady time at which it ends: ids, locks and combos.
const WINDOWS: [&[u8]; 3] = [b"}:id:", b"}:lock:", b"}:combo:"];

/// What is written for each key of a folder.
pub(super) struct Plan<'a> {
    space: &'a Keyspace,
    keys: &'a Keys,
    epochs: Epochs,
    /// Keys of the folder that are not fleeting, in order; those that are divided are left out.
    names: Vec<&'a [u8]>,
    /// What becomes of those.
    divided: Vec<PlannedKey<'a>>,
}

impl<'a> Plan<'a> {
    /// `part_of` says which part of an index the servers have for a feed.
    pub fn new(
        space: &'a Keyspace,
        keys: &'a Keys,
        part_of: &dyn Fn(SharedIndex, &FeedId) -> Part,
        epochs: Epochs,
    ) -> Plan<'a> {
        let mut dividing = Dividing { space, part_of, names: HashSet::new(), found: BTreeMap::new() };
        // A folder's keys have no prefix.
        if let Ok(here) = Keys::new("", Division::ByName(1)) {
            dividing.divide_all(&here, keys);
        }
        let strings = space.each_string().map(|(name, _)| &**name);
        let all = strings.chain(space.each_collection().map(|held| &*held.name));
        let stays = |name: &&[u8]| owner(name) != Owner::Fleeting && !dividing.names.contains(*name);
        let mut names: Vec<&[u8]> = all.filter(stays).collect();
        names.sort_unstable();
        let item = |(key, content)| PlannedKey { key, content, until: None };
        let divided = dividing.found.into_iter().map(item).collect();
        Plan { space, keys, epochs, names, divided }
    }

    /// Keys of the folder, in the order in which they are moved; behind them comes what was divided.
    pub fn names(&self) -> &[Bytes<'a>] {
        &self.names
    }

    /// What was divided.
    pub fn divided(&self) -> &[PlannedKey<'a>] {
        &self.divided
    }

    /// How many feeds there are.
    pub fn feeds(&self) -> usize {
        let feed = |name: &&'a [u8]| match owner(name) {
            Owner::Feed(feed) => Some(feed),
            _ => None,
        };
        self.names.iter().filter_map(feed).collect::<BTreeSet<_>>().len()
    }

    /// What becomes of a key, of the form that it has at `now`; nothing where it has expired.
    pub fn items(&self, name: Bytes<'a>, now: i64) -> Vec<PlannedKey<'a>> {
        let (content, until) = if let Some(held) = self.space.string(name, now) {
            (Content::Text(self.text(name, &held.value)), held.until)
        } else if let Some(held) = self.space.collection(name, now) {
            (self.collection(name, &held.value), held.until)
        } else {
            return Vec::new();
        };
        let Ok(text) = std::str::from_utf8(name) else { return Vec::new() };
        let request = text.strip_prefix("{request:").and_then(|rest| rest.strip_suffix("}:target"));
        match (request, content) {
            (Some(request), Content::Text(text)) => {
                let keys = self.keys.request(request).into_iter();
                keys.map(|key| PlannedKey { key, content: Content::Text(text.clone()), until }).collect()
            }
            (_, content) => vec![PlannedKey { key: self.keys.moved(text), content, until }],
        }
    }

    /// Whether a key of the servers is one that this plan writes.
    pub fn has(&self, key: &str, now: i64) -> bool {
        let name = self.keys.name_of_moved(key);
        name.is_some_and(|name| {
            self.space.exists(name.as_bytes(), now) && owner(name.as_bytes()) != Owner::Fleeting
        }) || self.divided.iter().any(|item| item.key == key)
    }

    /// A text as it is written: two of a feed's are not what they were.
    fn text(&self, name: &[u8], text: &'a [u8]) -> Cow<'a, [u8]> {
        let Owner::Feed(_) = owner(name) else { return Cow::Borrowed(text) };
        let new = match std::str::from_utf8(text) {
            Ok(text) if name.ends_with(b"}:meta") => self.meta(text),
            Ok(text) if name.ends_with(b"}:sums") => sums(text),
            Ok(text) if is_window(name) => self.window(text),
            _ => None,
        };
        new.map_or(Cow::Borrowed(text), |text| Cow::Owned(text.into_bytes()))
    }

    /// A collection as it is written: the scores of a feed's `retracted` are ends of windows.
    fn collection(&self, name: &[u8], held: &'a Collection) -> Content<'a> {
        match (content_of(held), owner(name)) {
            (Content::Set(mut members), Owner::Feed(_)) if name.ends_with(b"}:retracted") => {
                members.iter_mut().for_each(|(_, score)| *score += self.epochs.ahead as f64);
                Content::Set(members)
            }
            (content, _) => content,
        }
    }

    /// A record that has the end of a window, by the servers' clock. What waits has none.
    fn window(&self, text: &str) -> Option<String> {
        if self.epochs.ahead == 0 {
            return None;
        }
        let mut record: Map<String, Value> = serde_json::from_str(text).ok()?;
        let until = record.get("until")?.as_i64()?;
        record.insert("until".into(), (until + self.epochs.ahead).into());
        serde_json::to_string(&record).ok()
    }

    /// A feed's state (`lua/feed/feed.lua`) in a new epoch: none of its changes leads there, and it began with the move.
    fn meta(&self, text: &str) -> Option<String> {
        let mut meta: Map<String, Value> = serde_json::from_str(text).ok()?;
        let epoch = epoch_at(self.epochs.at, meta.get("epoch")?.as_str()?) + &self.epochs.life;
        let seq = meta.get("seq")?.clone();
        let new = [("epoch", epoch.into()), ("covered", seq), ("changed", self.epochs.at.0.into())];
        meta.extend(new.map(|(name, value)| (name.to_owned(), value)));
        serde_json::to_string(&meta).ok()
    }
}

fn is_window(name: &[u8]) -> bool {
    let behind = name.iter().position(|byte| *byte == b'}').map_or(&[][..], |at| &name[at..]);
    WINDOWS.iter().any(|window| behind.starts_with(window))
}

/// What a feed counts (`lua/totals/state.lua`), with the places of its searches at the beginning: the third and the last word
/// of the first line, where those are under way.
fn sums(text: &str) -> Option<String> {
    let (head, rest) = text.split_once('\n')?;
    let mut words: Vec<&str> = head.split(' ').collect();
    let [_, _, sweep, _, _, scan] = &mut words[..] else { return None };
    for place in [sweep, scan] {
        if *place != "-" {
            *place = "0";
        }
    }
    Some(format!("{}\n{rest}", words.join(" ")))
}

fn content_of(held: &Collection) -> Content<'_> {
    match held {
        Collection::Hash(fields) => {
            Content::Hash(fields.iter().map(|(field, value)| (&**field, &**value)).collect())
        }
        Collection::List(list) => Content::List(list.items.iter().map(|item| &**item).collect()),
        Collection::Set(set) => {
            Content::Set(set.order.from_rank(0).map(|it| (&*it.member, it.score)).collect())
        }
    }
}

/// Divides indexes anew.
struct Dividing<'a, 'b> {
    space: &'a Keyspace,
    part_of: &'b dyn Fn(SharedIndex, &FeedId) -> Part,
    /// Keys of the folder that are divided.
    names: HashSet<Vec<u8>>,
    found: BTreeMap<String, Content<'a>>,
}

impl Dividing<'_, '_> {
    fn divide_all(&mut self, here: &Keys, there: &Keys) {
        let job = |name: &[u8]| jobs::read_member(name).map(|job| job.feed);
        let word = |name: &[u8], last: bool| {
            let mut words = std::str::from_utf8(name).ok()?.split(' ');
            if last { words.next_back() } else { words.next() }?.parse().ok()
        };
        for from in (0..PARTS_MAX).map(Part::Named) {
            for at in 0..2 {
                let index = |what| here.index(what, from)[at].clone();
                self.divide(index(SharedIndex::Due), SharedIndex::Due, due::read_member, |part| {
                    there.index(SharedIndex::Due, part)[at].clone()
                });
                self.divide(index(SharedIndex::Jobs), SharedIndex::Jobs, job, |part| {
                    there.index(SharedIndex::Jobs, part)[at].clone()
                });
            }
        }
        let first = Part::Named(0);
        let [first_word, last_word] = [false, true].map(|last| move |name: &[u8]| word(name, last));
        self.divide(here.hook_feeds(first), SharedIndex::Hooks, first_word, |part| there.hook_feeds(part));
        self.divide(here.letter_feeds(first), SharedIndex::Hooks, last_word, |part| there.letter_feeds(part));
        self.divide(here.groups(first), SharedIndex::Groups, first_word, |part| there.groups(part));
        self.divide(here.feed_names(first), SharedIndex::Feeds, first_word, |part| there.feed_names(part));
    }

    /// Puts what a key of the folder holds where the servers have it. What names no feed is of no use, and left out.
    fn divide(
        &mut self,
        name: String,
        what: SharedIndex,
        feed_of: impl Fn(&[u8]) -> Option<FeedId>,
        key_of: impl Fn(Part) -> String,
    ) {
        let held = self.space.collection(name.as_bytes(), i64::MIN);
        let key = |member: &[u8]| feed_of(member).map(|feed| key_of((self.part_of)(what, &feed)));
        match held.map(|held| &held.value) {
            Some(Collection::Hash(fields)) => {
                for (field, value) in fields.iter() {
                    let Some(key) = key(field) else { continue };
                    let part = self.found.entry(key).or_insert_with(|| Content::Hash(Vec::new()));
                    let Content::Hash(fields) = part else { continue };
                    fields.push((&**field, &**value));
                }
            }
            Some(Collection::Set(set)) => {
                for it in set.order.from_rank(0) {
                    let Some(key) = key(&it.member) else { continue };
                    let part = self.found.entry(key).or_insert_with(|| Content::Set(Vec::new()));
                    let Content::Set(members) = part else { continue };
                    members.push((&*it.member, it.score));
                }
            }
            Some(Collection::List(_)) | None => {}
        }
        self.names.insert(name.into_bytes());
    }
}
