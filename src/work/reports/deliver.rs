//! One turn of one job: a webhook's entries in one feed, batch by batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::endpoints::{Busy, Endpoints, Trouble};
use super::sender::{Sender, Sent, body};
use super::slots::Slots;
use crate::domain::attempt::DeliveryAttempt;
use crate::domain::delivery::{Next, Patience, Progress, Queues, Settled, Verdict};
use crate::domain::signature::{Signers, batch_name};
use crate::domain::{Entry, HookKey, HookSpec, HookState, Job, Millis};
use crate::engine::{Death, Save, Store, StoreError, Want, Work};
use crate::metrics::Metrics;
use crate::metrics::labels::{DeliveryFate, Label};
use crate::random;
use crate::traces::{Span, Tracer};

/// Batches of one turn: then the feeds that wait longer come first.
const MAX_BATCHES_PER_TURN: usize = 16;

/// How long a turn goes on with another batch, in parts of its lease.
const OF_THE_LEASE: u32 = 4;

/// When a disabled webhook's jobs are looked at again. Nobody has to find them when it is enabled.
const DISABLED_LOOK_MS: u64 = 30_000;

/// When a job is looked at again that somebody else has gone on with.
const STALE_LOOK_MS: u64 = 1_000;

/// What turns are made of.
pub struct Deliverer {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    pub tracer: Arc<Tracer>,
    pub endpoints: Endpoints,
    pub sender: Sender,
    /// Deliveries under way at the same time.
    pub slots: Slots,
    pub give_up_ms: u64,
    pub lease: Duration,
    /// How long a batch that is being sent is left to the node that sends it: longer than an attempt takes.
    pub hold_ms: u64,
    /// True from when the node leaves on: a turn ends with the batch that is under way.
    pub leaving: AtomicBool,
}

/// What a job's turn works with: the webhook's work in the store, and the clock that goes with it.
struct OpenTurn {
    work: Work,
    read: Instant,
}

impl OpenTurn {
    fn new(work: Work) -> OpenTurn {
        OpenTurn { work, read: Instant::now() }
    }

    /// The store's clock.
    fn now(&self) -> Millis {
        self.work.now.plus(self.read.elapsed().as_millis() as u64)
    }

    fn queues(&self) -> Queues<'_> {
        Queues { entries: &self.work.entries, again: &self.work.again }
    }

    /// What is left without the first `count` entries of one side.
    fn without(&self, again: bool, len: usize) -> Queues<'_> {
        let Queues { entries, again: dead } = self.queues();
        match again {
            true => Queues { entries, again: &dead[len.min(dead.len())..] },
            false => Queues { entries: &entries[len.min(entries.len())..], again: dead },
        }
    }
}

impl Deliverer {
    /// Does what can be done for a job now. Returns the milliseconds until it is to be looked at again; `None` if
    /// it rests or is no more.
    pub async fn turn(&self, job: &Job) -> Result<Option<u64>, StoreError> {
        let begun = Instant::now();
        let Some(key) = HookKey::of(&job.feed, &job.reader) else { return Ok(None) };
        let mut attempts = Vec::new();
        let done = self.deliver(job, &key, begun, &mut attempts).await;
        if !attempts.is_empty()
            && let Err(error) = self.store.note_attempts(&key, &attempts).await
        {
            tracing::debug!(%error, "attempts of a webhook are not kept");
        }
        done
    }

