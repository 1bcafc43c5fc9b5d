//! One run of a period, and what it has summed.

use std::collections::BTreeMap;

use super::{Counted, MAX_CURRENCIES, Measure, Period, Sum};
use crate::domain::Millis;

/// One run of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Of which period.
    pub period: Period,
    /// Its number, which no other of the feed has.
    pub id: u64,
    /// When it began.
    pub since: Millis,
    /// When the calendar ends it.
    pub until: Millis,
    /// Gifts.
    pub gifts: u64,
    /// Units.
    pub units: Sum,
    /// Points.
    pub points: Sum,
    /// Different users.
    pub gifters: u64,
    /// Money by currency, at most [`MAX_CURRENCIES`].
    pub values: BTreeMap<String, Sum>,
}

impl Instance {
    /// One that begins.
    pub(super) fn new(period: Period, id: u64, since: Millis, until: Millis) -> Instance {
        let (units, points, values) = Default::default();
        Instance { period, id, since, until, gifts: 0, units, points, gifters: 0, values }
    }

    /// A sum of it, as it is shown.
    pub fn sum(&self, by: &Measure) -> u64 {
        match by {
            Measure::Points => self.points.shown(),
            Measure::Units => self.units.shown(),
            Measure::Currency(currency) => self.values.get(&**currency).map_or(0, |sum| sum.shown()),
        }
    }

    /// Amounts by currency, the largest first.
    pub fn amounts(&self) -> Vec<(String, u64)> {
        let mut all: Vec<_> = self.values.iter().map(|(name, sum)| (name.clone(), sum.shown())).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Counts what came.
    pub(super) fn add(&mut self, counted: &Counted) {
        self.gifts += counted.gifts;
        self.units = self.units.plus(counted.units);
        self.points = self.points.plus(counted.points);
        if let Some((amount, currency)) = &counted.value
            && (self.values.len() < MAX_CURRENCIES || self.values.contains_key(&**currency))
        {
            match self.values.get_mut(&**currency) {
                Some(sum) => *sum = sum.plus(*amount),
                None => drop(self.values.insert(currency.to_string(), *amount)),
            }
        }
    }

    /// Takes back what was counted.
    pub(super) fn take(&mut self, counted: &Counted) {
        self.gifts = self.gifts.saturating_sub(counted.gifts);
        self.units = self.units.minus(counted.units);
        self.points = self.points.minus(counted.points);
        if let Some((amount, currency)) = &counted.value
            && let Some(sum) = self.values.get_mut(&**currency)
        {
            *sum = sum.minus(*amount);
        }
    }
}
