//! The capped list, retracting from it, and the policy that shapes it.

use serde_json::json;
use tipcast::domain::{Dedup, Op, Policy, RowId, TellPresence};
use tipcast::engine::Missed;

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::gift;

on_every_engine![
    the_list_holds_the_newest_rows_and_never_more_than_its_capacity,
    a_smaller_capacity_trims_at_once_and_takes_a_seq,
    a_larger_capacity_brings_nothing_back_and_leaves_room,
    a_changed_capacity_uncovers_the_positions_before,
    the_same_capacity_takes_no_seq,
    a_change_of_anything_else_takes_no_seq,
    a_capacity_of_one_hundred_fills_up,
    patch_keeps_what_it_leaves_out,
    put_resets_what_it_leaves_out,
    put_that_resets_the_capacity_takes_a_seq,
    a_row_is_retracted_once,
    only_rows_of_this_list_can_be_retracted,
    a_place_freed_by_retracting_is_not_filled_from_the_past,
];

async fn fill(t: &mut Case, ids: std::ops::Range<u32>) -> Vec<RowId> {
    let mut rows = vec![];
    for n in ids {
        rows.insert(0, t.accepted(gift(&format!("g{n}")).by(&format!("u{n}"))).await.row.unwrap());
    }
    rows
}

async fn the_list_holds_the_newest_rows_and_never_more_than_its_capacity(mut t: Case) {
    let rows = fill(&mut t, 0..23).await;
    assert_eq!(t.row_ids().await, rows[..10]);
}

async fn a_smaller_capacity_trims_at_once_and_takes_a_seq(mut t: Case) {
    let rows = fill(&mut t, 0..10).await;
    assert_eq!(t.patch(json!({"capacity": 3})).await.capacity, 3);
    let list = t.list().await;
    assert_eq!(list.at.seq, 11);
    assert_eq!(t.row_ids().await, rows[..3]);
    let newer = fill(&mut t, 10..11).await;
    assert_eq!(t.row_ids().await, [&newer[..], &rows[..2]].concat());
}

async fn a_larger_capacity_brings_nothing_back_and_leaves_room(mut t: Case) {
    let rows = fill(&mut t, 0..12).await;
    t.patch(json!({"capacity": 12})).await;
    assert_eq!(t.list().await.at.seq, 13);
    assert_eq!(t.row_ids().await, rows[..10]);
    fill(&mut t, 12..14).await;
    assert_eq!(t.list().await.rows.len(), 12);
    fill(&mut t, 14..15).await;
    assert_eq!(t.list().await.rows.len(), 12);
}

async fn a_changed_capacity_uncovers_the_positions_before(mut t: Case) {
    fill(&mut t, 0..5).await;
    assert!(t.covers(0).await && t.covers(5).await);
    t.patch(json!({"capacity": 20})).await;
    for seq in 0..6 {
        assert_eq!(t.after(seq).await, Missed::NotCovered, "{seq}");
    }
    assert_eq!(t.after(6).await, Missed::Changes(vec![]));
    fill(&mut t, 5..7).await;
    let Missed::Changes(changes) = t.after(6).await else { panic!("the position of the reset is covered") };
    assert!(changes.len() == 2 && changes.iter().all(|c| matches!(c.op, Op::Add(_))), "{changes:?}");
    assert!(!t.covers(5).await);
}

async fn the_same_capacity_takes_no_seq(mut t: Case) {
    fill(&mut t, 0..2).await;
    t.patch(json!({"capacity": 10})).await;
    t.put(json!({"capacity": 10})).await;
    t.put(json!({})).await;
    assert_eq!(t.list().await.at.seq, 2);
    assert!(t.covers(0).await);
}

async fn a_change_of_anything_else_takes_no_seq(mut t: Case) {
    fill(&mut t, 0..2).await;
    let patch = json!({"dedup": "off", "dedup_window_ms": 1, "row_ttl_ms": 1000, "delay_ms": 1, "flush_ms": 1,
        "idempotency_window_ms": 60000, "history": 7, "presence": "count"});
    let policy = t.patch(patch).await;
    assert_eq!(t.list().await.at.seq, 2);
    assert_eq!(
        policy,
        Policy {
            capacity: 10,
            dedup: Dedup::Off,
            dedup_window_ms: 1,
            row_ttl_ms: 1000,
            delay_ms: 1,
            flush_ms: 1,
            idempotency_window_ms: 60_000,
            history: 7,
            presence: TellPresence::Count,
            ..Policy::default()
        }
    );
}

async fn a_capacity_of_one_hundred_fills_up(mut t: Case) {
    t.put(json!({"capacity": 100, "dedup": "off"})).await;
    let gifts: Vec<_> = (0..128).map(|n| gift(&format!("g{n}"))).collect();
    t.post_all(gifts).await;
    let list = t.list().await;
    assert_eq!((list.rows.len(), list.rows[0].seq, list.rows[99].seq), (100, 128, 29));
    t.put(json!({"capacity": 1})).await;
    assert_eq!(t.list().await.rows.len(), 1);
}

async fn patch_keeps_what_it_leaves_out(mut t: Case) {
    t.patch(json!({"capacity": 5, "history": 9})).await;
    let policy = t.patch(json!({"flush_ms": 7})).await;
    assert_eq!(policy, Policy { capacity: 5, history: 9, flush_ms: 7, ..Policy::default() });
    assert_eq!(t.patch(json!({})).await, policy);
}

async fn put_resets_what_it_leaves_out(mut t: Case) {
    t.patch(json!({"capacity": 5, "history": 9})).await;
    let policy = t.put(json!({"flush_ms": 7})).await;
    assert_eq!(policy, Policy { flush_ms: 7, ..Policy::default() });
    assert_eq!(t.put(json!({})).await, Policy::default());
}

async fn put_that_resets_the_capacity_takes_a_seq(mut t: Case) {
    t.patch(json!({"capacity": 5})).await;
    fill(&mut t, 0..6).await;
    t.put(json!({"dedup": "off"})).await;
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows.len(), list.policy.capacity), (7, 5, 10));
}

async fn a_row_is_retracted_once(mut t: Case) {
    let rows = fill(&mut t, 0..3).await;
    let at = t.retract(&rows[1]).await.expect("it is in the list");
    assert_eq!(at.seq, 4);
    assert_eq!(t.row_ids().await, [rows[0].clone(), rows[2].clone()]);
    assert_eq!(t.retract(&rows[1]).await, None);
    assert_eq!(t.list().await.at.seq, 4);
}

async fn only_rows_of_this_list_can_be_retracted(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    let rows = fill(&mut t, 0..2).await;
    assert_eq!(t.retract(&rows[1]).await, None, "it fell off");
    assert_eq!(t.retract(&"nothing".parse().unwrap()).await, None);
    let (store, engine) = (t.store, t.engine.clone());
    let mut other = Case::with(store, engine, fresh_feed()).await;
    assert_eq!(other.retract(&rows[0]).await, None, "it is another feed's");
    assert!(other.list().await.at.epoch.is_none(), "asking writes nothing");
}

async fn a_place_freed_by_retracting_is_not_filled_from_the_past(mut t: Case) {
    let rows = fill(&mut t, 0..12).await;
    t.retract(&rows[0]).await.expect("it is in the list");
    assert_eq!(t.row_ids().await, rows[1..10]);
}
