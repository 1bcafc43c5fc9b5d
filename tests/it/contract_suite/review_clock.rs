//! Gifts that wait for a host while a clock is set, forward and back. Deadlines are kept and never "the time", so what is
//! judged wrong is what a wrong clock judged, and nothing afterwards.

use serde_json::json;
use tipcast::domain::{Decision, EntryStatus, Epoch, GiftId, Millis, Outcome, Reviewed, Status};

use crate::support::case::Case;
use crate::support::gifts::{GiftSpec, gift};

on_every_engine![
    a_clock_that_jumps_ahead_decides_once_and_coming_back_undoes_nothing,
    a_clock_that_goes_back_leaves_what_waits_to_the_host_and_to_its_own_time,
];

const TIMEOUT: u64 = 60_000;
const HOUR: i64 = 3_600_000;

fn said(id: &str) -> GiftSpec {
    gift(id).by(&format!("of-{id}")).with("message", json!("hi"))
}

async fn begin(t: &mut Case) {
    t.patch(json!({"review": "all", "review_timeout_ms": TIMEOUT, "review_default": "mask"})).await;
}

async fn hold(t: &mut Case, id: &str) {
    let outcome = t.post(said(id)).await;
    assert!(matches!(outcome, Outcome::InReview(_)), "{outcome:?}");
}

async fn decide(t: &mut Case, id: &str, wish: Decision) -> Reviewed {
    let id: GiftId = id.parse().unwrap();
    let told = t.engine.decide_review(&t.feed, &id, wish, t.now).await.unwrap().outcome;
    t.list().await;
    told
}

async fn waiting(t: &Case) -> Vec<String> {
    let all = t.engine.list_reviews(&t.feed, t.now).await.unwrap();
    all.into_iter().map(|it| it.gift.id.to_string()).collect()
}

/// Names in the list, newest first.
async fn shown(t: &mut Case) -> Vec<String> {
    let user = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).unwrap()["name"].as_str().unwrap().to_owned()
    };
    t.list().await.rows.iter().map(|row| user(&row.user)).collect()
}

/// Ids and statuses of all that the ledger has.
async fn entered(t: &mut Case) -> Vec<(String, EntryStatus)> {
    let group = format!("g{}", Epoch::mint());
    let taken = t.take(&group).await;
    let id = |gift: &str| {
        serde_json::from_str::<serde_json::Value>(gift).unwrap()["id"].as_str().unwrap().to_owned()
    };
    taken.iter().map(|it| (id(&it.entry.gift), it.entry.status)).collect()
}

/// The clock is set, by `ms` milliseconds.
fn set(t: &mut Case, ms: i64) {
    t.now = Millis(t.now.0 + ms);
}

async fn a_clock_that_jumps_ahead_decides_once_and_coming_back_undoes_nothing(mut t: Case) {
    begin(&mut t).await;
    hold(&mut t, "a").await;
    hold(&mut t, "b").await;
    set(&mut t, 48 * HOUR);
    assert!(waiting(&t).await.is_empty(), "their time is over by this clock");
    assert_eq!(decide(&mut t, "a", Decision::Deny).await, Reviewed::Otherwise(Decision::Mask));
    assert_eq!(t.work().await.len(), 1);
    assert_eq!(shown(&mut t).await, ["•••", "•••"]);
    set(&mut t, -48 * HOUR);
    assert_eq!(t.work().await.len(), 0, "what was shown is not shown again");
    for id in ["a", "b"] {
        assert_eq!(decide(&mut t, id, Decision::Approve).await, Reviewed::Otherwise(Decision::Mask));
        assert!(matches!(t.post(said(id)).await, Outcome::Duplicate(_)), "{id}");
    }
    // The clock is right again, and what comes now has all its time.
    hold(&mut t, "c").await;
    t.pass(TIMEOUT - 1);
    assert_eq!((t.work().await.len(), waiting(&t).await), (0, vec!["c".to_owned()]));
    let Reviewed::Decided(answer) = decide(&mut t, "c", Decision::Approve).await else { panic!() };
    assert_eq!(answer.status, Status::Accepted);
    assert_eq!(shown(&mut t).await, ["user of-c", "•••", "•••"]);
    let accepted = |id: &str| (id.to_owned(), EntryStatus::Accepted);
    assert_eq!(entered(&mut t).await, [accepted("a"), accepted("b"), accepted("c")]);
}

async fn a_clock_that_goes_back_leaves_what_waits_to_the_host_and_to_its_own_time(mut t: Case) {
    begin(&mut t).await;
    hold(&mut t, "a").await;
    hold(&mut t, "b").await;
    set(&mut t, -HOUR);
    assert_eq!((t.work().await.len(), waiting(&t).await.len()), (0, 2));
    let Reviewed::Decided(answer) = decide(&mut t, "a", Decision::Deny).await else { panic!() };
    assert_eq!(answer.status, Status::Denied);
    // What comes by this clock is over by this clock, not an hour later.
    hold(&mut t, "c").await;
    t.pass(TIMEOUT);
    assert_eq!(t.work().await.len(), 1);
    assert_eq!(shown(&mut t).await, ["•••"]);
    assert_eq!(waiting(&t).await, ["b"]);
    hold(&mut t, "d").await;
    // The clock is right again: both have ended, the one that came first by its deadline first.
    set(&mut t, HOUR);
    assert_eq!(t.work().await.len(), 2);
    assert!(waiting(&t).await.is_empty());
    assert_eq!(t.work().await.len(), 0);
    let ids: Vec<String> = entered(&mut t).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "c", "d", "b"]);
}
