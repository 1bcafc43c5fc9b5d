//! Permits for watchers: bounded in all, and for one address.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::inbound::{Counts, Inbound, Peer};

/// Watchers that are being refused at the same time. Refusing them over their socket
/// is a courtesy to browsers, which do not show a page the status of a refused handshake.
const TURNED_AWAY_MOST: usize = 256;

/// `[limits]` on watchers; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceLimits {
    /// In all.
    pub watchers: usize,
    /// From one address.
    pub per_address: usize,
    /// Whether loopback addresses are limited too.
    pub count_loopback: bool,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The server has as many watchers as it may.
    Server,
    /// This address has as many as one may.
    Address,
}

/// Who sits where.
#[derive(Debug, Default)]
pub struct Places {
    taken: Mutex<UsedPlaces>,
}

#[derive(Debug, Default)]
struct UsedPlaces {
    all: usize,
    of: Counts,
    turned_away: usize,
}

impl Places {
    /// A place for a watcher from `address`, which [`crate::http::inbound::counted`] gave.
    pub fn take(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        limits: PlaceLimits,
    ) -> Result<WatcherPlace, Full> {
        let mut taken = self.locked();
        if limits.watchers > 0 && taken.all >= limits.watchers {
            return Err(Full::Server);
        }
        if let Some(address) = address {
            let exempt = address.is_loopback() && !limits.count_loopback;
            if limits.per_address > 0 && !exempt && taken.of.of(Some(address)) >= limits.per_address {
                return Err(Full::Address);
            }
        }
        taken.of.enter(address);
        taken.all += 1;
        Ok(WatcherPlace {
            places: self.clone(),
            kind: PermitKind::Watcher { address, limited: false },
            inbound: None,
        })
    }

    /// A permit to be refused over the socket, unless too many are being refused.
    pub fn turn_away(self: &Arc<Self>) -> Option<WatcherPlace> {
        let mut taken = self.locked();
        if taken.turned_away >= TURNED_AWAY_MOST {
            return None;
        }
        taken.turned_away += 1;
        Some(WatcherPlace { places: self.clone(), kind: PermitKind::TurnedAway, inbound: None })
    }

    fn locked(&self) -> MutexGuard<'_, UsedPlaces> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place; free again when dropped.
#[derive(Debug)]
pub struct WatcherPlace {
    places: Arc<Places>,
    kind: PermitKind,
    /// Where its connection counts too, if that is the watcher's for good.
    inbound: Option<Arc<Inbound>>,
}

// Every idle watcher has one.
const _: () = assert!(size_of::<WatcherPlace>() <= 40);

impl WatcherPlace {
    /// Where its connection counts too, if that is the watcher's for good.
    pub fn inbound(&self) -> Option<&Arc<Inbound>> {
        self.inbound.as_ref()
    }

    /// Makes this connection the watcher's for good.
    pub fn keep(&mut self, peer: &Peer) {
        if let PermitKind::Watcher { address, limited } = &mut self.kind {
            let seat = peer.into_watcher_seat(*address);
            *limited = seat.limited;
            self.inbound = Some(seat.inbound);
        }
    }
}

#[derive(Debug)]
enum PermitKind {
    Watcher {
        address: Option<IpAddr>,
        /// Its connection is one of those that the address may have.
        limited: bool,
    },
    TurnedAway,
}

impl Drop for WatcherPlace {
    fn drop(&mut self) {
        if let (Some(inbound), PermitKind::Watcher { address, limited }) = (&self.inbound, &self.kind) {
            inbound.watcher_left(address.filter(|_| *limited));
        }
        let mut taken = self.places.locked();
        match self.kind {
            PermitKind::TurnedAway => taken.turned_away -= 1,
            PermitKind::Watcher { address, .. } => {
                taken.all -= 1;
                taken.of.leave(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn an_address_gets_its_places_and_no_more_and_others_theirs() {
        let limits = PlaceLimits { watchers: 5, per_address: 2, count_loopback: false };
        let places = Arc::new(Places::default());
        let a: Vec<_> = (0..2).map(|_| places.take(ip("1.1.1.1"), limits).unwrap()).collect();
        assert_eq!(places.take(ip("1.1.1.1"), limits).unwrap_err(), Full::Address);
        let local: Vec<_> = (0..3).map(|_| places.take(ip("127.0.0.1"), limits).unwrap()).collect();
        assert_eq!(places.take(ip("2.2.2.2"), limits).unwrap_err(), Full::Server);
        drop(a);
        drop(places.take(ip("1.1.1.1"), limits).unwrap());
        let counted = PlaceLimits { count_loopback: true, ..limits };
        assert_eq!(places.take(ip("127.0.0.1"), counted).unwrap_err(), Full::Address);
        drop(local);
        assert!(places.locked().of.is_empty() && places.locked().all == 0);
        let free = PlaceLimits::default();
        let many: Vec<_> = (0..100).map(|_| places.take(ip("3.3.3.3"), free).unwrap()).collect();
        assert_eq!(many.len(), 100);
    }

    #[test]
    fn so_many_are_told_at_once() {
        let places = Arc::new(Places::default());
        let turned_away: Vec<_> = (0..TURNED_AWAY_MOST).map(|_| places.turn_away().unwrap()).collect();
        assert!(places.turn_away().is_none());
        drop(turned_away);
        assert!(places.turn_away().is_some());
    }
}
