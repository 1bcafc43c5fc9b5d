//! Deltas: what a backend credits. They add up to what was given minus what was taken back.

use serde_json::json;
use tipcast::domain::{Block, BlockScope};
use tipcast::engine::BlockUser;

use crate::support::case::Case;
use crate::support::gifts::{GiftSpec, gift};

on_every_engine![
    a_combo_is_given_what_it_grew_by_whatever_becomes_of_its_rows,
    frames_that_nobody_sees_are_paid_for_once,
    a_frame_behind_the_last_gives_nothing,
    a_combo_is_known_for_as_long_as_ids_are,
    what_was_given_is_taken_back_once_and_what_was_not_leaves_no_entry,
];

/// The deltas that came since, as `COUNT AMOUNT CURRENCY`.
async fn deltas(t: &mut Case) -> Vec<String> {
    let all = t.consume("sum").await;
    let told = |(amount, currency): &(i64, String)| format!(" {amount} {currency}");
    all.iter()
        .map(|it| it.entry.delta.as_ref().unwrap())
        .map(|delta| format!("{}{}", delta.count, delta.value.as_ref().map(told).unwrap_or_default()))
        .collect()
}

fn frame(id: &str, count: u32, amount: u64) -> GiftSpec {
    gift(id).combo("run", count).value(amount, "EUR")
}

async fn a_combo_is_given_what_it_grew_by_whatever_becomes_of_its_rows(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    t.accepted(frame("f1", 3, 30)).await;
    t.merged(frame("f2", 5, 50)).await;
    t.merged(frame("late", 4, 40)).await;
    assert_eq!(deltas(&mut t).await, ["3 30 EUR", "2 20 EUR", "0 0 EUR"]);
    // Its row leaves the list, and the next frame says everything since the beginning.
    t.accepted(gift("other").by("bob")).await;
    let row = t.accepted(frame("f3", 9, 90)).await.row.unwrap();
    assert_eq!(deltas(&mut t).await, ["1", "4 40 EUR"]);
    t.retract(&row).await;
    t.accepted(frame("f4", 10, 100)).await;
    t.accepted(gift("f5").combo("run", 12).value(7, "coins")).await;
    assert_eq!(t.list().await.rows[0].count, 12);
    let seen = deltas(&mut t).await;
    assert_eq!(seen[seen.len() - 2..], ["1 10 EUR", "2 7 coins"]);
    // A first frame that says 0 is one gift on screen.
    t.accepted(gift("zero").combo("none", 0)).await;
    t.merged(gift("one").combo("none", 1)).await;
    t.accepted(gift("tested").combo("run", 99).test()).await;
    assert_eq!(deltas(&mut t).await, ["1", "0"]);
}

async fn frames_that_nobody_sees_are_paid_for_once(mut t: Case) {
    t.accepted(frame("f1", 2, 20)).await;
    let block = Block { user: "ann".into(), at: t.now, until: Some(t.now.plus(1_000)) };
    t.engine.run(BlockUser { scope: BlockScope::Feed(t.feed.clone()), block }).await.unwrap();
    t.suppressed(frame("f2", 5, 50)).await;
    t.pass(1_000);
    t.merged(frame("f3", 6, 60)).await;
    assert_eq!(deltas(&mut t).await, ["2 20 EUR", "3 30 EUR", "1 10 EUR"]);
    t.patch(json!({"dedup": "drop"})).await;
    t.accepted(gift("a1").by("bob").count(2).value(5, "EUR")).await;
    t.suppressed(gift("a2").by("bob").count(3).value(6, "EUR")).await;
    assert!(t.take_back("a2").await);
    assert_eq!(deltas(&mut t).await, ["2 5 EUR", "3 6 EUR", "-3 -6 EUR"]);
    assert!(t.take_back("f2").await && t.take_back("f2").await);
    assert_eq!(deltas(&mut t).await, ["-3 -30 EUR"]);
}

async fn a_frame_behind_the_last_gives_nothing(mut t: Case) {
    t.patch(json!({"capacity": 1})).await;
    t.accepted(frame("f1", 3, 30)).await;
    t.merged(frame("f2", 5, 50).end()).await;
    t.merged(frame("f3", 9, 90)).await;
    assert_eq!(deltas(&mut t).await, ["3 30 EUR", "2 20 EUR", "0"]);
    t.accepted(gift("other").by("bob")).await;
    t.accepted(frame("f4", 5, 50)).await;
    assert_eq!(deltas(&mut t).await, ["1", "0 0 EUR"]);
}

async fn a_combo_is_known_for_as_long_as_ids_are(mut t: Case) {
    t.patch(json!({"capacity": 1, "idempotency_window_ms": 60_000})).await;
    t.accepted(frame("f1", 3, 30)).await;
    t.pass(59_999);
    t.merged(frame("f2", 4, 40)).await;
    t.accepted(gift("other").by("bob")).await;
    t.pass(59_999);
    t.accepted(frame("f3", 4, 40)).await;
    t.accepted(gift("another").by("bob").kind("cake")).await;
    t.pass(60_000);
    t.accepted(frame("f4", 2, 20)).await;
    assert_eq!(deltas(&mut t).await, ["3 30 EUR", "1 10 EUR", "1", "0 0 EUR", "1", "2 20 EUR"]);
}

async fn what_was_given_is_taken_back_once_and_what_was_not_leaves_no_entry(mut t: Case) {
    const MOST: u64 = tipcast::domain::MAX_SAFE;
    t.accepted(frame("f1", 3, 30)).await;
    t.merged(frame("late", 2, 20)).await;
    t.accepted(gift("t1").by("tester").test()).await;
    assert!(t.take_back("late").await && t.take_back("t1").await && t.take_back("f1").await);
    assert_eq!(deltas(&mut t).await, ["3 30 EUR", "0 0 EUR", "-3 -30 EUR"]);
    // A sum stops at its limit; what was given does not.
    t.accepted(gift("a1").value(MOST - 5, "coins")).await;
    t.merged(gift("a2").value(100, "coins")).await;
    t.merged(gift("a3").value(0, "coins")).await;
    assert!(t.take_back("a2").await && t.take_back("a3").await);
    let wanted =
        [format!("1 {} coins", MOST - 5), "1 100 coins".into(), "1 0 coins".into(), "-1 -100 coins".into()];
    let seen = deltas(&mut t).await;
    assert_eq!(seen[..4], wanted);
    assert_eq!(seen[4], "-1 0 coins");
}
