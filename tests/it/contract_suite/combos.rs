//! Explicit combos: cumulative, harmless to repeat and reorder, closed by `end`.

use serde_json::json;

use crate::support::case::Case;
use crate::support::gifts::gift;

on_every_engine![
    frames_raise_the_count_of_one_row,
    a_repeated_frame_changes_nothing_and_answers_merged,
    reordered_frames_change_nothing,
    the_count_is_the_combos_and_not_the_gifts,
    the_end_closes_and_later_frames_change_nothing,
    an_end_that_comes_late_closes_without_lowering_the_count,
    a_combo_may_end_with_its_first_frame,
    a_frame_after_its_row_fell_off_starts_a_row,
    a_frame_after_its_row_was_retracted_starts_a_row,
    a_frame_after_its_row_expired_starts_a_row,
    a_combo_neither_takes_nor_heeds_the_lock,
    a_combo_is_not_suppressed_where_gifts_are_dropped,
    a_combo_joins_also_where_dedup_is_off,
    another_user_gift_or_combo_is_another_row,
    a_frame_that_changes_only_the_message_is_an_update,
    test_frames_never_join_what_counts,
    the_largest_counts_and_longest_ids_fit,
    two_combos_of_one_user_run_side_by_side,
    frames_join_however_late_while_the_row_is_in_the_list,
];

async fn frames_raise_the_count_of_one_row(mut t: Case) {
    let first = t.accepted(gift("g1").combo("c", 1)).await;
    t.accepted(gift("other").by("bob")).await;
    let joined = t.merged(gift("g2").combo("c", 5)).await;
    assert_eq!((joined.row.clone(), joined.count, joined.at.seq), (first.row.clone(), Some(5), 3));
    let list = t.list().await;
    let row = &list.rows[1];
    assert_eq!((row.rev, row.seq, row.count), (2, 1, 5), "in place");
    let combo = row.combo.as_ref().expect("it is a combo's row");
    assert_eq!((&*combo.id, combo.ended), ("\"c\"", false));
}

async fn a_repeated_frame_changes_nothing_and_answers_merged(mut t: Case) {
    t.accepted(gift("g1").combo("c", 3)).await;
    let before = t.list().await;
    let again = t.merged(gift("g2").combo("c", 3)).await;
    assert_eq!((again.at, again.count), (before.at.clone(), Some(3)));
    assert_eq!(t.list().await, before);
}

async fn reordered_frames_change_nothing(mut t: Case) {
    t.accepted(gift("g5").combo("c", 5)).await;
    let before = t.list().await;
    for n in [3, 1, 4, 2, 0] {
        let late = t.merged(gift(&format!("late{n}")).combo("c", n)).await;
        assert_eq!((&late.at, late.count), (&before.at, Some(5)));
    }
    assert_eq!(t.list().await, before);
}

async fn the_count_is_the_combos_and_not_the_gifts(mut t: Case) {
    t.accepted(gift("g1").count(100).combo("c", 3)).await;
    assert_eq!(t.list().await.rows[0].count, 3);
    t.merged(gift("g2").count(100).combo("c", 4)).await;
    assert_eq!(t.list().await.rows[0].count, 4);
}

async fn the_end_closes_and_later_frames_change_nothing(mut t: Case) {
    t.accepted(gift("g1").combo("c", 3)).await;
    t.merged(gift("g2").combo("c", 4).end()).await;
    let before = t.list().await;
    assert!(before.rows[0].combo.as_ref().unwrap().ended);
    for (id, n) in [("g3", 9), ("g4", 4), ("g5", 1)] {
        let late = t.merged(gift(id).combo("c", n).value(5, "EUR").with("message", json!("late"))).await;
        assert_eq!((late.at, late.count), (before.at.clone(), Some(4)));
    }
    t.merged(gift("g6").combo("c", 9).end()).await;
    assert_eq!(t.list().await, before);
}

async fn an_end_that_comes_late_closes_without_lowering_the_count(mut t: Case) {
    t.accepted(gift("g1").combo("c", 7)).await;
    let ended = t.merged(gift("g2").combo("c", 6).end()).await;
    assert_eq!((ended.at.seq, ended.count), (2, Some(7)), "closing is a change");
    t.merged(gift("g3").combo("c", 8)).await;
    assert_eq!(t.list().await.rows[0].count, 7);
}

async fn a_combo_may_end_with_its_first_frame(mut t: Case) {
    t.accepted(gift("g1").combo("c", 7).end()).await;
    t.merged(gift("g2").combo("c", 8)).await;
    let list = t.list().await;
    assert_eq!((list.at.seq, list.rows[0].count), (1, 7));
}

async fn a_frame_after_its_row_fell_off_starts_a_row(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    t.accepted(gift("g1").combo("c", 3).end()).await;
    t.accepted(gift("other").by("bob")).await;
    t.accepted(gift("g2").combo("c", 2)).await;
    let list = t.list().await;
    assert_eq!((list.rows[0].count, list.rows[0].combo.as_ref().unwrap().ended), (2, false));
    t.merged(gift("g3").combo("c", 4)).await;
}

