//! Effects played again, onto data that may be newer than they are: elements are moved while the log rows that have them are
//! still there.
//!
//! For strings, fields and members the last effect counts, whatever was there. Of a list, what was pushed and cut off between may
//! leave a hole for a while: an item that was pushed in front and cut off again comes to a table that has only what is behind it.
//! So lists are kept by number until all of it was played.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::effect::{Effect, Name};
use super::keyspace::Keyspace;

/// Data that is being read.
#[derive(Default)]
pub struct Replay {
    space: Keyspace,
    lists: HashMap<Name, NumberedList, RandomState>,
}

/// A list that may have holes.
#[derive(Default)]
struct NumberedList {
    items: BTreeMap<i64, Arc<[u8]>>,
    until: Option<i64>,
}

impl Replay {
    /// Does what an effect says.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Item { key, number, value } => {
                self.lists.entry(key.clone()).or_default().items.insert(*number, value.clone());
            }
            Effect::Bounds { key, first, end } => {
                if let Some(list) = self.lists.get_mut(key) {
                    list.items = list.items.split_off(first);
                    list.items.split_off(end);
                }
            }
            Effect::Expires { key, until } if self.lists.get(key).is_some_and(|it| !it.items.is_empty()) => {
                self.lists.entry(key.clone()).or_default().until = *until;
            }
            Effect::Deleted { key } | Effect::String { key, .. } => {
                self.lists.remove(key);
                self.space.apply(effect);
            }
            effect => self.space.apply(effect),
        }
    }

    /// All of it but lists that have holes now, and the keys of those.
    pub fn finish(mut self) -> (Keyspace, Vec<Name>) {
        let mut broken = Vec::new();
        for (key, NumberedList { items, until }) in self.lists {
            let ends = items
                .first_key_value()
                .zip(items.last_key_value())
                .map(|((first, _), (last, _))| (*first, *last));
            match ends {
                Some((first, last)) if last - first + 1 == items.len() as i64 => {
                    self.space.put_list(key, first, items.into_values().collect(), until);
                }
                Some(_) => broken.push(key),
                None => {}
            }
        }
        (self.space, broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::embedded::Changes;
    use crate::engine::embedded::reply::Reply;

    #[test]
    fn elements_pushed_and_trimmed_leave_the_others() {
        let key: Name = b"k".as_slice().into();
        let item = |number: i64| Effect::Item {
            key: key.clone(),
            number,
            value: number.to_string().into_bytes().into(),
        };
        let mut replay = Replay::default();
        // What the table has; then the log, whose last row it knows already.
        (5..9).for_each(|number| replay.apply(&item(number)));
        (1..=3).for_each(|back| replay.apply(&item(-back)));
        replay.apply(&Effect::Bounds { key: key.clone(), first: 5, end: 9 });
        replay.apply(&item(9));
        let (mut space, broken) = replay.finish();
        assert!(broken.is_empty());
        let said = space.execute(&[b"LRANGE", b"k", b"0", b"-1"], 0, &mut Changes::default());
        let wanted = (5..10).map(|number: i64| Reply::Bulk(number.to_string().into_bytes()));
        assert_eq!(said, Reply::Array(wanted.collect()));
    }
}
