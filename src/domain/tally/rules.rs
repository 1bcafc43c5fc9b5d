//! What a feed's policy says about counting, as stores keep it.

use std::fmt;
use std::str::FromStr;

use super::{Periods, Points, Zone};

/// What a feed's policy says about counting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The periods that are counted.
    pub periods: Periods,
    /// Where days begin.
    pub zone: Zone,
    /// What money is worth.
    pub points: Points,
}

impl fmt::Display for Rules {
    /// As stores spell it: three words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.periods, self.zone, self.points)
    }
}

impl FromStr for Rules {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Rules, &'static str> {
        let [periods, zone, points] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err("must be rules for counting");
        };
        Ok(Rules { periods: periods.parse()?, zone: zone.parse()?, points: points.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_being_written() {
        let (periods, zone) = ("session,week".parse().unwrap(), "Europe/Berlin".parse().unwrap());
        let rules = Rules { periods, zone, points: "EUR:2,coins:1".parse().unwrap() };
        assert_eq!(rules.to_string(), "session,week Europe/Berlin EUR:2,coins:1");
        assert_eq!(rules.to_string().parse(), Ok(rules));
        assert_eq!(Rules::default().to_string().parse(), Ok(Rules::default()));
    }
}
