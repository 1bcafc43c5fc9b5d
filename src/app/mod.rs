//! The composition root: configuration → store → live, work → server, and the way back down.
//!
//! [`run`] takes its listener and its shutdown as arguments, so a test runs the real thing on port 0.

use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderValue;
use actix_web::web;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::auth::audit::{Audit, AuditSink};
use crate::auth::keyset::Fetched;
use crate::config::{self, Config, ConfigError, Reloaded};
use crate::domain::Policy;
use crate::engine::StoreError;
use crate::http::inbound::{self, Inbound};
use crate::http::{Gate, Limits, Readiness, TestDelivery, TestSender, keep_reporting, leave_nodes};
use crate::live::Live;
use crate::live::bounds::{Rate, WatchLimits};
use crate::metrics::Metrics;
use crate::supervise::{Part, Parts};
use crate::traces::{self, Tracer};
use crate::work::due::{DueLoop, DueOptions};
use crate::work::reports::{EndpointTester, ReportLoop, ReportOptions};
use crate::work::walks::WalkLoop;

mod door;
mod files;
pub mod key_new;
mod leave;
mod listen;
pub mod logs;
mod memory;
mod revocations;
pub mod secrets;
mod serve;
mod signals;
mod store;
mod store_tool;
#[cfg(test)]
mod tests;
mod tls;
pub mod token_tool;
mod workers;

use files::Descriptors;
use tls::Certificate;

pub use crate::auth::{KeyHash, fresh_key};
pub use crate::engine::protocol::scripts::named as script;
pub use files::raise_limit;
pub use listen::bind;
pub use signals::{asked_to_reload, asked_to_stop};
pub use store_tool::{StoreJob, StoreJobError, run_store_job};

/// Why the server did not start, or stopped without being asked.
#[derive(Debug)]
pub enum StartError {
    /// The configuration breaks a rule.
    Config(ConfigError),
    /// The address cannot be listened on; says which and what to do.
    Listen(String),
    /// The store cannot be opened.
    Store(StoreError),
    /// The server stopped by itself.
    Server(std::io::Error),
    /// A part that cannot be started again has ended; says which.
    Part(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Listen(why) => f.write_str(why),
            StartError::Store(error) => error.fmt(f),
            StartError::Server(error) => write!(f, "the server stopped: {error}"),
            StartError::Part(why) => write!(
                f,
                "{why}; nothing acknowledged is lost. The process ends so that whoever supervises it starts it \
                 again; please report what the log says above"
            ),
        }
    }
}

impl std::error::Error for StartError {}

/// A server that runs as long as this is awaited. Boxed in this crate, so that programs that await it need not compile
/// everything in it once more.
pub type Serving<'a> = Pin<Box<dyn Future<Output = Result<(), StartError>> + Send + 'a>>;

/// [`run_reloading`] with a configuration that stays as it is.
pub fn run<'a>(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'a,
) -> Serving<'a> {
    run_reloading(config, listener, shutdown, mpsc::channel(1).1, || ())
}

/// Serves on `listener` until `shutdown` is done, then leaves in order, within `[http] shutdown_ms`:
/// not ready, no new connections, goodbye to watchers, running requests finished, store closed.
/// Each configuration that `reloads` brings takes effect as far as it can; see [`Config::reloaded`].
/// `announce` is called once, when requests are answered: the store is open and nothing can refuse any more.
///
/// Needs a tokio runtime with time and I/O.
pub fn run_reloading<'a>(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'a,
    reloads: mpsc::Receiver<Config>,
    announce: impl FnOnce() + Send + 'a,
) -> Serving<'a> {
    boxed(config, listener, Box::pin(shutdown), reloads, Box::new(announce))
}

/// Not generic: what makes the box is what compiles its contents.
fn boxed<'a>(
    config: Config,
    listener: TcpListener,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    reloads: mpsc::Receiver<Config>,
    announce: Box<dyn FnOnce() + Send + 'a>,
) -> Serving<'a> {
    Box::pin(serve_until(config, listener, shutdown, reloads, announce))
}

