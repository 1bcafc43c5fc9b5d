//! Units of drops, for the drops that this node saw last. Names of feeds and drops are the producers' own,
//! so these series are bounded by their number: the drop not seen for longest makes room. Anybody may read them, so a feed is named
//! only once somebody said that it may be.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Drops that are shown at most; three series each.
pub const MAX_DROPS: usize = 64;

/// Units of drops, for the metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DropUnits {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By feed and drop: when it was seen, counted in sightings, and its units.
    drops: HashMap<(String, String), (u64, [u64; 3])>,
    /// The feeds that may be named.
    named: HashSet<String>,
    sightings: u64,
}

impl DropUnits {
    /// Notes the units of a drop that are free, held and sold.
    pub fn note(&self, feed: &str, drop: &str, units: [u64; 3]) {
        let mut seen = self.locked();
        seen.sightings += 1;
        let now = seen.sightings;
        seen.drops.insert((feed.to_owned(), drop.to_owned()), (now, units));
        if seen.drops.len() > MAX_DROPS {
            let oldest = seen.drops.iter().min_by_key(|(_, (at, _))| *at).map(|(name, _)| name.clone());
            oldest.map(|name| seen.drops.remove(&name));
        }
    }

    /// The feeds whose drops were seen.
    pub fn feeds(&self) -> HashSet<String> {
        self.locked().drops.keys().map(|(feed, _)| feed.clone()).collect()
    }

    /// Names these feeds from now on, and no others.
    pub fn name(&self, feeds: HashSet<String>) {
        self.locked().named = feeds;
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for DropUnits {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let seen = self.locked();
        let mut family = encoder.encode_descriptor(
            "tipcast_drop_units",
            "Units of the drops that this node saw last",
            None,
            MetricType::Gauge,
        )?;
        for ((feed, drop), (_, units)) in seen.drops.iter().filter(|((feed, _), _)| seen.named.contains(feed))
        {
            for (word, units) in ["free", "held", "sold"].into_iter().zip(units) {
                let labels = [("feed", feed.as_str()), ("drop", drop.as_str()), ("units", word)];
                ConstGauge::new(*units as i64).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drop_not_seen_for_longest_makes_room() {
        let units = DropUnits::default();
        for n in 0..MAX_DROPS + 5 {
            units.note("f", "first", [1, 2, 3]);
            units.note("f", &format!("d-{n}"), [n as u64, 0, 0]);
        }
        let seen = units.seen.lock().unwrap();
        assert_eq!(seen.drops.len(), MAX_DROPS);
        assert!(seen.drops.contains_key(&("f".into(), "first".into())));
        assert!(!seen.drops.contains_key(&("f".into(), "d-0".into())));
    }
}
