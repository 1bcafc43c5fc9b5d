//! The threads that serve WebSocket watchers whose sockets were taken over from the HTTP server.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::handshake::Handshake;
use super::protocol::WebSocket;
use super::sockets::{SocketThreads, SocketWorker};
use super::tally::Tally;
use crate::live::Live;
use crate::live::wake::WakeQueue;
use crate::live::worker::Worker;

/// The threads, and the way to them.
pub type WatcherThreads = SocketThreads<Handshake>;

/// Starts `threads` of them.
pub fn start_watcher_threads(threads: usize, live: &Arc<Live>) -> io::Result<WatcherThreads> {
    let its = live.clone();
    SocketThreads::start(threads, live.parts(), move || {
        let tally = Tally::new(its.metrics().clone());
        WatchWorker { worker: Worker::start(its.clone()), tally }
    })
}

/// What one of these threads has beside its sockets.
struct WatchWorker {
    worker: Rc<Worker>,
    tally: Rc<Tally>,
}

impl SocketWorker<Handshake> for WatchWorker {
    type Handler = Connection<WebSocket>;

    fn wakes(&self) -> Rc<WakeQueue> {
        self.worker.wakes().clone()
    }

    fn accept(&self, handshake: Handshake) -> Connection<WebSocket> {
        handshake.connect(&self.worker, &self.tally)
    }

    fn stretched(&self, stretch: Duration) {
        self.worker.live().metrics().fanout_stretch.observe(stretch.as_secs_f64());
    }

    fn turned(&self) {
        self.tally.flush();
    }
}
