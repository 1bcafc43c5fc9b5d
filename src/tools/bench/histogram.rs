//! Times, counted in buckets less than one percent wide: constant memory whatever the number.

use std::time::Duration;

use serde_json::{Value, json};

/// Buckets of one octave, as a power of two: 128.
const FINE: u32 = 7;

/// How often each time was measured, from a nanosecond to centuries.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let octaves = (u64::BITS - FINE + 1) as usize;
        Histogram { buckets: vec![0; octaves << FINE], count: 0, most: 0 }
    }
}

impl Histogram {
    /// One more time, in nanoseconds.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket_of(nanos)] += 1;
        self.count += 1;
        self.most = self.most.max(nanos);
    }

    /// How many times were recorded.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that `share` (0 to 1) of all stay below or at, zero when there are none.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(most_of(bucket).min(self.most));
            }
        }
        Duration::from_nanos(self.most)
    }

    /// `{"count","p50","p90","p99","max"}` in milliseconds; null without any.
    pub fn to_json(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        let at = |share| millis(self.quantile(share));
        let most = millis(Duration::from_nanos(self.most));
        json!({ "count": self.count, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": most })
    }
}

/// Milliseconds to the microsecond.
pub(super) fn millis(time: Duration) -> f64 {
    (time.as_nanos() as f64 / 1e3).round() / 1e3
}

#[inline]
fn bucket_of(nanos: u64) -> usize {
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(FINE + 1);
    ((octave as usize) << FINE) + (nanos >> octave) as usize
}

/// The largest time of a bucket.
fn most_of(bucket: usize) -> u64 {
    let octave = (bucket >> FINE).saturating_sub(1) as u32;
    let within = (bucket - ((octave as usize) << FINE)) as u128;
    u64::try_from(((within + 1) << octave) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_less_than_one_percent_wide_and_none_is_missing() {
        let mut last = 0;
        for nanos in (0..2_000).chain((11..64).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 1])) {
            let bucket = bucket_of(nanos);
            assert!(bucket >= last && bucket < Histogram::default().buckets.len());
            let most = most_of(bucket);
            assert!(most >= nanos && (most - nanos) as f64 <= nanos as f64 * 0.01, "{nanos} {most}");
            last = bucket;
        }
        assert_eq!(most_of(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_those_of_the_times_recorded() {
        let mut times = Histogram::default();
        (1..=1_000).for_each(|n| times.record(n * 1_000_000));
        let near = |share, ms: f64| (times.quantile(share).as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.01;
        assert!(near(0.5, 500.0) && near(0.99, 990.0) && near(1.0, 1_000.0));
        assert_eq!(times.to_json()["max"], 1_000.0);
        assert_eq!(Histogram::default().to_json(), Value::Null);
    }
}
