//! Counting connections and what is sent on them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use super::sockets::Carried;
use crate::metrics::{Metrics, labels};

/// What one thread has sent since it last updated the metrics, because a counter that all threads share
/// costs more than a short write.
pub struct Tally {
    metrics: Arc<Metrics>,
    /// Frames and bytes, by kind of transport.
    sent: [Cell<(u64, u64)>; 3],
    /// Changes.
    changes: Cell<u64>,
    /// Writes that carried changes, and how many.
    carried: Cell<(u64, u64)>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(metrics: Arc<Metrics>) -> Rc<Self> {
        Rc::new(Tally {
            metrics,
            sent: Default::default(),
            changes: Cell::default(),
            carried: Cell::default(),
        })
    }

    /// What was written since this was last asked.
    pub fn carried(&self) -> Carried {
        let (writes, changes) = self.carried.take();
        Carried { writes, changes }
    }

    /// Updates the metrics.
    pub fn flush(&self) {
        let changes = self.changes.take();
        if changes > 0 {
            self.metrics.deliveries.inc_by(changes);
        }
        for kind in [labels::Transport::Ws, labels::Transport::Many, labels::Transport::Sse] {
            let (frames, bytes) = self.sent[kind as usize].take();
            if frames > 0 {
                self.metrics.frames_sent[kind].inc_by(frames);
                self.metrics.bytes_sent[kind].inc_by(bytes);
            }
        }
    }
}

/// Counts a connection for as long as it is open, and what is sent on it.
pub(super) struct OpenConnection {
    kind: labels::Transport,
    tally: Rc<Tally>,
}

impl OpenConnection {
    pub(super) fn new(kind: labels::Transport, tally: Rc<Tally>) -> Self {
        tally.metrics.watchers[kind].inc();
        OpenConnection { kind, tally }
    }

    /// Counts frames that were given to the socket: their changes, and their bytes together.
    pub(super) fn sent(&self, frames: u64, changes: u64, bytes: usize) {
        if changes > 0 {
            let (w, c) = self.tally.carried.get();
            self.tally.carried.set((w + 1, c + changes));
            self.tally.changes.set(self.tally.changes.get() + changes);
        }
        let sent = &self.tally.sent[self.kind as usize];
        let (f, b) = sent.get();
        sent.set((f + frames, b + bytes as u64));
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.tally.metrics.watchers[self.kind].dec();
    }
}
