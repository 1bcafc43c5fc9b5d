//! The identity of a gift: decided first, remembered for the window.

use serde_json::json;
use tipcast::domain::{Outcome, Status};

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::gift;

on_every_engine![
    a_gift_that_comes_again_gets_its_first_answer,
    a_duplicate_gets_the_first_answer_also_when_its_row_has_changed_or_gone,
    merged_and_suppressed_gifts_are_remembered_too,
    the_same_id_with_another_payload_is_refused_and_changes_nothing,
    an_id_is_forgotten_at_the_end_of_its_window_and_not_a_millisecond_sooner,
    an_id_repeated_within_one_batch_counts_once,
    an_id_reused_within_one_batch_refuses_only_itself,
    ids_are_unique_per_feed_only,
    the_id_is_decided_before_the_lock,
    a_time_that_is_not_in_the_future_shows_at_once,
    the_id_is_decided_before_the_delay,
    a_gifts_own_delay_replaces_the_policys,
];

async fn a_gift_that_comes_again_gets_its_first_answer(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    assert_eq!((first.at.seq, first.id.as_str(), first.count), (1, "g1", None));
    t.duplicate(gift("g1"), &first).await;
    t.pass(60_000);
    t.duplicate(gift("g1"), &first).await;
}

async fn a_duplicate_gets_the_first_answer_also_when_its_row_has_changed_or_gone(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    t.merged(gift("g2")).await;
    t.duplicate(gift("g1"), &first).await;
    t.retract(first.row.as_ref().unwrap()).await.expect("it is in the list");
    t.duplicate(gift("g1"), &first).await;
}

async fn merged_and_suppressed_gifts_are_remembered_too(mut t: Case) {
    t.accepted(gift("g1")).await;
    let merged = t.merged(gift("g2").count(3)).await;
    assert_eq!(merged.count, Some(4));
    t.merged(gift("g3")).await;
    t.duplicate(gift("g2").count(3), &merged).await;
    t.patch(json!({"dedup": "drop"})).await;
    let suppressed = t.suppressed(gift("g4")).await;
    t.pass(6_000);
    t.duplicate(gift("g4"), &suppressed).await;
}

async fn the_same_id_with_another_payload_is_refused_and_changes_nothing(mut t: Case) {
    let first = t.accepted(gift("g1").count(2)).await;
    let before = t.list().await;
    for other in [gift("g1"), gift("g1").count(2).by("bob"), gift("g1").count(2).with("tier", json!(1))] {
        assert_eq!(t.post(other).await, Outcome::IdReused(first.id.clone()));
    }
    assert_eq!(t.list().await, before);
    t.duplicate(gift("g1").count(2), &first).await;
}

async fn an_id_is_forgotten_at_the_end_of_its_window_and_not_a_millisecond_sooner(mut t: Case) {
    t.patch(json!({"idempotency_window_ms": 60_000})).await;
    let first = t.accepted(gift("g1")).await;
    t.pass(59_999);
    t.duplicate(gift("g1"), &first).await;
    t.pass(1);
    let again = t.accepted(gift("g1")).await;
    assert_ne!(again.row, first.row);
    t.pass(59_999);
    t.duplicate(gift("g1"), &again).await;
}

async fn an_id_repeated_within_one_batch_counts_once(mut t: Case) {
    let outcomes = t.post_all([gift("g1"), gift("g2"), gift("g1"), gift("g2")]).await;
    let [Outcome::New(first), Outcome::New(second), again, once_more] = &outcomes[..] else {
        panic!("{outcomes:#?}")
    };
    assert_eq!((first.status, second.status), (Status::Accepted, Status::Merged));
    assert_eq!((first.at.seq, second.at.seq, second.count), (1, 2, Some(2)));
    assert_eq!(*again, Outcome::Duplicate(first.clone()));
    assert_eq!(*once_more, Outcome::Duplicate(second.clone()));
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows[0].count), (2, 2));
}

async fn an_id_reused_within_one_batch_refuses_only_itself(mut t: Case) {
    let outcomes = t.post_all([gift("g1"), gift("g1").by("bob"), gift("g2")]).await;
    assert!(matches!(&outcomes[1], Outcome::IdReused(id) if id.as_str() == "g1"), "{outcomes:#?}");
    assert!(matches!(&outcomes[2], Outcome::New(answer) if answer.at.seq == 2), "{outcomes:#?}");
    assert_eq!(t.list().await.rows.len(), 1);
}

async fn ids_are_unique_per_feed_only(mut t: Case) {
    t.accepted(gift("g1")).await;
    let engine = t.engine.clone();
    let mut other = Case::with(t.store, engine, fresh_feed()).await;
    other.accepted(gift("g1").by("bob")).await;
}

async fn the_id_is_decided_before_the_lock(mut t: Case) {
    t.patch(json!({"dedup": "drop"})).await;
    let first = t.accepted(gift("g1")).await;
    t.duplicate(gift("g1"), &first).await;
    t.patch(json!({"dedup": "off"})).await;
    t.duplicate(gift("g1"), &first).await;
}

async fn a_time_that_is_not_in_the_future_shows_at_once(mut t: Case) {
    let now = t.now.to_string();
    t.accepted(gift("g1").with("deliver_at", json!(now))).await;
    t.pass(6_000);
    t.accepted(gift("g2").with("delay_ms", json!(0))).await;
    t.pass(6_000);
    t.accepted(gift("g3").with("deliver_at", json!("1970-01-01T00:00:00Z"))).await;
}

async fn the_id_is_decided_before_the_delay(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    t.patch(json!({"delay_ms": 1000})).await;
    t.duplicate(gift("g1"), &first).await;
    t.scheduled(gift("g2")).await;
}

async fn a_gifts_own_delay_replaces_the_policys(mut t: Case) {
    t.patch(json!({"delay_ms": 1000})).await;
    t.accepted(gift("g1").with("delay_ms", json!(0))).await;
    let past = t.now.to_string();
    t.merged(gift("g2").with("deliver_at", json!(past))).await;
}
