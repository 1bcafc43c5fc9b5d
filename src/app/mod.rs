//! The composition root: configuration → engine → live → server, and the way back down.
//!
//! [`run`] takes its listener and its shutdown as arguments, so a test runs the real thing on port 0.

use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpServer, web};
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{Config, ConfigError};
use crate::domain::Policy;
use crate::engine::EngineError;
use crate::http::{self, Gate, Limits, Readiness};
use crate::live::Live;
use crate::metrics::Metrics;

mod engine;
mod listen;
pub mod logs;
mod signals;
#[cfg(test)]
mod tests;

pub use listen::bind;
pub use signals::asked_to_stop;

/// Why the server did not start, or stopped without being asked.
#[derive(Debug)]
pub enum StartError {
    /// The configuration breaks a rule.
    Config(ConfigError),
    /// The address cannot be listened on; says which and what to do.
    Listen(String),
    /// The store cannot be opened.
    Engine(EngineError),
    /// The server stopped by itself.
    Server(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Listen(why) => f.write_str(why),
            StartError::Engine(error) => error.fmt(f),
            StartError::Server(error) => write!(f, "the server stopped: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Serves on `listener` until `shutdown` is done, then leaves in order, within `[http] shutdown_ms`:
/// not ready, no new connections, goodbye to watchers, running requests finished, store closed.
///
/// Needs a tokio runtime with time and I/O.
pub async fn run(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let policy = check(&config).map_err(StartError::Config)?;
    listen::tune(&listener, config.http.send_buffer_bytes);
    let metrics = Arc::new(Metrics::default());
    let engine = engine::open(&config, policy, &metrics).await.map_err(StartError::Engine)?;
    let live = Live::start(engine.clone(), metrics);
    let ready = Arc::new(Readiness::default());
    let probing = tokio::spawn({
        let (engine, ready) = (engine.clone(), ready.clone());
        async move { ready.keep_probing(&*engine).await }
    });

    let limits = Limits {
        body: config.http.max_body_bytes,
        batch: config.http.max_batch_bytes,
        body_time: Duration::from_millis(config.http.body_timeout_ms),
    };
    let gate = web::Data::new(Gate::new(engine.clone(), live.clone(), ready.clone(), limits));
    let server = HttpServer::new(move || http::app(gate.clone()))
        .workers(workers(config.http.workers))
        .keep_alive(Duration::from_millis(config.http.keep_alive_ms))
        .client_request_timeout(Duration::from_millis(config.http.head_timeout_ms))
        // Also how long a refused upload is read on, so that its client gets to see the answer.
        .client_disconnect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .max_connections(CONNECTIONS_PER_WORKER)
        .disable_signals()
        // The deadline below is the real one; actix counts in whole seconds.
        .shutdown_timeout(config.http.shutdown_ms.div_ceil(1_000))
        .listen(listener)
        .map_err(StartError::Server)?
        .run();

    tracing::info!(engine = engine.name(), "ready to serve");
    let handle = server.handle();
    let mut serving = tokio::spawn(server);
    let stopped_by_itself = tokio::select! {
        ended = &mut serving => Some(ended),
        () = shutdown => None,
    };

    let deadline = Instant::now() + Duration::from_millis(config.http.shutdown_ms);
    ready.close();
    let ended = match stopped_by_itself {
        Some(ended) => ended.unwrap_or_else(|e| Err(std::io::Error::other(e))),
        None => {
            tracing::info!("shutting down");
            leave(handle, &live, serving, deadline - CLOSING_TIME).await;
            Ok(())
        }
    };
    probing.abort();
    match timeout(CLOSING_TIME, engine.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("closing the store: {error}"),
        Err(_) => tracing::warn!("the store did not close in time; nothing acknowledged is lost"),
    }
    ended.map_err(StartError::Server)
}

/// Everything that can be said about a configuration without starting: [`Config::check`], and what only
/// the layers above know. Answers the policy of feeds that set none.
pub fn check(config: &Config) -> Result<Policy, ConfigError> {
    config.check()?;
    logs::filter(&config.log)?;
    engine::default_policy(&config.feeds)
}

/// What is kept of the shutdown's time for closing the store.
const CLOSING_TIME: Duration = Duration::from_millis(900);

/// More than file descriptors will usually allow: actix would leave connections above it waiting
/// without a word.
const CONNECTIONS_PER_WORKER: usize = 1_000_000;

/// Stops accepting at once, says goodbye, and waits for what is running until `deadline`.
async fn leave(
    handle: actix_web::dev::ServerHandle,
    live: &Live,
    mut serving: tokio::task::JoinHandle<std::io::Result<()>>,
    deadline: Instant,
) {
    let stopped = handle.stop(true);
    let all = async {
        live.close();
        stopped.await;
        (&mut serving).await
    };
    if timeout_at(deadline, all).await.is_err() {
        tracing::warn!("some requests did not finish in time and are cut");
        serving.abort();
    }
}

fn workers(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}
