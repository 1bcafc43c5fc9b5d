//! Several nodes on one Redis, some of which die.

use std::time::{Duration, Instant};

use tipcast::domain::{GiftId, Millis};
use tipcast::engine::DueDone;
use tipcast::work::due::{DueLoop, DueOptions};

use super::*;
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

fn gifts(count: usize, ms: impl Fn(usize) -> u64) -> Vec<GiftSpec> {
    (0..count).map(|n| later(&format!("g{n:04}"), ms(n))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_show_every_gift_once_and_in_order() {
    let corner = Corner::new();
    let (a, b) = (node(&corner).await, node(&corner).await);
    roomy(&a).await;
    let loops = [&a, &b].map(|node| DueLoop::start(node.clone(), DueOptions::default(), &Default::default()));
    let all = gifts(90, |n| 100 + n as u64 * 5);
    schedule(&a, &all[..50]).await;
    schedule(&b, &all[50..]).await;
    wait_for_seq(&a, 90).await;
    let users = shown(&a).await;
    assert_eq!(users.len(), 90);
    for work in loops {
        work.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gift_scheduled_on_one_node_is_shown_by_another() {
    let corner = Corner::new();
    let (deaf, works) = (node(&corner).await, node(&corner).await);
    let work =
        DueLoop::start(works, DueOptions { longest_sleep: Duration::from_secs(60) }, &Default::default());
    // Until the loop has looked once, so that it sleeps.
    schedule(&deaf, &[later("far", 600_000)]).await;
    schedule(&deaf, &[later("g1", 200)]).await;
    let took = wait_for_seq(&deaf, 1).await;
    assert!(took < Duration::from_secs(5), "woken over Redis, not after its sleep: {took:?}");
    work.stop().await;
}

/// Every place at which a node can die between taking a turn and giving it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_anywhere_in_its_turn_loses_and_repeats_nothing() {
    for point in ["after it took the turn", "in the middle of the work", "before it gave the turn back"] {
        let corner = Corner::new();
        let (victim, survivor) = (node(&corner).await, node(&corner).await);
        roomy(&victim).await;
        schedule(&victim, &gifts(90, |_| 1)).await;
        let turn = loop {
            let turn = victim.claim_due(vec![], 10, Millis::now()).await.unwrap();
            if !turn.feeds.is_empty() {
                break turn;
            }
        };
        let taken = survivor.claim_due(vec![], 10, Millis::now()).await.unwrap();
        assert!(taken.feeds.is_empty(), "a turn is one node's");
        let runs = ["after it took the turn", "in the middle of the work"].iter().position(|p| *p == point);
        for _ in 0..runs.unwrap_or(2) {
            victim.run_due(&feed(), Millis::now()).await.unwrap();
        }
        drop((victim, turn));
        let work = DueLoop::start(
            survivor.clone(),
            DueOptions { longest_sleep: Duration::from_secs(60) },
            &Default::default(),
        );
        let took = wait_for_seq(&survivor, 90).await;
        assert!(took < Duration::from_secs(3), "{point}: {took:?}");
        let users = shown(&survivor).await;
        assert!(users.is_sorted() && users.len() == 90, "{point}: {users:?}");
        work.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_given_back_late_does_not_hide_what_came_meanwhile() {
    let corner = Corner::new();
    let (slow, quick) = (node(&corner).await, node(&corner).await);
    schedule(&slow, &[later("g1", 1)]).await;
    let token = loop {
        if let Some(it) = slow.claim_due(vec![], 10, Millis::now()).await.unwrap().feeds.pop() {
            break it.token;
        }
    };
    // A turn may come a moment before the entry's time.
    let run = loop {
        let run = slow.run_due(&feed(), Millis::now()).await.unwrap();
        if !run.handled.is_empty() {
            break run;
        }
    };
    assert_eq!((run.handled.len(), run.next), (1, None));
    // It saw an empty queue; now something comes.
    schedule(&quick, &[later("g2", 50)]).await;
    let over = DueDone { feed: feed(), token, next: None };
    slow.claim_due(vec![over.clone()], 0, Millis::now()).await.unwrap();
    let work = DueLoop::start(
        quick.clone(),
        DueOptions { longest_sleep: Duration::from_secs(60) },
        &Default::default(),
    );
    wait_for_seq(&quick, 2).await;
    // Said again much later it changes nothing either.
    schedule(&quick, &[later("g3", 300)]).await;
    slow.claim_due(vec![over], 0, Millis::now()).await.unwrap();
    wait_for_seq(&quick, 3).await;
    // Nothing is left in the index once nothing that was announced can still come.
    let since = Instant::now();
    while quick.claim_due(vec![], 0, Millis::now()).await.unwrap().waiting > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "the feed stays in the index");
        sleep(Duration::from_millis(20)).await;
    }
    work.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_a_show_at_the_same_time_have_one_winner() {
    let corner = Corner::new();
    let (a, b) = (node(&corner).await, node(&corner).await);
    roomy(&a).await;
    let all = gifts(60, |n| 20 + n as u64 * 3);
    schedule(&a, &all).await;
    let work = DueLoop::start(a.clone(), DueOptions::default(), &Default::default());
    let mut cancelled = vec![];
    for n in 0..60 {
        let id: GiftId = format!("g{n:04}").parse().unwrap();
        sleep(Duration::from_millis(3)).await;
        if let tipcast::engine::Unscheduled::Cancelled(_) =
            b.cancel_scheduled(&feed(), &id, Millis::now()).await.unwrap()
        {
            cancelled.push(id.to_string());
        }
    }
    wait_for_seq(&a, 60 - cancelled.len() as u64).await;
    let users = shown(&a).await;
    assert!(users.iter().all(|user| !cancelled.contains(user)), "shown and cancelled");
    assert_eq!(users.len() + cancelled.len(), 60);
    work.stop().await;
}

/// Posts gifts that become due over a second and a half, in batches.
async fn post_load(api: &crate::support::api::Api, count: usize) {
    for part in gifts(count, |n| 700 + n as u64).chunks(100) {
        let batch: Vec<_> = part.iter().map(GiftSpec::json).collect();
        let answer = api.post_batch("show", &batch).await.json();
        assert_eq!(answer["scheduled"], part.len(), "{answer:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_while_gifts_become_due_leaves_them_to_the_other() {
    let backing = Backing::redis();
    let survivor = TestApp::on(&backing).await;
    let mut victim = Process::on(&backing);
    survivor.patch_policy("show", json!({"dedup": "off", "capacity": 100, "history": 100_000})).await;
    let mut watcher = survivor.watch("show").await;
    post_load(&victim, 1_000).await;
    watcher.wait_until("some of them", |fold| fold.seq() >= 300).await;
    victim.kill();
    watcher.wait_until("all of them", |fold| fold.seq() >= 1_000).await;
    assert_eq!(survivor.get_feed("show").await["seq"], 1_000, "once each");
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.snapshots, 2, "the empty list and the first gift; nothing was lost on the way");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_on_a_folder_killed_while_gifts_become_due_shows_the_rest_when_it_is_back() {
    is_killed_while_gifts_become_due(Backing::folder()).await;
}

async fn is_killed_while_gifts_become_due(backing: Backing) {
    let mut gateway = Process::on(&backing);
    gateway.patch_policy("show", json!({"dedup": "off", "capacity": 100, "history": 100_000})).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    post_load(&gateway, 600).await;
    for stop in [100, 300] {
        watcher.wait_until("some of them", |fold| fold.seq() >= stop).await;
        gateway.kill();
        gateway = Process::on(&backing);
        watcher.api = crate::support::api::Api::clone(&gateway);
        watcher.reconnect().await;
    }
    watcher.wait_until("all of them", |fold| fold.seq() >= 600).await;
    assert_eq!(gateway.get_feed("show").await["seq"], 600, "once each");
    watcher.wait_for_the_list().await;
    let users: Vec<_> = watcher.fold.rows.iter().map(|row| row["user"]["id"].to_string()).collect();
    assert!(users.is_sorted_by(|newer, older| newer > older), "{users:?}");
}
