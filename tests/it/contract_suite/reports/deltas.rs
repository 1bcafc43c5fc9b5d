//! Deltas: what a backend credits. They add up to what was given minus what was taken back.

use serde_json::json;
use tipcast::domain::moderate::GiftRefunded;
use tipcast::domain::{Block, BlockScope, Delta};

use crate::support::case::Case;
use crate::support::claims::{claim, rockets, with};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::readers::event;

on_every_engine![
    a_combo_is_given_what_it_grew_by_whatever_becomes_of_its_rows,
    frames_that_nobody_sees_are_paid_for_once,
    a_frame_behind_the_last_gives_nothing,
    a_combo_is_known_for_as_long_as_ids_are,
    a_given_gift_is_retracted_once_and_others_leave_no_entry,
    a_row_is_taken_back_gift_by_gift,
    all_rows_of_a_user_are_taken_back_gift_by_gift,
    a_search_finds_an_entry_among_many,
    a_part_of_a_value_is_refunded_once,
    hidden_gifts_are_refunded_too_and_worthless_ones_not,
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
    assert_eq!(deltas(&mut t).await, ["-4 -40 EUR", "1 10 EUR", "2 7 coins"]);
    // A first frame that says 0 is one gift on screen.
    t.accepted(gift("zero").combo("none", 0)).await;
    t.merged(gift("one").combo("none", 1)).await;
    t.accepted(gift("tested").combo("run", 99).test()).await;
    assert_eq!(deltas(&mut t).await, ["1", "0"]);
}

