//! How often somebody may ask: a bucket for each producer key, or each address while there are no keys.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{NotUntil, Quota, RateLimiter};

use crate::auth::KeyHash;

/// The least burst: the most gifts of one batch.
const BURST_LEAST: u32 = 128;

/// After this number of requests, buckets that are full again are forgotten.
const TIDY_EVERY: u32 = 4_096;

/// `[limits] requests_per_second` and `request_burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in a second, in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    /// From the configuration's numbers; `None` without a limit.
    pub fn new(per_second: u32, burst: u32) -> Option<Rate> {
        let per_second = NonZeroU32::new(per_second)?;
        let burst = NonZeroU32::new(burst).unwrap_or(per_second);
        let least = NonZeroU32::new(BURST_LEAST).unwrap_or(NonZeroU32::MIN);
        Some(Rate { per_second, burst: burst.max(least) })
    }
}

/// Whose bucket it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// The holder of a key.
    Key(KeyHash),
    /// The viewer that a token names.
    Viewer(KeyHash),
    /// An address, as [`crate::http::inbound::counted`] gives it.
    Address(Option<IpAddr>),
}

/// The buckets.
pub struct Rates {
    rate: Rate,
    limiter: Limiter,
    clock: DefaultClock,
    until_tidy: AtomicU32,
}

type Limiter = RateLimiter<Who, HashMapStateStore<Who>, DefaultClock, StateInformationMiddleware>;

/// What a bucket holds after a request; goes out with every answer as headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    rate: Rate,
    /// Requests that may come at once.
    remaining: u32,
    /// Whole seconds: until the bucket is full again or, when the request was refused, until it can pass.
    seconds: u64,
}

impl Rates {
    /// Full buckets for everybody.
    pub fn new(rate: Rate) -> Rates {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        let limiter = RateLimiter::hashmap(quota).with_middleware::<StateInformationMiddleware>();
        Rates { rate, limiter, clock: DefaultClock::default(), until_tidy: AtomicU32::new(TIDY_EVERY) }
    }

    /// What was asked for.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes `cost` requests out of a bucket, all or none; the error is a budget with nothing left.
    pub fn charge(&self, who: Who, cost: NonZeroU32) -> Result<Budget, Budget> {
        if self.until_tidy.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.until_tidy.store(TIDY_EVERY, Ordering::Relaxed);
            self.limiter.retain_recent();
        }
        // A cost above the burst cannot be: a batch has at most BURST_LEAST gifts.
        match self.limiter.check_key_n(&who, cost) {
            Ok(Ok(state)) => {
                let remaining = state.remaining_burst_capacity();
                let missing = self.rate.burst.get().saturating_sub(remaining);
                let seconds = u64::from(missing.div_ceil(self.rate.per_second.get()));
                Ok(Budget { rate: self.rate, remaining, seconds })
            }
            Ok(Err(refused)) => Err(self.refusal(&refused)),
            Err(_) => Err(Budget { rate: self.rate, remaining: 0, seconds: 1 }),
        }
    }

    fn refusal(&self, refused: &NotUntil<<DefaultClock as Clock>::Instant>) -> Budget {
        let wait = refused.wait_time_from(self.clock.now());
        let seconds = u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1);
        Budget { rate: self.rate, remaining: 0, seconds }
    }
}

impl Budget {
    /// Of a refusal: when it may be tried again, in whole seconds, at least 1.
    pub fn retry_after(&self) -> u64 {
        self.seconds.max(1)
    }

    /// `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers: the burst is the
    /// quota, its window the time in which an empty bucket fills.
    pub fn put(&self, headers: &mut HeaderMap) {
        let Rate { per_second, burst } = self.rate;
        let window = burst.get().div_ceil(per_second.get());
        let policy = format!("\"requests\";q={burst};w={window}");
        let now = format!("\"requests\";r={};t={}", self.remaining, self.seconds);
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", now)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_says_when() {
        let rates = Rates::new(Rate::new(1, 0).unwrap());
        let (one, two) = (Who::Key(KeyHash::of("one")), Who::Address(None));
        let first = rates.charge(one, cost(127)).unwrap();
        assert_eq!((first.remaining, first.seconds), (1, 127));
        assert!(rates.charge(one, cost(2)).is_err(), "all or none");
        assert!(rates.charge(one, cost(1)).is_ok());
        let refused = rates.charge(one, cost(1)).unwrap_err();
        assert_eq!((refused.remaining, refused.retry_after()), (0, 1));
        assert!(rates.charge(one, cost(100)).unwrap_err().retry_after() >= 99);
        assert!(rates.charge(two, cost(128)).is_ok(), "somebody else's is full");
    }

    #[test]
    fn the_headers_are_those_of_the_draft() {
        let rates = Rates::new(Rate::new(50, 200).unwrap());
        let mut headers = HeaderMap::new();
        rates.charge(Who::Address(None), cost(60)).unwrap().put(&mut headers);
        assert_eq!(headers.get("ratelimit-policy").unwrap(), "\"requests\";q=200;w=4");
        assert_eq!(headers.get("ratelimit").unwrap(), "\"requests\";r=140;t=2");
    }

    #[test]
    fn no_rate_is_no_limit_and_a_batch_always_fits() {
        assert_eq!(Rate::new(0, 0), None);
        assert_eq!(Rate::new(10, 0).unwrap().burst.get(), 128);
        assert_eq!(Rate::new(1_000, 0).unwrap().burst.get(), 1_000);
    }
}