    /// A turn of the job; `attempts` gets a text for each.
    async fn deliver(
        &self,
        job: &Job,
        key: &HookKey,
        begun: Instant,
        attempts: &mut Vec<String>,
    ) -> Result<Option<u64>, StoreError> {
        let health = self.endpoints.health(key);
        let _turn = match self.endpoints.turn(&health).await {
            Ok(turn) => turn,
            Err(Busy(ms)) => return Ok(Some(ms + jitter_ms(ms))),
        };
        let Some(hook) = self.endpoints.hook(key, &health).await? else {
            // Gone: opening finds that out as well, and lets the job go.
            let want = Want { most: 1, batch_ms: 0 };
            let left = self.store.open_job(job, want, Millis::now()).await?;
            return Ok(left.map(|_| STALE_LOOK_MS));
        };
        if hook.state == HookState::Disabled {
            return Ok(Some(DISABLED_LOOK_MS + jitter_ms(DISABLED_LOOK_MS)));
        }
        let spec = &hook.spec;
        let host = url::Url::parse(&spec.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let _slot = match self.slots.take(&job.feed, host.as_deref().unwrap_or_default()).await {
            Ok(slot) => slot,
            Err(Busy(ms)) => return Ok(Some(ms + jitter_ms(ms))),
        };
        // Twice a batch, so that the next one is known when this one is done with.
        let want = Want { most: 2 * spec.batch_max as usize, batch_ms: spec.batch_ms };
        let Some(work) = self.store.open_job(job, want, Millis::now()).await? else {
            return Ok(None);
        };
        let signing_key = self.store.read_signing_key().await?;
        let mut open = OpenTurn::new(work);
        let mut progress = Progress::read(&open.work.progress);
        progress.end_pause(Millis(hook.set_at));
        let mut fixed = false;
        let over = |batches: usize| {
            let long = begun.elapsed() > self.lease / OF_THE_LEASE;
            batches >= MAX_BATCHES_PER_TURN || long || self.leaving.load(Ordering::Relaxed)
        };
        for batches in 0.. {
            if !fixed {
                if over(batches) {
                    break;
                }
                let now = (open.now(), self.hold_ms);
                let save = match progress.next(open.queues(), spec, now, &batch_name()) {
                    Next::Nothing => return Ok(open.work.look_ms),
                    Next::Wait(ms) => return Ok(Some(ms)),
                    Next::Send => Save::default(),
                    step @ (Next::Drop { again, len } | Next::Pass { again, len }) => {
                        if matches!(step, Next::Drop { .. }) {
                            self.metrics.webhook_dropped.inc_by(len as u64);
                        }
                        let side = if again { &open.work.again } else { &open.work.entries };
                        done(&side[..len], again)
                    }
                };
                let dropped = save != Save::default();
                let Some(next) = self.keep(job, want, &open, &progress, save).await? else {
                    return Ok(Some(STALE_LOOK_MS));
                };
                open = next;
                if dropped {
                    continue;
                }
            }
            fixed = false;
            let Some(batch) = progress.batch.clone() else { continue };
            let sent = progress.batch_of(open.queues());
            if sent.len() != batch.len || sent.first().map(|it| it.cursor.0) != Some(batch.first) {
                // Cut from the ledger in the moment between: decided anew.
                continue;
            }
            let wanted: Vec<&Entry> = sent.iter().filter(|it| spec.wants(it)).collect();
            let verdict = {
                let body = body(&job.feed, &batch.id, batch.round, &wanted);
                let now = open.now();
                let signers = Signers { secrets: &hook.secrets(now), key: Some(&signing_key) };
                let span = self.span(job, spec, &batch.id, &wanted);
                let sending = Instant::now();
                let sent = self.attempt(spec, signers, &batch.id, body, now, span).await;
                let attempt = DeliveryAttempt {
                    at: now,
                    feed: job.feed.to_string(),
                    batch: batch.id.clone(),
                    entries: wanted.len(),
                    status: sent.status,
                    ms: sending.elapsed().as_millis() as u64,
                    error: sent.error(),
                    response: sent.response,
                    test: false,
                };
                attempts.extend(serde_json::to_string(&attempt));
                sent.verdict
            };
            let now = open.now();
            let settled = progress.settle(sent, &verdict, self.patience(), now);
            self.count(&settled, &wanted, now);
            let mut save = Save::default();
            if settled.done {
                save = done(sent, batch.again);
                if let Some(why) = &settled.dead {
                    let death = |it: &&Entry| {
                        let (cursor, reason) = (it.cursor, why.clone());
                        Death { cursor, attempts: batch.tries, reason }
                    };
                    save.dead = wanted.iter().map(death).collect();
                }
                // The next batch is fixed in the same step, if it is this turn's and clear by now which.
                let (mut ahead, rest) = (progress.clone(), open.without(batch.again, batch.len));
                if !over(batches + 1)
                    && ahead.next(rest, spec, (now, self.hold_ms), &batch_name()) == Next::Send
                {
                    (progress, fixed) = (ahead, true);
                }
            }
            let kept = self.keep(job, want, &open, &progress, save).await?;
            let trouble = match &verdict {
                Verdict::Accepted | Verdict::TooLarge => None,
                Verdict::Gone => Some(("the endpoint answered 410: gone", Trouble::Gone)),
                Verdict::Refused(why) => Some((why.as_str(), Trouble::Refused)),
                Verdict::Failed(why, _) => Some((why.as_str(), Trouble::Failed)),
            };
            let disabled = match trouble {
                Some((why, trouble)) => self.endpoints.failed(key, &health, why, trouble, now).await,
                None if verdict == Verdict::Accepted => {
                    self.endpoints.worked(key, &health, now).await;
                    false
                }
                None => false,
            };
            let Some(next) = kept else { return Ok(Some(STALE_LOOK_MS)) };
            open = next;
            if disabled {
                return Ok(Some(DISABLED_LOOK_MS));
            }
        }
        Ok(Some(0))
    }

    async fn attempt(
        &self,
        spec: &HookSpec,
        signers: Signers<'_>,
        id: &str,
        body: bytes::Bytes,
        now: Millis,
        span: Option<Span>,
    ) -> Sent {
        let begun = Instant::now();
        self.metrics.webhook_in_flight.inc();
        let trace = span.as_ref().map(Span::trace);
        let sent = self.sender.send(spec, signers, id, body, now, trace).await;
        self.metrics.webhook_in_flight.dec();
        self.metrics.webhook_time.observe(begun.elapsed().as_secs_f64());
        let fate = match &sent.verdict {
            Verdict::Accepted => DeliveryFate::Accepted,
            Verdict::Gone => DeliveryFate::Gone,
            Verdict::TooLarge => DeliveryFate::TooLarge,
            Verdict::Refused(_) => DeliveryFate::Refused,
            Verdict::Failed(..) => DeliveryFate::Failed,
        };
        self.metrics.webhook_deliveries[fate].inc();
        if let Some(mut span) = span {
            span.set("tipcast.outcome", fate.word());
            if let Some(why) = sent.error() {
                span.fail(&why);
            }
            span.end();
        }
        sent
    }

    /// The span of an attempt, where traces are recorded and an entry was traced.
    fn span(&self, job: &Job, spec: &HookSpec, batch: &str, sent: &[&Entry]) -> Option<Span> {
        let mut span =
            self.tracer.delivery("deliver to webhook", sent.iter().map(|entry| entry.trace.clone()))?;
        let host = reqwest::Url::parse(&spec.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        span.set("http.request.method", "POST");
        span.set("server.address", host.unwrap_or_default());
        span.set("tipcast.feed", job.feed.as_str());
        span.set("messaging.message.id", batch);
        span.set("messaging.batch.message_count", sent.len());
        Some(span)
    }

    fn count(&self, settled: &Settled, sent: &[&Entry], now: Millis) {
        match &settled.dead {
            Some(why) => {
                self.metrics.webhook_dead.inc_by(sent.len() as u64);
                tracing::warn!(entries = sent.len(), "a webhook's entries are dead letters: {why}");
            }
            None if settled.done => {
                self.metrics.webhook_entries.inc_by(sent.len() as u64);
                let oldest = sent.first().map_or(0, |it| now.since(it.at));
                self.metrics.webhook_lag.observe(oldest as f64 / 1_000.0);
            }
            None => {}
        }
    }

    /// Keeps the progress in the store, with what is done with. `None` if another node has gone on.
    async fn keep(
        &self,
        job: &Job,
        want: Want,
        open: &OpenTurn,
        progress: &Progress,
        save: Save,
    ) -> Result<Option<OpenTurn>, StoreError> {
        let (was, progress) = (open.work.progress.clone(), progress.to_line());
        let save = Save { was, progress, ..save };
        let work = self.store.save_job(job, save, want, open.now()).await?;
        Ok(work.map(OpenTurn::new))
    }

    fn patience(&self) -> Patience {
        Patience { give_up_ms: self.give_up_ms, jitter: random::share() * 0.4 - 0.2 }
    }
}

/// That these entries are done with.
fn done(entries: &[Entry], again: bool) -> Save {
    match again {
        true => Save { again: entries.iter().map(|it| it.cursor).collect(), ..Save::default() },
        false => Save { through: entries.last().map(|it| it.cursor), ..Save::default() },
    }
}

/// Up to a fifth of `ms`, so that jobs that were put off together do not come back together.
fn jitter_ms(ms: u64) -> u64 {
    (random::share() * ms as f64 / 5.0) as u64
}
