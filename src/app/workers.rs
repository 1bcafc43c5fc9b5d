//! The threads that answer HTTP requests, on connections that the threads of sockets pass on.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_http::body::MessageBody;
use actix_http::{HttpServiceBuilder, KeepAlive, Request};
use actix_service::{IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, map_config};
use actix_web::dev::{AppConfig, ServiceResponse};
use actix_web::error::Error;
use actix_web::rt::net::TcpStream;
use actix_web::{HttpResponse, web};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinSet, LocalSet};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::inbound::stream::{Stream, Waited};
use crate::http::tls::TlsStream;
use crate::http::watch::sockets::PassedOn;
use crate::http::{self, Gate};
use crate::supervise::{Part, faults};

/// Also how long a refused upload is read on, so that its client gets to see the answer.
const UPLOAD_DRAIN_TIME: Duration = Duration::from_secs(2);

/// How much of an answer waits in a connection's buffer before the client must take some, in bytes. What is behind it
/// stays in the answer's body.
const WRITE_BUFFER: usize = 8 << 10;

/// The pause before a thread begins anew.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// How connections are treated, whatever carries them.
#[derive(Clone)]
pub(super) struct ConnectionSettings {
    /// Connections stay open after an answer. For how long is for `http::inbound` to judge: another timer, set anew
    /// after every answer, would be paid for by every request.
    pub keeps_alive: bool,
    /// For the first head.
    pub head_time: Duration,
    /// Where the server listens.
    pub address: SocketAddr,
}

/// The threads that answer requests. When this is dropped they end, and cut what is still open.
pub(super) struct Workers {
    running: TaskTracker,
    stop: CancellationToken,
    end: CancellationToken,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// One thread for each of `connections`.
    pub fn start(
        connections: Vec<Receiver<PassedOn>>,
        gate: &web::Data<Gate>,
        settings: &ConnectionSettings,
    ) -> io::Result<Workers> {
        let mut workers = Workers {
            running: TaskTracker::new(),
            stop: CancellationToken::new(),
            end: CancellationToken::new(),
            threads: Vec::new(),
        };
        for (number, mut connections) in connections.into_iter().enumerate() {
            let worker = HttpWorker {
                gate: gate.clone(),
                settings: settings.clone(),
                stop: workers.stop.clone(),
                end: workers.end.clone(),
            };
            let running = workers.running.token();
            let work = move || {
                worker.run(&mut connections);
                drop(running);
            };
            workers.threads.push(std::thread::Builder::new().name(format!("http-{number}")).spawn(work)?);
        }
        workers.running.close();
        Ok(workers)
    }

    /// Finishes what is being answered, and ends connections that ask for nothing. Connections that come later are
    /// not served any more.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.running.wait().await;
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end.cancel();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What one thread has.
struct HttpWorker {
    gate: web::Data<Gate>,
    settings: ConnectionSettings,
    stop: CancellationToken,
    end: CancellationToken,
}

impl HttpWorker {
    /// Serves until it is stopped. A panic outside a request costs this thread's connections, and it begins anew.
    fn run(&self, connections: &mut Receiver<PassedOn>) {
        let parts = self.gate.live.parts().clone();
        let vital = parts.vital(Part::Requests);
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.serve(connections))) {
                Ok(Ok(())) => break,
                Ok(Err(error)) => {
                    tracing::error!(%error, "a thread that answers requests cannot, and tries again");
                }
                Err(_) => tracing::error!(
                    "a thread that answers requests panicked and begins anew; its connections are cut"
                ),
            }
            std::thread::sleep(RESTART_PAUSE);
            parts.restarted(Part::Requests);
        }
        vital.done();
    }

    fn serve(&self, connections: &mut Receiver<PassedOn>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            tokio::select! {
                ended = self.answer(connections) => ended,
                () = self.end.cancelled() => Ok(()),
            }
        })
    }

    /// Answers requests until it is stopped and all are answered.
    async fn answer(&self, connections: &mut Receiver<PassedOn>) -> io::Result<()> {
        let made = self.settings.http(&self.gate, &self.stop).new_service(()).await;
        let http = Rc::new(made.map_err(|()| io::Error::other("the application cannot be made"))?);
        let mut open = JoinSet::new();
        loop {
            let connection = tokio::select! {
                connection = connections.recv() => connection,
                // Forgets those that ended.
                Some(_) = open.join_next() => continue,
                // What is on its way still comes.
                () = self.stop.cancelled(), if !connections.is_closed() => {
                    connections.close();
                    continue;
                }
            };
            let Some(connection) = connection else { break };
            faults::pass("requests").await;
            let http = http.clone();
            open.spawn_local(async move {
                let address = connection.address;
                // Who never gets as far as a request is nobody's concern.
                if let Ok(stream) = bytes_of(connection) {
                    let _ = http.call((stream, Some(address))).await;
                }
            });
        }
        while open.join_next().await.is_some() {}
        Ok(())
    }
}

/// The bytes of a connection, encrypted or not.
type Io = Stream<Either<TcpStream, TlsStream<TcpStream>>>;

/// What a connection says and hears.
fn bytes_of(connection: PassedOn) -> io::Result<Io> {
    let PassedOn { stream, tls, peer, received, waited, waiting, .. } = connection;
    drop(waiting);
    let io = TcpStream::from_std(stream)?;
    let io = match tls {
        None => Either::Left(io),
        Some(tls) => Either::Right(TlsStream::new(io, tls)),
    };
    Ok(Stream::new(io, peer, received, waited))
}

impl ConnectionSettings {
    /// What answers the requests of a connection, until `stop`.
    fn http(
        &self,
        gate: &web::Data<Gate>,
        stop: &CancellationToken,
    ) -> impl ServiceFactory<(Io, Option<SocketAddr>), Config = (), Response = (), InitError = ()> + use<>
    {
        let stop = stop.clone();
        HttpServiceBuilder::default()
            .graceful_shutdown_signal(move || stop.clone().cancelled_owned())
            // Who closes its side has gone, as for most proxies: a claim that waits takes nothing for it.
            .h1_allow_half_closed(false)
            .keep_alive(if self.keeps_alive { KeepAlive::Os } else { KeepAlive::Disabled })
            .client_request_timeout(self.head_time)
            .client_disconnect_timeout(UPLOAD_DRAIN_TIME)
            .h1_write_buffer_size(WRITE_BUFFER)
            .local_addr(self.address)
            .on_connect_ext(|io: &Io, data| {
                data.insert(io.peer().clone());
                if io.has_waited() {
                    data.insert(Waited);
                }
            })
            .h1(app(gate.clone()))
    }
}

/// The application of one thread.
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
