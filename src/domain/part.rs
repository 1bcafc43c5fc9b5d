//! What a gift added to its row, so that it can be taken back alone.

use std::fmt;
use std::str::FromStr;

use super::json::push_number;
use super::{Row, Value};

/// What a gift added to its row, remembered with its id so that it can be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nobody knows: the gift waits, was cancelled, or came before parts were remembered.
    #[default]
    Unknown,
    /// This much.
    Added(Added),
    /// It was taken back.
    TakenBack,
}

/// Units and money that one gift added to a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Units; of a combo's frame, by how much it grew the row.
    pub units: u64,
    /// Money, likewise.
    pub value: Option<Value>,
    /// A test is in no ledger, and so is its being taken back.
    pub test: bool,
}

impl Part {
    /// That of a gift that no row shows.
    pub fn nothing(test: bool) -> Part {
        Part::Added(Added { test, ..Added::default() })
    }

    /// As stores spell it: `-`, `x`, or `UNITS:AMOUNT:CURRENCY` with `~` in front for a test. Every gift is spelled, and
    /// formatting would cost more.
    pub fn spell(&self) -> String {
        let mut out = String::with_capacity(48);
        self.push(&mut out);
        out
    }

    /// Appends [`Part::spell`].
    pub fn push(&self, out: &mut String) {
        let Part::Added(Added { units, value, test }) = self else {
            return out.push_str(if *self == Part::Unknown { "-" } else { "x" });
        };
        if *test {
            out.push('~');
        }
        push_number(out, *units as i64);
        out.push(':');
        if let Some(Value { amount, .. }) = value {
            push_number(out, *amount as i64);
        }
        out.push(':');
        if let Some(Value { currency, .. }) = value {
            out.push_str(currency);
        }
    }
}

impl fmt::Display for Part {
    /// See [`Part::spell`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spell())
    }
}

impl FromStr for Part {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Part, &'static str> {
        const RULE: &str = "must be a gift's part of its row";
        match text {
            "" | "-" => return Ok(Part::Unknown),
            "x" => return Ok(Part::TakenBack),
            _ => {}
        }
        let test = text.starts_with('~');
        let mut parts = text.trim_start_matches('~').split(':');
        let mut part = || parts.next().ok_or(RULE);
        let units = part()?.parse().map_err(|_| RULE)?;
        let value = match (part()?, part()?) {
            ("", "") => None,
            (amount, currency) => {
                Some(Value { amount: amount.parse().map_err(|_| RULE)?, currency: currency.to_owned() })
            }
        };
        Ok(Part::Added(Added { units, value, test }))
    }
}

impl Added {
    /// What made `after` of `before`; of a new row, all of it.
    pub(super) fn between(before: Option<&Row>, after: &Row) -> Added {
        let was = before.and_then(|row| row.value.as_ref()).map_or(0, |value| value.amount);
        let fresh = before.is_none_or(|row| row.value.is_none());
        let value = after.value.as_ref().filter(|value| fresh || value.amount > was);
        Added {
            units: after.count - before.map_or(0, |row| row.count),
            value: value.map(|value| Value { amount: value.amount - was, currency: value.currency.clone() }),
            test: after.test,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_part_survives_being_written(units in 0..=crate::domain::MAX_SAFE, money in prop::option::of((0..=crate::domain::MAX_SAFE, "[A-Za-z]{3,12}")), test in any::<bool>()) {
            let value = money.map(|(amount, currency)| Value { amount, currency });
            let part = Part::Added(Added { units, value, test });
            prop_assert_eq!(part.to_string().parse(), Ok(part));
        }
    }

    #[test]
    fn parts_that_say_nothing_and_what_is_none() {
        for part in [Part::Unknown, Part::TakenBack] {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        assert_eq!("".parse(), Ok(Part::Unknown));
        for bad in ["1", "1:", "a::", "1:2", "-1::", "1:x:EUR"] {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
    }
}
