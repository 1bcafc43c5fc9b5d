//! The register of open connections: what each is about and since when, and which are to be cut.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::header::HeaderValue;
use slab::Slab;

use super::counts::{Counts, counted};
use super::phase::{PeerPhase, PeerState, Times, overdue};
use crate::metrics::Metrics;
use crate::metrics::labels::{Cut, Turned};
use crate::supervise::{Beat, faults};

mod handshakes;
mod unsent;

pub use handshakes::UnderWay;
use unsent::UnsentBytes;
pub use unsent::UnsentPermit;

/// How often connections are looked through.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// When there is no room, this part of all connections is to make some, at least one.
const ROOM_PART: usize = 64;

/// How many connections there may be. Can be changed while they are open.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// At the same time; leave descriptors for the process's own files.
    pub most: usize,
    /// How many more may be open for a moment because they were cut and have not ended yet.
    pub leaving: usize,
    /// Clients that are refused at the same time for want of a permit.
    pub refusals: usize,
    /// From one address (IPv6: one /64 network), 0 for no such limit.
    pub per_address: usize,
    /// Whether limits of one address also hold for loopback addresses.
    pub count_loopback: bool,
    /// Bytes that wait for the clients of one address who do not read them, 0 for no such limit.
    pub unsent_per_address: usize,
    /// TLS handshakes under way, 0 for no such limit.
    pub handshakes: usize,
    /// Those from one address, 0 for no such limit.
    pub handshakes_per_address: usize,
}

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct InboundSettings {
    /// How long what may take.
    pub times: Times,
    /// The value of `Strict-Transport-Security`, if it is sent.
    pub hsts: Option<HeaderValue>,
    /// What the kernel may hold of a connection that reads slowly, in bytes, as it is set.
    pub send_buffer: usize,
}

