//! Nodes that die: between any two steps of a delivery, and by kill -9 at any moment.

use std::sync::atomic::{AtomicUsize, Ordering};

use tipcast::domain::{Ask, Cursor, GroupId, GroupView, HookId, Job, Reader, Replay, Taken};
use tipcast::engine::{
    EngineError, JobDone, JobStore, JobTurn, LedgerStore, Save, Wait, Wakes, Want, WebhookStore, Work,
};

use super::*;
use crate::support::app::Backing;
use crate::support::dice::Dice;
use crate::support::process::Process;
use crate::support::receiver::{OK, Reply};

on_both![a_node_that_dies_between_any_two_steps_loses_nothing];

/// The store as a node sees it that dies with one of its calls: that one fails, before or after the store has
/// done it, and so do all that follow.
struct Mortal {
    store: Arc<dyn Engine>,
    /// Calls up to and with the last one.
    left: AtomicUsize,
    /// Whether the store still does the last one.
    done: bool,
}

impl Mortal {
    fn call<'a, T: Send + 'a>(&'a self, call: Wait<'a, T>) -> Wait<'a, T> {
        Box::pin(async move {
            let dead = || Err(EngineError::Unavailable("this node is dead".into()));
            let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match left {
                Ok(1) if self.done => {
                    call.await?;
                    dead()
                }
                Ok(2..) => call.await,
                _ => dead(),
            }
        })
    }
}

impl LedgerStore for Mortal {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        self.store.take(feed, group, ask, now)
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        self.store.ack(feed, group, cursors, now)
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        self.store.nack(feed, group, cursors, now)
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        self.store.group(feed, group, now)
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        self.store.delete_group(feed, group)
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        self.store.readers(feed)
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        self.store.letters(feed, reader)
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        self.store.replay(feed, reader, which, now)
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        self.store.letter_feeds(hook)
    }
}

impl WebhookStore for Mortal {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        self.call(self.store.hook(key))
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        self.store.hooks()
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> Wait<'a, Swapped> {
        self.call(self.store.swap_hook(key, was, to, now))
    }
}

impl JobStore for Mortal {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        self.call(self.store.claim_jobs(over, max, lease_ms, now))
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        self.call(self.store.open_job(job, want, now))
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        self.call(self.store.save_job(job, save, want, now))
    }

    fn job_wakes(&self) -> Wakes {
        self.store.job_wakes()
    }
}

/// Every point of a delivery at which a node can die, before and after the store has done what it was asked.
async fn a_node_that_dies_between_any_two_steps_loses_nothing(store: Store) {
    const CALLS: usize = 9;
    let engine = store.open().await;
    let receiver = Receiver::start().await;
    let feeds: Vec<(String, usize, bool)> = (1..=CALLS)
        .flat_map(|calls| [false, true].map(|done| (format!("f{calls}-{done}"), calls, done)))
        .collect();
    let options = ReportOptions {
        allow_private: true,
        timeout: Duration::from_millis(300),
        ..ReportOptions::default()
    };
    let metrics = || Arc::new(Metrics::default());
    for (feed, calls, done) in &feeds {
        // One after the other, so that each node's only job is that of its feed.
        set(&*engine, &key(feed, "game"), HookSpec { batch_max: 3, ..spec(receiver.url(feed)) }).await;
        let gifts = ids(&format!("{feed}-"), 7).iter().map(|id| gift(id).by(id).parse()).collect();
        let mortal = Arc::new(Mortal { store: engine.clone(), left: (*calls).into(), done: *done });
        let mut wakes = engine.job_wakes();
        engine.publish(&named(feed), gifts, Millis::now()).await.unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(200), wakes.next()).await;
        let dying =
            ReportLoop::start(mortal.clone(), metrics(), Arc::default(), options, &Default::default())
                .unwrap();
        let since = Instant::now();
        while mortal.left.load(Ordering::SeqCst) > 0 && since.elapsed() < Duration::from_secs(3) {
            sleep(Duration::from_millis(5)).await;
        }
        drop(dying);
    }
    let _heir =
        ReportLoop::start(engine.clone(), metrics(), Arc::default(), options, &Default::default()).unwrap();
    receiver.wait_for_gifts(7 * feeds.len()).await;
    let got = receiver.got();
    for (feed, ..) in &feeds {
        let mut seen = std::collections::HashMap::new();
        let mut order = vec![];
        for delivery in got.iter().filter(|it| it.feed() == feed.as_str()) {
            let again = seen.insert(delivery.id.clone(), delivery.body.clone());
            assert!(again.is_none_or(|body| body == delivery.body), "a repeated id repeats its batch");
            order.extend(delivery.gifts());
        }
        let mut kept = std::collections::HashSet::new();
        order.retain(|id| kept.insert(id.clone()));
        assert_eq!(order, ids(&format!("{feed}-"), 7), "order is kept");
    }
}

