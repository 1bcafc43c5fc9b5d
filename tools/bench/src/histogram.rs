//! Times, counted in buckets of an HDR histogram: constant memory whatever the number.

use std::time::Duration;

use serde_json::{Value, json};

/// The longest time that differs from longer ones: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// Significant digits: a bucket is less than one percent wide.
const DIGITS: u8 = 2;

/// How often each time was measured.
#[derive(Clone, Debug)]
pub struct Histogram {
    times: hdrhistogram::Histogram<u64>,
    /// The longest time to the nanosecond: a bucket knows only its upper end.
    most: u64,
}

impl Default for Histogram {
    #[allow(clippy::expect_used, reason = "the bounds are constants, which a test has tried")]
    fn default() -> Self {
        let times = hdrhistogram::Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds that fit");
        Histogram { times, most: 0 }
    }
}

impl Histogram {
    /// One more time, in nanoseconds.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.times.saturating_record(nanos);
        self.most = self.most.max(nanos);
    }

    /// How many times were recorded.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// The time that `share` (0 to 1) of all stay below or at, zero when there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.times.value_at_quantile(share).min(self.most))
    }

    /// `{"count","p50","p90","p99","max"}` in milliseconds; null without any.
    pub fn to_json(&self) -> Value {
        if self.times.is_empty() {
            return Value::Null;
        }
        let at = |share| millis(self.quantile(share));
        json!({ "count": self.times.len(), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0) })
    }
}

/// Milliseconds to the microsecond.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_nanos() as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times_recorded() {
        let mut times = Histogram::default();
        (1..=1_000).for_each(|n| times.record(n * 1_000_000));
        let near = |share, ms: f64| (times.quantile(share).as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.01;
        assert!(near(0.5, 500.0) && near(0.99, 990.0) && near(1.0, 1_000.0));
        assert_eq!(Histogram::default().to_json(), Value::Null);
    }
}