/// The answer to a client without a permit, before any request.
pub fn refusal(why: Turned) -> String {
    let (status, name, title, detail) = match why {
        Turned::Address => (
            "429 Too Many Requests",
            "too-many-connections",
            "Too many connections from this address",
            "as many connections as may be are open from this address; close some, or use one for many requests",
        ),
        Turned::Full => (
            "503 Service Unavailable",
            "no-place",
            "The server has no place for another connection",
            "every connection that the server may have is in use; come back in a while",
        ),
    };
    let code = status.split(' ').next().unwrap_or_default();
    let body = format!(
        "{{\"type\":\"/problems/{name}\",\"title\":\"{title}\",\"status\":{code},\"detail\":\"{detail}\"}}"
    );
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\nRetry-After: 5\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Every open connection.
#[derive(Debug)]
pub struct Inbound {
    settings: InboundSettings,
    metrics: Arc<Metrics>,
    begun: Instant,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    bounds: Bounds,
    all: Slab<Arc<PeerState>>,
    /// Connections that are watchers' for good, of which nothing more need be known.
    watchers: usize,
    /// Connections in `all` that were cut and have not ended yet.
    leaving: usize,
    /// Clients that are being refused for want of a permit.
    refusals: usize,
    of: Counts,
    unsent: UnsentBytes,
    /// TLS handshakes under way, and those of each address that is limited.
    handshakes: usize,
    handshakes_of: Counts,
}

impl Inbound {
    /// No connection yet.
    pub fn new(settings: InboundSettings, bounds: Bounds, metrics: Arc<Metrics>) -> Arc<Inbound> {
        let open = Open {
            bounds,
            all: Slab::new(),
            watchers: 0,
            leaving: 0,
            refusals: 0,
            of: Counts::default(),
            unsent: UnsentBytes::default(),
            handshakes: 0,
            handshakes_of: Counts::default(),
        };
        let open = Mutex::new(open);
        Arc::new(Inbound { settings, metrics, begun: Instant::now(), open })
    }

    /// Other bounds, for connections to come.
    pub fn change(&self, bounds: Bounds) {
        self.locked().bounds = bounds;
    }

    /// Registers a connection from `address`; `proxied` when that is a trusted proxy, whose connections are
    /// many people's. The error is why there is no place for it.
    pub fn accept(self: &Arc<Self>, address: Option<IpAddr>, proxied: bool) -> Result<Arc<Peer>, Turned> {
        let address = {
            let mut open = self.locked();
            let Bounds { most, per_address, count_loopback, .. } = open.bounds;
            // Also where connections have no such limit: handshakes have one of their own.
            let limited = |ip: &IpAddr| !proxied && (count_loopback || !ip.is_loopback());
            let address = address.map(|ip| counted(ip.to_canonical())).filter(limited);
            if per_address > 0 && open.of.of(address) >= per_address {
                self.metrics.connections_refused[Turned::Address].inc();
                return Err(Turned::Address);
            }
            open.of.enter(address);
            if open.count() >= most && !self.make_room(&mut open) {
                open.of.leave(address);
                self.metrics.connections_refused[Turned::Full].inc();
                return Err(Turned::Full);
            }
            address
        };
        let peer = Peer::new(self.clone(), address, self.now());
        self.metrics.connections.set(self.locked().count() as i64);
        Ok(peer)
    }

    /// Whether another connection may be accepted now. False while too many that were cut to make room have not ended
    /// yet that descriptors could run out: those who connect then wait for a moment in the kernel's queue.
    pub fn may_accept(&self) -> bool {
        let mut open = self.locked();
        let Bounds { most, leaving, .. } = open.bounds;
        if open.count() < most {
            return true;
        }
        self.make_room(&mut open);
        // If none can be cut, the next one is refused.
        open.leaving == 0 || open.count() < most + leaving
    }

    /// A permit to answer a client that it is refused. `None`: as many as may are being answered.
    pub fn may_refuse(self: &Arc<Self>) -> Option<RefusalPermit> {
        let mut open = self.locked();
        (open.refusals < open.bounds.refusals).then(|| {
            open.refusals += 1;
            RefusalPermit(self.clone())
        })
    }

    /// Cuts some connections that only wait for their client. False when there is none.
    fn make_room(&self, open: &mut Open) -> bool {
        let now = self.now();
        let most = open.bounds.most;
        // Those that were cut leave soon.
        if open.count() - open.leaving < most {
            return true;
        }
        let mut waiting: Vec<_> = open.all.iter().map(|(_, state)| state).collect();
        waiting.retain(|state| !state.is_cut() && state.phase() != PeerPhase::Busy);
        // Who never asked for anything goes before who did, then who has waited for longest.
        let has_asked = |state: &PeerState| matches!(state.phase(), PeerPhase::Idle | PeerPhase::Sending);
        waiting.sort_by_key(|state| (has_asked(state), std::cmp::Reverse(state.lasts(now))));
        waiting.truncate((most / ROOM_PART).max(1));
        let cut = waiting.iter().filter(|state| state.cut()).count();
        open.leaving += cut;
        self.metrics.connections_cut[Cut::Room].inc_by(cut as u64);
        cut > 0
    }

    /// Cuts what takes too long, for ever.
    pub async fn keep_sweeping(self: Arc<Self>, beat: Beat) {
        loop {
            beat.rests();
            tokio::time::sleep(SWEEP_EVERY).await;
            beat.works();
            faults::pass("sweep").await;
            self.sweep(self.now());
        }
    }

    fn sweep(&self, now: u64) {
        let mut open = self.locked();
        let mut cut = 0;
        for (_, state) in &open.all {
            let why = overdue(state.phase(), state.lasts(now), &self.settings.times);
            if let Some(why) = why
                && state.cut()
            {
                cut += 1;
                self.metrics.connections_cut[why].inc();
            }
        }
        open.leaving += cut;
    }

    /// In nanoseconds since the register began: of connections that come in one burst, the oldest is known.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn locked(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection. The register forgets it when the last handle to it is dropped.
#[derive(Debug)]
pub struct Peer {
    inbound: Arc<Inbound>,
    key: usize,
    /// The address that it counts for; `None` if that is not limited.
    pub(super) address: Option<IpAddr>,
    pub(super) state: Arc<PeerState>,
    /// A [`WatcherSeat`] counts in its place.
    left: AtomicBool,
}

impl Peer {
    pub(super) fn new(inbound: Arc<Inbound>, address: Option<IpAddr>, now: u64) -> Arc<Peer> {
        let state = Arc::new(PeerState::new(now));
        let key = inbound.locked().all.insert(state.clone());
        Arc::new(Peer { inbound, key, address, state, left: AtomicBool::new(false) })
    }

    pub(super) fn state(&self) -> &PeerState {
        &self.state
    }

    /// The value of `Strict-Transport-Security`, if it is sent.
    pub(super) fn hsts(&self) -> Option<&HeaderValue> {
        self.inbound.settings.hsts.as_ref()
    }

    /// Whether it is to end now: it took too long, or its place was needed.
    pub fn is_cut(&self) -> bool {
        self.state.is_cut()
    }

    /// Its first head begins, if anything of it has come.
    pub fn begin_head(&self, came: bool) {
        self.enter(if came { PeerPhase::Head } else { PeerPhase::New });
    }

    /// It was understood, and waits for something of the server.
    pub fn enter_busy(&self) {
        self.enter(PeerPhase::Busy);
    }

    /// The task that is to notice when the connection is cut.
    pub fn watch(&self, task: &std::task::Waker) {
        self.state.watch(task);
    }

    /// Enters a phase.
    pub(super) fn enter(&self, phase: PeerPhase) {
        self.state.enter(phase, || self.inbound.now());
    }

    /// Something moved: a slow client that takes an answer is not idle.
    pub(super) fn note_progress(&self) {
        self.state.note_progress(|| self.inbound.now());
    }

    /// Something came of a request that is not answered yet.
    pub(super) fn continue_request(&self) {
        self.enter(self.state.present());
    }

    /// What the request asks for was decided; only the rest of its body is waited for, as if it were answered.
    pub(super) fn enter_draining(&self) {
        self.state.set_present(PeerPhase::Rest);
        self.enter(PeerPhase::Rest);
    }

    /// The answer's head was given out, and a large body of known length follows: from now on only the client is waited
    /// for.
    pub(super) fn enter_sending(&self) {
        self.state.set_present(PeerPhase::Sending);
        self.enter(PeerPhase::Sending);
    }

    /// Bytes of its answer are there that the server has not taken yet.
    pub(super) fn set_untaken(&self, bytes: usize) {
        self.state.set_untaken(bytes);
    }

    pub(super) fn answered(&self) -> u32 {
        self.state.answered()
    }

    /// What is there beside the request that is being answered: the rest of its body, or the next head.
    pub(super) fn set_next(&self, next: PeerPhase) {
        self.state.set_next(next);
    }

    /// A request was answered whole, or given up.
    pub(super) fn finish_answer(&self) {
        let next = self.state.finish_answer();
        self.enter(next);
    }

    /// It is a watcher's, served by a thread of sockets: from now on the watcher's own deadlines hold, and it only
    /// counts, until it leaves its seat. If it is limited, then as one of `address`, which it watches for. To be
    /// called once.
    pub fn into_watcher_seat(&self, address: Option<IpAddr>) -> WatcherSeat {
        let mut open = self.inbound.locked();
        open.remove(self.key);
        open.watchers += 1;
        let counts = address.filter(|_| self.address.is_some());
        // They differ where a proxy became one that is trusted meanwhile.
        if self.address != counts {
            open.of.leave(self.address);
            open.of.enter(counts);
        }
        self.left.store(true, Ordering::Relaxed);
        WatcherSeat { inbound: self.inbound.clone(), limited: counts.is_some() }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.left.load(Ordering::Relaxed) {
            return;
        }
        let mut open = self.inbound.locked();
        open.remove(self.key);
        open.of.leave(self.address);
        self.inbound.metrics.connections.set(open.count() as i64);
    }
}

/// A watcher's connection: all that is kept of it here is that it is there, until [`Inbound::watcher_left`].
#[derive(Debug)]
pub struct WatcherSeat {
    /// Where it counts.
    pub inbound: Arc<Inbound>,
    /// It is one of the connections that its address may have.
    pub limited: bool,
}

impl Inbound {
    /// A watcher's connection has ended; `address`: the one that it counted for, if that is limited.
    pub fn watcher_left(&self, address: Option<IpAddr>) {
        let mut open = self.locked();
        open.watchers -= 1;
        open.of.leave(address);
        self.metrics.connections.set(open.count() as i64);
    }
}

/// One client is being refused for want of a permit.
#[derive(Debug)]
pub struct RefusalPermit(Arc<Inbound>);

impl Drop for RefusalPermit {
    fn drop(&mut self) {
        self.0.locked().refusals -= 1;
    }
}

impl Open {
    /// Connections that are open.
    fn count(&self) -> usize {
        self.all.len() + self.watchers
    }

    /// A connection has ended, or is a watcher's from now on. Cut connections are counted under the same lock.
    fn remove(&mut self, key: usize) {
        if self.all.try_remove(key).is_some_and(|state| state.is_cut()) {
            self.leaving -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
