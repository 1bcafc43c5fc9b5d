//! TLS handshakes that are under way. Each holds keys and at times a buffer before anything is known of its client,
//! so their number is bounded, of all and of one address.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Inbound, Open, Peer, PeerPhase};
use crate::http::tls::Secured;
use crate::metrics::labels::{Cut, Handshake};

/// Who has been at it for so long has stalled, and makes room for others where there is none.
const STALLED_AFTER: Duration = Duration::from_secs(3);

/// When there is no room, this part of all handshakes is to make some, at least one.
const ROOM_PART: usize = 64;

/// A handshake that is under way. Dropped before it is done, it has failed.
#[derive(Debug)]
pub struct UnderWay {
    inbound: Arc<Inbound>,
    address: Option<IpAddr>,
    outcome: Handshake,
}

impl Peer {
    /// Its TLS handshake begins. None: too many are under way, and the connection is to be closed.
    pub fn shakes_hands(&self) -> Option<UnderWay> {
        let inbound = &self.inbound;
        let mut open = inbound.locked();
        let bounds = open.bounds;
        let of_address = open.handshakes_of.of(self.address);
        let full = |most: usize, now: usize| most > 0 && now >= most;
        if full(bounds.handshakes_per_address, of_address)
            || (full(bounds.handshakes, open.handshakes) && !inbound.cut_stalled(&mut open, inbound.now()))
        {
            inbound.metrics.tls_handshakes[Handshake::Refused].inc();
            return None;
        }
        open.handshakes += 1;
        open.handshakes_of.enter(self.address);
        self.enter(PeerPhase::Opening);
        Some(UnderWay { inbound: inbound.clone(), address: self.address, outcome: Handshake::Failed })
    }
}

impl Inbound {
    /// Cuts some of those that have stalled, who have for longest first. False when there is none.
    fn cut_stalled(&self, open: &mut Open, now: u64) -> bool {
        let mut opening: Vec<_> = open.all.iter().map(|(_, state)| state).collect();
        opening.retain(|state| state.phase() == PeerPhase::Opening);
        // Those that were cut are as good as gone.
        let leaving = opening.iter().filter(|state| state.is_cut()).count();
        if open.handshakes.saturating_sub(leaving) < open.bounds.handshakes {
            return true;
        }
        opening.retain(|state| !state.is_cut() && state.lasts(now) >= STALLED_AFTER);
        opening.sort_by_key(|state| std::cmp::Reverse(state.lasts(now)));
        opening.truncate((open.bounds.handshakes / ROOM_PART).max(1));
        let cut = opening.iter().filter(|state| state.cut()).count();
        open.leaving += cut;
        self.metrics.connections_cut[Cut::Room].inc_by(cut as u64);
        cut > 0
    }
}

impl UnderWay {
    /// It is done.
    pub fn done(mut self, how: Secured) {
        self.outcome = match how {
            Secured::Full => Handshake::Full,
            Secured::Resumed => Handshake::Resumed,
        };
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.inbound.metrics.tls_handshakes[self.outcome].inc();
        let mut open = self.inbound.locked();
        open.handshakes -= 1;
        open.handshakes_of.leave(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounds;
    use super::super::tests::{inbound, ip};
    use super::*;

    fn few(handshakes: usize, handshakes_per_address: usize) -> Arc<Inbound> {
        let inbound = inbound(100, 100);
        let bounds = inbound.locked().bounds;
        inbound.change(Bounds { handshakes, handshakes_per_address, ..bounds });
        inbound
    }

    fn counted(inbound: &Inbound, outcome: Handshake) -> u64 {
        inbound.metrics.tls_handshakes[outcome].get()
    }

    #[test]
    fn an_address_has_only_so_many_handshakes_under_way_and_others_have_theirs() {
        let inbound = few(0, 2);
        let from = |text| inbound.accept(ip(text), false).unwrap();
        let mine: Vec<_> = (0..3).map(|_| from("9.9.9.9")).collect();
        let first = mine[0].shakes_hands().unwrap();
        let _second = mine[1].shakes_hands().unwrap();
        assert!(mine[2].shakes_hands().is_none());
        let other = from("8.8.8.8");
        other.shakes_hands().unwrap().done(Secured::Resumed);
        first.done(Secured::Full);
        drop(mine[2].shakes_hands().unwrap());
        let all = [Handshake::Full, Handshake::Resumed, Handshake::Failed, Handshake::Refused];
        assert_eq!(all.map(|outcome| counted(&inbound, outcome)), [1, 1, 1, 1]);
    }

    #[test]
    fn handshakes_of_an_address_are_bounded_also_where_its_connections_are_not() {
        let inbound = inbound(100, 0);
        let bounds = inbound.locked().bounds;
        inbound.change(Bounds { handshakes_per_address: 1, ..bounds });
        let mine: Vec<_> = (0..2).map(|_| inbound.accept(ip("9.9.9.9"), false).unwrap()).collect();
        let under_way = mine[0].shakes_hands().unwrap();
        assert!(mine[1].shakes_hands().is_none());
        drop(under_way);
        assert!(mine[1].shakes_hands().is_some());
        drop(mine);
        assert!(inbound.locked().of.is_empty() && inbound.locked().handshakes_of.is_empty());
    }

    #[test]
    fn the_connection_stalled_longest_makes_room() {
        let inbound = few(2, 0);
        let peers: Vec<_> = (0..3).map(|_| inbound.accept(None, false).unwrap()).collect();
        let _first = peers[0].shakes_hands().unwrap();
        let _second = peers[1].shakes_hands().unwrap();
        assert!(peers[2].shakes_hands().is_none(), "both have only begun");
        let stalled = |after: u64| inbound.cut_stalled(&mut inbound.locked(), inbound.now() + after);
        assert!(!stalled(2_000_000_000));
        assert!(stalled(4_000_000_000));
        let cut: Vec<_> = peers.iter().map(|peer| peer.is_cut()).collect();
        assert_eq!(cut.iter().filter(|cut| **cut).count(), 1, "{cut:?}");
        // Its place is as good as free.
        assert!(peers[2].shakes_hands().is_some());
    }
}
