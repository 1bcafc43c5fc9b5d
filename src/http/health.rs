//! Is the process alive; can it do its work?

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderValue};
use actix_web::{HttpResponse, web};

use super::Gate;
use super::answers::{self, Liveness, ReadinessStatus, ShardCounts};
use super::problem::{ApiError, invalid};
use crate::domain::FeedId;
use crate::engine::{Shards, Store, StoreError};

/// A probe younger than this makes the server ready. With [`PROBE_SHARED`] and [`PROBE_TIMEOUT`] a healthy
/// but slow store stays green, and a lost one turns red within this time.
const PROBE_VALID: Duration = Duration::from_secs(3);
/// A request is answered by a probe that ended no longer ago than this; else there is another one first.
const PROBE_SHARED: Duration = Duration::from_millis(1_000);
/// After a failure the next probe comes sooner, so that green comes back soon.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
const PROBE_TIMEOUT: Duration = Duration::from_millis(1_900);

/// What the last probes through the store and back said.
#[derive(Debug)]
pub struct Readiness {
    state: Mutex<ProbeState>,
    /// Held by the probe that is under way.
    probing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct ProbeState {
    /// When the newest probe ended, whatever it said.
    over: Option<Instant>,
    /// When the newest successful probe came back.
    last: Option<Instant>,
    /// What it said.
    shards: Shards,
    /// Why the probe after it failed; `None` if it did not.
    failure: Option<String>,
    closing: bool,
    /// Whether requests are answered: before that nothing is logged as ready.
    serving: bool,
    /// Whether the log has said once that the server is ready.
    was_ready: bool,
}

impl ProbeState {
    /// Logs what changed between the probe before and this one. Called before `failure` is stored.
    fn log_change(&mut self, failure: Option<&str>) {
        match (self.was_ready, &self.failure, failure) {
            (false, _, None) if self.serving => {
                self.was_ready = true;
                tracing::info!("ready to serve");
            }
            (false, None, Some(why)) if self.serving => log_missing_store(why),
            (true, None, Some(why)) => tracing::warn!("the store is lost: {why}"),
            (true, Some(_), None) => tracing::info!("the store is back"),
            _ => {}
        }
    }
}

fn log_missing_store(why: &str) {
    tracing::warn!("waiting for the store: {why}. What needs it is answered 503 until it answers");
}

impl Default for Readiness {
    fn default() -> Self {
        Readiness {
            state: Mutex::new(ProbeState {
                over: None,
                last: None,
                shards: Shards::WHOLE,
                failure: None,
                closing: false,
                serving: false,
                was_ready: false,
            }),
            probing: tokio::sync::Mutex::default(),
        }
    }
}

impl Readiness {
    /// Probes `store` for ever, as often as it says. Logs when the store goes and when it comes back.
    pub async fn keep_probing(&self, store: &Store) {
        loop {
            let begun = Instant::now();
            let answered = self.probe(store).await;
            let pause =
                if answered { store.probe_every().saturating_sub(begun.elapsed()) } else { RETRY_INTERVAL };
            tokio::time::sleep(pause).await;
        }
    }

    /// One probe; true when it came back.
    pub(super) async fn probe(&self, store: &Store) -> bool {
        let _one_at_a_time = self.probing.lock().await;
        self.note(in_time(store.probe_store()).await, Instant::now())
    }

    /// Probes the store unless that was done a moment ago: what is answered next is no older. The first probe is left to
    /// [`Readiness::keep_probing`].
    pub(super) async fn refresh(&self, store: &Store) {
        if !self.is_stale() {
            return;
        }
        let _one_at_a_time = self.probing.lock().await;
        // Somebody else's probe may have been under way.
        if self.is_stale() {
            self.note(in_time(store.probe_store()).await, Instant::now());
        }
    }

    fn is_stale(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        !state.closing && state.over.is_some_and(|over| over.elapsed() >= PROBE_SHARED)
    }

    fn note(&self, probed: Result<Shards, String>, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(shards) = probed
            && std::mem::replace(&mut state.shards, shards).down != shards.down
        {
            tracing::warn!(up = shards.up, down = shards.down, "shards of the store that answer");
        }
        let failure = probed.err();
        state.log_change(failure.as_deref());
        state.over = Some(now);
        if failure.is_none() {
            state.last = Some(now);
        }
        state.failure = failure;
        state.failure.is_none()
    }