async fn frames_that_nobody_sees_are_paid_for_once(mut t: Case) {
    t.accepted(frame("f1", 2, 20)).await;
    let block = Block { user: "ann".into(), at: t.now, until: Some(t.now.plus(1_000)) };
    t.engine.block_user(&BlockScope::Feed(t.feed.clone()), &block).await.unwrap();
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
    assert_eq!(deltas(&mut t).await, ["3 30 EUR", "2 20 EUR", "0 0 EUR"]);
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

async fn a_given_gift_is_retracted_once_and_others_leave_no_entry(mut t: Case) {
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

/// The entries that came since: type, the gift's id, user and kind, count of the delta, seq, drop.
async fn entries(t: &mut Case) -> Vec<String> {
    let all = t.consume("all").await;
    all.iter()
        .map(|it| {
            let (entry, event) = (&it.entry, event(&it.entry));
            let drop = entry.drop.as_ref().map(|drop| format!(" {drop}")).unwrap_or_default();
            let seq = entry.seq.map_or("-".to_owned(), |seq| seq.to_string());
            let who =
                [&event["id"], &event["user"]["id"], &event["gift"]["id"]].map(|it| it.as_str().unwrap());
            format!(
                "{} {} {} {seq}{drop}",
                entry.status.kind(),
                who.join(" "),
                entry.delta.as_ref().unwrap().count
            )
        })
        .collect()
}

async fn a_row_is_taken_back_gift_by_gift(mut t: Case) {
    let row = t.accepted(gift("a1").count(2)).await.row.unwrap();
    t.accepted(gift("b1").by("bob")).await;
    t.merged(gift("a2").count(3)).await;
    t.merged(gift("a3").count(4)).await;
    t.patch(json!({"dedup": "drop"})).await;
    t.suppressed(gift("a4").count(5)).await;
    assert!(t.take_back("a2").await);
    entries(&mut t).await;
    t.retract(&row).await;
    let at = t.list().await.at.seq;
    let wanted =
        [format!("gift.retracted a1 ann rose -2 {at}"), format!("gift.retracted a3 ann rose -4 {at}")];
    assert_eq!(entries(&mut t).await, wanted);
    // Whatever is taken back once more is not taken back twice; what the row never had is its own matter.
    for id in ["a1", "a2", "a3", "a4", "a4"] {
        assert!(t.take_back(id).await, "{id}");
    }
    assert_eq!(entries(&mut t).await, ["gift.retracted a4 ann rose -5 -"]);
    assert_eq!(t.retract(&row).await, None);
    // A row of a test has no entries, a sale's has its claim.
    let test = t.accepted(gift("t1").by("tester").test()).await.row.unwrap();
    t.retract(&test).await;
    assert_eq!(entries(&mut t).await, Vec::<String>::new());
    t.define("r", with(rockets(9), "per_user", json!(9))).await;
    t.filled("r", with(claim("c1", "cid"), "count", json!(2))).await;
    let sold = t.list().await.rows[0].id.clone();
    entries(&mut t).await;
    t.retract(&sold).await;
    let at = t.list().await.at.seq;
    assert_eq!(entries(&mut t).await, [format!("gift.retracted c1 cid rocket -2 {at} r")]);
}

async fn all_rows_of_a_user_are_taken_back_gift_by_gift(mut t: Case) {
    t.accepted(gift("a1")).await;
    t.accepted(gift("b1").by("bob")).await;
    t.accepted(gift("a2").kind("cake")).await;
    t.merged(gift("a3")).await;
    entries(&mut t).await;
    let before = t.list().await.at.seq;
    let engine = t.engine.clone();
    assert_eq!(engine.retract_user(&t.feed, "ann", t.now).await.unwrap(), 2);
    let wanted = [("a1", "rose", before + 1), ("a3", "rose", before + 1), ("a2", "cake", before + 2)];
    let wanted = wanted.map(|(id, kind, seq)| format!("gift.retracted {id} ann {kind} -1 {seq}"));
    assert_eq!(entries(&mut t).await, wanted);
}

async fn a_search_finds_an_entry_among_many(mut t: Case) {
    t.patch(json!({"dedup": "drop", "capacity": 2})).await;
    let row = t.accepted(gift("first").by("zoe").count(7)).await.row.unwrap();
    for part in 0..8 {
        t.post_all((0..100).map(|n| gift(&format!("s-{part}-{n}")).by("zoe"))).await;
        t.accepted(gift(&format!("m-{part}")).by("mia").kind(&part.to_string()).count(2)).await;
        let newest = t.list().await.rows[0].id.clone();
        t.retract(&newest).await;
    }
    entries(&mut t).await;
    assert!(t.take_back("s-3-50").await && t.take_back("m-5").await);
    assert_eq!(entries(&mut t).await, ["gift.retracted s-3-50 zoe rose -1 -"]);
    t.retract(&row).await;
    let at = t.list().await.at.seq;
    assert_eq!(entries(&mut t).await, [format!("gift.retracted first zoe rose -7 {at}")]);
    assert!(t.take_back("m-5").await && t.take_back("first").await);
    assert_eq!(entries(&mut t).await, Vec::<String>::new());
}

async fn refund(t: &mut Case, id: &str, refunded: u64) -> GiftRefunded {
    let (feed, id, now) = (t.feed.clone(), id.parse().unwrap(), t.now);
    let reason = Some("so \"said\"".to_owned());
    let done = t.engine.refund_gift(&feed, &id, refunded, reason, now).await.unwrap();
    t.list().await;
    done
}

/// The value of the newest row, as it is shown.
async fn shown(t: &mut Case) -> Option<(u64, u64)> {
    let rows = t.list().await.rows;
    rows.first().map(|row| (row.count, row.value.as_ref().map_or(0, |value| value.amount)))
}

async fn a_part_of_a_value_is_refunded_once(mut t: Case) {
    let row = t.accepted(gift("a1").count(2).value(500, "EUR")).await.row;
    t.merged(gift("a2").value(300, "EUR")).await;
    let done = |whole, refunded| GiftRefunded::Done { whole, refunded, row: row.clone() };
    assert_eq!(refund(&mut t, "a1", 120).await, done(false, 120));
    assert_eq!(shown(&mut t).await, Some((3, 680)));
    let at = t.list().await.at;
    for less in [120, 119, 0] {
        assert_eq!(refund(&mut t, "a1", less).await, done(false, 120), "{less}");
    }
    assert_eq!(refund(&mut t, "a1", 501).await, GiftRefunded::Above(500));
    assert_eq!(t.list().await.at, at, "nothing was changed");
    assert_eq!(refund(&mut t, "a1", 200).await, done(false, 200));
    let all = t.consume("sum").await;
    let refunds: Vec<_> = all.iter().skip(2).map(|it| &it.entry).collect();
    assert_eq!(refunds.len(), 2);
    for (entry, amount) in refunds.iter().zip([-120, -80]) {
        assert_eq!(entry.status.kind(), "gift.refunded");
        assert_eq!(entry.delta, Some(Delta { count: 0, value: Some((amount, "EUR".to_owned())) }));
        assert_eq!(
            (entry.row.as_ref(), entry.reason.as_deref()),
            (row.as_ref(), Some("\"so \\\"said\\\"\""))
        );
        assert_eq!(event(entry)["gift"]["id"], "rose");
        assert!(entry.seq.is_some());
    }
    // All of it: the gift is taken back, with what is left.
    assert_eq!(refund(&mut t, "a1", 500).await, done(true, 500));
    assert_eq!(shown(&mut t).await, Some((1, 300)));
    assert_eq!(deltas(&mut t).await, ["-2 -300 EUR"]);
    assert_eq!(refund(&mut t, "a1", 500).await, done(true, 500));
    assert!(t.take_back("a1").await);
    // A row that is taken back takes back what is left.
    assert_eq!(refund(&mut t, "a2", 299).await, done(false, 299));
    t.retract(row.as_ref().unwrap()).await;
    assert_eq!(deltas(&mut t).await, ["0 -299 EUR", "-1 -1 EUR"]);
    assert_eq!(refund(&mut t, "a2", 300).await, done(true, 299));
    assert_eq!(deltas(&mut t).await, Vec::<String>::new());
}

async fn hidden_gifts_are_refunded_too_and_worthless_ones_not(mut t: Case) {
    t.patch(json!({"dedup": "drop"})).await;
    t.accepted(gift("a1").value(10, "coins")).await;
    t.suppressed(gift("a2").value(20, "coins")).await;
    assert!(matches!(refund(&mut t, "a2", 5).await, GiftRefunded::Done { whole: false, refunded: 5, .. }));
    assert_eq!(shown(&mut t).await, Some((1, 10)), "it was no part of the row");
    assert!(t.take_back("a2").await);
    t.accepted(gift("plain").by("bob")).await;
    assert_eq!(refund(&mut t, "plain", 0).await, GiftRefunded::NoValue);
    assert_eq!(refund(&mut t, "nobody", 5).await, GiftRefunded::Unknown);
    t.scheduled(gift("late").value(9, "coins").with("delay_ms", json!(1_000))).await;
    assert_eq!(refund(&mut t, "late", 5).await, GiftRefunded::Waits);
    t.cancel("late").await;
    assert_eq!(refund(&mut t, "late", 5).await, GiftRefunded::Done { whole: true, refunded: 0, row: None });
    let wanted = ["1 10 coins", "1 20 coins", "0 -5 coins", "-1 -15 coins", "1"];
    assert_eq!(deltas(&mut t).await, wanted);
    // The row of a test loses it, and nothing is entered.
    t.accepted(gift("t1").by("tester").value(50, "coins").test()).await;
    assert!(matches!(refund(&mut t, "t1", 20).await, GiftRefunded::Done { whole: false, refunded: 20, .. }));
    assert_eq!(shown(&mut t).await, Some((1, 30)));
    assert!(t.take_back("t1").await);
    assert_eq!(deltas(&mut t).await, Vec::<String>::new());
}
