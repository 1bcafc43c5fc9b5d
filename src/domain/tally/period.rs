//! Periods, and when those of the calendar begin where a feed's show is at home.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::domain::Millis;

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = PeriodName, rename_all = "lowercase"))]
pub enum Period {
    /// Since it was switched on.
    All,
    /// A show: begins by name.
    Session,
    /// From midnight to midnight.
    Day,
    /// From Monday's midnight.
    Week,
    /// From midnight of the first.
    Month,
}

impl Period {
    /// Every one there is.
    pub const ALL: [Period; 5] = [Period::All, Period::Session, Period::Day, Period::Week, Period::Month];

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Period::All => "all",
            Period::Session => "session",
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
        }
    }

    /// True for those that the calendar begins and ends.
    pub fn is_calendar(self) -> bool {
        !matches!(self, Period::All | Period::Session)
    }
}

impl FromStr for Period {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Period, &'static str> {
        let known = Period::ALL.into_iter().find(|period| period.as_str() == word);
        known.ok_or("must be all, session, day, week or month")
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The periods that a feed counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Periods(u8);

impl Periods {
    /// True when nothing is counted.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True when this one is.
    pub fn has(self, period: Period) -> bool {
        self.0 & (1 << period as u8) > 0
    }

    /// These, in the order of [`Period::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Period> {
        Period::ALL.into_iter().filter(move |period| self.has(*period))
    }
}

impl FromIterator<Period> for Periods {
    fn from_iter<I: IntoIterator<Item = Period>>(periods: I) -> Periods {
        Periods(periods.into_iter().fold(0, |set, period| set | 1 << period as u8))
    }
}

impl fmt::Display for Periods {
    /// As stores spell it: `off`, or words with commas between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("off");
        }
        for (n, period) in self.iter().enumerate() {
            write!(f, "{}{period}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Periods {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Periods, &'static str> {
        text.split(',').filter(|_| text != "off").map(str::parse).collect()
    }
}

impl serde::Serialize for Periods {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Period::as_str))
    }
}

impl<'de> serde::Deserialize<'de> for Periods {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Periods, D::Error> {
        let words: Vec<String> = serde::Deserialize::deserialize(from)?;
        words.iter().map(|word| word.parse()).collect::<Result<_, _>>().map_err(serde::de::Error::custom)
    }
}

/// A time zone by its IANA name. The rules are those that this build carries, so all nodes of one version agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zone(Arc<str>);

impl Default for Zone {
    fn default() -> Zone {
        Zone("UTC".into())
    }
}

impl Zone {
    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn rules(&self) -> TimeZone {
        // The name was looked up when it came. A build that knows fewer zones than the one before goes by UTC.
        TimeZone::get(&self.0).unwrap_or(TimeZone::UTC)
    }

    /// When the period that holds `now` began, and when the next one begins. Of [`Period::All`] and
    /// [`Period::Session`], which no calendar bounds, all of time.
    pub fn bounds(&self, period: Period, now: Millis) -> (Millis, Millis) {
        let all = (Millis(0), Millis::MAX);
        if !period.is_calendar() {
            return all;
        }
        let zone = self.rules();
        let Ok(now) = Timestamp::from_millisecond(now.0) else { return all };
        let today = zone.to_datetime(now).date();
        let monday = |day: Date| day.checked_sub(i64::from(day.weekday().since(Weekday::Monday)).days());
        let (first, next) = match period {
            Period::Week => (monday(today), monday(today).and_then(|day| day.checked_add(7.days()))),
            Period::Month => (Ok(today.first_of_month()), today.first_of_month().checked_add(1.months())),
            _ => (Ok(today), today.tomorrow()),
        };
        // A day begins at midnight, or where clocks skip midnight, at the first moment after.
        let begin = |day: Result<Date, jiff::Error>| {
            let at = day.ok()?.to_zoned(zone.clone()).and_then(|day| day.start_of_day()).ok()?;
            Some(Millis(at.timestamp().as_millisecond()))
        };
        (begin(first).unwrap_or(all.0), begin(next).unwrap_or(all.1))
    }
}

