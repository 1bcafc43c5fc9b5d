//! Who has which slots, as a value.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use crate::engine::protocol::address::Endpoint;
use crate::engine::protocol::slots::SLOTS;

/// No server.
const NO_SERVER: u16 = u16::MAX;

/// A primary and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub endpoint: Endpoint,
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Primary {
    /// The roundest of its slots in binary, the lowest of equally round ones. All nodes agree on it whatever they knew before,
    /// and it seldom changes while slots move one by one: the lowest would with each of them.
    fn home(&self) -> Option<u16> {
        let roundest = |range: &RangeInclusive<u16>| {
            let multiple_of = |step: u16| range.start().next_multiple_of(step);
            let steps = (0..14).rev().map(|bit| 1 << bit);
            steps.map(multiple_of).find(|slot| range.contains(slot))
        };
        let roundness = |slot: u16| (slot.trailing_zeros(), Reverse(slot));
        self.slots.iter().filter_map(roundest).max_by_key(|slot| roundness(*slot))
    }
}

/// Who has which slots, at one moment.
#[derive(Default)]
pub struct Layout {
    pub primaries: Vec<Primary>,
    /// By slot: the place of its primary.
    slots: Vec<u16>,
}

impl Layout {
    pub fn of(primaries: Vec<Primary>) -> Layout {
        let mut slots = vec![NO_SERVER; usize::from(SLOTS)];
        for (at, primary) in primaries.iter().enumerate() {
            for range in &primary.slots {
                slots[usize::from(*range.start())..=usize::from(*range.end())].fill(at as u16);
            }
        }
        Layout { primaries, slots }
    }

    /// The place of the primary that has a slot.
    pub fn place(&self, slot: u16) -> Option<usize> {
        self.slots.get(usize::from(slot)).filter(|at| **at != NO_SERVER).map(|at| usize::from(*at))
    }

    /// The home of the server there: the slot of it in which what is about all of its feeds is kept. `None` for a server
    /// without slots.
    pub fn home_of(&self, endpoint: &Endpoint) -> Option<u16> {
        self.primaries.iter().find(|primary| primary.endpoint == *endpoint)?.home()
    }

    /// The home of the server that has this slot; the slot itself where no server has it.
    pub fn home(&self, slot: u16) -> u16 {
        self.place(slot).and_then(|at| self.primaries[at].home()).unwrap_or(slot)
    }

    /// Every server's home.
    pub fn homes(&self) -> impl Iterator<Item = u16> {
        self.primaries.iter().filter_map(Primary::home)
    }

    /// True when it is the server there that has the slot.
    pub fn is_owner(&self, endpoint: &Endpoint, slot: u16) -> bool {
        self.place(slot).is_some_and(|at| self.primaries[at].endpoint == *endpoint)
    }

    /// Slots without a primary.
    pub fn uncovered(&self) -> usize {
        self.slots.iter().filter(|at| **at == NO_SERVER).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_owner_or_none() {
        let endpoint = |port| Endpoint::Tcp("h".into(), port);
        let primary = |port, slots| Primary { endpoint: endpoint(port), slots: vec![slots] };
        let layout = Layout::of(vec![primary(1, 0..=9), primary(2, 20..=16_383)]);
        assert_eq!((layout.place(9), layout.place(10), layout.place(20)), (Some(0), None, Some(1)));
        assert!(layout.is_owner(&endpoint(2), 16_383) && !layout.is_owner(&endpoint(1), 16_383));
        assert_eq!((layout.home_of(&endpoint(2)), layout.home_of(&endpoint(3))), (Some(8_192), None));
        assert_eq!((layout.home(7), layout.home(12), layout.home(21)), (0, 12, 8_192));
        assert_eq!((layout.uncovered(), Layout::default().place(0)), (10, None));
    }

    #[test]
    fn a_home_stays_while_slots_move_one_by_one() {
        let home = |slots: Vec<RangeInclusive<u16>>| {
            Primary { endpoint: Endpoint::Tcp("h".into(), 1), slots }.home()
        };
        assert_eq!((home(vec![0..=5_460]), home(vec![5_461..=10_922])), (Some(0), Some(8_192)));
        assert_eq!(
            (home(vec![10_923..=16_383]), home(vec![7..=7]), home(vec![])),
            (Some(12_288), Some(7), None)
        );
        let homes: std::collections::BTreeSet<_> =
            (0..1_365).map(|moved| home(vec![5_461 + moved..=10_922, 11_000..=11_100])).collect();
        assert_eq!(homes.len(), 1);
    }
}
