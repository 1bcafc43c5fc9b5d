//! The threads that accept connections and serve WebSocket watchers.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web;
use bytes::Bytes;
use rustls::ServerConfig;

use super::connection::Connection;
use super::handshake::Handshake;
use super::protocol::WebSocket;
use super::reception;
use super::sockets::{
    Carried, HandoverCount, Judgement, PassedOn, Queues, SocketThreads, SocketWorker, Visitor,
};
use super::tally::Tally;
use crate::http::Gate;
use crate::http::inbound::{Inbound, Peer, RefusalPermit};
use crate::http::tls::Tls;
use crate::live::wake::WakeQueue;
use crate::live::worker::Worker;
use crate::metrics::labels::Turned;

/// The threads, and the way to them.
pub type WatcherThreads = SocketThreads<Handshake>;

/// What these threads have in common.
#[derive(Clone)]
pub struct Reception {
    /// The door, and what is watched.
    pub gate: web::Data<Gate>,
    /// Where connections are registered.
    pub inbound: Arc<Inbound>,
    /// The way to the HTTP server.
    pub http: Arc<Queues<PassedOn>>,
    /// What connections are encrypted with, if they are.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Starts `threads` of them, which accept from `listener`.
pub fn start_watcher_threads(
    threads: usize,
    listener: TcpListener,
    reception: Reception,
) -> io::Result<WatcherThreads> {
    let parts = reception.gate.live.parts().clone();
    SocketThreads::start(threads, listener, &parts, move || {
        let live = &reception.gate.live;
        let tally = Tally::new(live.metrics().clone());
        WatchWorker { worker: Worker::start(live.clone()), tally, reception: reception.clone() }
    })
}

/// What one of these threads has beside its sockets.
struct WatchWorker {
    worker: Rc<Worker>,
    tally: Rc<Tally>,
    reception: Reception,
}

impl SocketWorker<Handshake> for WatchWorker {
    type Handler = Connection<WebSocket>;

    fn wakes(&self) -> Rc<WakeQueue> {
        self.worker.wakes().clone()
    }

    fn may_accept(&self) -> bool {
        self.reception.inbound.may_accept()
    }

    fn may_refuse(&self) -> Option<RefusalPermit> {
        self.reception.inbound.may_refuse()
    }

    fn arrive(&self, address: SocketAddr) -> Result<Arc<Peer>, Turned> {
        let ip = address.ip();
        self.reception.inbound.accept(Some(ip), self.reception.gate.door.is_proxy(ip))
    }

    fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.reception.tls.as_ref()
    }

    fn judge(&self, visitor: &Visitor, received: &[u8]) -> Judgement<Handshake> {
        reception::judge(&self.reception.gate, &self.worker, visitor, received)
    }

    fn pass_on(&self, stream: TcpStream, tls: Option<Box<Tls>>, visitor: Visitor, received: &[u8]) {
        let Visitor { address, peer, waited, .. } = visitor;
        let waiting = HandoverCount::new(self.worker.live().metrics());
        let received = Bytes::copy_from_slice(received);
        drop(self.reception.http.push(PassedOn { stream, tls, address, peer, received, waited, waiting }));
    }

    fn serve(&self, handshake: Handshake) -> Connection<WebSocket> {
        handshake.connect(&self.worker, &self.tally)
    }

    fn carried(&self) -> Carried {
        self.tally.carried()
    }

    fn stretched(&self, stretch: Duration) {
        self.worker.live().metrics().fanout_stretch.observe(stretch.as_secs_f64());
    }

    fn turned(&self) {
        self.tally.flush();
    }
}
