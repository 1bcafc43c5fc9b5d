//! What a watcher and the server agree on before the first frame.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::ResponseBuilder;
use actix_http::ws::{HandshakeError, handshake};
use actix_web::HttpRequest;

use super::connection::Connection;
use super::protocol::WebSocket;
use super::tally::Tally;
use super::watcher::Watcher;
use crate::http::door::places::WatcherPlace;
use crate::http::problem::{ApiError, invalid};
use crate::live::Lease;
use crate::live::bounds::Admission;
use crate::live::session::{Session, WatchOptions};
use crate::live::worker::Worker;
use crate::metrics::Metrics;

/// What was agreed on with a WebSocket client.
pub struct Handshake {
    pub(super) place: WatcherPlace,
    /// The feed to watch, admitted and followed already. `None`: the client chooses feeds later.
    pub(super) lease: Option<(Lease, Admission)>,
    /// Whom it counts for; none when it is not limited.
    pub(super) address: Option<IpAddr>,
    /// It waits for its thread.
    pub(super) waiting: Waiting,
    pub(super) options: WatchOptions,
    /// Who watches.
    pub(super) watcher: Watcher,
    /// Frames are compressed.
    pub(super) deflate: bool,
}

impl Handshake {
    /// The connection, served by this thread.
    pub(super) fn connect(self, worker: &Rc<Worker>, tally: &Rc<Tally>) -> Connection<WebSocket> {
        drop(self.waiting);
        let mut session = Session::new(worker.live().clone(), worker.clone(), self.address);
        let many = self.lease.is_none();
        if let Some((lease, admission)) = self.lease {
            session.watch(lease.feed(), self.options, admission);
            session.allow(|feed| self.watcher.may_see(feed));
        }
        let transport = WebSocket::new(many, self.deflate, self.watcher);
        Connection::new(session, transport, worker.clone(), tally.clone(), self.place)
    }
}

/// Counts a connection between its handshake and its thread.
pub(super) struct Waiting(Arc<Metrics>);

impl Waiting {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Waiting {
        metrics.handovers_waiting.inc();
        Waiting(metrics.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.handovers_waiting.dec();
    }
}

/// The answer to a WebSocket handshake. A plain GET is told to upgrade.
pub(super) fn shake_hands(req: &HttpRequest) -> Result<ResponseBuilder, ApiError> {
    handshake(req.head()).map_err(|error| match error {
        HandshakeError::NoWebsocketUpgrade | HandshakeError::NoConnectionUpgrade => ApiError::UpgradeRequired,
        error => ApiError::BadHandshake(error.to_string()),
    })
}

/// What the query of a watcher's address asks for. A `since` that is malformed counts as none.
pub(super) fn watch_options(req: &HttpRequest) -> Result<WatchOptions, ApiError> {
    let mut options = WatchOptions::default();
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        match &*name {
            "since" => options.since = value.parse().ok(),
            "max_hz" => {
                let hz = value.parse::<f64>().ok().filter(|hz| (0.01..=1000.0).contains(hz));
                let hz = hz.ok_or_else(|| invalid("max_hz must be a number from 0.01 to 1000"))?;
                options.spacing = Duration::from_secs_f64(1.0 / hz);
            }
            "without" => {
                options.omit = value.parse().map_err(|rule| invalid(format!("without {rule}")))?;
            }
            _ => {}
        }
    }
    Ok(options)
}
