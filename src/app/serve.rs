//! The HTTP server: one listener, plain or TLS, with workers that answer requests, and threads that
//! serve the sockets taken over from them.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_http::HttpService;
use actix_server::{Server, ServerBuilder};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, map_config};
use actix_web::dev::AppConfig;
use actix_web::error::Error;
use actix_web::web;

use crate::config::Http;
use crate::http::watch::sockets::take_over::Shared;
use crate::http::watch::{Guests, serve_guests};
use crate::http::{self, Gate};

/// More than file descriptors will usually allow: actix would leave connections above it waiting
/// without a word.
const CONNECTIONS_PER_WORKER: usize = 1_000_000;

/// Also how long a refused upload is read on, so that its client gets to see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// A server that is about to run.
pub(super) struct Serving {
    pub server: Server,
    /// To be dropped when the last watcher has left, or must be cut.
    pub guests: Arc<Guests>,
}

/// Serves `gate` on `listener`.
pub(super) fn serve(config: &Http, listener: TcpListener, gate: web::Data<Gate>) -> io::Result<Serving> {
    let workers = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let guests = Arc::new(serve_guests(workers, &gate.live)?);
    let builder = ServerBuilder::new()
        .workers(workers)
        .max_concurrent_connections(CONNECTIONS_PER_WORKER)
        .disable_signals()
        // The real deadline is the caller's; actix counts in whole seconds.
        .shutdown_timeout(config.shutdown_ms.div_ceil(1_000));
    let stopping = builder.graceful_shutdown_signal();
    let (keep_alive, head_time) =
        (Duration::from_millis(config.keep_alive_ms), Duration::from_millis(config.head_timeout_ms));
    let address = listener.local_addr()?;
    let seats = guests.clone();
    let builder = builder.listen("tipcast", listener, move || {
        let stopping = stopping.clone();
        let app = http::app(gate.clone()).into_factory().map_err(|error: Error| error.error_response());
        let app = map_config(app, |()| AppConfig::default());
        let (app, upgrade) = Shared::new(app, seats.clone());
        HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(keep_alive)
            .client_request_timeout(head_time)
            .client_disconnect_timeout(LINGER)
            .tcp_nodelay(true)
            .local_addr(address)
            .upgrade(upgrade)
            .finish(app)
            .tcp()
    })?;
    Ok(Serving { server: builder.run(), guests })
}
