//! The dedup lock on (feed, user, kind of gift).

use serde_json::json;
use tipcast::domain::Dedup;

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::gift;

on_every_engine![
    combining_joins_the_row_in_place,
    each_hit_renews_the_lock_when_combining,
    the_lock_ends_at_its_millisecond_and_not_sooner,
    dropping_suppresses_without_renewing_the_lock,
    dropping_heeds_the_lock_even_when_its_row_has_gone,
    off_makes_every_gift_a_row,
    a_window_of_zero_takes_no_lock,
    a_changed_window_counts_from_the_next_hit,
    keys_of_users_and_gifts_never_meet,
    another_user_gift_or_feed_has_its_own_lock,
    a_new_row_starts_when_the_locks_row_fell_off_the_list,
    a_new_row_starts_when_the_locks_row_was_retracted,
    a_new_row_starts_when_the_locks_row_has_expired,
    the_newest_tier_and_meta_win_and_absent_ones_leave_the_old,
    a_first_message_is_taken_over_and_another_one_starts_a_row_that_takes_the_lock,
    dropping_loses_no_message,
    a_currency_in_any_case_is_one,
    the_newest_name_is_not_a_reason_for_another_row,
    test_gifts_never_join_what_counts,
    a_batch_merges_within_itself,
    counts_of_rows_add_far_beyond_one_gift,
];

async fn combining_joins_the_row_in_place(mut t: Case) {
    let first = t.accepted(gift("g1").count(2)).await;
    t.accepted(gift("g2").by("bob")).await;
    t.pass(10);
    let joined = t.merged(gift("g3").count(5)).await;
    assert_eq!((joined.row.clone(), joined.at.seq, joined.count), (first.row.clone(), 3, Some(7)));
    let list = t.list().await;
    let row = &list.rows[1];
    assert_eq!(row.id, *first.row.as_ref().unwrap(), "it does not move");
    assert_eq!((row.rev, row.seq, row.count), (2, 1, 7));
    assert_eq!((row.at.plus(10), row.updated_at), (t.now, t.now));
}

async fn each_hit_renews_the_lock_when_combining(mut t: Case) {
    let first = t.accepted(gift("g0")).await;
    for n in 1..5 {
        t.pass(4_999);
        assert_eq!(t.merged(gift(&format!("g{n}"))).await.row, first.row);
    }
}

async fn the_lock_ends_at_its_millisecond_and_not_sooner(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    t.pass(4_999);
    t.merged(gift("g2")).await;
    t.pass(5_000);
    assert_ne!(t.accepted(gift("g3")).await.row, first.row);
    t.patch(json!({"dedup_window_ms": 1})).await;
    let other = t.accepted(gift("g4").by("bob")).await;
    t.merged(gift("g5").by("bob")).await;
    t.pass(1);
    assert_ne!(t.accepted(gift("g6").by("bob")).await.row, other.row);
}

async fn dropping_suppresses_without_renewing_the_lock(mut t: Case) {
    t.patch(json!({"dedup": "drop"})).await;
    let first = t.accepted(gift("g1").value(5, "EUR")).await;
    t.pass(4_999);
    let hit = t.suppressed(gift("g2")).await;
    assert_eq!((hit.row, hit.id.as_str()), (first.row.clone(), "g2"));
    t.suppressed(gift("g3").value(5, "USD")).await;
    assert_eq!(t.list().await.rows[0].count, 1);
    t.pass(1);
    assert_ne!(t.accepted(gift("g4")).await.row, first.row);
}

async fn dropping_heeds_the_lock_even_when_its_row_has_gone(mut t: Case) {
    t.put(json!({"dedup": "drop", "capacity": 1})).await;
    let first = t.accepted(gift("g1")).await;
    t.accepted(gift("g2").by("bob")).await;
    assert_eq!(t.suppressed(gift("g3")).await.row, first.row);
    let bobs = t.row_ids().await.remove(0);
    t.retract(&bobs).await.expect("it is in the list");
    assert_eq!(t.suppressed(gift("g4").by("bob")).await.row, Some(bobs));
}

async fn off_makes_every_gift_a_row(mut t: Case) {
    assert_eq!(t.patch(json!({"dedup": "off"})).await.dedup, Dedup::Off);
    for n in 0..4 {
        t.accepted(gift(&format!("g{n}"))).await;
    }
    assert_eq!(t.list().await.rows.len(), 4);
}

