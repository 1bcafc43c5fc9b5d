//! An engine in memory whose moods a test sets, and requests against the whole application.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use actix_web::body::to_bytes;
use actix_web::http::Method;
use actix_web::test::{TestRequest, init_service, try_call_service};
use actix_web::{HttpResponse, web};
use serde_json::Value;

use super::{Gate, Limits, Readiness, app};
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::feed::Effects;
use crate::domain::{
    Cancelled, Claim, Claimed, Confirmed, Defined, DropId, DropSpec, DropView, DuePlace, FeedId, FeedState,
    Gift, GiftId, Hold, HoldId, Millis, Outcome, Part, Policy, Position, RowId, Scheduled, Trace, due_at,
};
use crate::engine::presence::Attendance;
use crate::engine::{
    DeadDue, DropStore, DueDone, DueRun, DueStore, DueTurn, Engine, EngineError, FeedStore, Head, Missed,
    Notices, PolicyChange, ScheduledGift, ScheduledPage, Shards, Snapshot, Subscription, Unscheduled, Wait,
    Wakes,
};
use crate::live::Live;

mod moderation;
mod reports;
mod totals;

/// How the engine answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Fine,
    Down,
    Full,
    Silent,
    Broken,
}

#[derive(Default)]
struct Feed {
    state: FeedState,
    known: HashMap<GiftId, Remembered>,
    later: Vec<ScheduledGift>,
}

/// Gifts that may wait.
const SCHEDULED_MAX: usize = 3;

impl Feed {
    fn take(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> Outcome {
        if let Some(first) = self.known.get(&gift.id) {
            return first.clone().again(gift.fingerprint);
        }
        let id = gift.id.clone();
        let mut effects = Effects::default();
        let (outcome, fate) = match due_at(gift, policy, now) {
            Some(_) if self.later.len() == SCHEDULED_MAX => {
                return Outcome::TooManyScheduled { id, retry_in_ms: 2_001 };
            }
            Some(at) => {
                let place = DuePlace { at, order: self.known.len() as u64 };
                self.later.push(ScheduledGift { place, gift: gift.clone() });
                self.later.sort_by_key(|it| it.place);
                let it = Scheduled { id, deliver_at: at };
                (Outcome::Scheduled(it.clone()), GiftFate::Waits(it))
            }
            None => {
                let answer = self.state.publish(gift, policy, now, &mut effects);
                (Outcome::New(answer.clone()), GiftFate::Taken(answer))
            }
        };
        let part = effects.part.map_or(Part::Unknown, Part::Added);
        self.known.insert(
            gift.id.clone(),
            Remembered { fingerprint: gift.fingerprint, fate, part, decided: None, counted: None },
        );
        outcome
    }
}

/// [`FeedState`] and nothing else: no history, no durability, no watchers, and nothing is ever due.
#[derive(Default)]
pub(super) struct MemoryEngine {
    feeds: Mutex<HashMap<FeedId, Feed>>,
    mood: Mutex<Mood>,
    attendance: Attendance,
    /// Rankings that were read so far.
    pub(super) rankings: AtomicU64,
}

impl MemoryEngine {
    pub(super) fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        feed: &'a FeedId,
        act: impl FnOnce(&mut Feed, &Policy) -> T + Send + 'a,
    ) -> Wait<'a, T> {
        Box::pin(async move {
            let mood = *self.mood.lock().unwrap();
            match mood {
                Mood::Fine => {}
                Mood::Down => return Err(EngineError::Unavailable("secret-host refused".into())),
                Mood::Full => return Err(EngineError::Overloaded("queue")),
                Mood::Silent => std::future::pending().await,
                Mood::Broken => panic!("secret panic"),
            }
            let mut feeds = self.feeds.lock().unwrap();
            let feed = feeds.entry(feed.clone()).or_default();
            let policy = Policy::default().with(&feed.state.overrides);
            Ok(act(feed, &policy))
        })
    }
}

impl FeedStore for MemoryEngine {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        self.step(feed, move |feed, policy| gifts.iter().map(|gift| feed.take(gift, policy, now)).collect())
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        self.step(feed, move |feed, policy| {
            let found = feed.state.retract(row, policy, now, &mut Effects::default());
            found.then(|| feed.state.position())
        })
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        self.step(feed, |_, policy| policy.clone())
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        self.step(feed, move |feed, _| {
            let overrides = match change {
                PolicyChange::Replace(patch) => feed.state.overrides.replaced(&patch),
                PolicyChange::Merge(patch) => feed.state.overrides.merged(&patch),
            };
            feed.state.set_policy(overrides, &Policy::default(), now, &mut Effects::default())
        })
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        self.step(feed, move |feed, policy| Snapshot {
            at: feed.state.position(),
            tag: 0,
            policy: policy.clone(),
            rows: feed.state.list.rows.iter().cloned().collect(),
            drops: feed.state.list.drops.clone(),
            controls: feed.state.list.controls,
            totals: feed.state.list.totals.clone(),
            goals: feed.state.list.goals.clone(),
            now,
        })
    }

    fn changes<'a>(&'a self, _: &'a FeedId, _: &'a Position, _: usize) -> Wait<'a, Missed> {
        Box::pin(async { Ok(Missed::NotCovered) })
    }

    fn heads<'a>(&'a self, _: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn subscribe<'a>(&'a self, _: &'a FeedId) -> Wait<'a, Subscription> {
        Box::pin(async { Ok(Notices::default().subscribe()) })
    }

    fn known(&self, _: &FeedId) -> Option<Position> {
        None
    }
}

