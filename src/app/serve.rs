//! The HTTP server: one listener, plain or TLS, with workers that answer requests, and threads that
//! serve the sockets taken over from them.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::{BoxBody, MessageBody};
use actix_http::{HttpServiceBuilder, Request, Response};
use actix_server::{GracefulShutdownSignal, Server, ServerBuilder};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, map_config};
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::error::Error;
use actix_web::{HttpResponse, web};

use super::tls::Certificate;
use crate::config::Http;
use crate::http::watch::sockets::take_over::Shared;
use crate::http::watch::{WatcherThreads, start_watcher_threads};
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
    pub sockets: Arc<WatcherThreads>,
}

/// Serves `gate` on `listener`, over TLS when there is a certificate.
pub(super) fn serve(
    config: &Http,
    listener: TcpListener,
    gate: web::Data<Gate>,
    certificate: Option<&Arc<Certificate>>,
) -> io::Result<Serving> {
    let workers = match config.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let sockets = Arc::new(start_watcher_threads(workers, &gate.live)?);
    let builder = ServerBuilder::new()
        .workers(workers)
        .max_concurrent_connections(CONNECTIONS_PER_WORKER)
        .disable_signals()
        // The real deadline is the caller's; actix counts in whole seconds.
        .shutdown_timeout(config.shutdown_ms.div_ceil(1_000));
    let settings = Settings {
        stopping: builder.graceful_shutdown_signal(),
        keep_alive: Duration::from_millis(config.keep_alive_ms),
        head_time: Duration::from_millis(config.head_timeout_ms),
        address: listener.local_addr()?,
    };
    let seats = sockets.clone();
    let builder = match certificate {
        // The server keeps these sockets: what is encrypted cannot be written past it.
        Some(certificate) => {
            let tls = certificate.server_config().map_err(io::Error::other)?;
            builder.listen("https", listener, move || {
                settings.service().finish(app(gate.clone())).rustls_0_23(tls.clone())
            })?
        }
        None => builder.listen("http", listener, move || {
            let app = Shared::new(app(gate.clone()));
            settings.service().upgrade(app.upgrades(seats.clone())).finish(app).tcp()
        })?,
    };
    Ok(Serving { server: builder.run(), sockets })
}

/// The application of one worker.
fn app(
    gate: web::Data<Gate>,
) -> impl ServiceFactory<
    Request,
    Config = (),
    Response = ServiceResponse<impl MessageBody>,
    Error = HttpResponse,
    InitError = (),
    Service = impl Service<Request, Future: 'static> + 'static,
    Future: 'static,
> {
    let app = http::app(gate).into_factory().map_err(|error: Error| error.error_response());
    map_config(app, |()| AppConfig::default())
}

/// How connections are treated, whatever carries them.
#[derive(Clone)]
struct Settings {
    stopping: GracefulShutdownSignal,
    keep_alive: Duration,
    head_time: Duration,
    address: SocketAddr,
}

impl Settings {
    fn service<T, S>(&self) -> HttpServiceBuilder<T, S>
    where
        S: ServiceFactory<Request, Config = ()>,
        S::Error: Into<Response<BoxBody>> + 'static,
        S::InitError: Debug,
        <S::Service as Service<Request>>::Future: 'static,
    {
        let stopping = self.stopping.clone();
        HttpServiceBuilder::default()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            // Who closes its side has gone, as for most proxies: a claim that waits takes nothing for it.
            .h1_allow_half_closed(false)
            .keep_alive(self.keep_alive)
            .client_request_timeout(self.head_time)
            .client_disconnect_timeout(LINGER)
            .tcp_nodelay(true)
            .local_addr(self.address)
    }
}