async fn serve_until(
    config: Config,
    listener: TcpListener,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
    mut reloads: mpsc::Receiver<Config>,
    announce: Box<dyn FnOnce() + Send + '_>,
) -> Result<(), StartError> {
    let policy = check(&config).map_err(StartError::Config)?;
    let descriptors = Descriptors::of(&config).map_err(StartError::Config)?;
    let certificate = Certificate::open(&config).map_err(StartError::Config)?;
    let summary = config.summary();
    let config::Summary { store, listen, keys, strangers } = &summary;
    tracing::info!(store, listen, keys, strangers, "starting");
    let address = listener.local_addr().map_err(StartError::Server)?;
    listen::tune(&listener, config.http.send_buffer_bytes);
    let metrics = Arc::new(Metrics::default());
    let parts = Parts::new(metrics.clone());
    let store = store::open(&config, policy, &metrics, &parts).await.map_err(StartError::Store)?;
    let live = Live::start(store.clone(), metrics.clone(), parts.clone());
    let longest_sleep = Duration::from_millis(config.due.longest_sleep_ms);
    let due = DueLoop::start(store.clone(), DueOptions { longest_sleep }, &parts);
    let walks = WalkLoop::start(store.clone(), &parts);
    let cannot = |why: String| StartError::Server(std::io::Error::other(why));
    let (tracer, exporting) = match collector(&config).map_err(StartError::Config)? {
        Some(to) => {
            let percent = config.log.otlp_sample_percent;
            let (tracer, export) = Tracer::start(to, percent, &metrics, &parts).map_err(cannot)?;
            (Arc::new(tracer), Some(export))
        }
        None => (Arc::default(), None),
    };
    let options = ReportOptions { in_flight: descriptors.deliveries(&config), ..report_options(&config) };
    let reports =
        ReportLoop::start(store.clone(), metrics, tracer.clone(), options, &parts).map_err(cannot)?;
    let ready = Arc::new(Readiness::default());
    let probing = tokio::spawn({
        let (store, ready) = (store.clone(), ready.clone());
        parts.clone().keep(Part::Probe, move |_| {
            let (store, ready) = (store.clone(), ready.clone());
            async move { ready.keep_probing(&store).await }
        })
    });

    let limits = Limits {
        body: config.http.max_body_bytes,
        batch: config.http.max_batch_bytes,
        unverified: config.limits.unverified_body_bytes,
        body_time: Duration::from_millis(config.http.body_timeout_ms),
        compress: config.http.compress,
        allow_private: config.webhooks.allow_private,
        secret_overlap_ms: config.webhooks.secret_overlap_ms,
        deliveries_per_second: config.limits.deliveries_per_second,
        waiting_claims: descriptors.waiting_claims(&config),
        names_private_feeds: config.metrics.private_feeds,
    };
    let mut gate = Gate::new(store.clone(), live.clone(), ready.clone(), limits);
    let audit = Audit::start(live.metrics().clone(), parts.clone()).map_err(StartError::Server)?;
    gate.audit = Arc::new(audit);
    gate.tracer = tracer;
    gate.test_sender = Some(test_sender(reports.tester()));
    let gate = web::Data::new(gate);
    let mut fetched = None;
    let rules = door::rules(&config)
        .and_then(|rules| door::fetching(rules, &config.auth.tokens, &mut fetched, &parts));
    gate.change_rules(rules.map_err(StartError::Config)?);
    let audit = |why: std::io::Error| StartError::Config(ConfigError(format!("[log] audit: {why}")));
    gate.audit.open(&AuditSink::parse(&config.log.audit)).map_err(audit)?;
    let summarizing = tokio::spawn(gate.audit.clone().keep_summarizing());
    gate.nodes.name(address.port());
    let reporting = tokio::spawn({
        let gate = gate.clone();
        parts.clone().keep(Part::Nodes, move |beat| keep_reporting(gate.clone(), beat))
    });
    let following = revocations::follow(&gate, &parts).await;
    live.limit(watch_limits(&config));
    config.warnings().iter().chain(&config.notes()).for_each(|warning| tracing::warn!("{warning}"));
    let door = gate.clone();
    let inbound =
        Inbound::new(inbound_settings(&config), descriptors.bounds(&config), live.metrics().clone());
    let sweeping = tokio::spawn({
        let inbound = inbound.clone();
        parts.clone().keep(Part::Sweep, move |beat| inbound.clone().keep_sweeping(beat))
    });
    let serving =
        serve::serve(&config, listener, &gate, &inbound, certificate.as_ref()).map_err(StartError::Server)?;

    tracing::info!(engine = store.name(), %address, "listening");
    ready.start_serving();
    announce();
    let (mut leaving_ms, mut shutdown_ms) = (config.leaving_ms(), config.http.shutdown_ms);
    let reloading = async {
        let mut config = config;
        while let Some(new) = reloads.recv().await {
            config = reload(config, &new, &door, &mut fetched, &parts);
            inbound.change(descriptors.bounds(&config));
            live.limit(watch_limits(&config));
            if let Some(certificate) = &certificate {
                match certificate.renew(&config) {
                    Ok(()) => tracing::info!("the certificate was read again"),
                    Err(why) => tracing::error!("the certificate was not taken; the one before stays: {why}"),
                }
            }
        }
        std::future::pending().await
    };
    let mut failed = None;
    tokio::select! {
        () = shutdown => {}
        () = reloading => {}
        why = parts.failed() => {
            tracing::error!("{why}; leaving, to be started again");
            // What cannot write any more has no reason to wait until it is seen to be unready.
            leaving_ms.0 = 0;
            shutdown_ms = shutdown_ms.min(FAILED_MS);
            failed = Some(why);
        }
    }

    let deadline = Instant::now() + Duration::from_millis(shutdown_ms);
    ready.close();
    leave::leave(&serving, &live, leaving_ms, deadline - CLOSING_TIME - DUE_TIME).await;
    // Its threads end, and cut who is still there.
    drop(tokio::task::spawn_blocking(move || drop(serving)).await);
    probing.abort();
    following.abort();
    summarizing.abort();
    reporting.abort();
    let _ = timeout(DUE_TIME, leave_nodes(&door)).await;
    sweeping.abort();
    // Turns that are not given back end by themselves.
    let _ =
        tokio::join!(timeout(DUE_TIME, due.stop()), timeout(DUE_TIME, walks.stop()), reports.stop(DUE_TIME));
    if let Some(exporting) = exporting {
        exporting.stop(SPANS_TIME).await;
    }
    if timeout(CLOSING_TIME, store.close()).await.is_err() {
        tracing::warn!("the store did not close in time; nothing acknowledged is lost");
    }
    match failed {
        Some(why) => Err(StartError::Part(why)),
        None => Ok(()),
    }
}

