//! Money: minor units, exact to 2^53−1, never across currencies.

use serde_json::json;
use tipcast::domain::{MAX_SAFE, Value};

use crate::support::case::Case;
use crate::support::gifts::gift;

on_every_engine![
    values_add_exactly_to_the_last_unit,
    sums_stop_at_the_largest_safe_integer,
    another_currency_starts_a_row_that_takes_the_lock,
    a_gift_without_value_joins_any_row_and_gives_way_to_one_with,
    a_value_of_zero_is_a_value,
    a_combos_value_is_the_largest_seen,
    a_combo_frame_in_another_currency_starts_a_row,
    the_largest_value_survives_untouched,
];

fn value(amount: u64, currency: &str) -> Option<Value> {
    Some(Value { amount, currency: currency.into() })
}

async fn values_add_exactly_to_the_last_unit(mut t: Case) {
    t.accepted(gift("g1").value(4_503_599_627_370_497, "EUR")).await;
    t.merged(gift("g2").value(1, "EUR")).await;
    t.merged(gift("g3").value(4_503_599_627_370_491, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(9_007_199_254_740_989, "EUR"));
}

async fn sums_stop_at_the_largest_safe_integer(mut t: Case) {
    t.accepted(gift("g1").value(MAX_SAFE - 1, "EUR")).await;
    t.merged(gift("g2").value(1, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(MAX_SAFE, "EUR"));
    t.merged(gift("g3").value(1, "EUR")).await;
    t.merged(gift("g4").value(MAX_SAFE, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(MAX_SAFE, "EUR"));
}

async fn another_currency_starts_a_row_that_takes_the_lock(mut t: Case) {
    let euro = t.accepted(gift("g1").value(5, "EUR")).await;
    let dollar = t.accepted(gift("g2").value(7, "USD")).await;
    assert_ne!(euro.row, dollar.row);
    assert_eq!(t.merged(gift("g3").value(1, "USD")).await.row, dollar.row);
    let list = t.list().await;
    assert_eq!((&list.rows[0].value, &list.rows[1].value), (&value(8, "USD"), &value(5, "EUR")));
}

async fn a_gift_without_value_joins_any_row_and_gives_way_to_one_with(mut t: Case) {
    t.accepted(gift("g1")).await;
    t.merged(gift("g2").value(3, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(3, "EUR"));
    t.merged(gift("g3")).await;
    let list = t.list().await;
    assert_eq!((&list.rows[0].value, list.rows[0].count), (&value(3, "EUR"), 3));
    t.accepted(gift("g4").value(3, "USD")).await;
}

async fn a_value_of_zero_is_a_value(mut t: Case) {
    t.accepted(gift("g1").value(0, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(0, "EUR"));
    t.accepted(gift("g2").value(0, "USD")).await;
}

async fn a_combos_value_is_the_largest_seen(mut t: Case) {
    t.accepted(gift("g1").combo("c", 2).value(20, "EUR")).await;
    t.merged(gift("g2").combo("c", 5).value(50, "EUR")).await;
    t.merged(gift("g3").combo("c", 3).value(30, "EUR")).await;
    assert_eq!(t.list().await.rows[0].value, value(50, "EUR"));
    t.merged(gift("g4").combo("c", 5).value(MAX_SAFE, "EUR")).await;
    let list = t.list().await;
    assert_eq!((&list.rows[0].value, list.rows[0].count), (&value(MAX_SAFE, "EUR"), 5));
    t.merged(gift("g5").combo("c", 6)).await;
    assert_eq!(t.list().await.rows[0].value, value(MAX_SAFE, "EUR"));
}

async fn a_combo_frame_in_another_currency_starts_a_row(mut t: Case) {
    let euro = t.accepted(gift("g1").combo("c", 2).value(20, "EUR")).await;
    let dollar = t.accepted(gift("g2").combo("c", 3).value(30, "USD")).await;
    assert_ne!(euro.row, dollar.row);
    let list = t.list().await;
    assert_eq!((list.rows[0].count, list.rows[1].count), (3, 2));
}

async fn the_largest_value_survives_untouched(mut t: Case) {
    t.patch(json!({"dedup": "off"})).await;
    for amount in [MAX_SAFE, MAX_SAFE - 1, 100_000_000_000_001, 99_999_999_999_999] {
        t.accepted(gift(&format!("g{amount}")).value(amount, "abcdefghijkl")).await;
        assert_eq!(t.list().await.rows[0].value, value(amount, "abcdefghijkl"));
    }
}
