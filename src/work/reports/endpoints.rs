//! The health of webhooks' endpoints as this node sees it: how each webhook was set a moment ago, how many
//! deliveries to it are under way, whether they work, and what the store keeps of those that do not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::domain::{Hook, HookFault, HookKey, HookState, Millis};
use crate::engine::{Store, StoreError, Swapped};
use crate::metrics::Metrics;

/// How long a webhook is taken to be as it was read: a change takes effect within this on every node.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// How often the same trouble is written to the store again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);

/// How long a job waits for its webhook's turn before it makes room for others.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// A webhook is slow when it has as many deliveries under way as it may, and none has ended for this long.
const SLOW_AFTER: Duration = Duration::from_millis(500);

/// Jobs of one webhook that wait for its turn; more are put off.
const MAX_WAITING_JOBS: usize = 64;

/// Webhooks that are remembered. Beyond this, those without a delivery under way are forgotten.
const REMEMBERED: usize = 4_096;

/// The webhooks that this node delivers to.
pub struct Endpoints {
    store: Store,
    metrics: Arc<Metrics>,
    /// Deliveries to one webhook at the same time.
    each: u32,
    disable_after_ms: u64,
    by_webhook: Mutex<HashMap<HookKey, Arc<EndpointHealth>>>,
}

/// What is known of one webhook and its endpoint.
pub struct EndpointHealth {
    known: Mutex<Option<(Hook, Instant)>>,
    reported: Mutex<Option<Instant>>,
    turns: Arc<Semaphore>,
    /// When a delivery came to an end last.
    ended: Mutex<Instant>,
    waiting: AtomicUsize,
    /// The last delivery did not work: until one does, only a few try.
    failing: AtomicBool,
}

/// What kind of trouble a delivery met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The endpoint answered 410: it wants no more.
    Gone,
    /// The endpoint answers, and refuses this batch: other feeds' batches go as before.
    Refused,
    /// The endpoint does not work, or cannot be reached.
    Failed,
}

/// Why a job cannot have its webhook now: it comes back after this number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub u64);

impl Endpoints {
    pub fn new(store: Store, metrics: Arc<Metrics>, each: usize, disable_after_ms: u64) -> Endpoints {
        let each = u32::try_from(each.max(1)).unwrap_or(u32::MAX);
        Endpoints { store, metrics, each, disable_after_ms, by_webhook: Mutex::default() }
    }

    /// What is known of a webhook and its endpoint, which may be nothing yet.
    pub fn health(&self, key: &HookKey) -> Arc<EndpointHealth> {
        let mut by_webhook = locked(&self.by_webhook);
        if let Some(health) = by_webhook.get(key) {
            return health.clone();
        }
        if by_webhook.len() >= REMEMBERED {
            by_webhook.retain(|_, health| Arc::strong_count(health) > 1);
        }
        let health = Arc::new(EndpointHealth {
            known: Mutex::default(),
            reported: Mutex::default(),
            turns: Arc::new(Semaphore::new(self.each as usize)),
            ended: Mutex::new(Instant::now()),
            waiting: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
        });
        by_webhook.insert(key.clone(), health.clone());
        health
    }

    /// The webhook as it was a moment ago.
    pub async fn hook(&self, key: &HookKey, health: &EndpointHealth) -> Result<Option<Hook>, StoreError> {
        if let Some((hook, at)) = &*locked(&health.known)
            && at.elapsed() < CACHE_TIME
            // Somebody may have repaired or enabled one that fails just now.
            && hook.is_well()
        {
            return Ok(Some(hook.clone()));
        }
        let asked = Instant::now();
        let found = self.store.read_webhook(key).await?;
        *locked(&health.known) = found.clone().map(|hook| (hook, asked));
        Ok(found)
    }

