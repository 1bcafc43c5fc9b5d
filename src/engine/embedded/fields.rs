//! Names and what belongs to each, for hashes and sorted sets, with a scan in steps that does not depend on how memory is laid
//! out: scripts keep the cursor of a scan in a feed's state, over restarts too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::domain::hashing::sha256;

/// With more names than this they are kept in the order of their hash. Below, a scan gives all of them in one step.
const MAX_UNHASHED_NAMES: usize = 512;

/// A map from names to values that can be scanned in steps.
#[derive(Debug)]
pub enum Fields<V> {
    /// Few names.
    Small(HashMap<Arc<[u8]>, V, RandomState>),
    /// Many names, by the first 48 bits of a hash. A stranger may choose names; it is a cryptographic hash, so that nobody can
    /// make many that a scan must give in one step.
    Large(BTreeMap<(u64, Arc<[u8]>), V>),
}

/// A name and what belongs to it.
pub type Named<'a, V> = (&'a Arc<[u8]>, &'a V);

/// The place of a name in a scan.
pub(super) fn place_of(name: &[u8]) -> u64 {
    sha256(name)[..6].iter().fold(0, |place, byte| place << 8 | u64::from(*byte))
}

/// The place at which a scan with this cursor goes on. A cursor is a place plus one, since 0 begins a scan and ends it.
pub(super) fn place_at(cursor: u64) -> u64 {
    cursor.saturating_sub(1)
}

/// One step of a scan over entries in the order of their places: `count` of them, more where several share the last place,
/// and the cursor of the next step.
pub(super) fn scan_step<T>(entries: impl Iterator<Item = (u64, T)>, count: usize) -> (u64, Vec<T>) {
    let (mut found, mut last) = (Vec::new(), None);
    for (place, entry) in entries {
        if found.len() >= count.max(1) && last != Some(place) {
            return (place + 1, found);
        }
        last = Some(place);
        found.push(entry);
    }
    (0, found)
}

impl<V> Default for Fields<V> {
    fn default() -> Self {
        Fields::Small(HashMap::default())
    }
}

impl<V> Fields<V> {
    /// How many names there are.
    pub fn len(&self) -> usize {
        match self {
            Fields::Small(all) => all.len(),
            Fields::Large(all) => all.len(),
        }
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What belongs to a name.
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        match self {
            Fields::Small(all) => all.get(name),
            Fields::Large(all) => all.get(&(place_of(name), name.into())),
        }
    }

    /// Sets what belongs to a name; what did before.
    pub fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        match self {
            Fields::Small(all) => {
                if let Some(known) = all.get_mut(name) {
                    return Some(std::mem::replace(known, value));
                }
                all.insert(name.into(), value);
                if all.len() > MAX_UNHASHED_NAMES {
                    let all = std::mem::take(all).into_iter();
                    *self =
                        Fields::Large(all.map(|(name, value)| ((place_of(&name), name), value)).collect());
                }
                None
            }
            Fields::Large(all) => all.insert((place_of(name), name.into()), value),
        }
    }

    /// Takes a name out; what belonged to it.
    pub fn remove(&mut self, name: &[u8]) -> Option<V> {
        match self {
            Fields::Small(all) => all.remove(name),
            // It stays as it is when few are left: a scan under way goes on where it was.
            Fields::Large(all) => all.remove(&(place_of(name), name.into())),
        }
    }

    /// All of them, in no order that anybody may rely on.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (&Arc<[u8]>, &V)> + '_> {
        match self {
            Fields::Small(all) => Box::new(all.iter()),
            Fields::Large(all) => Box::new(all.iter().map(|((_, name), value)| (name, value))),
        }
    }

    /// Some `count` of them from this cursor on, and the cursor behind them; 0 begins, and 0 is the end. A name that is there
    /// from the first step to the last is given.
    pub fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<Named<'_, V>>) {
        let all = match self {
            Fields::Small(all) => return (0, if cursor == 0 { all.iter().collect() } else { Vec::new() }),
            Fields::Large(all) => all,
        };
        let first = (place_at(cursor), Arc::from([]));
        scan_step(all.range(first..).map(|((place, name), value)| (*place, (name, value))), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_gives_what_stays_though_others_come_and_go() {
        let mut fields = Fields::default();
        let name = |n: u32| format!("name {n}").into_bytes();
        (0..2_000).for_each(|n| _ = fields.insert(&name(n), n));
        let (mut cursor, mut seen, mut steps) = (0, std::collections::BTreeSet::new(), 0);
        loop {
            let (next, found) = fields.scan(cursor, 50);
            assert!(found.len() <= 51);
            seen.extend(found.into_iter().map(|(_, n)| *n));
            steps += 1;
            fields.remove(&name(steps * 2 + 1));
            fields.insert(&name(10_000 + steps), 10_000 + steps);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        assert!((0..2_000).step_by(2).all(|n| seen.contains(&n)) && steps >= 39, "{steps}");
        assert_eq!(fields.len(), 2_000);
    }
}
