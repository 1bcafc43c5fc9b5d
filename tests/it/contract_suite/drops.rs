//! Section 5: drops, claims and holds.

use serde_json::json;
use tipcast::domain::moderate::{GiftRefunded, TakingBack};
use tipcast::domain::{
    Cancelled, ClaimOutcome, ClaimRefused, ClaimState, Claimed, Confirmed, Defined, HoldId, Millis, Phase,
    RowDrop,
};

use crate::support::case::Case;
use crate::support::claims::{claim, held, hold, named, rockets, with};
use crate::support::gifts::gift;

on_every_engine!(
    a_new_drop_is_open_and_told_at_once,
    a_sale_is_a_row_of_its_own_with_what_is_left,
    the_same_claim_gets_the_first_answer_whatever_became_of_the_drop,
    a_claim_is_filled_whole_or_refused,
    one_user_has_at_most_per_user_units,
    a_hold_gives_its_unit_back_when_its_time_is_over,
    a_hold_is_over_in_the_very_millisecond,
    a_look_that_another_node_sent_earlier_leaves_a_hold_as_it_was_answered,
    confirming_sells_and_confirming_again_repeats,
    cancelling_gives_back_once,
    holds_are_limited_over_all_drops_of_the_feed,
    a_total_may_grow_and_shrink_down_to_what_is_taken,
    a_drop_opens_and_closes_by_time,
    a_hold_may_be_confirmed_after_the_drop_closed,
    stock_is_told_at_most_twice_a_second_and_the_last_state_always,
    watchers_are_reminded_before_it_opens_and_closes,
    an_ended_hold_is_known_for_the_idempotency_window,
    a_missing_hold_is_unknown,
    drops_are_listed_by_name_and_do_not_meet,
    drops_survive_another_engine_on_the_same_store,
    a_sale_neither_takes_nor_heeds_the_dedup_lock,
    sales_are_refunded_in_part_and_taken_back_and_their_units_return_once,
);

fn at(ms: u64) -> serde_json::Value {
    json!(Millis(1_800_000_000_000).plus(ms).to_string())
}

async fn a_new_drop_is_open_and_told_at_once(mut case: Case) {
    let Defined::New(view) = case.define("r", rockets(3)).await else { panic!() };
    assert_eq!((view.phase, view.free, view.held, view.sold), (Phase::Open, 3, 0, 0));
    assert_eq!(case.told("r").await, (Phase::Open, 3, 0, 0));
    assert_eq!(case.stock("r").await, view);
    assert!(!case.list().await.at.epoch.is_none(), "it began the feed");
    let Defined::Changed(again) = case.define("r", rockets(3)).await else { panic!() };
    assert_eq!(again, view);
}