impl DueStore for MemoryEngine {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        self.step(feed, move |feed, _| {
            let rest = feed.later.iter().filter(|it| after.is_none_or(|after| it.place > after));
            let gifts: Vec<_> = rest.clone().take(max).cloned().collect();
            let next = gifts.last().map(|it| it.place).filter(|_| rest.count() > max);
            ScheduledPage { gifts, next }
        })
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, _: Millis) -> Wait<'a, Unscheduled> {
        self.step(feed, move |feed, _| match feed.later.iter().position(|it| it.gift.id == *id) {
            Some(at) => Unscheduled::Cancelled(feed.later.remove(at).place.at),
            None => match feed.known.get(id) {
                Some(Remembered { fate: GiftFate::Taken(_), .. }) => Unscheduled::Shown,
                _ => Unscheduled::Unknown,
            },
        })
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        self.step(feed, |_, _| Vec::new())
    }

    fn claim_due(&self, _: Vec<DueDone>, _: usize, _: Millis) -> Wait<'_, DueTurn> {
        Box::pin(async { Ok(DueTurn::default()) })
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, _: Millis) -> Wait<'a, DueRun> {
        self.step(feed, |_, _| DueRun::default())
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(Wakes::sender().subscribe())
    }
}

impl Engine for MemoryEngine {
    fn probe(&self) -> Wait<'_, Shards> {
        Box::pin(async { Ok(Shards::WHOLE) })
    }

    fn probe_feed<'a>(&'a self, _: &'a FeedId) -> Wait<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Wait<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

/// No drops: `tests/it` has them on real engines.
impl DropStore for MemoryEngine {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        _: &'a DropId,
        _: DropSpec,
        _: Millis,
    ) -> Wait<'a, Defined> {
        self.step(feed, |_, _| Defined::Full)
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, _: &'a DropId, _: Millis) -> Wait<'a, Option<DropView>> {
        self.step(feed, |_, _| None)
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, _: Millis) -> Wait<'a, Vec<DropView>> {
        self.step(feed, |_, _| Vec::new())
    }

    fn claim<'a>(&'a self, feed: &'a FeedId, _: &'a DropId, _: Claim, _: Millis) -> Wait<'a, Claimed> {
        self.step(feed, |_, _| Claimed::Refused(crate::domain::ClaimRefused::UnknownDrop))
    }

    fn confirm<'a>(
        &'a self,
        feed: &'a FeedId,
        _: &'a HoldId,
        _: Option<Trace>,
        _: Millis,
    ) -> Wait<'a, Confirmed> {
        self.step(feed, |_, _| Confirmed::Unknown)
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, _: &'a HoldId, _: Millis) -> Wait<'a, Cancelled> {
        self.step(feed, |_, _| Cancelled::Unknown)
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, _: &'a str, _: Millis) -> Wait<'a, Vec<Hold>> {
        self.step(feed, |_, _| Vec::new())
    }
}

/// The application in front of a [`MemoryEngine`].
pub(super) struct Bench {
    pub(super) engine: Arc<MemoryEngine>,
    gate: web::Data<Gate>,
}

/// An answer, read whole.
pub(super) struct Told {
    pub(super) status: u16,
    head: HttpResponse<()>,
    pub(super) text: String,
}

impl Told {
    pub(super) fn header(&self, name: &str) -> &str {
        self.head.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The problem's name, after checking that it is one.
    pub(super) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        assert_eq!(self.json()["status"], self.status);
        self.json()["type"].as_str().unwrap().trim_start_matches("/problems/").to_owned()
    }

    pub(super) fn pointers(&self) -> Vec<String> {
        let problem = self.json();
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|e| e["pointer"].as_str().unwrap().to_owned()).collect()
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        let engine = Arc::new(MemoryEngine::default());
        let live = Live::start(engine.clone(), Arc::default(), Arc::default());
        let gate = Gate::new(engine.clone(), live, Arc::new(Readiness::default()), Limits::default());
        Bench { engine, gate: web::Data::new(gate) }
    }

    /// As a program of the same machine: there are no keys.
    pub(super) async fn send(&self, request: TestRequest) -> Told {
        let request = request.peer_addr(([127, 0, 0, 1], 9).into()).insert_header(("Host", "127.0.0.1:8080"));
        let service = init_service(app(self.gate.clone())).await;
        let answer = match try_call_service(&service, request.to_request()).await {
            Ok(answer) => answer.into_parts().1.map_into_boxed_body(),
            Err(error) => error.error_response(),
        };
        let (head, body) = answer.into_parts();
        let text = String::from_utf8(to_bytes(body).await.unwrap_or_default().to_vec()).unwrap();
        Told { status: head.status().as_u16(), head, text }
    }

    pub(super) async fn probe(&self) {
        assert!(self.gate.ready.probe(&*self.engine).await);
    }

    pub(super) async fn get(&self, path: &str) -> Told {
        self.send(TestRequest::get().uri(path)).await
    }

    /// A request with a JSON body.
    pub(super) async fn json(&self, method: Method, path: &str, body: &str) -> Told {
        let request = TestRequest::default().method(method).uri(path);
        self.send(request.insert_header(("Content-Type", "application/json")).set_payload(body.to_owned()))
            .await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Told {
        self.json(Method::POST, path, body).await
    }
}

/// Somebody without a token in front of a gate that nobody else uses.
pub(super) fn watcher() -> super::watch::Watcher {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    super::watch::Watcher::new(Bench::new().gate.into_inner(), super::door::Identity::Nobody, None)
}

/// A gift of one user and kind.
pub(super) fn gift(id: &str) -> String {
    format!(r#"{{"id":"{id}","user":{{"id":"u","name":"U"}},"gift":{{"id":"g","name":"G"}}}}"#)
}