    /// Waits for the webhook's turn, unless it fails or is slow: then only a few jobs try, and the others make
    /// room at once and come back later.
    pub async fn turn(&self, health: &EndpointHealth) -> Result<OwnedSemaphorePermit, Busy> {
        let failing = health.failing.load(Ordering::Relaxed);
        let share = if failing { (self.each / 2).max(1) } else { 1 };
        if let Ok(turn) = health.turns.clone().try_acquire_many_owned(share) {
            return Ok(turn);
        }
        if failing || locked(&health.ended).elapsed() > SLOW_AFTER {
            return Err(Busy(1_000));
        }
        let waiting = health.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = match waiting < MAX_WAITING_JOBS {
            true => {
                timeout(TURN_TIMEOUT, health.turns.clone().acquire_owned()).await.ok().and_then(Result::ok)
            }
            false => None,
        };
        health.waiting.fetch_sub(1, Ordering::Relaxed);
        turn.ok_or(Busy(50))
    }

    /// A delivery worked.
    pub async fn worked(&self, key: &HookKey, health: &EndpointHealth, now: Millis) {
        *locked(&health.ended) = Instant::now();
        health.failing.store(false, Ordering::Relaxed);
        let troubled = locked(&health.known)
            .as_ref()
            .is_some_and(|(hook, _)| hook.last_error.is_some() || hook.failing_since.is_some());
        if troubled {
            let clear = |hook: &Hook| Hook { last_error: None, failing_since: None, ..hook.clone() };
            self.change(key, health, clear, now).await;
        }
    }

    /// A delivery did not work, for this reason. True when the webhook is disabled by now.
    pub async fn failed(
        &self,
        key: &HookKey,
        health: &EndpointHealth,
        why: &str,
        trouble: Trouble,
        now: Millis,
    ) -> bool {
        *locked(&health.ended) = Instant::now();
        health.failing.store(trouble == Trouble::Failed, Ordering::Relaxed);
        let disable = trouble == Trouble::Gone;
        let since = locked(&health.known).as_ref().and_then(|(hook, _)| hook.failing_since);
        let failing_for = since.map_or(0, |since| now.since(Millis(since)));
        let given_up = self.disable_after_ms > 0 && failing_for >= self.disable_after_ms;
        let disable = disable || given_up;
        let reported = locked(&health.reported).is_some_and(|reported| reported.elapsed() < REPEAT_INTERVAL);
        if reported && !disable {
            return false;
        }
        *locked(&health.reported) = Some(Instant::now());
        let text = match given_up {
            true => format!(
                "disabled, because nothing has worked for {} s; the last time {why}",
                failing_for / 1_000
            ),
            false => why.to_owned(),
        };
        let fault = HookFault { at: now.0, text: text.clone() };
        let tell = |hook: &Hook| Hook {
            last_error: Some(fault.clone()),
            failing_since: hook.failing_since.or(Some(now.0)),
            state: if disable { HookState::Disabled } else { hook.state },
            ..hook.clone()
        };
        let changed = self.change(key, health, tell, now).await;
        if disable && changed {
            self.metrics.webhook_disabled.inc();
            let (feed, webhook) = (&key.scope, &key.name);
            tracing::error!(%feed, %webhook, "a webhook is disabled until it is set again: {text}");
        }
        disable
    }

    /// Changes a webhook in the store. That may fail: what is shown of it may be late.
    async fn change(
        &self,
        key: &HookKey,
        health: &EndpointHealth,
        change: impl Fn(&Hook) -> Hook,
        now: Millis,
    ) -> bool {
        for _ in 0..3 {
            let known = locked(&health.known).as_ref().map(|(hook, _)| hook.clone());
            let Some(hook) = known else { return false };
            let to = Hook { version: hook.version + 1, ..change(&hook) };
            let swapped = self.store.swap_webhook(key, Some(hook.version), Some(to.clone()), now).await;
            match swapped {
                Ok(Swapped::Done) => {
                    *locked(&health.known) = Some((to, Instant::now()));
                    return true;
                }
                Ok(Swapped::Stale) => {
                    *locked(&health.known) = None;
                    if self.hook(key, health).await.is_err() {
                        return false;
                    }
                }
                Ok(Swapped::Full) | Err(_) => return false,
            }
        }
        false
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
