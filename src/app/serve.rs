//! The HTTP server: one listener, plain or TLS, with workers that answer requests, and threads that
//! serve the sockets taken over from them.

use std::fmt::Debug;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::{BoxBody, MessageBody};
use actix_http::error::DispatchError;
use actix_http::{HttpServiceBuilder, Request, Response};
use actix_server::{GracefulShutdownSignal, Server, ServerBuilder};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::error::Error;
use actix_web::rt::net::TcpStream;
use actix_web::{HttpResponse, web};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::tls::Certificate;
use crate::config::Http;
use crate::http::inbound::stream::{self, Stream};
use crate::http::inbound::{Inbound, Peer};
use crate::http::watch::sockets::take_over::Shared;
use crate::http::watch::{WatcherThreads, start_watcher_threads};
use crate::http::{self, Gate};
use crate::metrics::labels::{Label, Turned};

/// More than file descriptors will usually allow: actix would leave connections above it waiting
/// without a word.
const CONNECTIONS_PER_WORKER: usize = 1_000_000;

/// Also how long a refused upload is read on, so that its client gets to see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// How long a client that is turned away may take to hear why.
const TOLD_WITHIN: Duration = Duration::from_millis(500);

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
    inbound: &Arc<Inbound>,
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
    let (seats, inbound) = (sockets.clone(), inbound.clone());
    let builder = match certificate {
        // The server keeps these sockets: what is encrypted cannot be written past it.
        Some(certificate) => {
            let tls = certificate.server_config().map_err(io::Error::other)?;
            let (tls, head_time) = (TlsAcceptor::from(Arc::new(tls)), settings.head_time);
            builder.listen("https", listener, move || {
                let (gate, inbound, tls) = (gate.clone(), inbound.clone(), tls.clone());
                let http = settings.service().h1(app(gate.clone()));
                let accept = move |io: TcpStream| {
                    let (address, peer) = admit(&io, &gate, &inbound);
                    let tls = tls.clone();
                    async move {
                        let peer = peer.map_err(|why: Turned| refused(why.word()))?;
                        let io = tokio::select! {
                            io = timeout(head_time, tls.accept(io)) => io.map_err(|_| refused("no TLS in time"))?,
                            () = stream::cut(&peer) => return Err(refused("its place was needed")),
                        };
                        Ok((Stream::new(io.map_err(DispatchError::Io)?, peer), address))
                    }
                };
                fn_service(accept).and_then(http)
            })?
        }
        None => builder.listen("http", listener, move || {
            let (gate, inbound) = (gate.clone(), inbound.clone());
            let app = Shared::new(app(gate.clone()));
            let http = settings.service().upgrade(app.upgrades(seats.clone())).h1(app);
            let accept = move |io: TcpStream| {
                let (address, peer) = admit(&io, &gate, &inbound);
                async move {
                    match peer {
                        Ok(peer) => Ok((Stream::new(io, peer), address)),
                        Err(why) => {
                            turn_away(io, why).await;
                            Err(refused(why.word()))
                        }
                    }
                }
            };
            fn_service(accept).and_then(http)
        })?,
    };
    Ok(Serving { server: builder.run(), sockets })
}

/// Asks the register for a place for a new connection.
fn admit(
    io: &TcpStream,
    gate: &Gate,
    inbound: &Arc<Inbound>,
) -> (Option<SocketAddr>, Result<Arc<Peer>, Turned>) {
    let _ = io.set_nodelay(true);
    let address = io.peer_addr().ok();
    let ip = address.map(|address| address.ip());
    (address, inbound.accept(ip, ip.is_some_and(|ip| gate.door.is_proxy(ip))))
}

/// Tells a client why it is not served, if it takes that at once.
async fn turn_away(mut io: TcpStream, why: Turned) {
    let told = async {
        io.write_all(http::inbound::refusal(why).as_bytes()).await?;
        io.shutdown().await?;
        // Closed with input unread, the client might lose the answer.
        let mut rest = [0; 1024];
        while matches!(io.read(&mut rest).await, Ok(1..)) {}
        io::Result::Ok(())
    };
    let _ = timeout(TOLD_WITHIN, told).await;
}

/// Nobody hears of it: the server only drops the connection.
fn refused(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DispatchError {
    DispatchError::Io(io::Error::other(why))
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
    fn service<T, S>(&self) -> HttpServiceBuilder<Stream<T>, S>
    where
        T: 'static,
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
            .local_addr(self.address)
            .on_connect_ext(|io: &Stream<T>, data| drop(data.insert(io.peer().clone())))
    }
}