/// Posts, is killed, comes back, again and again; the endpoint fails now and then, too.
async fn is_killed_at_random_moments(backing: Backing, kills: usize) {
    let mut dice = Dice(7);
    let mut count = 0_u64;
    let receiver = Receiver::that(move |_| {
        count += 1;
        match count % 9 {
            4 => Reply::Status(503, "retry-after: 1"),
            _ => OK,
        }
    })
    .await;
    let env = || {
        let own = [("TIPCAST_WEBHOOKS__ALLOW_PRIVATE", "true"), ("TIPCAST_WEBHOOKS__TIMEOUT_MS", "500")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        backing.env().into_iter().chain(own).collect::<Vec<_>>()
    };
    let start = || Process::start("127.0.0.1:0", backing.args(), env());
    let mut gateway = start();
    let hook = json!({"url": receiver.url("game"), "secret": SECRET, "batch_max": 8, "batch_ms": 5});
    let said = gateway.call("PUT", "/v1/feeds/*/webhooks/game", Some(&hook.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
    let mut acknowledged = vec![];
    for round in 0..kills {
        let enough = dice.below(12) + 1;
        for n in 0..enough {
            let id = format!("r{round}-{n}");
            let feed = format!("f{}", dice.below(3));
            let (path, body) = (format!("/v1/feeds/{feed}/gifts"), gift(&id).by(&id).json().to_string());
            let said = gateway.call("POST", &path, Some(&body)).await;
            assert!(matches!(said.status, 200 | 201), "{said:?}");
            acknowledged.push((feed, id));
        }
        sleep(Duration::from_millis(dice.below(40))).await;
        gateway.kill();
        gateway = start();
    }
    receiver.wait_for_gifts(acknowledged.len()).await;
    let mut seen = std::collections::HashSet::new();
    let mut arrived: std::collections::HashMap<String, Vec<String>> = Default::default();
    for delivery in receiver.got().iter().filter(|it| it.accepted) {
        let new = delivery.gifts().into_iter().filter(|id| seen.insert(id.clone()));
        arrived.entry(delivery.feed().to_owned()).or_default().extend(new);
    }
    for feed in ["f0", "f1", "f2"] {
        let wanted: Vec<_> = acknowledged.iter().filter(|it| it.0 == feed).map(|it| it.1.clone()).collect();
        assert_eq!(arrived.get(feed).cloned().unwrap_or_default(), wanted, "{feed}, in order");
    }
}

/// How many times the gateway is killed; more by hand.
fn kills() -> usize {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(50)
}

#[tokio::test]
async fn nothing_is_lost_when_the_gateway_is_killed_on_a_folder() {
    is_killed_at_random_moments(Backing::folder(), kills()).await;
}

#[tokio::test]
async fn nothing_is_lost_when_the_gateway_is_killed_on_redis() {
    is_killed_at_random_moments(Backing::redis(), kills()).await;
}
