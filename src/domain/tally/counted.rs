//! What a gift counted, and where, so that exactly that can be taken back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Points, Sum};
use crate::domain::Value;

/// What one gift, or several of one user in one row, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The instances that were open: their numbers with dots between. Never empty.
    pub instances: Arc<str>,
    /// Gifts.
    pub gifts: u64,
    /// Units.
    pub units: Sum,
    /// Points, by the policy that was in force.
    pub points: Sum,
    /// Money: how much, and of which currency.
    pub value: Option<(Sum, Arc<str>)>,
    /// False for what is counted and never ranked: anonymous gifts, blocked users', denied ones.
    pub ranked: bool,
}

impl Counted {
    /// One gift of so many units and so much money.
    pub fn gift(
        instances: Arc<str>,
        units: u64,
        value: Option<&Value>,
        points: &Points,
        ranked: bool,
    ) -> Counted {
        let worth = value.map_or(0, |value| points.of(value.amount, &value.currency));
        let value = value.map(|value| (value.amount.into(), value.currency.as_str().into()));
        Counted { instances, gifts: 1, units: units.into(), points: worth.into(), value, ranked }
    }

    /// The instances' numbers.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.instances.split('.').filter_map(|id| id.parse().ok())
    }

    fn is_beside(&self, other: &Counted) -> bool {
        let currency = |it: &Counted| it.value.as_ref().map(|(_, currency)| currency.clone());
        self.instances == other.instances && self.ranked == other.ranked && currency(self) == currency(other)
    }

    fn join(&mut self, more: &Counted) {
        self.gifts += more.gifts;
        (self.units, self.points) = (self.units.plus(more.units), self.points.plus(more.points));
        if let (Some((sum, _)), Some((more, _))) = (&mut self.value, &more.value) {
            *sum = sum.plus(*more);
        }
    }

    fn leave(&mut self, less: &Counted) {
        self.gifts = self.gifts.saturating_sub(less.gifts);
        (self.units, self.points) = (self.units.minus(less.units), self.points.minus(less.points));
        if let (Some((sum, _)), Some((less, _))) = (&mut self.value, &less.value) {
            *sum = sum.minus(*less);
        }
    }
}

impl fmt::Display for Counted {
    /// As stores spell it: `INSTANCES GIFTS UNITS POINTS AMOUNT:CURRENCY|- r|-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted { instances, gifts, units, points, value, ranked } = self;
        write!(f, "{instances} {gifts} {units} {points} ")?;
        match value {
            Some((amount, currency)) => write!(f, "{amount}:{currency}")?,
            None => f.write_str("-")?,
        }
        f.write_str(if *ranked { " r" } else { " -" })
    }
}

impl FromStr for Counted {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Counted, &'static str> {
        const RULE: &str = "must be what a gift counted";
        let [instances, gifts, units, points, value, ranked] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(RULE);
        };
        let value = match value {
            "-" => None,
            value => {
                let (amount, currency) = value.rsplit_once(':').ok_or(RULE)?;
                Some((amount.parse()?, currency.into()))
            }
        };
        let known = !instances.is_empty() && instances.split('.').all(|id| id.parse::<u64>().is_ok());
        if !known || !matches!(ranked, "r" | "-") {
            return Err(RULE);
        }
        Ok(Counted {
            instances: instances.into(),
            gifts: gifts.parse().map_err(|_| RULE)?,
            units: units.parse()?,
            points: points.parse()?,
            value,
            ranked: ranked == "r",
        })
    }
}

/// What the gifts of one row counted, all of one user: few parts however many gifts, because those that counted in
/// the same instances are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// The user's id.
    pub user: Arc<str>,
    /// What is left of them.
    pub parts: Vec<Counted>,
}

impl Segments {
    /// Of a row without gifts yet.
    pub fn of(user: &str) -> Segments {
        Segments { user: user.into(), parts: Vec::new() }
    }

    /// A gift joins the row.
    pub fn add(&mut self, counted: &Counted) {
        match self.parts.iter_mut().find(|part| part.is_beside(counted)) {
            Some(part) => part.join(counted),
            None => self.parts.push(counted.clone()),
        }
    }

    /// A gift of the row was taken back by itself.
    pub fn take(&mut self, counted: &Counted) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.is_beside(counted)) {
            part.leave(counted);
            self.parts.retain(|part| part.gifts > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::MAX_SAFE;

    fn some() -> impl Strategy<Value = Counted> {
        let value = prop::option::of((0..=MAX_SAFE, prop::sample::select(vec!["EUR", "coins"])));
        (0..4u64, 0..1000u64, 0..=MAX_SAFE, value, any::<bool>()).prop_map(
            |(at, units, points, value, ranked)| {
                let instances = format!("1.{}", at + 2).into();
                let value = value.map(|(amount, currency)| (amount.into(), currency.into()));
                Counted { instances, gifts: 1, units: units.into(), points: points.into(), value, ranked }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_counted_survives_being_written(counted in some()) {
            prop_assert_eq!(counted.to_string().parse(), Ok(counted));
        }

        /// In whatever order gifts leave a row by themselves, what is left is what the others counted.
        #[test]
        fn a_row_keeps_what_its_gifts_counted(gifts in prop::collection::vec(some(), 1..30), gone in any::<u64>()) {
            let mut row = Segments::of("u");
            gifts.iter().for_each(|gift| row.add(gift));
            let mut left = Vec::new();
            for (n, gift) in gifts.iter().enumerate() {
                if gone >> (n % 64) & 1 == 1 { row.take(gift) } else { left.push(gift) }
            }
            let sum = |all: &[&Counted]| all.iter().fold((0, Sum::default(), Sum::default(), Sum::default()), |sum, it| {
                let amount = it.value.as_ref().map_or(Sum::default(), |(amount, _)| *amount);
                (sum.0 + it.gifts, sum.1.plus(it.units), sum.2.plus(it.points), sum.3.plus(amount))
            });
            prop_assert_eq!(sum(&row.parts.iter().collect::<Vec<_>>()), sum(&left));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for bad in
            ["", "1 1 1 1 -", " 1 1 1 - r", "1.x 1 1 1 - r", "1 1 1 1 5 r", "1 1 1 1 - x", "1 -1 1 1 - r"]
        {
            assert!(bad.parse::<Counted>().is_err(), "{bad}");
        }
    }
}
