//! Rows with a time to live.

use serde_json::json;
use tipcast::domain::{Op, RemoveReason};
use tipcast::engine::Missed;

use crate::support::case::Case;
use crate::support::gifts::gift;

on_every_engine![
    a_row_leaves_at_its_millisecond_and_not_sooner,
    a_merge_renews_the_time,
    a_frame_that_changes_nothing_does_not_renew_the_time,
    several_rows_leave_oldest_first,
    a_row_without_ttl_stays_for_ever,
    rows_older_than_a_ttl_keep_their_time,
    a_row_whose_time_is_over_cannot_be_retracted,
    a_changed_capacity_finds_the_expired_rows_gone,
    heads_do_not_sweep,
    a_batch_finds_the_expired_rows_gone,
];

async fn a_row_leaves_at_its_millisecond_and_not_sooner(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    let row = t.accepted(gift("g1")).await.row.unwrap();
    assert_eq!(t.list().await.rows[0].expires_at, Some(t.now.plus(1_000)));
    t.pass(999);
    assert_eq!(t.row_ids().await, std::slice::from_ref(&row));
    t.pass(1);
    assert_eq!(t.list().await.at.seq, 2);
    assert!(t.row_ids().await.is_empty());
    let Missed::Changes(changes) = t.after(1).await else { panic!("covered") };
    assert_eq!(changes[0].op, Op::Remove { row, reason: RemoveReason::Expired });
}

async fn a_merge_renews_the_time(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g1")).await;
    t.pass(999);
    t.merged(gift("g2")).await;
    assert_eq!(t.list().await.rows[0].expires_at, Some(t.now.plus(1_000)));
    t.pass(999);
    assert_eq!(t.list().await.rows.len(), 1);
    t.pass(1);
    assert_eq!(t.list().await.rows.len(), 0);
}

async fn a_frame_that_changes_nothing_does_not_renew_the_time(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g1").combo("c", 3)).await;
    t.pass(500);
    t.merged(gift("g2").combo("c", 3)).await;
    t.pass(500);
    assert_eq!(t.list().await.rows.len(), 0);
}

async fn several_rows_leave_oldest_first(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    let mut rows = vec![];
    for user in ["a", "b", "c"] {
        rows.push(t.accepted(gift(user).by(user)).await.row.unwrap());
        t.pass(10);
    }
    t.merged(gift("again").by("a")).await;
    t.pass(1_000);
    assert_eq!(t.list().await.at.seq, 7);
    let Missed::Changes(changes) = t.after(4).await else { panic!("covered") };
    let left: Vec<_> = changes
        .into_iter()
        .map(|change| match change.op {
            Op::Remove { row, reason: RemoveReason::Expired } => row,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(left, rows, "by their place in the list");
}

async fn a_row_without_ttl_stays_for_ever(mut t: Case) {
    t.accepted(gift("g1")).await;
    assert_eq!(t.list().await.rows[0].expires_at, None);
    t.pass(10 * 604_800_000);
    assert_eq!(t.list().await.at.seq, 1);
}

async fn rows_older_than_a_ttl_keep_their_time(mut t: Case) {
    t.accepted(gift("g1")).await;
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g2").by("bob")).await;
    t.put(json!({})).await;
    t.pass(1_000);
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows.len(), list.rows[0].seq), (3, 1, 1));
}

async fn a_row_whose_time_is_over_cannot_be_retracted(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    let row = t.accepted(gift("g1")).await.row.unwrap();
    t.pass(1_000);
    assert_eq!(t.retract(&row).await, None);
    assert_eq!(t.list().await.at.seq, 2, "it expired once");
}

async fn a_changed_capacity_finds_the_expired_rows_gone(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g1")).await;
    t.pass(500);
    let young = t.accepted(gift("g2").by("bob")).await.row.unwrap();
    t.pass(500);
    t.patch(json!({"capacity": 1})).await;
    assert_eq!(t.row_ids().await, [young]);
    assert_eq!(t.list().await.at.seq, 4, "expired, then trimmed");
}

async fn heads_do_not_sweep(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    let at = t.accepted(gift("g1")).await.at;
    t.pass(1_000);
    assert_eq!(t.head().await.at, at);
    assert_eq!(t.list().await.at.seq, 2);
}

async fn a_batch_finds_the_expired_rows_gone(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000, "capacity": 2})).await;
    t.accepted(gift("g1")).await;
    t.accepted(gift("g2").by("bob")).await;
    t.pass(1_000);
    t.post_all([gift("g3"), gift("g4").by("bob"), gift("g5").by("bob")]).await;
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows.len()), (7, 2));
}
