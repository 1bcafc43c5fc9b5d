//! The loop's step, called by hand.

use std::time::Duration;

use tipcast::domain::Millis;
use tipcast::engine::DUE_BATCH;
use tipcast::work::due::{DueOptions, DueWork, NextStep};

use super::later;
use crate::support::case::{Case, fresh_feed};

on_engines_that_count![
    a_step_says_when_to_come_back,
    a_step_never_sleeps_longer_than_it_may,
    steps_run_until_nothing_is_due,
    a_backlog_of_one_feed_does_not_keep_another_waiting,
];

const LONGEST: Duration = Duration::from_secs(10);

fn work(t: &Case) -> DueWork {
    DueWork::new(t.engine.store().clone(), DueOptions { longest_sleep: LONGEST })
}

async fn a_step_says_when_to_come_back(mut t: Case) {
    let mut work = work(&t);
    assert_eq!(work.step(t.now).await, Ok(NextStep::For(LONGEST)), "nothing waits");
    // Longer than Redis keeps looking for what was announced and has not come.
    t.scheduled(later("g1", 6_000)).await;
    assert_eq!(work.step(t.now).await, Ok(NextStep::For(Duration::from_millis(6_001))));
    t.pass(5_999);
    assert_eq!(work.step(t.now).await, Ok(NextStep::For(Duration::from_millis(2))));
    t.pass(1);
    assert_eq!(work.step(t.now).await, Ok(NextStep::No));
    assert_eq!(t.list().await.at.seq, 1);
    assert_eq!(work.step(t.now).await, Ok(NextStep::For(LONGEST)));
}

async fn a_step_never_sleeps_longer_than_it_may(mut t: Case) {
    t.scheduled(later("g1", 604_800_000)).await;
    assert_eq!(work(&t).step(t.now).await, Ok(NextStep::For(LONGEST)));
}

async fn steps_run_until_nothing_is_due(mut t: Case) {
    t.patch(serde_json::json!({"dedup": "off"})).await;
    let count = 3 * DUE_BATCH;
    for part in 0..3 {
        t.post_all((0..DUE_BATCH).map(|n| later(&format!("g{part}-{n}"), 10))).await;
    }
    t.pass(10);
    let mut work = work(&t);
    let mut steps = 0;
    while work.step(t.now).await.unwrap() == NextStep::No {
        steps += 1;
    }
    assert_eq!((t.list().await.at.seq, steps), (count as u64, 3));
}

async fn a_backlog_of_one_feed_does_not_keep_another_waiting(mut t: Case) {
    t.patch(serde_json::json!({"dedup": "off"})).await;
    for part in 0..4 {
        t.post_all((0..100).map(|n| later(&format!("g{part}-{n}"), 10))).await;
    }
    t.pass(500);
    let quiet = fresh_feed();
    t.engine.publish(&quiet, vec![later("q", 10).parse()], t.now).await.unwrap();
    t.pass(10);
    let mut work = work(&t);
    work.step(t.now).await.unwrap();
    let heads = t.engine.read_heads(&[quiet, t.feed.clone()]).await.unwrap();
    assert_eq!((heads[0].as_ref().unwrap().at.seq, heads[1].as_ref().unwrap().at.seq), (1, DUE_BATCH as u64));
    t.list().await;
}

#[tokio::test]
async fn a_store_that_is_away_is_an_error_and_nothing_is_lost() {
    let engine = crate::support::stores::Storage::embedded().open_store().await;
    let mut work = DueWork::new(engine.clone(), DueOptions::default());
    engine.close().await;
    assert!(work.step(Millis::now()).await.is_err());
    assert!(work.step(Millis::now()).await.is_err());
}
