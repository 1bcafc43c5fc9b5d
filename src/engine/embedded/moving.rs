//! On their way from the log to the table of elements: what keys and elements are after a stretch of the log, each once.
//!
//! What is moved may be newer than the log rows that are still there when the process dies. Reading those again gives the same
//! data, since effects say what is and not what changed, and all log rows of a stretch stay until the last of its elements was moved.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::effect::{Effect, Name};

/// What an element is called in the table: its kind, and a name that is unique in its key.
pub(super) type Element = Vec<u8>;

/// Kinds of elements, the first byte of [`Element`]. Their order is that in which they are read back.
pub(super) mod kind {
    /// When a collection expires.
    pub const UNTIL: u8 = b'e';
    /// A field of a hash.
    pub const FIELD: u8 = b'h';
    /// An item of a list, by number.
    pub const ITEM: u8 = b'l';
    /// A string that lasts.
    pub const STRING: u8 = b's';
    /// A member of a sorted set.
    pub const SCORE: u8 = b'z';
}

/// An item's number so that bytes have the order of numbers.
pub(super) fn item(number: i64) -> Element {
    let mut element = vec![kind::ITEM];
    element.extend((number as u64 ^ 1 << 63).to_be_bytes());
    element
}

/// The number of [`item`].
pub(super) fn number_of(name: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(name.try_into().ok()?) ^ 1 << 63) as i64)
}

/// One change of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// All elements of the key go.
    Clear(Name),
    /// Items of the key with a lower number than the first go, and those from the second on.
    Cut(Name, i64, i64),
    Put(Name, Element, Arc<[u8]>),
    Take(Name, Element),
}

/// What one key is.
#[derive(Default)]
struct Moved {
    /// What the table has of it is of before.
    cleared: bool,
    /// Numbers of the items that there are, as far as the table has them.
    bounds: Option<(i64, i64)>,
    elements: HashMap<Element, Option<Arc<[u8]>>, RandomState>,
}

impl Moved {
    /// Takes out items that are outside of the bounds.
    fn forget_outside(&mut self) {
        let Some((first, end)) = self.bounds else { return };
        let (from, to) = (item(first), item(end));
        self.elements.retain(|element, _| element[0] != kind::ITEM || (*element >= from && *element < to));
    }
}

/// A stretch of the log.
#[derive(Default)]
pub(super) struct Stretch {
    keys: HashMap<Name, Moved, RandomState>,
    /// The last log row of it.
    pub end: i64,
    /// Bytes of its log rows.
    pub bytes: usize,
}

impl Stretch {
    /// What lasts of an effect.
    pub fn add(&mut self, effect: &Effect) {
        let key = effect.key();
        let (element, value) = match effect {
            Effect::String { until: Some(_), .. } | Effect::Dropped { .. } => return,
            Effect::String { value, .. } => (vec![kind::STRING], Some(value.clone())),
            Effect::Deleted { .. } => {
                self.keys.insert(key.clone(), Moved { cleared: true, ..Moved::default() });
                return;
            }
            Effect::Expires { until, .. } => {
                (vec![kind::UNTIL], until.map(|until| Arc::from(until.to_be_bytes())))
            }
            Effect::Field { field, value, .. } => ([&[kind::FIELD], &**field].concat(), value.clone()),
            Effect::Item { number, value, .. } => {
                // A push says no bounds, and takes the place of what was cut off there before.
                if let Some((first, end)) = self.keys.get_mut(key).and_then(|moved| moved.bounds.as_mut()) {
                    (*first, *end) = ((*first).min(*number), (*end).max(number + 1));
                }
                (item(*number), Some(value.clone()))
            }
            Effect::Bounds { first, end, .. } => {
                let moved = self.keys.entry(key.clone()).or_default();
                moved.bounds = Some((*first, *end));
                // Every push has bounds, so they are looked at only when half of what is there may be outside.
                if moved.elements.len() as i64 > 2 * (end - first) + 64 {
                    moved.forget_outside();
                }
                return;
            }
            Effect::Score { member, score, .. } => {
                ([&[kind::SCORE], &**member].concat(), score.map(|score| Arc::from(score.to_be_bytes())))
            }
        };
        self.keys.entry(key.clone()).or_default().elements.insert(element, value);
    }

    /// Begins to move it: in the order of the table, so that neighbours are written together.
    pub fn into_moving(self) -> Moving {
        let mut keys: Vec<_> = self.keys.into_iter().collect();
        keys.iter_mut().for_each(|(_, moved)| moved.forget_outside());
        keys.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        Moving { keys, steps: Vec::new(), end: self.end }
    }
}

/// A stretch that is being moved.
#[derive(Default)]
pub(super) struct Moving {
    /// The next one last.
    keys: Vec<(Name, Moved)>,
    /// Of the key that is being moved; the next one last.
    steps: Vec<Step>,
    /// The last log row of it.
    pub end: i64,
}

impl Moving {
    /// True when all of it was taken.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.steps.is_empty()
    }

    /// The next `most` steps, about.
    pub fn take(&mut self, most: usize) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        while steps.len() < most {
            if let Some(step) = self.steps.pop() {
                steps.push_back(step);
                continue;
            }
            let Some((key, moved)) = self.keys.pop() else { break };
            if moved.cleared {
                steps.push_back(Step::Clear(key.clone()));
            }
            if let Some((first, end)) = moved.bounds {
                steps.push_back(Step::Cut(key.clone(), first, end));
            }
            let mut elements: Vec<_> = moved.elements.into_iter().collect();
            elements.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
            let step = |(element, value): (Element, Option<Arc<[u8]>>)| match value {
                Some(value) => Step::Put(key.clone(), element, value),
                None => Step::Take(key.clone(), element),
            };
            self.steps = elements.into_iter().map(step).collect();
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_moved_once_and_what_was_of_before_goes_first() {
        let mut stretch = Stretch::default();
        let (key, other): (Name, Name) = (b"k".as_slice().into(), b"a".as_slice().into());
        let push = |number: i64| Effect::Item { key: key.clone(), number, value: b"v".as_slice().into() };
        stretch.add(&push(4));
        stretch.add(&Effect::Deleted { key: key.clone() });
        for number in [0, -1, -2] {
            stretch.add(&push(number));
            stretch.add(&Effect::Bounds { key: key.clone(), first: number, end: (number + 2).min(1) });
        }
        let field = |value: Option<&[u8]>| Effect::Field {
            key: other.clone(),
            field: b"f".as_slice().into(),
            value: value.map(Arc::from),
        };
        stretch.add(&field(Some(b"1")));
        stretch.add(&field(None));
        let gone: Name = b"z".as_slice().into();
        stretch.add(&Effect::Dropped { key: gone, until: 5 });
        let mut stretch = stretch.into_moving();
        assert_eq!(
            stretch.take(3),
            [Step::Take(other, b"hf".to_vec()), Step::Clear(key.clone()), Step::Cut(key.clone(), -2, 0),]
        );
        let put = |number: i64| Step::Put(key.clone(), item(number), b"v".as_slice().into());
        assert_eq!(stretch.take(1), [put(-2)]);
        assert!(!stretch.is_empty());
        assert_eq!(stretch.take(9), [put(-1)]);
        assert!(stretch.is_empty() && stretch.take(9).is_empty());
        assert_eq!([i64::MIN, -1, 0, 7].map(|it| number_of(&item(it)[1..])), [i64::MIN, -1, 0, 7].map(Some));
    }
}
