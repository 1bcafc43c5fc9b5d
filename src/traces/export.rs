//! The loop that sends spans to a collector, OTLP over HTTP as JSON. A collector that is slow, away or out of its mind costs
//! spans, which are counted, and nothing else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, Url};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::otlp::{self, Record};
use crate::metrics::Metrics;
use crate::metrics::labels::SpanFate;
use crate::outbound;
use crate::supervise::{Part, Parts, faults};

/// Spans of one request.
const SPANS_PER_REQUEST: usize = 512;

/// How long the first span of a request waits for others.
const GATHER_TIME: Duration = Duration::from_secs(1);

/// How long a request may take, connecting included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a batch is sent at most, and the pause before the second time; doubled with each that follows.
const ATTEMPTS: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that a collector may ask for.
const PAUSE_MOST: Duration = Duration::from_secs(30);

/// What is read of an answer.
const ANSWER_BYTES: usize = 16 << 10;

/// How often the log says that spans are lost.
const COMPLAIN_EVERY: Duration = Duration::from_secs(600);

/// How long it rests after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// The loop, running.
#[derive(Debug)]
pub struct Export {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Export {
    /// Starts it. The error is that of making a client for https.
    pub(super) fn start(
        to: Url,
        waiting: mpsc::Receiver<Record>,
        metrics: Arc<Metrics>,
        parts: Arc<Parts>,
    ) -> Result<Export, String> {
        let client = outbound::client(|builder| {
            let builder = builder.user_agent(concat!("Tipcast/", env!("CARGO_PKG_VERSION")));
            builder.timeout(REQUEST_TIMEOUT).connect_timeout(REQUEST_TIMEOUT)
        });
        let client = client.map_err(|e| format!("no client for the collector of traces can be made: {e}"))?;
        let (stop, stopped) = watch::channel(false);
        let instance = uuid::Uuid::now_v7().to_string();
        let mut sender =
            SpanSender { to, client, waiting, stopped, metrics, instance, batch: vec![], complained: None };
        // Not `Parts::keep`: neither health nor readiness depends on a collector, also not on a loop that sends to one.
        let task = tokio::spawn(async move {
            while AssertUnwindSafe(sender.run()).catch_unwind().await.is_err() {
                sender.lost("the loop that sends them panicked");
                parts.restarted(Part::Traces);
                sleep(AFTER_PANIC).await;
            }
        });
        Ok(Export { stop, task })
    }

    /// Sends what waits, each span once, for at most `within`.
    pub async fn stop(mut self, within: Duration) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(within, &mut self.task).await;
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What becomes of an attempt.
enum AttemptOutcome {
    /// All but `count`.
    Except(u64),
    /// Not now.
    Later(String, Option<Duration>),
    /// Never.
    Refused(String),
}

struct SpanSender {
    to: Url,
    client: Client,
    waiting: mpsc::Receiver<Record>,
    stopped: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
    instance: String,
    /// What is being sent.
    batch: Vec<Record>,
    complained: Option<Instant>,
}

impl SpanSender {
    /// Until it is stopped, or all recorders are gone.
    async fn run(&mut self) {
        while self.gather().await {
            faults::pass("traces").await;
            self.send().await;
        }
        // What is left, without patience; the caller's is short.
        while let Ok(record) = self.waiting.try_recv() {
            self.batch.push(record);
            if self.batch.len() == SPANS_PER_REQUEST {
                self.send().await;
            }
        }
        if !self.batch.is_empty() {
            self.send().await;
        }
    }

    /// Waits for the first span, and a little for others. False when it is to stop.
    async fn gather(&mut self) -> bool {
        let mut until = None;
        while self.batch.len() < SPANS_PER_REQUEST {
            let room = SPANS_PER_REQUEST - self.batch.len();
            let more = self.waiting.recv_many(&mut self.batch, room);
            let more = async {
                match until {
                    Some(until) => timeout_at(until, more).await.ok(),
                    None => Some(more.await),
                }
            };
            tokio::select! {
                more = more => match more {
                    Some(0) => return false,
                    Some(_) => until = until.or(Some(Instant::now() + GATHER_TIME)),
                    None => return true,
                },
                _ = self.stopped.wait_for(|stop| *stop) => return false,
            }
        }
        true
    }

    /// Sends the batch until it is taken, or given up.
    async fn send(&mut self) {
        let body = otlp::body(&self.batch, &self.instance).to_string();
        for attempt in 1.. {
            let (why, asked) = match self.attempt(body.clone()).await {
                AttemptOutcome::Except(refused) => {
                    let refused = refused.min(self.batch.len() as u64);
                    self.metrics.trace_spans[SpanFate::Sent].inc_by(self.batch.len() as u64 - refused);
                    self.metrics.trace_spans[SpanFate::Lost].inc_by(refused);
                    self.batch.clear();
                    return;
                }
                AttemptOutcome::Refused(why) => return self.lost(&why),
                AttemptOutcome::Later(why, _) if attempt == ATTEMPTS || *self.stopped.borrow() => {
                    return self.lost(&why);
                }
                AttemptOutcome::Later(why, asked) => (why, asked),
            };
            let pause = asked.unwrap_or(RETRY_PAUSE * (1 << (attempt - 1))).min(PAUSE_MOST);
            tracing::debug!(attempt, "a collector of traces did not take spans: {why}");
            tokio::select! {
                () = sleep(pause) => {}
                _ = self.stopped.wait_for(|stop| *stop) => {}
            }
        }
    }

    async fn attempt(&self, body: String) -> AttemptOutcome {
        let request = self.client.post(self.to.clone()).header("content-type", "application/json").body(body);
        match request.send().await {
            Ok(answer) => judge(answer).await,
            Err(error) if error.is_timeout() => {
                AttemptOutcome::Later("it did not answer in time".into(), None)
            }
            // Without the URL, which may hold a password.
            Err(error) => {
                AttemptOutcome::Later(format!("it cannot be reached: {}", error.without_url()), None)
            }
        }
    }

    /// Gives the batch up.
    fn lost(&mut self, why: &str) {
        self.metrics.trace_spans[SpanFate::Lost].inc_by(self.batch.len() as u64);
        self.batch.clear();
        let now = Instant::now();
        if self.complained.is_none_or(|at| now.duration_since(at) >= COMPLAIN_EVERY) {
            self.complained = Some(now);
            tracing::warn!("spans are lost because the collector ([log] otlp_url) does not take them: {why}");
        }
    }
}

/// What a collector means by its answer.
async fn judge(mut answer: Response) -> AttemptOutcome {
    let status = answer.status().as_u16();
    let asked = answer.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
    let mut read = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        read.extend_from_slice(&chunk);
        if read.len() > ANSWER_BYTES {
            break;
        }
    }
    match status {
        200..=299 => AttemptOutcome::Except(otlp::rejected(&read)),
        429 | 502..=504 => {
            AttemptOutcome::Later(format!("it answered {status}"), asked.map(Duration::from_secs))
        }
        _ => AttemptOutcome::Refused(format!("it answered {status}")),
    }
}
