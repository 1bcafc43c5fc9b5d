//! What subscribers get.

use serde_json::json;
use tipcast::domain::{Change, Policy};
use tipcast::engine::{Notice, StoreError, Subscription};

use crate::support::case::{Case, PATIENCE, fresh_feed};
use crate::support::gifts::gift;
use crate::support::stores::Storage;

on_every_engine![
    every_subscriber_gets_every_change_in_order,
    a_subscriber_hears_only_its_feed,
    a_subscriber_is_told_the_policy,
    a_subscription_can_be_dropped_and_taken_again,
    one_call_is_one_notice,
    acknowledged_positions_are_known,
    a_probe_comes_back,
    a_closed_engine_refuses,
];

async fn next(subscription: &mut Subscription) -> Notice {
    tokio::time::timeout(PATIENCE, subscription.next()).await.expect("a notice in time").expect("open")
}

async fn changes(subscription: &mut Subscription, until: u64) -> Vec<Change> {
    let mut seen: Vec<Change> = vec![];
    while seen.last().is_none_or(|change| change.seq < until) {
        match next(subscription).await {
            Notice::Changes(changes) => seen.extend(changes.iter().cloned()),
            Notice::Policy => {}
            Notice::Lost => panic!("nothing was lost"),
        }
    }
    seen
}

async fn every_subscriber_gets_every_change_in_order(mut t: Case) {
    let mut early = t.engine.subscribe(&t.feed).await.unwrap();
    t.accepted(gift("g1")).await;
    let mut late = t.engine.subscribe(&t.feed).await.unwrap();
    t.merged(gift("g2")).await;
    t.post_all((3..20).map(|n| gift(&format!("g{n}")))).await;
    let (all, some) = (changes(&mut early, 19).await, changes(&mut late, 19).await);
    let seqs: Vec<_> = all.iter().map(|change| change.seq).collect();
    assert_eq!(seqs, (1..=19).collect::<Vec<_>>());
    // What was being sent while `late` came may reach it too.
    assert!(some.ends_with(&all[1..]), "{some:?}");
}

async fn a_subscriber_hears_only_its_feed(mut t: Case) {
    let elsewhere = fresh_feed();
    let mut other = t.engine.subscribe(&elsewhere).await.unwrap();
    t.accepted(gift("g1")).await;
    t.engine.publish(&elsewhere, vec![gift("mine").parse()], t.now).await.unwrap();
    let heard = changes(&mut other, 1).await;
    assert_eq!(heard.len(), 1);
    assert_ne!(heard[0].epoch, t.replica.at.epoch);
}

async fn a_subscriber_is_told_the_policy(mut t: Case) {
    let mut subscription = t.engine.subscribe(&t.feed).await.unwrap();
    t.patch(json!({"flush_ms": 7})).await;
    loop {
        if let Notice::Policy = next(&mut subscription).await {
            let policy = t.engine.read_policy(&t.feed).await.unwrap();
            break assert_eq!(policy, Policy { flush_ms: 7, ..Policy::default() });
        }
    }
}

async fn a_subscription_can_be_dropped_and_taken_again(mut t: Case) {
    for n in 0..5 {
        let mut subscription = t.engine.subscribe(&t.feed).await.unwrap();
        t.accepted(gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        assert_eq!(changes(&mut subscription, n + 1).await.last().unwrap().seq, n + 1);
    }
}

async fn one_call_is_one_notice(mut t: Case) {
    let mut subscription = t.engine.subscribe(&t.feed).await.unwrap();
    t.post_all((0..5).map(|n| gift(&format!("g{n}")))).await;
    t.accepted(gift("other").by("bob")).await;
    let mut sizes = vec![];
    while sizes.iter().sum::<usize>() < 6 {
        if let Notice::Changes(changes) = next(&mut subscription).await {
            sizes.push(changes.len());
        }
    }
    assert_eq!(sizes.last(), Some(&1), "no more than one call made: {sizes:?}");
}

async fn acknowledged_positions_are_known(mut t: Case) {
    let at = t.accepted(gift("g1")).await.at;
    assert_eq!(t.engine.known(&t.feed), Some(at));
    let at = t.merged(gift("g2")).await.at;
    assert_eq!(t.engine.known(&t.feed), Some(at));
}

async fn a_probe_comes_back(t: Case) {
    t.engine.probe_store().await.unwrap();
}

async fn a_closed_engine_refuses(mut t: Case) {
    if matches!(t.store, Storage::Model(_)) {
        return;
    }
    t.accepted(gift("g1")).await;
    t.engine.close().await;
    let refused = |error: StoreError| matches!(error, StoreError::Unavailable(_));
    assert!(refused(t.engine.publish(&t.feed, vec![gift("g2").parse()], t.now).await.unwrap_err()));
    assert!(refused(t.engine.read_snapshot(&t.feed, t.now).await.unwrap_err()));
    assert!(refused(t.engine.probe_store().await.unwrap_err()));
}
