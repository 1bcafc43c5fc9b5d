//! Sends ledgers to webhooks: one loop per node that takes the turns of jobs – a webhook in a feed – and gives
//! them back, and a task for each turn under way (`deliver`).
//!
//! Feeds take turns by their oldest entry. A slow endpoint holds up nobody else: deliveries to one webhook are
//! bounded, to few while it fails (`endpoints`), and a job that cannot go on makes room. A node that dies leaves its turns
//! to the others, which get them when their leases end; what a delivery did is kept only if nobody else has gone
//! on since ([`Store::save_job`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::trouble::StoreTrouble;
use crate::domain::attempt::DeliveryAttempt;
use crate::domain::signature::{Signers, SigningKey};
use crate::domain::{Hook, Millis};
use crate::engine::{JobDone, JobLease, Store, StoreError};
use crate::metrics::Metrics;
use crate::supervise::{Beat, Part, Parts, faults};
use crate::traces::Tracer;

mod deliver;
mod endpoints;
mod sender;
mod slots;

use deliver::Deliverer;
use endpoints::Endpoints;
use sender::Sender;
use slots::Slots;

/// Turns taken in one step.
const JOBS_PER_STEP: usize = 64;

/// Turns that this node has at the same time, waiting ones included, for each delivery that may be under way.
const TURNS_PER_DELIVERY: usize = 4;

/// What a turn's lease has beyond the time of one attempt.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// When a job is looked at again that the store did not answer for.
const TROUBLE_LOOK_MS: u64 = 1_000;

/// How webhooks are sent to.
#[derive(Clone, Copy, Debug)]
pub struct ReportOptions {
    /// How long an attempt may take.
    pub timeout: Duration,
    /// How long a batch is tried before it is dead.
    pub give_up_ms: u64,
    /// How long nothing works for a webhook before it is disabled; 0 never.
    pub disable_after_ms: u64,
    /// Deliveries under way at the same time.
    pub in_flight: usize,
    /// Deliveries to one webhook at the same time.
    pub in_flight_each: usize,
    /// Whether private addresses are sent to.
    pub allow_private: bool,
    /// How long the loop sleeps at most when nothing is to be sent.
    pub longest_sleep: Duration,
}

impl Default for ReportOptions {
    fn default() -> ReportOptions {
        ReportOptions {
            timeout: Duration::from_secs(10),
            give_up_ms: 86_400_000,
            disable_after_ms: 259_200_000,
            in_flight: 256,
            in_flight_each: 32,
            allow_private: false,
            longest_sleep: Duration::from_secs(10),
        }
    }
}

/// Tests of webhooks under way at the same time.
const TESTS_AT_ONCE: usize = 4;

/// Sends to endpoints what is only a test.
#[derive(Clone)]
pub struct EndpointTester {
    sender: Sender,
    permits: Arc<Semaphore>,
}

impl EndpointTester {
    /// One attempt; gives `attempt` with what came back.
    pub async fn send(
        &self,
        hook: &Hook,
        key: &SigningKey,
        attempt: DeliveryAttempt,
        body: Bytes,
    ) -> DeliveryAttempt {
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let (begun, now) = (Instant::now(), Millis::now());
        let signers = Signers { secrets: &hook.secrets(now), key: Some(key) };
        let sent = self.sender.send(&hook.spec, signers, &attempt.batch, body, now, None).await;
        let (ms, error) = (begun.elapsed().as_millis() as u64, sent.error());
        DeliveryAttempt { status: sent.status, ms, error, response: sent.response, ..attempt }
    }
}

/// The loop, running.
pub struct ReportLoop {
    tester: EndpointTester,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl ReportLoop {
    /// Starts it, as one of `parts`. The error is that of making a client for https.
    pub fn start(
        store: Store,
        metrics: Arc<Metrics>,
        tracer: Arc<Tracer>,
        options: ReportOptions,
        parts: &Arc<Parts>,
    ) -> Result<ReportLoop, String> {
        let sender = Sender::new(options.timeout, options.allow_private)
            .map_err(|e| format!("no client for webhooks can be made: {e}"))?;
        let tester =
            EndpointTester { sender: sender.clone(), permits: Arc::new(Semaphore::new(TESTS_AT_ONCE)) };
        let lease = 2 * options.timeout + LEASE_MARGIN;
        let deliverer = Deliverer {
            endpoints: Endpoints::new(
                store.clone(),
                metrics.clone(),
                options.in_flight_each,
                options.disable_after_ms,
            ),
            store,
            metrics,
            tracer,
            sender,
            slots: Slots::new(options.in_flight),
            give_up_ms: options.give_up_ms,
            lease,
            hold_ms: options.timeout.as_millis() as u64 * 5 / 4 + 250,
            leaving: AtomicBool::new(false),
        };
        let deliverer = Arc::new(deliverer);
        let (stop, stopped) = watch::channel(false);
        let run = move |beat| Desk::new(deliverer.clone(), &options).run(stopped.clone(), beat);
        Ok(ReportLoop { tester, stop, task: tokio::spawn(parts.clone().keep(Part::Reports, run)) })
    }

    /// What tests are sent with.
    pub fn tester(&self) -> EndpointTester {
        self.tester.clone()
    }

    /// Takes no more turns, waits for the deliveries under way for at most `within`, and gives turns back. What is
    /// cut off is sent again by a node that is there then.
    pub async fn stop(mut self, within: Duration) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(within, &mut self.task).await;
    }
}

