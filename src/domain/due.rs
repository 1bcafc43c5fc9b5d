//! What a feed does by itself when the time has come: entries of its due queue, and their order.
//!
//! A queue belongs to one feed and holds every kind of entry, so that what is due runs in one order:
//! by time, then in order of arrival. To have another kind of thing happen by itself, add a
//! [`DueKind`]; the compiler then leads to the two places that handle it, one in each store.

use std::fmt;
use std::str::FromStr;

use super::{GiftId, Millis};

/// What an entry of the due queue is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DueKind {
    /// A scheduled gift is shown. The entry's id is the gift's.
    Gift,
    /// A drop's clock strikes: it opens or closes, holds end, a change is to be announced. The entry's id is the
    /// drop's name; each drop has one such entry at most, for what comes first.
    Drop,
    /// Totals are to be announced, or a period ends. Each feed has one such entry at most.
    Totals,
    /// Nobody decided about a gift in time, and the policy's default happens. The entry's id is the gift's.
    Review,
}

impl DueKind {
    /// The letter of a kind in the store.
    pub fn letter(self) -> char {
        match self {
            DueKind::Gift => 'g',
            DueKind::Drop => 'd',
            DueKind::Totals => 't',
            DueKind::Review => 'r',
        }
    }

    /// The kind of this letter; none for one that this version does not know.
    pub fn of(letter: char) -> Option<DueKind> {
        match letter {
            'g' => Some(DueKind::Gift),
            'd' => Some(DueKind::Drop),
            't' => Some(DueKind::Totals),
            'r' => Some(DueKind::Review),
            _ => None,
        }
    }
}

/// The place of an entry in its feed's queue: by time, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DuePlace {
    /// When it is due.
    pub at: Millis,
    /// A number that grows with every entry that comes into the queue.
    pub order: u64,
}

impl fmt::Display for DuePlace {
    /// As cursors spell it: `AT-ORDER`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at.0, self.order)
    }
}

impl FromStr for DuePlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<DuePlace, &'static str> {
        const RULE: &str = "must be the next of an earlier page";
        let (at, order) = text.split_once('-').ok_or(RULE)?;
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !digits(at) || !digits(order) {
            return Err(RULE);
        }
        let at = Millis(at.parse().map_err(|_| RULE)?);
        if at > Millis::MAX {
            return Err(RULE);
        }
        let order = order.parse().ok().filter(|order| *order <= super::MAX_SAFE).ok_or(RULE)?;
        Ok(DuePlace { at, order })
    }
}

/// A gift that waits, or waited, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The gift's id.
    pub id: GiftId,
    /// It is shown at this time or shortly after, never before.
    pub deliver_at: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_survives_being_written_and_places_sort_by_time_then_arrival(
            a in (0..4_000i64, 0..9u64), b in (0..4_000i64, 0..9u64),
        ) {
            let place = |(at, order)| DuePlace { at: Millis(at), order };
            prop_assert_eq!(place(a).to_string().parse(), Ok(place(a)));
            prop_assert_eq!(place(a) < place(b), a < b);
        }
    }

    #[test]
    fn an_invalid_place_is_refused() {
        for bad in
            ["", "1", "-", "1-", "-1-2", "+1-2", "1-2-3", "a-1", "999999999999999-1", "1-9007199254740992"]
        {
            assert!(bad.parse::<DuePlace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_kind_is_known_by_its_letter() {
        assert_eq!(DueKind::of(DueKind::Gift.letter()), Some(DueKind::Gift));
        assert_eq!(DueKind::of('?'), None);
    }
}
