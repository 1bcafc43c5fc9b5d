//! Who has which slots, as a value.

use std::ops::RangeInclusive;

use super::address::Endpoint;
use super::slots::SLOTS;

/// No server.
const NOBODY: u16 = u16::MAX;

/// A primary and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub endpoint: Endpoint,
    pub slots: Vec<RangeInclusive<u16>>,
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
        let mut slots = vec![NOBODY; usize::from(SLOTS)];
        for (at, primary) in primaries.iter().enumerate() {
            for range in &primary.slots {
                slots[usize::from(*range.start())..=usize::from(*range.end())].fill(at as u16);
            }
        }
        Layout { primaries, slots }
    }

    /// The place of the primary that has a slot.
    pub fn place(&self, slot: u16) -> Option<usize> {
        self.slots.get(usize::from(slot)).filter(|at| **at != NOBODY).map(|at| usize::from(*at))
    }

    /// A slot of the server there; none when it has none.
    pub fn home_of(&self, endpoint: &Endpoint) -> Option<u16> {
        let primary = self.primaries.iter().find(|primary| primary.endpoint == *endpoint)?;
        primary.slots.first().map(|range| *range.start())
    }

    /// True when it is the server there that has the slot.
    pub fn is_owner(&self, endpoint: &Endpoint, slot: u16) -> bool {
        self.place(slot).is_some_and(|at| self.primaries[at].endpoint == *endpoint)
    }

    /// Slots that nobody has.
    pub fn uncovered(&self) -> usize {
        self.slots.iter().filter(|at| **at == NOBODY).count()
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
        assert_eq!((layout.home_of(&endpoint(2)), layout.home_of(&endpoint(3))), (Some(20), None));
        assert_eq!((layout.uncovered(), Layout::default().place(0)), (10, None));
    }
}
