//! What a gateway does now: rates and percentiles between two looks at its metrics.

use std::time::Instant;

use super::{Metrics, process};

/// What the metrics said at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    at: Instant,
    gifts: f64,
    deliveries: f64,
    errors: f64,
    watchers: f64,
    feeds: f64,
    cpu_seconds: f64,
    rss_bytes: f64,
    publish: Buckets,
    delivery: Buckets,
    store: Buckets,
}

/// Observations up to each bound in seconds, by bound.
#[derive(Clone, Debug, Default)]
struct Buckets(Vec<(f64, f64)>);

/// What happened between two looks. Of percentiles, 0 where nothing was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Gifts that were taken.
    pub gifts_per_second: f64,
    /// Changes handed to watchers, each counted for each watcher.
    pub deliveries_per_second: f64,
    /// Watchers at the end.
    pub watchers: f64,
    /// How long publishing took in the store.
    pub publish_p99_ms: f64,
    /// From the store's change to its frame.
    pub delivery_p99_ms: f64,
    /// Memory at the end.
    pub rss_bytes: f64,
    /// How long calls of the store took.
    pub store_p99_ms: f64,
    /// Requests answered with 5xx.
    pub errors_per_second: f64,
    /// Processor cores in use.
    pub cpu: f64,
    /// Feeds followed at the end.
    pub feeds: f64,
}

impl Metrics {
    /// A look at what is counted now.
    pub fn look(&self) -> Look {
        let mut look = Look {
            at: Instant::now(),
            gifts: 0.0,
            deliveries: 0.0,
            errors: 0.0,
            watchers: 0.0,
            feeds: 0.0,
            cpu_seconds: process::cpu_seconds().unwrap_or_default(),
            rss_bytes: process::resident_bytes().unwrap_or_default() as f64,
            publish: Buckets::default(),
            delivery: Buckets::default(),
            store: Buckets::default(),
        };
        // The library gives a histogram's buckets in this format only.
        for line in self.to_openmetrics().unwrap_or_default().lines() {
            look.read(line);
        }
        look
    }
}

impl Look {
    /// Adds a line of the text format.
    fn read(&mut self, line: &str) {
        let Some((series, value)) = line.rsplit_once(' ') else { return };
        let Ok(value) = value.parse::<f64>() else { return };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&[name, "=\""].concat())?;
            Some(rest.split_once('"')?.0)
        };
        match name {
            "tipcast_gifts_total" if !matches!(label("status"), Some("duplicate" | "rejected")) => {
                self.gifts += value;
            }
            "tipcast_deliveries_total" => self.deliveries += value,
            "tipcast_http_requests_total" if label("class") == Some("5xx") => self.errors += value,
            "tipcast_watchers" => self.watchers += value,
            "tipcast_feeds_watched" => self.feeds += value,
            "tipcast_publish_to_watch_seconds_bucket" => self.delivery.add(label("le"), value),
            "tipcast_engine_call_seconds_bucket" => {
                self.store.add(label("le"), value);
                if label("operation") == Some("publish") {
                    self.publish.add(label("le"), value);
                }
            }
            _ => {}
        }
    }

    /// What happened since the look before.
    pub fn since(&self, before: &Look) -> Sample {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(0.001);
        let rate = |now: f64, then: f64| (now - then).max(0.0) / seconds;
        Sample {
            gifts_per_second: rate(self.gifts, before.gifts),
            deliveries_per_second: rate(self.deliveries, before.deliveries),
            watchers: self.watchers,
            publish_p99_ms: self.publish.p99_ms_since(&before.publish),
            delivery_p99_ms: self.delivery.p99_ms_since(&before.delivery),
            rss_bytes: self.rss_bytes,
            store_p99_ms: self.store.p99_ms_since(&before.store),
            errors_per_second: rate(self.errors, before.errors),
            cpu: rate(self.cpu_seconds, before.cpu_seconds),
            feeds: self.feeds,
        }
    }
}

impl Buckets {
    fn add(&mut self, bound: Option<&str>, count: f64) {
        let bound = match bound {
            Some("+Inf") => f64::INFINITY,
            Some(text) => text.parse().unwrap_or(f64::INFINITY),
            None => return,
        };
        match self.0.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((bound, count)),
        }
    }

    /// The time within which 99 % of what was observed since then ended, in milliseconds; evenly spread within a
    /// bucket.
    fn p99_ms_since(&self, before: &Buckets) -> f64 {
        let earlier =
            |bound: f64| before.0.iter().find(|(it, _)| *it == bound).map_or(0.0, |(_, count)| *count);
        let counts: Vec<(f64, f64)> =
            self.0.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
        let all = counts.last().map_or(0.0, |(_, count)| *count);
        if all <= 0.0 {
            return 0.0;
        }
        let wanted = 0.99 * all;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted {
                // Of what took longer than the last bound only that bound is known.
                let upper = if bound.is_finite() { bound } else { lower };
                let share = if count > below { (wanted - below) / (count - below) } else { 1.0 };
                return 1_000.0 * (lower + (upper - lower) * share);
            }
            (lower, below) = (if bound.is_finite() { bound } else { lower }, count);
        }
        1_000.0 * lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::labels::{GiftStatus, Operation, Route, StatusClass, Transport};

    #[test]
    fn a_sample_has_what_happened_between_two_looks() {
        let metrics = Metrics::default();
        metrics.gifts[GiftStatus::Accepted].inc_by(5);
        let mut before = metrics.look();
        before.at = before.at.checked_sub(std::time::Duration::from_secs(2)).unwrap();
        metrics.gifts[GiftStatus::Accepted].inc_by(8);
        metrics.gifts[GiftStatus::Duplicate].inc_by(100);
        metrics.deliveries.inc_by(20);
        metrics.watchers[Transport::Ws].inc();
        metrics.http_requests[(Route::Gifts, StatusClass::ServerError)].inc_by(2);
        metrics.http_requests[(Route::Gifts, StatusClass::of(201))].inc_by(9);
        for _ in 0..100 {
            metrics.engine_calls[Operation::Publish].observe(0.000_8);
        }
        metrics.engine_calls[Operation::Snapshot].observe(9.0);
        let sample = metrics.look().since(&before);
        let near = |is: f64, wanted: f64| assert!((is - wanted).abs() <= 0.05 * wanted, "{is} {wanted}");
        near(sample.gifts_per_second, 4.0);
        near(sample.deliveries_per_second, 10.0);
        near(sample.errors_per_second, 1.0);
        assert_eq!((sample.watchers, sample.delivery_p99_ms), (1.0, 0.0));
        assert!((0.5..=1.0).contains(&sample.publish_p99_ms), "{sample:?}");
        assert!((0.5..=1.0).contains(&sample.store_p99_ms), "one of 101 is no percentile: {sample:?}");
    }
}
