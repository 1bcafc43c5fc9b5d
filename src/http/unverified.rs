//! Bodies of strangers: what is read before its signature is checked.
//!
//! A signature is over the whole body, so it must be there before anybody knows whose it is. All such bodies together
//! have one budget in bytes, and one address a part of it; what comes beyond it is refused, not kept.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use bytes::Bytes;

use super::body::{self, Coming};
use super::problem::ApiError;
use crate::metrics::Metrics;
use crate::metrics::labels::Bound;

/// One address may have this part of the budget, and always one body of the largest kind.
const ADDRESS_PART: usize = 4;

/// How many seconds later somebody should come back whose address has as many bytes as it may.
const RETRY_S: u64 = 1;

/// The budget, and what is taken of it.
pub struct UnverifiedBodies {
    most: usize,
    most_of_address: usize,
    held: Mutex<Held>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    /// Addresses that have any.
    of: HashMap<Option<IpAddr>, usize>,
}

/// A body that was read, for as long as it counts.
pub(super) struct Unverified<'a> {
    pub bytes: Bytes,
    _share: Share<'a>,
}

/// Bytes of one body; given back when dropped.
struct Share<'a> {
    all: &'a UnverifiedBodies,
    address: Option<IpAddr>,
    bytes: usize,
}

impl UnverifiedBodies {
    /// A budget of `most` bytes. `largest`: bytes of the largest body that there may be.
    pub fn new(most: usize, largest: usize, metrics: Arc<Metrics>) -> UnverifiedBodies {
        let most_of_address = (most / ADDRESS_PART).max(largest);
        UnverifiedBodies { most, most_of_address, held: Mutex::default(), metrics }
    }

    /// Reads a body of at most `limit` bytes that comes from this address, within `time`.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        payload: impl Coming,
        (limit, time): (usize, Duration),
        address: Option<IpAddr>,
    ) -> Result<Unverified<'_>, ApiError> {
        let mut share = Share { all: self, address, bytes: 0 };
        let bytes = body::read_counted(headers, payload, limit, time, |more| share.grow(more)).await?;
        Ok(Unverified { bytes, _share: share })
    }

    fn change(&self, change: impl FnOnce(&mut Held) -> Result<(), Bound>) -> Result<(), Bound> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut held);
        self.metrics.unverified_body_bytes.set(i64::try_from(held.bytes).unwrap_or(i64::MAX));
        changed
    }
}

impl Share<'_> {
    /// Takes this number of bytes more, if they are left.
    fn grow(&mut self, more: usize) -> Result<(), ApiError> {
        let taken = self.all.change(|held| {
            let own = held.of.get(&self.address).copied().unwrap_or(0);
            if own + more > self.all.most_of_address {
                return Err(Bound::UnverifiedBodiesPerAddress);
            }
            if held.bytes + more > self.all.most {
                return Err(Bound::UnverifiedBodies);
            }
            held.bytes += more;
            held.of.insert(self.address, own + more);
            Ok(())
        });
        match taken {
            Ok(()) => {
                self.bytes += more;
                Ok(())
            }
            Err(bound) => {
                self.all.metrics.bounds_met[bound].inc();
                Err(match bound {
                    Bound::UnverifiedBodiesPerAddress => ApiError::RateLimited(RETRY_S),
                    _ => ApiError::Overloaded("room for bodies whose signature is not checked yet"),
                })
            }
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let _ = self.all.change(|held| {
            held.bytes -= self.bytes;
            if let Some(own) = held.of.get_mut(&self.address) {
                *own -= self.bytes;
                if *own == 0 {
                    held.of.remove(&self.address);
                }
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share<'a>(all: &'a UnverifiedBodies, address: &str) -> Share<'a> {
        Share { all, address: address.parse().ok(), bytes: 0 }
    }

    #[test]
    fn all_bodies_together_and_those_of_an_address_have_so_many_bytes_and_give_them_back() {
        let metrics = Arc::<Metrics>::default();
        let all = UnverifiedBodies::new(100, 10, metrics.clone());
        let mut first = share(&all, "10.0.0.1");
        let mut second = share(&all, "10.0.0.1");
        assert_eq!((first.grow(20), second.grow(5)), (Ok(()), Ok(())));
        assert_eq!(second.grow(1), Err(ApiError::RateLimited(1)), "a quarter for one address");
        let mut others: Vec<_> = (2..6).map(|n| share(&all, &format!("10.0.0.{n}"))).collect();
        for (n, other) in others.iter_mut().enumerate() {
            assert_eq!(other.grow(25).is_ok(), n < 3, "{n}");
        }
        assert_eq!(metrics.unverified_body_bytes.get(), 100);
        drop(first);
        assert_eq!((others[3].grow(20), metrics.unverified_body_bytes.get()), (Ok(()), 100));
        assert!(matches!(second.grow(1), Err(ApiError::Overloaded(_))));
        drop((second, others));
        assert_eq!(metrics.unverified_body_bytes.get(), 0);
        assert!(all.held.lock().unwrap().of.is_empty());
        assert_eq!(metrics.bounds_met[Bound::UnverifiedBodies].get(), 2);
        let one = UnverifiedBodies::new(10, 10, metrics);
        assert_eq!(share(&one, "").grow(10), Ok(()), "the largest body fits");
    }
}