impl Drop for ReportLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where turns are taken and given back.
struct Desk {
    deliverer: Arc<Deliverer>,
    longest_sleep: Duration,
    most: usize,
    give: mpsc::Sender<JobDone>,
    over: mpsc::Receiver<JobDone>,
    /// Turns to give back with the next step.
    back: Vec<JobDone>,
    turns: JoinSet<()>,
    trouble: StoreTrouble,
}

impl Desk {
    fn new(deliverer: Arc<Deliverer>, options: &ReportOptions) -> Desk {
        let most = options.in_flight.max(1) * TURNS_PER_DELIVERY;
        let (give, over) = mpsc::channel(most);
        Desk {
            deliverer,
            longest_sleep: options.longest_sleep,
            most,
            give,
            over,
            back: Vec::new(),
            turns: JoinSet::new(),
            trouble: StoreTrouble::new("webhooks wait", "webhooks are sent to again"),
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<bool>, beat: Beat) {
        // Listened to before the first look, so that nothing falls between the two.
        let mut wakes = self.deliverer.store.job_wakes();
        while !*stop.borrow() {
            beat.works();
            faults::pass("reports").await;
            let rest = match self.step(Millis::now()).await {
                Ok(None) => continue,
                Ok(Some(rest)) => rest,
                Err(error) => {
                    self.trouble.met(&error);
                    self.trouble.pause()
                }
            };
            beat.rests();
            let mut until = Instant::now() + rest;
            while !*stop.borrow() {
                tokio::select! {
                    () = sleep_until(until) => break,
                    Some(done) = self.over.recv() => {
                        self.back.push(done);
                        break;
                    }
                    in_ms = wakes.next() => {
                        until = until.min(Instant::now() + Duration::from_millis(in_ms.saturating_add(1)));
                    }
                    // Gone without a word is stopped as well.
                    changed = stop.changed() => if changed.is_err() { return },
                }
            }
        }
        self.leave().await;
    }

    /// Releases leases and takes new ones. Returns how long to sleep then; `None` if there may be more at once.
    async fn step(&mut self, now: Millis) -> Result<Option<Duration>, StoreError> {
        while self.turns.try_join_next().is_some() {}
        while let Ok(done) = self.over.try_recv() {
            self.back.push(done);
        }
        let room = self.most.saturating_sub(self.turns.len()).min(JOBS_PER_STEP);
        let (store, lease) = (&self.deliverer.store, self.deliverer.lease);
        let lease_ms = lease.as_millis() as u64;
        let turn = store.claim_jobs(self.back.clone(), room, lease_ms, now).await?;
        self.back.clear();
        self.trouble.over();
        self.deliverer.metrics.webhook_jobs.set(turn.waiting as i64);
        let full = !turn.jobs.is_empty() && turn.jobs.len() == room;
        turn.jobs.into_iter().for_each(|lease| self.start(lease));
        if full {
            return Ok(None);
        }
        // Without room the next look is when a lease ends.
        let next = turn.next_in_ms.filter(|_| room > 0).map(|ms| Duration::from_millis(ms.saturating_add(1)));
        Ok(Some(next.unwrap_or(self.longest_sleep).min(self.longest_sleep)))
    }

    fn start(&mut self, JobLease { job, token }: JobLease) {
        let (deliverer, give) = (self.deliverer.clone(), self.give.clone());
        self.turns.spawn(async move {
            let next_in_ms = match deliverer.turn(&job).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::debug!(feed = %job.feed, reader = %job.reader, %error, "a webhook's turn is put off");
                    Some(TROUBLE_LOOK_MS)
                }
            };
            // Nobody takes it any more when the node leaves; then its lease ends by itself.
            let _ = give.send(JobDone { job, token, next_in_ms }).await;
        });
    }

    async fn leave(mut self) {
        self.deliverer.leaving.store(true, Ordering::Relaxed);
        // The caller who waits for this one sets the limit; a delivery takes no longer than its own.
        let until = Instant::now() + self.deliverer.lease;
        while let Ok(Some(_)) = timeout_at(until, self.turns.join_next()).await {}
        while let Ok(done) = self.over.try_recv() {
            self.back.push(done);
        }
        let store = &self.deliverer.store;
        let _ = store.claim_jobs(std::mem::take(&mut self.back), 0, 1, Millis::now()).await;
    }
}
