//! Nodes that die: between any two steps of a delivery, and by kill -9 at any moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tipcast::engine::StoreError;
use tipcast::engine::test_store::{Interception, Interceptor};
use tipcast::metrics::labels;

use super::*;
use crate::support::app::Backing;
use crate::support::dice::Dice;
use crate::support::process::Process;
use crate::support::receiver::{OK, Reply};

on_both![a_node_that_dies_between_any_two_steps_loses_nothing];

/// The store as a node sees it that dies with one of its calls: that one fails, before or after the store has
/// done it, and so do all that follow.
struct Mortal {
    /// Calls up to and with the last one.
    left: AtomicUsize,
    /// Whether the store still does the last one.
    done: bool,
    /// The last one is under way, and is still done.
    dies_after: AtomicBool,
}

impl Interceptor for Mortal {
    fn before(&self, operation: labels::Operation) -> Interception<'_> {
        if !is_counted(operation) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let is_dead = match left {
            Ok(1) => {
                self.dies_after.store(self.done, Ordering::SeqCst);
                !self.done
            }
            Ok(_) => false,
            Err(_) => true,
        };
        Box::pin(std::future::ready(if is_dead { Err(dead()) } else { Ok(()) }))
    }

    fn after(&self, _: labels::Operation) -> Interception<'_> {
        let is_dead = self.dies_after.swap(false, Ordering::SeqCst);
        Box::pin(std::future::ready(if is_dead { Err(dead()) } else { Ok(()) }))
    }
}

fn dead() -> StoreError {
    StoreError::Unavailable("this node is dead".into())
}

/// Whether a delivery makes this operation.
fn is_counted(operation: labels::Operation) -> bool {
    matches!(
        operation,
        labels::Operation::Hooks
            | labels::Operation::ClaimJobs
            | labels::Operation::OpenJob
            | labels::Operation::SaveJob
    )
}

/// Every point of a delivery at which a node can die, before and after the store has done what it was asked.
async fn a_node_that_dies_between_any_two_steps_loses_nothing(store: Storage) {
    const CALLS: usize = 9;
    let engine = store.open_store().await;
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
        set(&engine, &key(feed, "game"), HookSpec { batch_max: 3, ..spec(receiver.url(feed)) }).await;
        let gifts = ids(&format!("{feed}-"), 7).iter().map(|id| gift(id).by(id).parse()).collect();
        let mortal = Arc::new(Mortal { left: (*calls).into(), done: *done, dies_after: false.into() });
        let mut wakes = engine.job_wakes();
        engine.publish(&named(feed), gifts, Millis::now()).await.unwrap();
        let _ = tokio::time::timeout(Duration::from_millis(200), wakes.next()).await;
        let dying = ReportLoop::start(
            engine.clone().intercepted(mortal.clone()),
            metrics(),
            Arc::default(),
            options,
            &Default::default(),
        )
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