/// Everything that can be said about a configuration without starting: [`Config::check`], and what only
/// the layers above know. Answers the policy of feeds that set none.
pub fn check(config: &Config) -> Result<Policy, ConfigError> {
    config.check()?;
    door::rules(config)?;
    logs::filter(&config.log)?;
    collector(config)?;
    tls::read(config)?;
    store::check(config)?;
    store::default_policy(&config.feeds)
}

/// Sends tests to webhooks as deliveries are sent.
fn test_sender(tester: EndpointTester) -> TestSender {
    Arc::new(move |TestDelivery { hook, signing_key, attempt, body }| {
        let tester = tester.clone();
        Box::pin(async move { tester.send(&hook, &signing_key, attempt, body).await })
    })
}

/// Where traces go; `None` without tracing.
fn collector(config: &Config) -> Result<Option<reqwest::Url>, ConfigError> {
    let url = &config.log.otlp_url;
    let to = (!url.is_empty()).then(|| traces::endpoint(url)).transpose();
    to.map_err(|why| ConfigError(format!("[log] otlp_url: {why}")))
}

/// How long leaving may take at most when a part has failed, in milliseconds.
const FAILED_MS: u64 = 3_000;

/// What is kept of the shutdown's time for closing the store.
const CLOSING_TIME: Duration = Duration::from_millis(900);