impl FromStr for Zone {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Zone, &'static str> {
        const RULE: &str = "must be the IANA name of a time zone, such as Europe/Berlin";
        let known = TimeZone::get(name).map_err(|_| RULE)?;
        Ok(Zone(known.iana_name().ok_or(RULE)?.into()))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Zone {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Zone {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Zone, D::Error> {
        let name: String = serde::Deserialize::deserialize(from)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Millis {
        Millis::parse(text).unwrap()
    }

    #[test]
    fn periods_begin_where_the_show_is_at_home_also_over_daylight_saving() {
        let cases = [
            // Clocks go forward on 29 March 2026: that day has 23 hours, that week 167.
            (
                "Europe/Berlin",
                Period::Day,
                "2026-03-29T10:00:00Z",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "Europe/Berlin",
                Period::Week,
                "2026-03-29T10:00:00Z",
                "2026-03-22T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            // And back on 25 October: 25 hours.
            (
                "Europe/Berlin",
                Period::Day,
                "2026-10-25T01:30:00Z",
                "2026-10-24T22:00:00Z",
                "2026-10-25T23:00:00Z",
            ),
            (
                "UTC",
                Period::Month,
                "2026-02-28T23:59:59.999Z",
                "2026-02-01T00:00:00Z",
                "2026-03-01T00:00:00Z",
            ),
            ("UTC", Period::Week, "2026-11-22T23:59:59.999Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
            (
                "Asia/Shanghai",
                Period::Day,
                "2026-11-22T16:00:00Z",
                "2026-11-22T16:00:00Z",
                "2026-11-23T16:00:00Z",
            ),
            // Where clocks skip midnight the day begins at one.
            (
                "Africa/Cairo",
                Period::Day,
                "2024-04-26T12:00:00Z",
                "2024-04-25T22:00:00Z",
                "2024-04-26T21:00:00Z",
            ),
        ];
        for (zone, period, now, begins, ends) in cases {
            let zone: Zone = zone.parse().unwrap();
            assert_eq!(zone.bounds(period, at(now)), (at(begins), at(ends)), "{zone} {period} {now}");
        }
        assert_eq!(Zone::default().bounds(Period::All, at("2026-11-22T16:00:00Z")), (Millis(0), Millis::MAX));
    }

    proptest! {
        #[test]
        fn every_moment_is_in_one_period_of_each_kind(
            now in 0..4_102_444_800_000i64, kind in 2..5usize,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"]),
        ) {
            let (zone, period): (Zone, Period) = (zone.parse().unwrap(), Period::ALL[kind]);
            let (begins, ends) = zone.bounds(period, Millis(now));
            prop_assert!(begins.0 <= now && now < ends.0);
            prop_assert_eq!(zone.bounds(period, begins), (begins, ends));
            prop_assert_eq!(zone.bounds(period, Millis(ends.0 - 1)), (begins, ends));
            prop_assert_eq!(zone.bounds(period, ends).0, ends);
        }

        #[test]
        fn periods_survive_being_written(bits in 0..32u8) {
            let periods = Periods(bits);
            prop_assert_eq!(periods.to_string().parse(), Ok(periods));
            let json = serde_json::to_string(&periods).unwrap();
            prop_assert_eq!(serde_json::from_str::<Periods>(&json).unwrap(), periods);
        }
    }

    #[test]
    fn a_zone_goes_by_its_own_name() {
        assert_eq!("europe/berlin".parse::<Zone>().unwrap().as_str(), "Europe/Berlin");
        for bad in ["", "Europe/Atlantis", "+01:00", "UTC+1"] {
            assert!(bad.parse::<Zone>().is_err(), "{bad}");
        }
        assert!("hour".parse::<Period>().is_err() && "all,hour".parse::<Periods>().is_err());
    }
}