    /// Requests are answered from now on. Logs "ready to serve", or why that must wait for the store; the first probe
    /// that succeeds logs it then.
    pub fn start_serving(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.serving = true;
        match (&state.failure, state.last) {
            (Some(why), _) => log_missing_store(why),
            (None, Some(_)) => state.log_change(None),
            // The first probe is under way, and will say.
            (None, None) => {}
        }
    }

    /// From here on the server is not ready, whatever the store says.
    pub fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
    }

    fn is_closing(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closing
    }

    /// What the newest probe said, however long ago: what has not been needed since is not asked for.
    pub(super) fn newest(&self) -> Result<Shards, String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&state.failure, state.closing) {
            (_, true) => Err("the server is shutting down".to_owned()),
            (Some(why), _) => Err(why.clone()),
            (None, _) => Ok(state.shards),
        }
    }

    /// Which shards answer, or why the server is not ready at `now`.
    pub(super) fn verdict(&self, now: Instant) -> Result<Shards, String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closing {
            return Err("the server is shutting down".to_owned());
        }
        let age = state.last.map(|last| now.saturating_duration_since(last));
        match (age, &state.failure) {
            (Some(age), _) if age < PROBE_VALID => Ok(state.shards),
            (_, Some(why)) => Err(why.clone()),
            (None, None) => Err("the store has not answered yet".to_owned()),
            (Some(age), None) => Err(format!("the store has not answered for {} ms", age.as_millis())),
        }
    }
}

/// `GET /healthz`: the process lives, and every part of it that all feeds depend on.
pub(super) async fn alive(gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    gate.live.parts().alive().map_err(ApiError::PartDown)?;
    Ok(green(&Liveness { status: "alive" }))
}

/// What a probe said, or why it failed.
async fn in_time<T>(probe: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the store does not answer within {} ms", PROBE_TIMEOUT.as_millis())),
    }
}

/// Of which feed `/readyz` is asked.
#[derive(serde::Deserialize)]
pub(super) struct ReadyQuery {
    feed: Option<String>,
}

/// `GET /readyz`
pub(super) async fn ready(
    gate: web::Data<Gate>,
    asked: web::Query<ReadyQuery>,
) -> Result<HttpResponse, ApiError> {
    gate.ready.refresh(&gate.store).await;
    let mut shards = gate.is_ready(Instant::now());
    if let (Some(feed), false) = (&asked.feed, gate.ready.is_closing()) {
        gate.live.parts().working(Instant::now()).map_err(ApiError::NotReady)?;
        let feed: FeedId = feed.parse().map_err(|e| invalid(format!("feed: {e}")))?;
        shards = in_time(gate.store.probe_feed(&feed)).await.map(|()| Shards::WHOLE);
    }
    let shards = shards.map_err(ApiError::NotReady)?;
    let status = if shards.down == 0 { ReadinessStatus::Ready } else { ReadinessStatus::Degraded };
    let Shards { up, down } = shards;
    let shards = (up + down > 1).then_some(ShardCounts { up, down });
    let (engine, warning) = (gate.store.name(), gate.store.warning());
    Ok(green(&answers::Readiness { status, engine, shards, warning }))
}

fn green(answer: &impl serde::Serialize) -> HttpResponse {
    let mut answer = answers::json(StatusCode::OK, answer);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fresh_probe_is_ready_and_the_rest_says_why() {
        let ready = Readiness::default();
        let start = Instant::now();
        assert!(ready.verdict(start).unwrap_err().contains("not answered yet"));
        assert!(ready.note(Ok(Shards::WHOLE), start));
        assert_eq!(ready.verdict(start + Duration::from_millis(2_999)), Ok(Shards::WHOLE));
        assert!(ready.verdict(start + PROBE_VALID).is_err());
        assert!(!ready.note(Err("no route to redis".into()), start));
        assert_eq!(ready.verdict(start), Ok(Shards::WHOLE), "one lost probe is not a lost store");
        assert_eq!(ready.verdict(start + PROBE_VALID), Err("no route to redis".into()));
        ready.note(Ok(Shards::WHOLE), start + PROBE_VALID);
        assert_eq!(ready.verdict(start + PROBE_VALID), Ok(Shards::WHOLE));
        ready.close();
        assert!(ready.verdict(start + PROBE_VALID).unwrap_err().contains("shutting down"));
    }
}