async fn a_window_of_zero_takes_no_lock(mut t: Case) {
    for dedup in ["combine", "drop"] {
        t.put(json!({"dedup": dedup, "dedup_window_ms": 0})).await;
        t.accepted(gift(&format!("{dedup}-1"))).await;
        t.accepted(gift(&format!("{dedup}-2"))).await;
    }
}

async fn a_changed_window_counts_from_the_next_hit(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    t.patch(json!({"dedup_window_ms": 60_000})).await;
    t.pass(4_000);
    t.merged(gift("g2")).await;
    t.pass(59_999);
    assert_eq!(t.merged(gift("g3")).await.row, first.row);
}

async fn keys_of_users_and_gifts_never_meet(mut t: Case) {
    let pairs = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a\",\"b", "c"),
        ("a", "b\",\"c"),
        ("a\u{0}b", "c"),
        ("a", "b\u{0}c"),
        ("a,b", "c"),
        ("a", "b,c"),
        ("a|b", "c"),
        ("a", "b|c"),
        ("{a}", "c"),
        ("a", "c"),
        ("A", "c"),
    ];
    t.patch(json!({"capacity": 100})).await;
    for (n, (user, kind)) in pairs.iter().enumerate() {
        t.accepted(gift(&format!("g{n}")).by(user).kind(kind)).await;
    }
    for (n, (user, kind)) in pairs.iter().enumerate() {
        t.merged(gift(&format!("again{n}")).by(user).kind(kind)).await;
    }
}

async fn another_user_gift_or_feed_has_its_own_lock(mut t: Case) {
    t.accepted(gift("g1")).await;
    t.accepted(gift("g2").by("bob")).await;
    t.accepted(gift("g3").kind("lion")).await;
    let engine = t.engine.clone();
    let mut other = Case::with(t.store, engine, fresh_feed()).await;
    other.accepted(gift("g4")).await;
}

async fn a_new_row_starts_when_the_locks_row_fell_off_the_list(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    let first = t.accepted(gift("g1")).await;
    t.accepted(gift("g2").by("bob")).await;
    let second = t.accepted(gift("g3")).await;
    assert_ne!(first.row, second.row);
    assert_eq!(t.merged(gift("g4")).await.row, second.row, "the new row has the lock");
}

async fn a_new_row_starts_when_the_locks_row_was_retracted(mut t: Case) {
    let first = t.accepted(gift("g1").count(9)).await;
    t.retract(first.row.as_ref().unwrap()).await.expect("it is in the list");
    let second = t.accepted(gift("g2")).await;
    assert_eq!(t.list().await.rows[0].count, 1);
    assert_eq!(t.merged(gift("g3")).await.row, second.row);
}

async fn a_new_row_starts_when_the_locks_row_has_expired(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g1")).await;
    t.pass(1_000);
    let second = t.accepted(gift("g2")).await;
    assert_eq!((second.at.seq, t.list().await.rows.len()), (3, 1), "one removed, one added");
}

async fn a_first_message_is_taken_over_and_another_one_starts_a_row_that_takes_the_lock(mut t: Case) {
    let says = |id: &str, message: &str| gift(id).with("message", json!(message));
    let first = t.accepted(gift("g1")).await;
    assert_eq!(t.merged(says("g2", "hello")).await.row, first.row);
    assert_eq!(t.merged(says("g3", "hello")).await.row, first.row, "a repeat");
    assert_eq!(t.merged(gift("g4")).await.row, first.row);
    let second = t.accepted(says("g5", "bye")).await;
    assert_eq!(t.merged(gift("g6")).await.row, second.row, "the new row has the lock");
    let third = t.accepted(says("g7", "hello")).await;
    let rows: Vec<_> = t
        .list()
        .await
        .rows
        .iter()
        .map(|row| (row.count, row.message.as_deref().map(str::to_owned)))
        .collect();
    let said = |count, message: &str| (count, Some(format!("\"{message}\"")));
    assert_eq!(rows, [said(1, "hello"), said(2, "bye"), said(4, "hello")]);
    assert_ne!(third.row, first.row);
    // Two paid messages in one request are two rows.
    t.post_all(vec![says("g8", "one").by("bob"), says("g9", "two").by("bob")]).await;
    assert_eq!(t.list().await.rows.len(), 5);
    // Frames of a combo are one row with the newest message.
    let frame = |id: &str, n: u32, message: &str| {
        says(id, message).by("eve").with("combo", json!({"id": "c", "count": n}))
    };
    let combo = t.accepted(frame("f1", 1, "one")).await;
    assert_eq!(t.merged(frame("f2", 2, "two")).await.row, combo.row);
}