async fn a_sale_is_a_row_of_its_own_with_what_is_left(mut case: Case) {
    case.define("r", with(rockets(3), "per_user", json!(2))).await;
    let body = with(with(claim("c", "ann"), "count", json!(2)), "message", json!("mine \"!\""));
    let answer = case.filled("r", body).await;
    let ClaimOutcome::Sold(sale) = &answer.fate else { panic!("{answer:?}") };
    let list = case.list().await;
    let row = list.rows.iter().find(|row| row.id == sale.row).unwrap();
    assert_eq!(
        (row.seq, row.count, &row.drop),
        (sale.at.seq, 2, &Some(RowDrop { drop: named("r"), left: 1 }))
    );
    assert_eq!(
        (&*row.gift, row.message.as_deref()),
        (r#"{"id":"rocket","name":"Rocket"}"#, Some(r#""mine \"!\"""#))
    );
    assert_eq!(&*row.user, r#"{"id":"ann","name":"user ann"}"#);
    assert_eq!(case.units("r").await, (1, 0, 2));
}

async fn the_same_claim_gets_the_first_answer_whatever_became_of_the_drop(mut case: Case) {
    case.define("r", rockets(2)).await;
    let sold = case.filled("r", claim("c1", "ann")).await;
    let kept = case.filled("r", hold("c2", "bob")).await;
    assert_eq!(case.claim("r", &claim("c1", "ann")).await, Claimed::Again(sold.clone()));
    assert_eq!(case.claim("r", &claim("c1", "bob")).await, Claimed::Refused(ClaimRefused::IdReused));
    assert_eq!(case.claim("r", &hold("c1", "ann")).await, Claimed::Refused(ClaimRefused::IdReused));
    assert_eq!(case.stock("r").await.phase, Phase::SoldOut);
    assert_eq!(case.claim("r", &hold("c2", "bob")).await, Claimed::Again(kept.clone()));
    case.confirm(&held(&kept).0).await;
    assert_eq!(case.claim("r", &hold("c2", "bob")).await, Claimed::Again(kept.clone()));
    case.pass(1);
    case.define("r", with(rockets(2), "closes_at", at(1))).await;
    assert_eq!(case.stock("r").await.phase, Phase::Closed);
    assert_eq!(case.claim("r", &claim("c1", "ann")).await, Claimed::Again(sold));
    assert_eq!(case.claim("r", &hold("c2", "bob")).await, Claimed::Again(kept));
    assert_eq!(case.units("r").await, (0, 0, 2));
}

async fn a_claim_is_filled_whole_or_refused(mut case: Case) {
    case.define("r", with(rockets(3), "per_user", json!(3))).await;
    let three = |id: &str, user: &str, n: u64| with(claim(id, user), "count", json!(n));
    assert_eq!(case.refused("r", three("c", "ann", 4)).await, ClaimRefused::AbovePerUser(3));
    case.filled("r", three("c", "ann", 2)).await;
    assert_eq!(case.refused("r", three("d", "bob", 2)).await, ClaimRefused::SoldOut(1));
    // A refusal is not remembered: the same id may ask for less.
    case.filled("r", three("d", "bob", 1)).await;
    assert_eq!(case.refused("r", three("e", "eve", 1)).await, ClaimRefused::SoldOut(0));
    assert_eq!(case.told("r").await, (Phase::SoldOut, 0, 0, 3));
}

async fn one_user_has_at_most_per_user_units(mut case: Case) {
    case.define("r", with(rockets(9), "per_user", json!(3))).await;
    let of = |body, n: u64| with(body, "count", json!(n));
    let first = case.filled("r", of(hold("c1", "ann"), 2)).await;
    let refused = case.refused("r", of(claim("c2", "ann"), 2)).await;
    assert_eq!(refused, ClaimRefused::AlreadyClaimed(Some(first.clone())));
    let second = case.filled("r", of(claim("c2", "ann"), 1)).await;
    assert_eq!(case.give_back(&first.claim).await, Cancelled::Done);
    let refused = case.refused("r", of(claim("c3", "ann"), 3)).await;
    assert_eq!(refused, ClaimRefused::AlreadyClaimed(Some(second)), "the first that stands");
    case.filled("r", of(claim("c3", "ann"), 2)).await;
    case.filled("r", of(claim("c4", "\" ~a"), 3)).await;
    assert_eq!(case.units("r").await, (3, 0, 6));
}

async fn a_hold_gives_its_unit_back_when_its_time_is_over(mut case: Case) {
    case.define("r", with(rockets(1), "hold_ttl_ms", json!(5_000))).await;
    let answer = case.filled("r", hold("c1", "ann")).await;
    assert_eq!(held(&answer).1, case.now.plus(5_000));
    assert_eq!(case.told("r").await, (Phase::SoldOut, 0, 1, 0));
    assert_eq!(case.holds_of("ann").await.len(), 1);
    assert_eq!(case.refused("r", hold("c2", "bob")).await, ClaimRefused::SoldOut(0));
    case.pass(5_000);
    // Nobody has looked: the claim itself finds that the hold has ended.
    case.filled("r", hold("c2", "bob")).await;
    assert_eq!(case.holds_of("ann").await, []);
    assert_eq!(case.confirm(&answer.claim).await, Confirmed::Ended);
    assert_eq!(case.give_back(&answer.claim).await, Cancelled::Ended);
    assert_eq!(case.units("r").await, (0, 1, 0));
    case.pass(5_000);
    assert_eq!(case.units("r").await, (1, 0, 0));
    case.pass(600);
    case.stock("r").await;
    assert_eq!(case.told("r").await, (Phase::Open, 1, 0, 0));
    // An ended hold gives the user's units back too.
    case.filled("r", claim("c3", "ann")).await;
}

async fn a_hold_is_over_in_the_very_millisecond(mut case: Case) {
    case.define("r", with(rockets(2), "hold_ttl_ms", json!(1))).await;
    let early = case.filled("r", hold("c1", "ann")).await.claim;
    assert!(matches!(case.confirm(&early).await, Confirmed::New(_)));
    let late = case.filled("r", hold("c2", "bob")).await.claim;
    case.pass(1);
    assert_eq!(case.confirm(&late).await, Confirmed::Ended);
    assert_eq!(case.units("r").await, (1, 0, 1));
}

async fn a_look_that_another_node_sent_earlier_leaves_a_hold_as_it_was_answered(mut case: Case) {
    case.define("r", rockets(2)).await;
    case.pass(500);
    let answer = case.filled("r", hold("c1", "ann")).await;
    let earlier = Millis(case.now.0 - 2);
    case.engine.tick_drop(&case.feed, &named("r"), earlier).await.unwrap();
    assert_eq!(case.claim("r", &hold("c1", "ann")).await, Claimed::Again(answer));
}

async fn confirming_sells_and_confirming_again_repeats(mut case: Case) {
    case.define("r", with(rockets(5), "per_user", json!(3))).await;
    let body = with(with(hold("c1", "ann"), "count", json!(3)), "message", json!("hi"));
    let answer = case.filled("r", body).await;
    assert!(case.list().await.rows.is_empty(), "a hold is not shown");
    case.pass(10);
    let Confirmed::New(sold) = case.confirm(&answer.claim).await else { panic!() };
    let ClaimOutcome::Sold(sale) = &sold.fate else { panic!() };
    let list = case.list().await;
    assert_eq!((&list.rows[0].id, list.rows[0].count), (&sale.row, 3));
    assert_eq!(list.rows[0].drop, Some(RowDrop { drop: named("r"), left: 2 }));
    assert_eq!(list.rows[0].message.as_deref(), Some("\"hi\""));
    assert_eq!(case.confirm(&answer.claim).await, Confirmed::Again(sold));
    assert_eq!(case.give_back(&answer.claim).await, Cancelled::Ended);
    assert_eq!((case.units("r").await, case.holds_of("ann").await), ((2, 0, 3), vec![]));
    case.pass(86_400_000);
    assert!(matches!(case.confirm(&answer.claim).await, Confirmed::Again(_)), "a sale is not forgotten");
}

async fn cancelling_gives_back_once(mut case: Case) {
    case.define("r", rockets(1)).await;
    let answer = case.filled("r", hold("c1", "ann")).await;
    assert_eq!(case.give_back(&answer.claim).await, Cancelled::Done);
    assert_eq!(case.give_back(&answer.claim).await, Cancelled::Ended);
    assert_eq!(case.confirm(&answer.claim).await, Confirmed::Ended);
    assert_eq!(case.claim("r", &hold("c1", "ann")).await, Claimed::Again(answer), "its first answer");
    assert_eq!(case.units("r").await, (1, 0, 0));
    case.pass(1_800_000);
    assert_eq!(case.units("r").await, (1, 0, 0));
}

async fn holds_are_limited_over_all_drops_of_the_feed(mut case: Case) {
    case.define("a", with(rockets(9), "hold_ttl_ms", json!(10_000))).await;
    case.define("b", with(with(rockets(9), "per_user", json!(9)), "hold_ttl_ms", json!(4_001))).await;
    case.filled("a", hold("c1", "ann")).await;
    case.pass(1);
    case.filled("b", with(hold("c1", "ann"), "count", json!(5))).await;
    case.filled("b", hold("c2", "ann")).await;
    case.filled("b", hold("c3", "bob")).await;
    assert_eq!(case.refused("b", hold("c4", "ann")).await, ClaimRefused::TooManyHolds(4_001));
    case.filled("b", claim("c5", "ann")).await;
    let ends: Vec<_> = case.holds_of("ann").await.iter().map(|h| (h.hold.to_string(), h.count)).collect();
    assert_eq!(ends, [("b~c1".into(), 5), ("b~c2".into(), 1), ("a~c1".into(), 1)]);
    // Holds of another drop that are over do not count, though nobody has looked at that drop.
    case.pass(4_001);
    assert_eq!(case.holds_of("ann").await.len(), 1);
    case.define("c", with(rockets(9), "max_holds_per_user", json!(1))).await;
    assert_eq!(case.refused("c", hold("c1", "ann")).await, ClaimRefused::TooManyHolds(5_998));
    case.pass(5_998);
    case.filled("c", hold("c1", "ann")).await;
}

async fn a_total_may_grow_and_shrink_down_to_what_is_taken(mut case: Case) {
    case.define("r", rockets(5)).await;
    case.filled("r", claim("c1", "ann")).await;
    case.filled("r", hold("c2", "bob")).await;
    assert_eq!(case.define("r", rockets(1)).await, Defined::BelowTaken(2));
    assert_eq!(case.units("r").await, (3, 1, 1));
    let Defined::Changed(view) = case.define("r", rockets(2)).await else { panic!() };
    assert_eq!((view.phase, view.free), (Phase::SoldOut, 0));
    assert_eq!(case.told("r").await, (Phase::SoldOut, 0, 1, 1), "sold out is told at once");
    let Defined::Changed(view) = case.define("r", rockets(1_000_000_000)).await else { panic!() };
    assert_eq!((view.phase, view.free), (Phase::Open, 999_999_998));
    case.pass(1_800_000);
    assert_eq!(
        case.define("r", rockets(1)).await,
        Defined::Changed(case.stock("r").await),
        "the hold is over"
    );
    assert_eq!(case.units("r").await, (0, 0, 1));
}

async fn a_drop_opens_and_closes_by_time(mut case: Case) {
    let body = with(with(rockets(5), "opens_at", at(1_000)), "closes_at", at(3_000));
    case.define("r", body).await;
    assert_eq!(case.told("r").await.0, Phase::Pending);
    case.pass(999);
    assert_eq!(case.refused("r", claim("c1", "ann")).await, ClaimRefused::NotOpen(Phase::Pending));
    case.pass(1);
    // The claim opens it, if nobody did.
    case.filled("r", claim("c1", "ann")).await;
    assert_eq!(case.told("r").await.0, Phase::Open);
    case.pass(1_999);
    case.filled("r", claim("c2", "bob")).await;
    case.pass(1);
    assert_eq!(
        case.claim("r", &claim("c3", "eve")).await,
        Claimed::Refused(ClaimRefused::NotOpen(Phase::Closed))
    );
    assert_eq!(case.told("r").await, (Phase::Closed, 3, 0, 2));
    case.define("r", rockets(5)).await;
    assert_eq!(case.told("r").await.0, Phase::Open, "opened again");
}

async fn a_hold_may_be_confirmed_after_the_drop_closed(mut case: Case) {
    case.define("r", with(rockets(5), "closes_at", at(1_000))).await;
    let one = case.filled("r", hold("c1", "ann")).await.claim;
    let two = case.filled("r", hold("c2", "bob")).await.claim;
    case.pass(2_000);
    assert!(matches!(case.confirm(&one).await, Confirmed::New(_)));
    assert_eq!(case.give_back(&two).await, Cancelled::Done);
    assert_eq!(case.units("r").await, (4, 0, 1));
}

async fn stock_is_told_at_most_twice_a_second_and_the_last_state_always(mut case: Case) {
    case.define("r", rockets(100)).await;
    case.pass(10_000);
    let before = case.list().await.at.seq;
    for n in 0..50 {
        case.filled("r", hold(&format!("c{n}"), &format!("u{n}"))).await;
        case.pass(20);
    }
    let told = case.list().await.at.seq - before;
    assert!((1..=2).contains(&told), "{told} in one second");
    case.pass(600);
    assert_eq!(case.units("r").await, (50, 50, 0));
    assert_eq!(case.told("r").await, (Phase::Open, 50, 50, 0), "the last state");
    let quiet = case.list().await.at;
    case.pass(10_000);
    case.stock("r").await;
    assert_eq!(case.list().await.at, quiet, "nothing changed, nothing is told");
}

async fn watchers_are_reminded_before_it_opens_and_closes(mut case: Case) {
    case.define("r", with(with(rockets(5), "opens_at", at(100_000)), "closes_at", at(300_000))).await;
    let mut told = vec![];
    for second in 1..=301 {
        case.pass(1_000);
        let before = case.list().await.at.seq;
        case.stock("r").await;
        if case.list().await.at.seq != before {
            told.push((second, case.told("r").await.0));
        }
    }
    assert_eq!(told, [(40, Phase::Pending), (100, Phase::Open), (240, Phase::Open), (300, Phase::Closed)]);
}

async fn an_ended_hold_is_known_for_the_idempotency_window(mut case: Case) {
    case.put(json!({"idempotency_window_ms": 60_000})).await;
    case.define("r", with(rockets(2), "hold_ttl_ms", json!(1_000))).await;
    let one = case.filled("r", hold("c1", "ann")).await.claim;
    let two = case.filled("r", hold("c2", "bob")).await.claim;
    case.give_back(&two).await;
    case.pass(1_000);
    case.stock("r").await;
    case.pass(58_999);
    assert_eq!((case.confirm(&one).await, case.give_back(&two).await), (Confirmed::Ended, Cancelled::Ended));
    case.pass(1);
    assert_eq!(
        (case.confirm(&one).await, case.give_back(&two).await),
        (Confirmed::Ended, Cancelled::Unknown)
    );
    case.pass(1_000);
    assert_eq!(case.confirm(&one).await, Confirmed::Unknown);
    case.filled("r", claim("c2", "eve")).await;
}

async fn a_missing_hold_is_unknown(mut case: Case) {
    let before = case.list().await;
    let unknown = Claimed::Refused(ClaimRefused::UnknownDrop);
    assert_eq!(case.claim("r", &claim("c1", "ann")).await, unknown);
    assert_eq!(case.engine.tick_drop(&case.feed, &named("r"), case.now).await.unwrap(), None);
    assert_eq!(case.engine.list_drops(&case.feed, case.now).await.unwrap(), []);
    assert_eq!(case.holds_of("ann").await, []);
    let none = "r~c".parse().unwrap();
    assert_eq!(
        (case.confirm(&none).await, case.give_back(&none).await),
        (Confirmed::Unknown, Cancelled::Unknown)
    );
    assert_eq!(case.list().await, before, "looking writes nothing");
    case.define("r", rockets(1)).await;
    assert_eq!(
        (case.confirm(&none).await, case.give_back(&none).await),
        (Confirmed::Unknown, Cancelled::Unknown)
    );
    let sold = case.filled("r", claim("c", "ann")).await.claim;
    assert_eq!(
        (case.confirm(&sold).await, case.give_back(&sold).await),
        (Confirmed::Unknown, Cancelled::Unknown)
    );
}

async fn drops_are_listed_by_name_and_do_not_meet(mut case: Case) {
    for (name, total) in [("b", 2), ("a", 1), ("a.b", 3)] {
        case.define(name, rockets(total)).await;
    }
    for name in ["a", "b", "a.b"] {
        case.filled(name, claim("c", "ann")).await;
    }
    let drops = case.engine.list_drops(&case.feed, case.now).await.unwrap();
    let seen: Vec<_> = drops.iter().map(|view| (view.drop.as_str(), view.free, view.sold)).collect();
    assert_eq!(seen, [("a", 0, 1), ("a.b", 2, 1), ("b", 1, 1)]);
    case.pass(600);
    case.engine.list_drops(&case.feed, case.now).await.unwrap();
    let list = case.list().await;
    assert_eq!(list.drops.values().map(|view| view.free).collect::<Vec<_>>(), [0, 2, 1]);
}

async fn drops_survive_another_engine_on_the_same_store(mut case: Case) {
    case.define("r", with(rockets(5), "hold_ttl_ms", json!(9_000))).await;
    let sold = case.filled("r", claim("c1", "ann")).await;
    let kept = case.filled("r", hold("c2", "bob")).await;
    let told = case.list().await;
    case.engine.close().await;
    let engine = case.store.open().await;
    let now = case.now;
    let mut case = Case::with(case.store, engine, case.feed).await;
    case.now = now;
    assert_eq!(case.list().await.drops, told.drops);
    assert_eq!(case.units("r").await, (3, 1, 1));
    assert_eq!(case.claim("r", &claim("c1", "ann")).await, Claimed::Again(sold));
    assert_eq!(case.claim("r", &hold("c2", "bob")).await, Claimed::Again(kept.clone()));
    assert_eq!(case.holds_of("bob").await.len(), 1);
    case.pass(9_000);
    assert_eq!(case.units("r").await, (4, 0, 1));
    assert_eq!(case.confirm(&kept.claim).await, Confirmed::Ended);
}

async fn a_sale_neither_takes_nor_heeds_the_dedup_lock(mut case: Case) {
    case.define("r", with(rockets(5), "per_user", json!(5))).await;
    let rocket = |id: &str| gift(id).kind("rocket");
    let row = case.accepted(rocket("g1")).await.row;
    case.filled("r", claim("c1", "ann")).await;
    case.filled("r", claim("c2", "ann")).await;
    assert_eq!(case.merged(rocket("g2")).await.row, row);
    assert_eq!(case.row_ids().await.len(), 3);
}

async fn sales_are_refunded_in_part_and_taken_back_and_their_units_return_once(mut case: Case) {
    let price = json!({"amount": 500, "currency": "EUR"});
    case.patch(json!({"totals": ["all"], "capacity": 1})).await;
    case.define("r", with(with(rockets(4), "per_user", json!(3)), "value", price)).await;
    case.filled("r", with(claim("c1", "ann"), "count", json!(2))).await;
    let (kept, _) = held(&case.filled("r", hold("c2", "bob")).await);
    case.confirm(&kept).await;
    let (unpaid, _) = held(&case.filled("r", hold("c3", "cid")).await);
    let sold = HoldId { drop: named("r"), claim: "c1".parse().unwrap() };
    let states = async |case: &Case| {
        let mut states = vec![];
        for claim in [&sold, &kept, &unpaid] {
            let (feed, claim, now) = (case.feed.clone(), claim.clone(), case.now);
            states.push(case.engine.look_up_claim(&feed, &claim, now).await.unwrap().unwrap().state);
        }
        states
    };
    assert_eq!(states(&case).await, [ClaimState::Sold, ClaimState::Sold, ClaimState::Held]);
    let reverse = async |case: &Case, claim: &HoldId, refunded: Option<u64>, restock: bool| {
        let what = TakingBack { refunded, reason: Some("late".into()), restock };
        let (feed, claim, now) = (case.feed.clone(), claim.clone(), case.now);
        case.engine.reverse_sale(&feed, &claim, &what, now).await.unwrap()
    };
    let done = |done: GiftRefunded| match done {
        GiftRefunded::Done { whole, refunded, .. } => (whole, refunded),
        other => panic!("{other:?}"),
    };
    // The row of c1 has left the list, that of c2 is shown.
    assert_eq!(done(reverse(&case, &sold, Some(300), false).await), (false, 300));
    assert_eq!(done(reverse(&case, &kept, Some(200), false).await), (false, 200));
    assert_eq!(case.list().await.rows[0].value.as_ref().unwrap().amount, 300);
    assert_eq!(reverse(&case, &unpaid, Some(1), false).await, GiftRefunded::Waits);
    assert_eq!(reverse(&case, &sold, Some(1_001), false).await, GiftRefunded::Above(1_000));
    assert_eq!(done(reverse(&case, &kept, Some(500), false).await), (true, 500));
    assert_eq!(case.list().await.rows.len(), 0);
    for _ in 0..2 {
        assert_eq!(done(reverse(&case, &sold, None, true).await), (true, 300));
        assert_eq!(done(reverse(&case, &unpaid, None, true).await), (true, 0));
    }
    assert_eq!(case.units("r").await, (3, 0, 1));
    assert_eq!(states(&case).await, [ClaimState::Retracted, ClaimState::Retracted, ClaimState::Cancelled]);
    let unknown = HoldId { drop: named("r"), claim: "c9".parse().unwrap() };
    assert_eq!(reverse(&case, &unknown, None, true).await, GiftRefunded::Unknown);
}
