//! What leaders and goals go by, and what money counts in points.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::domain::{MAX_SAFE, currency};

/// What leaders and goals go by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Amounts times the policy's points for their currency.
    Points,
    /// Units of gifts.
    Units,
    /// Minor units of this currency, as [`currency::read`] spells it.
    Currency(Arc<str>),
}

impl Measure {
    /// Reads the word of the API; none for what is neither a word nor a currency.
    pub fn of(word: &str) -> Option<Measure> {
        match word {
            "points" => Some(Measure::Points),
            "units" => Some(Measure::Units),
            _ => currency::read(word).map(|currency| Measure::Currency(currency.code.into())),
        }
    }

    /// The word of the API.
    pub fn as_str(&self) -> &str {
        match self {
            Measure::Points => "points",
            Measure::Units => "units",
            Measure::Currency(currency) => currency,
        }
    }

    /// As stores spell it: a currency that is called like one of the words is another thing.
    pub fn code(&self) -> String {
        match self {
            Measure::Points => "points".to_owned(),
            Measure::Units => "units".to_owned(),
            Measure::Currency(currency) => format!("${currency}"),
        }
    }

    /// Reads [`Measure::code`].
    pub fn of_code(code: &str) -> Option<Measure> {
        match code {
            "points" => Some(Measure::Points),
            "units" => Some(Measure::Units),
            _ => code.strip_prefix('$').map(|currency| Measure::Currency(currency.into())),
        }
    }
}

/// The most points for a minor unit.
pub const MAX_POINTS: u64 = 1_000_000;

/// Points for a minor unit of each currency; 0 for one that is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points(pub Arc<BTreeMap<String, u64>>);

impl Points {
    /// Of an amount; stops at 2^53−1.
    pub fn of(&self, amount: u64, currency: &str) -> u64 {
        let each = self.0.get(currency).copied().unwrap_or(0);
        amount.saturating_mul(each).min(MAX_SAFE)
    }
}

impl serde::Serialize for Points {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(to)
    }
}

impl<'de> serde::Deserialize<'de> for Points {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Points, D::Error> {
        let points: BTreeMap<String, u64> = serde::Deserialize::deserialize(from)?;
        Ok(Points(points.into()))
    }
}

impl fmt::Display for Points {
    /// As stores spell it: `off`, or `CURRENCY:POINTS` with commas between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("off");
        }
        for (n, (currency, each)) in self.0.iter().enumerate() {
            write!(f, "{}{currency}:{each}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Points {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Points, &'static str> {
        const RULE: &str = "must be points by currency";
        let mut points = BTreeMap::new();
        for pair in text.split(',').filter(|_| text != "off") {
            let (currency, each) = pair.split_once(':').ok_or(RULE)?;
            points.insert(currency.to_owned(), each.parse().map_err(|_| RULE)?);
        }
        Ok(Points(points.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_and_points_survive_being_written() {
        for word in ["points", "units", "EUR", "coins"] {
            let measure = Measure::of(word).unwrap();
            assert_eq!((measure.as_str(), Measure::of_code(&measure.code())), (word, Some(measure.clone())));
        }
        assert_eq!(Measure::of("EU"), None);
        assert_eq!(Measure::of_code("x"), None);
        let points = Points(Arc::new([("EUR".to_owned(), 2), ("coins".to_owned(), 0)].into()));
        assert_eq!(points.to_string().parse(), Ok(points.clone()));
        assert_eq!("off".parse(), Ok(Points::default()));
        assert_eq!((points.of(21, "EUR"), points.of(21, "USD")), (42, 0));
        assert_eq!(points.of(MAX_SAFE, "EUR"), MAX_SAFE);
    }
}
