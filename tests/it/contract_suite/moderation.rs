//! Taking gifts and users back, and telling overlays what to do.

use serde_json::json;
use tipcast::domain::{Action, Control, Controls, Delta, EntryStatus, Op, RowId, Value};

use crate::support::case::Case;
use crate::support::gifts::gift;
use crate::support::readers::{event, fates};

on_every_engine![
    a_gift_that_is_taken_back_leaves_its_row_and_the_last_takes_the_row_along,
    money_is_taken_back_to_the_unit_and_a_row_without_money_shows_none,
    a_gift_is_taken_back_once_and_its_id_stays_used,
    a_gift_whose_row_has_left_the_list_is_taken_back_too,
    frames_of_a_combo_are_taken_back_by_what_they_grew,
    a_suppressed_gift_and_a_test_are_taken_back_without_a_change,
    a_gift_that_waits_is_cancelled_by_being_taken_back,
    an_id_that_is_not_remembered_any_more_is_unknown,
    every_gift_taken_back_is_one_entry_of_the_ledger,
    sums_that_stopped_at_the_limit_give_back_what_they_took,
    all_rows_of_a_user_go_and_no_others,
    overlays_are_told_and_a_snapshot_says_what_holds,
    an_action_that_changes_nothing_makes_no_change,
    only_a_row_of_the_list_is_replayed,
    overlay_controls_outlive_the_engine,
    a_part_outlives_the_engine,
];

fn act(action: Action) -> Control {
    Control { action, row: None }
}

async fn a_gift_that_is_taken_back_leaves_its_row_and_the_last_takes_the_row_along(mut t: Case) {
    t.accepted(gift("a1").count(3)).await;
    t.pass(10);
    t.merged(gift("a2").count(4)).await;
    t.pass(10);
    let before = t.list().await;
    assert!(t.take_back("a1").await);
    let list = t.list().await;
    let (old, row) = (&before.rows[0], &list.rows[0]);
    assert_eq!((row.count, row.rev, row.updated_at), (4, old.rev + 1, t.now));
    assert_eq!((row.seq, row.at, &row.id, row.expires_at), (old.seq, old.at, &old.id, old.expires_at));
    assert!(t.take_back("a2").await);
    assert!(t.list().await.rows.is_empty());
    assert_eq!(t.replica.at.seq, 4);
}

async fn money_is_taken_back_to_the_unit_and_a_row_without_money_shows_none(mut t: Case) {
    t.accepted(gift("a1").count(1)).await;
    t.merged(gift("a2").value(700, "EUR")).await;
    t.merged(gift("a3").value(1, "EUR")).await;
    assert!(t.take_back("a3").await);
    assert_eq!(t.list().await.rows[0].value, Some(Value { amount: 700, currency: "EUR".into() }));
    assert!(t.take_back("a2").await);
    let row = t.list().await.rows.remove(0);
    assert_eq!((row.count, row.value.clone()), (1, None));
    t.accepted(gift("b1").by("bob").value(5, "EUR").count(2)).await;
    t.accepted(gift("b2").by("bob").value(9, "USD")).await;
    assert!(t.take_back("b1").await);
    let list = t.list().await;
    assert_eq!(list.rows.len(), 2, "another currency was a row of its own");
    assert_eq!(list.rows[0].value, Some(Value { amount: 9, currency: "USD".into() }));
}

async fn a_gift_is_taken_back_once_and_its_id_stays_used(mut t: Case) {
    let first = t.accepted(gift("a1").count(3)).await;
    t.merged(gift("a2").count(4)).await;
    assert!(t.take_back("a1").await);
    let at = t.replica.at.clone();
    for _ in 0..3 {
        assert!(t.take_back("a1").await);
    }
    assert_eq!(t.replica.at, at, "once");
    t.duplicate(gift("a1").count(3), &first).await;
    assert_eq!(t.list().await.rows[0].count, 4);
}

async fn a_gift_whose_row_has_left_the_list_is_taken_back_too(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    t.accepted(gift("a1")).await;
    t.accepted(gift("b1").by("bob")).await;
    let at = t.replica.at.clone();
    assert!(t.take_back("a1").await);
    assert_eq!(t.replica.at, at);
    let entries = t.take("g").await;
    let last = &entries.last().unwrap().entry;
    assert_eq!((last.status, last.seq), (EntryStatus::Retracted, None));
    let row = t.list().await.rows[0].id.clone();
    t.retract(&row).await;
    assert!(t.take_back("b1").await, "its row was taken back before");
    assert!(t.list().await.rows.is_empty());
}

