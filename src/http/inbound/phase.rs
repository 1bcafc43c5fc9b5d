//! What a connection is about, since when, and how long that may last.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::metrics::labels::Cut;

/// How much later than the server's own timers ours are.
const TIMER_GRACE: Duration = Duration::from_millis(500);

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For a head, from its first byte, or from the connection's begin.
    pub head: Duration,
    /// For the rest of a body after the answer.
    pub body: Duration,
    /// Between two requests; zero where there is only one.
    pub keep_alive: Duration,
}

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum PeerPhase {
    /// Nothing has come yet.
    New,
    /// A head is coming.
    Head,
    /// A request is being answered, which has time-outs of its own.
    Busy,
    /// The request was answered, or judged, before its body had come whole.
    Rest,
    /// Between two requests.
    Idle,
    /// A TLS handshake is under way.
    Opening,
    /// A large answer of known length is being sent.
    Sending,
}

impl PeerPhase {
    fn of(n: u8) -> PeerPhase {
        use PeerPhase::{Busy, Head, Idle, New, Opening, Rest, Sending};
        [New, Head, Busy, Rest, Idle, Opening, Sending]
            .into_iter()
            .find(|phase| *phase as u8 == n)
            .unwrap_or(Busy)
    }
}

/// What the connection's own task writes and the sweep reads.
#[derive(Debug, Default)]
pub(super) struct PeerState {
    phase: AtomicU8,
    /// The phase after the request that is being answered, as far as is known.
    next: AtomicU8,
    /// The phase while the present request is not answered whole: busy, or later.
    present: AtomicU8,
    /// Bytes of the present answer that the server has not taken yet, as far as they are there.
    untaken: AtomicUsize,
    /// When the phase began, in nanoseconds since the register did.
    since: AtomicU64,
    /// Requests that were answered whole; wraps around, as the count of heads does.
    answered: AtomicU32,
    /// The next request came and waits until the present one is answered.
    next_waits: AtomicBool,
    cut: AtomicBool,
    /// It was cut because of what waits to be sent, which is to be thrown away.
    aborted: AtomicBool,
    task: AtomicWaker,
}

impl PeerState {
    /// Of a connection that begins at `now`, in nanoseconds since the register did.
    pub(super) fn new(now: u64) -> PeerState {
        let present = AtomicU8::new(PeerPhase::Busy as u8);
        PeerState { since: AtomicU64::new(now), present, ..PeerState::default() }
    }

    pub(super) fn phase(&self) -> PeerPhase {
        PeerPhase::of(self.phase.load(Ordering::Relaxed))
    }

    /// For how long it has been in its phase at `now`.
    pub(super) fn lasts(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since.load(Ordering::Relaxed)))
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Ends the connection. False when it was cut already.
    pub(super) fn cut(&self) -> bool {
        let first = !self.cut.swap(true, Ordering::Relaxed);
        if first {
            self.task.wake();
        }
        first
    }

    /// Ends the connection at once, whatever waits to be sent. False when it was cut already.
    pub(super) fn abort(&self) -> bool {
        self.aborted.store(true, Ordering::Relaxed);
        self.cut()
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// The task that is to notice when the connection is cut.
    pub(super) fn watch(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Enters a phase, if it is in another.
    pub(super) fn enter(&self, phase: PeerPhase, now: impl FnOnce() -> u64) {
        if self.phase() != phase {
            self.since.store(now(), Ordering::Relaxed);
            self.phase.store(phase as u8, Ordering::Relaxed);
        }
    }

    /// Something moved: a slow client that takes an answer is not idle.
    pub(super) fn note_progress(&self, now: impl FnOnce() -> u64) {
        if matches!(self.phase(), PeerPhase::Idle | PeerPhase::Sending) {
            self.since.store(now(), Ordering::Relaxed);
        }
    }

    /// The phase while the present request is not answered whole.
    pub(super) fn present(&self) -> PeerPhase {
        PeerPhase::of(self.present.load(Ordering::Relaxed))
    }

    pub(super) fn set_present(&self, phase: PeerPhase) {
        self.present.store(phase as u8, Ordering::Relaxed);
    }

    /// Bytes of the present answer that the server has not taken yet.
    pub(super) fn untaken(&self) -> usize {
        self.untaken.load(Ordering::Relaxed)
    }

    pub(super) fn set_untaken(&self, bytes: usize) {
        self.untaken.store(bytes, Ordering::Relaxed);
    }

    /// Requests that were answered; wraps around.
    pub(super) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The phase after the request that is being answered.
    pub(super) fn set_next(&self, next: PeerPhase) {
        self.next.store(next as u8, Ordering::Relaxed);
    }

    /// Wakes the connection's task once the present request is answered.
    pub(super) fn wake_when_answered(&self) {
        self.next_waits.store(true, Ordering::Relaxed);
    }

    /// A request was answered whole, or given up; gives the phase after it.
    pub(super) fn finish_answer(&self) -> PeerPhase {
        self.answered.fetch_add(1, Ordering::Relaxed);
        // Woken only, not polled: its task encodes this answer first.
        if self.next_waits.swap(false, Ordering::Relaxed) {
            self.task.wake();
        }
        self.set_present(PeerPhase::Busy);
        self.set_untaken(0);
        PeerPhase::of(self.next.load(Ordering::Relaxed))
    }
}

/// Why a connection in `phase` that lasted for so long is to be cut, if it is.
pub(super) fn overdue(phase: PeerPhase, lasts: Duration, times: &Times) -> Option<Cut> {
    let (most, why) = match phase {
        // The server's own timer answers 408 first, for the first head of a connection.
        PeerPhase::New | PeerPhase::Head | PeerPhase::Opening => (times.head + TIMER_GRACE, Cut::Head),
        PeerPhase::Rest => (times.body, Cut::Body),
        // Where none is kept the server ends it by itself, once the answer has gone out.
        PeerPhase::Idle | PeerPhase::Sending if times.keep_alive.is_zero() => {
            (times.head + TIMER_GRACE, Cut::Idle)
        }
        PeerPhase::Idle | PeerPhase::Sending => (times.keep_alive, Cut::Idle),
        PeerPhase::Busy => return None,
    };
    (lasts >= most).then_some(why)
}