/// What is kept of it for finishing what is due, and deliveries that are under way, just then.
const DUE_TIME: Duration = Duration::from_millis(200);

/// How long the end waits for a collector to take the last spans.
const SPANS_TIME: Duration = Duration::from_millis(500);

fn watch_limits(config: &Config) -> WatchLimits {
    let limits = &config.limits;
    WatchLimits {
        followed_feeds: limits.followed_feeds,
        subscriptions_per_address: limits.subscriptions_per_address,
        new_feeds: Rate { per_second: limits.new_feeds_per_second, burst: limits.new_feeds_burst },
        commands: Rate { per_second: limits.commands_per_second, burst: limits.commands_burst },
        replay_bytes: Rate { per_second: limits.replay_bytes_per_second, burst: limits.replay_bytes_burst },
        history_bytes: Rate {
            per_second: limits.history_bytes_per_second,
            burst: limits.history_bytes_burst,
        },
        history_bytes_of_node: Rate {
            per_second: limits.node_history_bytes_per_second,
            burst: limits.node_history_bytes_burst,
        },
    }
}

fn inbound_settings(config: &Config) -> inbound::InboundSettings {
    let http = &config.http;
    let hsts = format!("max-age={}", http.hsts_max_age_s);
    inbound::InboundSettings {
        times: inbound::Times {
            head: Duration::from_millis(http.head_timeout_ms),
            body: Duration::from_millis(http.body_timeout_ms),
            keep_alive: Duration::from_millis(http.keep_alive_ms),
        },
        hsts: (!http.tls_cert.is_empty() && http.hsts_max_age_s > 0)
            .then(|| HeaderValue::from_str(&hsts).ok())
            .flatten(),
        send_buffer: http.send_buffer_bytes,
    }
}

fn report_options(config: &Config) -> ReportOptions {
    let webhooks = &config.webhooks;
    ReportOptions {
        timeout: Duration::from_millis(webhooks.timeout_ms),
        give_up_ms: webhooks.give_up_ms,
        disable_after_ms: webhooks.disable_after_ms,
        in_flight: webhooks.in_flight,
        in_flight_each: webhooks.in_flight_each,
        allow_private: webhooks.allow_private,
        longest_sleep: Duration::from_millis(config.due.longest_sleep_ms),
    }
}

/// What runs after `new` was read: `running`, with what can change while it runs taken from `new`.
fn reload(
    running: Config,
    new: &Config,
    gate: &Gate,
    fetched: &mut Option<Arc<Fetched>>,
    parts: &Arc<Parts>,
) -> Config {
    let Reloaded { config, changed, waiting } = running.reloaded(new);
    // Checked as a whole: keys may go from a file that also moves to loopback, where it is not yet.
    let rules = match check(&config)
        .and_then(|_| door::rules(&config))
        .and_then(|it| door::fetching(it, &config.auth.tokens, fetched, parts))
    {
        Ok(rules) => rules,
        Err(why) => {
            tracing::error!("the configuration was read again and not taken; what was stays in force: {why}");
            return running;
        }
    };
    gate.change_rules(rules);
    // Also when it is the same: a file that was moved away is let go.
    if let Err(why) = gate.audit.open(&AuditSink::parse(&config.log.audit)) {
        tracing::error!("[log] audit stays as it was: {why}");
    }
    if let Err(why) = logs::set_level(&config.log) {
        tracing::error!("[log] level stays as it was: {why}");
    }
    config.warnings().iter().chain(&config.notes()).for_each(|warning| tracing::warn!("{warning}"));
    let all = |keys: &[String]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
    tracing::info!("the configuration was read again; changed: {}", all(&changed));
    if !waiting.is_empty() {
        tracing::warn!("these changes wait for a restart: {}", all(&waiting));
    }
    config
}