async fn a_frame_after_its_row_was_retracted_starts_a_row(mut t: Case) {
    let first = t.accepted(gift("g1").combo("c", 3)).await;
    t.retract(first.row.as_ref().unwrap()).await.expect("it is in the list");
    let second = t.accepted(gift("g2").combo("c", 4)).await;
    assert_eq!(t.merged(gift("g3").combo("c", 5)).await.row, second.row);
}

async fn a_frame_after_its_row_expired_starts_a_row(mut t: Case) {
    t.patch(json!({"row_ttl_ms": 1_000})).await;
    t.accepted(gift("g1").combo("c", 3)).await;
    t.pass(999);
    t.merged(gift("g2").combo("c", 4)).await;
    t.pass(999);
    t.merged(gift("g3").combo("c", 4)).await;
    t.pass(1);
    t.accepted(gift("g4").combo("c", 5)).await;
    assert_eq!(t.list().await.rows.len(), 1);
}

async fn a_combo_neither_takes_nor_heeds_the_lock(mut t: Case) {
    let combo = t.accepted(gift("g1").combo("c", 3)).await;
    let plain = t.accepted(gift("g2")).await;
    assert_eq!(t.merged(gift("g3").combo("c", 4)).await.row, combo.row);
    assert_eq!(t.merged(gift("g4")).await.row, plain.row);
    t.accepted(gift("g5").combo("d", 1)).await;
    assert_eq!(t.merged(gift("g6")).await.row, plain.row);
    t.pass(4_000);
    t.merged(gift("g7").combo("c", 9)).await;
    t.pass(1_000);
    t.accepted(gift("g8")).await;
}

async fn a_combo_is_not_suppressed_where_gifts_are_dropped(mut t: Case) {
    t.patch(json!({"dedup": "drop"})).await;
    t.accepted(gift("g1")).await;
    let combo = t.accepted(gift("g2").combo("c", 1)).await;
    assert_eq!(t.merged(gift("g3").combo("c", 2)).await.row, combo.row);
    t.suppressed(gift("g4")).await;
}

async fn a_combo_joins_also_where_dedup_is_off(mut t: Case) {
    t.patch(json!({"dedup": "off"})).await;
    t.accepted(gift("g1").combo("c", 1)).await;
    t.merged(gift("g2").combo("c", 2)).await;
}

async fn another_user_gift_or_combo_is_another_row(mut t: Case) {
    t.patch(json!({"capacity": 100})).await;
    let keys = [
        ("a", "g", "c"),
        ("b", "g", "c"),
        ("a", "h", "c"),
        ("a", "g", "d"),
        ("a:g", "c", "x"),
        ("a", "g:c", "x"),
        ("a", "g", "c:x"),
        ("a\",\"g", "c", "x"),
        ("a", "g\",\"c", "x"),
        ("a", "g", "c\",true"),
        ("a", "g", "C"),
    ];
    for (n, (user, kind, combo)) in keys.iter().enumerate() {
        t.accepted(gift(&format!("g{n}")).by(user).kind(kind).combo(combo, 1)).await;
    }
    for (n, (user, kind, combo)) in keys.iter().enumerate() {
        t.merged(gift(&format!("again{n}")).by(user).kind(kind).combo(combo, 2)).await;
    }
}

async fn a_frame_that_changes_only_the_message_is_an_update(mut t: Case) {
    t.accepted(gift("g1").combo("c", 3)).await;
    let said = t.merged(gift("g2").combo("c", 3).with("message", json!("hi"))).await;
    assert_eq!(said.at.seq, 2);
    assert_eq!(t.list().await.rows[0].message.as_deref(), Some("\"hi\""));
}

async fn test_frames_never_join_what_counts(mut t: Case) {
    let real = t.accepted(gift("g1").combo("c", 3)).await;
    let test = t.accepted(gift("g2").combo("c", 9).test()).await;
    assert_eq!(t.merged(gift("g3").combo("c", 4)).await.row, real.row);
    assert_eq!(t.merged(gift("g4").combo("c", 10).test()).await.row, test.row);
}

async fn the_largest_counts_and_longest_ids_fit(mut t: Case) {
    let long = "é".repeat(64);
    t.accepted(gift("g1").combo(&long, u32::MAX - 1)).await;
    let full = t.merged(gift("g2").combo(&long, u32::MAX)).await;
    assert_eq!(full.count, Some(4_294_967_295));
}

async fn two_combos_of_one_user_run_side_by_side(mut t: Case) {
    let (c, d) = (t.accepted(gift("c0").combo("c", 1)).await, t.accepted(gift("d0").combo("d", 1)).await);
    for n in 2..6 {
        assert_eq!(t.merged(gift(&format!("c{n}")).combo("c", n)).await.row, c.row);
        assert_eq!(t.merged(gift(&format!("d{n}")).combo("d", n * 10)).await.row, d.row);
    }
    let list = t.list().await;
    assert_eq!((list.rows[0].count, list.rows[1].count), (50, 5));
}

async fn frames_join_however_late_while_the_row_is_in_the_list(mut t: Case) {
    let first = t.accepted(gift("g1").combo("c", 1)).await;
    t.pass(604_800_000);
    assert_eq!(t.merged(gift("g2").combo("c", 2)).await.row, first.row);
}