async fn frames_of_a_combo_are_taken_back_by_what_they_grew(mut t: Case) {
    t.accepted(gift("c1").combo("run", 3).value(30, "EUR")).await;
    t.merged(gift("c2").combo("run", 5).value(50, "EUR")).await;
    t.merged(gift("late").combo("run", 4).value(40, "EUR")).await;
    t.merged(gift("c3").combo("run", 9).value(90, "EUR").end()).await;
    let at = t.replica.at.clone();
    assert!(t.take_back("late").await, "it grew nothing");
    assert_eq!(t.replica.at, at);
    assert!(t.take_back("c2").await);
    let row = t.list().await.rows.remove(0);
    assert_eq!((row.count, row.value.as_ref().map(|v| v.amount)), (7, Some(70)));
    assert!(t.take_back("c1").await && t.take_back("c3").await);
    assert!(t.list().await.rows.is_empty());
}

async fn a_suppressed_gift_and_a_test_are_taken_back_without_a_change(mut t: Case) {
    t.patch(json!({"dedup": "drop"})).await;
    t.accepted(gift("a1").count(5)).await;
    t.suppressed(gift("a2").count(2)).await;
    let at = t.replica.at.clone();
    assert!(t.take_back("a2").await);
    let list = t.list().await;
    assert_eq!((list.at, list.rows[0].count), (at, 5));
    t.accepted(gift("t1").by("tester").test()).await;
    assert!(t.take_back("t1").await);
    assert_eq!(t.list().await.rows.len(), 1, "a test leaves the list");
    let wanted = [EntryStatus::Accepted, EntryStatus::Suppressed, EntryStatus::Retracted];
    assert_eq!(fates(&t.take("g").await).into_iter().map(|(_, status)| status).collect::<Vec<_>>(), wanted);
}

async fn a_gift_that_waits_is_cancelled_by_being_taken_back(mut t: Case) {
    t.scheduled(gift("g1").with("delay_ms", json!(1_000))).await;
    assert!(t.take_back("g1").await && t.take_back("g1").await);
    assert!(t.waiting().await.gifts.is_empty());
    t.pass(1_000);
    assert!(t.shown().await.is_empty());
    t.scheduled(gift("g2").with("delay_ms", json!(1_000))).await;
    t.pass(1_000);
    assert_eq!(t.shown().await.len(), 1);
    assert!(t.take_back("g2").await);
    assert!(t.list().await.rows.is_empty(), "one that was shown is taken back");
    let statuses: Vec<_> = fates(&t.take("g").await).into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses, [EntryStatus::Accepted, EntryStatus::Retracted]);
}

async fn an_id_that_is_not_remembered_any_more_is_unknown(mut t: Case) {
    assert!(!t.take_back("nobody").await);
    t.patch(json!({"idempotency_window_ms": 60_000})).await;
    t.accepted(gift("a1")).await;
    t.pass(59_999);
    let other = t.feed.clone();
    t.feed = crate::support::case::fresh_feed();
    let id: tipcast::domain::GiftId = "a1".parse().unwrap();
    let elsewhere = t.engine.retract_gift(&t.feed, &id, None, t.now).await.unwrap();
    assert_eq!(elsewhere, tipcast::domain::GiftTakenBack::Unknown, "ids are a feed's own");
    t.feed = other;
    t.pass(1);
    assert!(!t.take_back("a1").await);
    assert_eq!(t.list().await.rows.len(), 1);
}

async fn every_gift_taken_back_is_one_entry_of_the_ledger(mut t: Case) {
    t.accepted(gift("a1")).await;
    t.merged(gift("a2")).await;
    for _ in 0..2 {
        t.take_back("a2").await;
        t.take_back("a1").await;
        t.take_back("nobody").await;
    }
    let all = t.take("g").await;
    let tail: Vec<_> = fates(&all).into_iter().skip(2).collect();
    let retracted = EntryStatus::Retracted;
    assert_eq!(tail, [("a2".to_owned(), retracted), ("a1".to_owned(), retracted)]);
    assert_eq!(event(&all[2].entry)["user"]["id"], "ann");
    let less = Some(Delta { count: -1, value: None });
    assert_eq!((&all[2].entry.delta, &all[3].entry.delta), (&less, &less));
    assert_eq!((all[2].entry.seq, all[3].entry.seq), (Some(3), Some(4)));
    assert_eq!(all[2].entry.at, t.now);
}

async fn sums_that_stopped_at_the_limit_give_back_what_they_took(mut t: Case) {
    const MOST: u64 = tipcast::domain::MAX_SAFE;
    t.accepted(gift("a1").value(MOST - 5, "coins")).await;
    t.merged(gift("a2").value(100, "coins")).await;
    t.merged(gift("a3").value(100, "coins")).await;
    let amount = |list: tipcast::engine::Snapshot| list.rows[0].value.as_ref().map(|v| v.amount);
    assert_eq!(amount(t.list().await), Some(MOST));
    assert!(t.take_back("a3").await);
    assert_eq!(amount(t.list().await), Some(MOST), "it had added nothing");
    assert!(t.take_back("a2").await);
    assert_eq!(amount(t.list().await), Some(MOST - 5));
}