async fn dropping_loses_no_message(mut t: Case) {
    t.put(json!({"dedup": "drop", "capacity": 3})).await;
    let says = |id: &str, message: &str| gift(id).with("message", json!(message));
    let first = t.accepted(gift("g1")).await;
    assert_eq!(t.suppressed(gift("g2")).await.row, first.row);
    let second = t.accepted(says("g3", "hello")).await;
    assert_eq!(t.suppressed(says("g4", "hello")).await.row, second.row);
    assert_eq!(t.suppressed(gift("g5")).await.row, second.row, "the new row has the lock");
    let third = t.accepted(says("g6", "bye")).await;
    // What a row said that has gone is not known.
    t.retract(third.row.as_ref().unwrap()).await.expect("it is in the list");
    assert_eq!(t.suppressed(gift("g7")).await.row, third.row);
    t.accepted(says("g8", "bye")).await;
}

async fn a_currency_in_any_case_is_one(mut t: Case) {
    t.patch(json!({"totals": ["all"], "points": {"eur": 2}})).await;
    let first = t.accepted(gift("g1").value(5, "eur")).await;
    assert_eq!(t.merged(gift("g2").value(7, "EUR")).await.row, first.row);
    assert_eq!(t.merged(gift("g3").value(1, "eUr")).await.row, first.row);
    t.accepted(gift("g4").value(1, "coins").by("bob")).await;
    assert_ne!(t.accepted(gift("g5").value(1, "Coins").by("bob")).await.row, first.row);
    let list = t.list().await;
    let values: Vec<_> = list.rows.iter().filter_map(|row| row.value.clone()).collect();
    let values: Vec<_> = values.iter().map(|it| (it.amount, it.currency.as_str())).collect();
    assert_eq!(values, [(1, "Coins"), (1, "coins"), (13, "EUR")]);
}

async fn the_newest_tier_and_meta_win_and_absent_ones_leave_the_old(mut t: Case) {
    let full = |id: &str, n: u8| {
        gift(id).with("message", json!("m")).with("tier", json!(n)).with("meta", json!({"n": n}))
    };
    t.accepted(full("g1", 1)).await;
    t.merged(full("g2", 2)).await;
    t.merged(gift("g3")).await;
    let list = t.list().await;
    let row = &list.rows[0];
    assert_eq!(row.message.as_deref(), Some("\"m\""));
    assert_eq!((row.tier, row.meta.as_deref()), (Some(2), Some("{\"n\":2}")));
    t.merged(gift("g4").with("tier", json!(0))).await;
    assert_eq!(t.list().await.rows[0].tier, Some(0), "0 is a tier");
}

async fn the_newest_name_is_not_a_reason_for_another_row(mut t: Case) {
    t.accepted(gift("g1")).await;
    t.merged(gift("g2").with("user", json!({"id": "ann", "name": "Annabel"}))).await;
}

async fn test_gifts_never_join_what_counts(mut t: Case) {
    let real = t.accepted(gift("g1")).await;
    let test = t.accepted(gift("g2").test()).await;
    assert_eq!(t.merged(gift("g3")).await.row, real.row);
    assert_eq!(t.merged(gift("g4").test()).await.row, test.row);
    let list = t.list().await;
    assert_eq!((list.rows[0].test, list.rows[1].test), (true, false));
}

async fn a_batch_merges_within_itself(mut t: Case) {
    let gifts: Vec<_> =
        (0..128).map(|n| gift(&format!("g{n}")).by(if n % 2 == 0 { "ann" } else { "bob" })).collect();
    t.post_all(gifts).await;
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows.len()), (128, 2));
    assert_eq!((list.rows[0].count, list.rows[1].count, list.rows[0].rev), (64, 64, 64));
}

async fn counts_of_rows_add_far_beyond_one_gift(mut t: Case) {
    t.accepted(gift("g0").count(1_000_000)).await;
    let more: Vec<_> = (1..=100).map(|n| gift(&format!("g{n}")).count(1_000_000)).collect();
    t.post_all(more).await;
    assert_eq!(t.list().await.rows[0].count, 101_000_000);
}
