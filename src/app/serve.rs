//! The server: threads that accept connections and serve watchers, and threads that answer everything else.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web;

use super::tls::Certificate;
use super::workers::{ConnectionSettings, Workers};
use crate::config::Config;
use crate::http::Gate;
use crate::http::inbound::Inbound;
use crate::http::watch::sockets::Queues;
use crate::http::watch::{Reception, WatcherThreads, start_watcher_threads};

/// A server that runs.
pub(super) struct Serving {
    /// Answers requests.
    pub workers: Workers,
    /// Accept connections. To be dropped when the last watcher has left, or must be cut.
    pub sockets: WatcherThreads,
}

/// Serves `gate` on `listener`, over TLS when there is a certificate.
pub(super) fn serve(
    config: &Config,
    listener: TcpListener,
    gate: &web::Data<Gate>,
    inbound: &Arc<Inbound>,
    certificate: Option<&Arc<Certificate>>,
) -> io::Result<Serving> {
    let threads = super::files::workers(config);
    let tls = match certificate {
        Some(certificate) => {
            let server = certificate.server_config().map_err(io::Error::other)?;
            Some(Arc::new(server))
        }
        None => None,
    };
    let http = &config.http;
    let settings = ConnectionSettings {
        keeps_alive: http.keep_alive_ms > 0,
        head_time: Duration::from_millis(http.head_timeout_ms),
        address: listener.local_addr()?,
    };
    let (http, connections) = Queues::new(threads);
    let reception = Reception { gate: gate.clone(), inbound: inbound.clone(), http: Arc::new(http), tls };
    let workers = Workers::start(connections, gate, &settings)?;
    let sockets = start_watcher_threads(threads, listener, reception)?;
    Ok(Serving { workers, sockets })
}