async fn all_rows_of_a_user_go_and_no_others(mut t: Case) {
    t.patch(json!({"dedup": "off", "capacity": 20})).await;
    let users = ["u", "u\"", "u\"x", "U", "u ", "ü", "u:1", "{\"id\":\"u\""];
    for round in 0..2 {
        for (n, user) in users.iter().enumerate() {
            t.accepted(gift(&format!("g{round}-{n}")).by(user)).await;
        }
    }
    let at = t.replica.at.seq;
    assert_eq!(t.take_user_back("nobody").await, 0);
    assert_eq!(t.replica.at.seq, at);
    for (n, user) in users.iter().enumerate() {
        assert_eq!(t.take_user_back(user).await, 2, "{user}");
        assert_eq!(t.list().await.rows.len(), 2 * (users.len() - n - 1));
    }
    assert_eq!(t.replica.at.seq, at + 16);
}

async fn overlays_are_told_and_a_snapshot_says_what_holds(mut t: Case) {
    assert_eq!(t.list().await.controls, Controls::default());
    let at = t.control(act(Action::Pause)).await.unwrap();
    assert_eq!(at.seq, 1, "it may be a feed's first change");
    assert_eq!(t.list().await.controls, Controls { paused: true, muted: false });
    t.control(act(Action::Mute)).await.unwrap();
    assert_eq!(t.list().await.controls, Controls { paused: true, muted: true });
    t.accepted(gift("a1")).await;
    t.control(act(Action::Resume)).await.unwrap();
    assert_eq!(t.list().await.controls, Controls { paused: false, muted: true });
    t.patch(json!({"capacity": 3})).await;
    t.control(act(Action::Unmute)).await.unwrap();
    assert_eq!(t.list().await.controls, Controls::default());
}

async fn an_action_that_changes_nothing_makes_no_change(mut t: Case) {
    assert_eq!(t.control(act(Action::Resume)).await.unwrap().seq, 0);
    assert!(t.list().await.at.epoch.is_none(), "a feed is not begun by nothing");
    t.control(act(Action::Pause)).await.unwrap();
    assert_eq!(t.control(act(Action::Pause)).await.unwrap().seq, 1);
    assert_eq!(t.control(act(Action::Unmute)).await.unwrap().seq, 1);
    for seq in 2..4 {
        assert_eq!(t.control(act(Action::Skip)).await.unwrap().seq, seq, "skipping is never nothing");
    }
}

async fn only_a_row_of_the_list_is_replayed(mut t: Case) {
    let replay = |row: &RowId| Control { action: Action::Replay, row: Some(row.clone()) };
    let first = t.accepted(gift("a1")).await;
    assert_eq!(t.control(replay(first.row.as_ref().unwrap())).await.unwrap().seq, 2);
    assert_eq!(t.control(replay(first.row.as_ref().unwrap())).await.unwrap().seq, 3);
    let history = t.engine.read_changes(&t.feed, &first.at, 10).await.unwrap();
    let tipcast::engine::Missed::Changes(changes) = history else { panic!("{history:?}") };
    assert!(changes.iter().all(|change| change.op == Op::Control(replay(first.row.as_ref().unwrap()))));
    t.retract(first.row.as_ref().unwrap()).await;
    assert_eq!(t.control(replay(first.row.as_ref().unwrap())).await, None);
    assert_eq!(t.replica.at.seq, 4);
}

async fn overlay_controls_outlive_the_engine(mut t: Case) {
    t.accepted(gift("a1")).await;
    t.control(act(Action::Pause)).await.unwrap();
    t.control(act(Action::Mute)).await.unwrap();
    t.reopen().await;
    assert_eq!(t.list().await.controls, Controls { paused: true, muted: true });
    // Also where more has happened since than is folded at start.
    for n in 0..300 {
        t.accepted(gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    t.control(act(Action::Resume)).await.unwrap();
    t.reopen().await;
    assert_eq!(t.list().await.controls, Controls { paused: false, muted: true });
}

async fn a_part_outlives_the_engine(mut t: Case) {
    t.accepted(gift("a1").count(3)).await;
    t.merged(gift("a2").count(4)).await;
    t.take_back("a1").await;
    t.reopen().await;
    let at = t.replica.at.clone();
    assert!(t.take_back("a1").await);
    assert_eq!(t.replica.at, at, "it was taken back before");
    assert!(t.take_back("a2").await);
    assert!(t.list().await.rows.is_empty());
}
