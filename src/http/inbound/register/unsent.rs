//! Bytes that wait for clients who do not read them. Those of one address are bounded in sum: beyond it the connections
//! that have taken nothing for longest are ended at once, and what waits for them is thrown away.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Waker;

use super::{Inbound, Open, Peer, PeerState};
use crate::metrics::labels::Cut;

/// The kernel takes twice what a send buffer is set to, for what it needs itself.
const KERNEL_TAKES: usize = 2;

/// What waits for each address.
#[derive(Debug, Default)]
pub(super) struct UnsentBytes {
    of: HashMap<IpAddr, OfAddress>,
    /// Grows with each blocked connection, so that lower numbers have been blocked for longer.
    next: u64,
}

#[derive(Debug, Default)]
struct OfAddress {
    bytes: usize,
    blocked: BTreeMap<u64, Blocked>,
}

#[derive(Debug)]
struct Blocked {
    bytes: usize,
    state: Arc<PeerState>,
    /// It is in the register, so that it counts as leaving once it is cut.
    registered: bool,
}

/// A connection that takes nothing now, and for which bytes wait. It is replaced when the connection takes some.
#[derive(Debug)]
pub struct UnsentPermit {
    inbound: Arc<Inbound>,
    address: IpAddr,
    number: u64,
    state: Arc<PeerState>,
}

impl UnsentPermit {
    /// Whether the connection is to be ended, without sending what waits for it.
    pub fn is_cut(&self) -> bool {
        self.state.is_cut()
    }
}

impl Drop for UnsentPermit {
    fn drop(&mut self) {
        let unsent = &mut self.inbound.locked().unsent;
        let Some(of) = unsent.of.get_mut(&self.address) else { return };
        if let Some(blocked) = of.blocked.remove(&self.number) {
            of.bytes -= blocked.bytes;
        }
        if of.blocked.is_empty() {
            unsent.of.remove(&self.address);
        }
    }
}

impl Inbound {
    /// A watcher from `address` takes nothing now, and `bytes` wait for it beside what the kernel holds. `task` is woken
    /// when it is cut.
    pub fn unsent_to_watcher(self: &Arc<Self>, address: IpAddr, bytes: usize, task: &Waker) -> UnsentPermit {
        let state = Arc::new(PeerState::new(0));
        state.watch(task);
        self.unsent(address, bytes, state, false)
    }

    fn unsent(
        self: &Arc<Self>,
        address: IpAddr,
        bytes: usize,
        state: Arc<PeerState>,
        registered: bool,
    ) -> UnsentPermit {
        let bytes = bytes + KERNEL_TAKES * self.settings.send_buffer;
        let mut open = self.locked();
        let Open { bounds, unsent, leaving, .. } = &mut *open;
        unsent.next += 1;
        let number = unsent.next;
        let of = unsent.of.entry(address).or_default();
        of.bytes += bytes;
        of.blocked.insert(number, Blocked { bytes, state: state.clone(), registered });
        let most = bounds.unsent_per_address;
        while most > 0
            && of.bytes > most
            && let Some((_, blocked)) = of.blocked.pop_first()
        {
            of.bytes -= blocked.bytes;
            if blocked.state.abort() {
                *leaving += usize::from(blocked.registered);
                self.metrics.connections_cut[Cut::Unsent].inc();
            }
        }
        UnsentPermit { inbound: self.clone(), address, number, state }
    }
}

impl Peer {
    /// The client takes nothing now, and `bytes` wait for it beside what the kernel holds and the rest of its answer.
    /// `None`: it is not limited.
    pub(in crate::http::inbound) fn unsent(&self, bytes: usize) -> Option<UnsentPermit> {
        let address = self.address?;
        let bytes = bytes + self.state.untaken();
        Some(self.inbound.unsent(address, bytes, self.state.clone(), true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{inbound, ip};
    use super::*;

    fn bounded(unsent_per_address: usize) -> Arc<Inbound> {
        let inbound = inbound(100, 0);
        let bounds = inbound.locked().bounds;
        inbound.change(super::super::Bounds { unsent_per_address, ..bounds });
        inbound
    }

    #[test]
    fn beyond_what_may_wait_for_an_address_who_has_taken_nothing_for_longest_is_cut() {
        let inbound = bounded(1_000);
        let peers: Vec<_> = (0..4).map(|_| inbound.accept(ip("9.9.9.9"), false).unwrap()).collect();
        let cut = || peers.iter().map(|peer| peer.is_cut()).collect::<Vec<_>>();
        let first = peers[0].unsent(400).unwrap();
        let second = peers[1].unsent(400).unwrap();
        // The first took some, so the second has waited for longest.
        drop(first);
        let _first = peers[0].unsent(300).unwrap();
        let other = inbound.accept(ip("8.8.8.8"), false).unwrap();
        let _other = other.unsent(900).unwrap();
        assert_eq!(cut(), [false; 4]);
        let third = peers[2].unsent(400).unwrap();
        assert_eq!(cut(), [false, true, false, false]);
        assert!(second.is_cut() && peers[1].state.is_aborted() && !other.is_cut());
        assert_eq!((inbound.metrics.connections_cut[Cut::Unsent].get(), inbound.locked().leaving), (1, 1));
        // Alone it is too much.
        let fourth = peers[3].unsent(1_001).unwrap();
        assert_eq!(cut(), [true; 4]);
        drop((_first, second, third, fourth, _other, peers, other));
        let open = inbound.locked();
        assert!(open.unsent.of.is_empty() && open.leaving == 0 && open.count() == 0);
    }

    #[test]
    fn a_watcher_that_is_cut_is_woken_and_whom_nothing_limits_is_not_counted() {
        struct Task(std::sync::atomic::AtomicUsize);
        impl std::task::Wake for Task {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let inbound = bounded(1_000);
        let task = Arc::new(Task(Default::default()));
        let permit = inbound.unsent_to_watcher("9.9.9.9".parse().unwrap(), 2_000, &task.clone().into());
        assert!(permit.is_cut() && task.0.load(std::sync::atomic::Ordering::Relaxed) == 1);
        assert_eq!(inbound.locked().leaving, 0);
        let proxied = inbound.accept(ip("7.7.7.7"), true).unwrap();
        assert!(proxied.unsent(2_000).is_none());
    }
}
