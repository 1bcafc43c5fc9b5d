//! Gifts that are shown later: when, in which order, once, and what their ids are worth meanwhile.

use serde_json::json;
use tipcast::domain::{Answer, GiftId, Millis, Outcome, Status};
use tipcast::engine::{DUE_BATCH, DueDone, Unscheduled};

use crate::support::case::Case;
use crate::support::gifts::{GiftSpec, gift};
use crate::support::stores::Storage;

on_every_engine![
    a_gift_for_later_waits_and_begins_nothing,
    nothing_is_shown_before_its_time,
    due_gifts_show_in_the_order_of_their_time_then_arrival,
    gifts_of_the_same_time_show_in_the_order_of_arrival_past_a_full_step,
    a_policys_delay_holds_for_gifts_that_come_while_it_is_set,
    a_gifts_own_time_replaces_the_policys_delay,
    due_gifts_meet_the_lock_and_the_combo_of_the_time_they_show,
    a_gift_that_waits_is_a_duplicate_of_itself_however_long_it_waits,
    the_remembered_answer_is_that_of_the_showing,
    another_payload_is_refused_while_it_waits,
    a_cancelled_gift_is_not_shown_and_its_id_stays_used,
    only_what_waits_can_be_cancelled,
    cancelling_one_of_many_leaves_the_others_in_order,
    waiting_gifts_are_listed_in_the_order_of_their_show_page_by_page,
    a_page_goes_on_where_the_last_one_ended_whatever_happened_to_its_gifts,
    a_listed_gift_is_the_event_as_it_was_accepted,
    one_batch_may_hold_gifts_for_now_and_for_later,
    an_id_twice_in_one_batch_waits_once,
    a_test_gift_may_wait_too,
    a_feed_with_something_due_gets_a_turn_and_then_none,
    several_who_run_one_feed_show_every_gift_once,
    feeds_take_turns,
];

fn later(id: &str, ms: u64) -> GiftSpec {
    gift(id).by(id).with("delay_ms", json!(ms))
}

fn ids(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(|answer| answer.id.as_str()).collect()
}

async fn a_gift_for_later_waits_and_begins_nothing(mut t: Case) {
    let it = t.scheduled(later("g1", 5_000)).await;
    assert_eq!((it.id.as_str(), it.deliver_at), ("g1", t.now.plus(5_000)));
    assert!(t.list().await.at.epoch.is_none());
    assert!(t.shown().await.is_empty());
    t.pass(5_000);
    let shown = t.shown().await;
    assert_eq!((ids(&shown), shown[0].status, shown[0].at.seq), (vec!["g1"], Status::Accepted, 1));
    let list = t.list().await;
    assert_eq!((list.rows[0].at, list.rows[0].seq), (t.now, 1));
    assert!(t.waiting().await.gifts.is_empty());
    t.pass(1);
    assert!(t.shown().await.is_empty(), "once");
}

async fn nothing_is_shown_before_its_time(mut t: Case) {
    let at = t.now.plus(1_000);
    t.scheduled(gift("g1").with("deliver_at", json!(at.to_string()))).await;
    t.pass(999);
    assert!(t.work().await.is_empty());
    t.pass(1);
    let handled = t.work().await;
    assert_eq!((handled.len(), handled[0].late_ms), (1, 0));
    t.scheduled(later("g2", 1)).await;
    t.pass(17);
    assert_eq!(t.work().await[0].late_ms, 16);
}

async fn due_gifts_show_in_the_order_of_their_time_then_arrival(mut t: Case) {
    for (id, ms) in
        [("c1", 300), ("a1", 100), ("b1", 200), ("a2", 100), ("c2", 300), ("b2", 200), ("a3", 100)]
    {
        t.scheduled(later(id, ms)).await;
    }
    t.pass(250);
    assert_eq!(ids(&t.shown().await), ["a1", "a2", "a3", "b1", "b2"]);
    t.pass(50);
    assert_eq!(ids(&t.shown().await), ["c1", "c2"]);
}

async fn gifts_of_the_same_time_show_in_the_order_of_arrival_past_a_full_step(mut t: Case) {
    t.patch(json!({"dedup": "off", "capacity": 100})).await;
    let at = json!(t.now.plus(1_000).to_string());
    let all: Vec<String> = (0..3 * DUE_BATCH + 7).map(|n| format!("g{n}")).collect();
    for part in all.chunks(100) {
        t.post_all(part.iter().map(|id| gift(id).with("deliver_at", at.clone()))).await;
    }
    t.pass(1_000);
    assert_eq!(ids(&t.shown().await), all);
}

async fn a_policys_delay_holds_for_gifts_that_come_while_it_is_set(mut t: Case) {
    t.patch(json!({"delay_ms": 1_000})).await;
    let it = t.scheduled(gift("g1").by("a")).await;
    assert_eq!(it.deliver_at, t.now.plus(1_000));
    t.patch(json!({"delay_ms": 10})).await;
    t.scheduled(gift("g2").by("b")).await;
    t.patch(json!({"delay_ms": 0})).await;
    t.accepted(gift("g3").by("c")).await;
    t.patch(json!({"delay_ms": 604_800_000})).await;
    t.scheduled(gift("g4").by("d")).await;
    t.pass(10);
    assert_eq!(ids(&t.shown().await), ["g2"]);
    t.pass(990);
    assert_eq!(ids(&t.shown().await), ["g1"], "a change of the policy moves nothing that waits");
    t.pass(604_799_000);
    assert_eq!(ids(&t.shown().await), ["g4"]);
}

async fn a_gifts_own_time_replaces_the_policys_delay(mut t: Case) {
    t.patch(json!({"delay_ms": 1_000})).await;
    t.accepted(gift("now").by("a").with("delay_ms", json!(0))).await;
    t.scheduled(later("soon", 5)).await;
    let far = t.now.plus(50_000);
    let it = t.scheduled(gift("far").by("b").with("deliver_at", json!(far.to_string()))).await;
    assert_eq!(it.deliver_at, far);
    t.pass(5);
    assert_eq!(ids(&t.shown().await), ["soon"]);
    t.pass(1_000);
    assert!(t.shown().await.is_empty());
}

async fn due_gifts_meet_the_lock_and_the_combo_of_the_time_they_show(mut t: Case) {
    t.scheduled(gift("g1").with("delay_ms", json!(100))).await;
    t.scheduled(gift("g2").with("delay_ms", json!(200))).await;
    t.scheduled(gift("c1").combo("run", 3).with("delay_ms", json!(100))).await;
    t.scheduled(gift("c2").combo("run", 2).with("delay_ms", json!(300))).await;
    t.pass(400);
    let shown = t.shown().await;
    let statuses: Vec<_> = shown.iter().map(|a| (a.id.as_str(), a.status, a.count)).collect();
    assert_eq!(statuses[0], ("g1", Status::Accepted, None));
    assert_eq!(statuses[1], ("c1", Status::Accepted, None));
    assert_eq!(statuses[2], ("g2", Status::Merged, Some(2)));
    assert_eq!(statuses[3], ("c2", Status::Merged, Some(3)));
    t.patch(json!({"dedup": "drop"})).await;
    t.scheduled(gift("g3").with("delay_ms", json!(100))).await;
    t.pass(100);
    assert_eq!(t.shown().await[0].status, Status::Suppressed);
}

async fn a_gift_that_waits_is_a_duplicate_of_itself_however_long_it_waits(mut t: Case) {
    t.patch(json!({"idempotency_window_ms": 60_000})).await;
    let spec = later("g1", 604_800_000);
    let it = t.scheduled(spec.clone()).await;
    for _ in 0..4 {
        assert_eq!(t.post(spec.clone()).await, Outcome::ScheduledBefore(it.clone()));
        t.pass(150_000_000);
        // Other calls tidy what has ended.
        t.post(gift("other")).await;
    }
    t.pass(604_800_000);
    assert_eq!(t.post(spec.clone()).await, Outcome::ScheduledBefore(it));
    assert_eq!(ids(&t.shown().await), ["g1"]);
}

async fn the_remembered_answer_is_that_of_the_showing(mut t: Case) {
    t.patch(json!({"idempotency_window_ms": 60_000})).await;
    t.scheduled(later("g1", 100_000)).await;
    t.pass(100_000);
    let shown = t.shown().await.remove(0);
    t.pass(59_999);
    t.duplicate(later("g1", 100_000), &shown).await;
    t.pass(1);
    t.scheduled(later("g1", 100_000)).await;
}

async fn another_payload_is_refused_while_it_waits(mut t: Case) {
    t.scheduled(later("g1", 1_000)).await;
    for other in [later("g1", 1_001), gift("g1").by("g1"), later("g1", 1_000).count(2)] {
        let outcome = t.post(other).await;
        assert!(matches!(&outcome, Outcome::IdReused(id) if id.as_str() == "g1"), "{outcome:?}");
    }
    assert_eq!(t.waiting().await.gifts.len(), 1);
}

async fn a_cancelled_gift_is_not_shown_and_its_id_stays_used(mut t: Case) {
    t.patch(json!({"idempotency_window_ms": 60_000})).await;
    let it = t.scheduled(later("g1", 1_000)).await;
    assert_eq!(t.cancel("g1").await, Unscheduled::Cancelled(it.deliver_at));
    t.pass(1_000);
    assert!(t.shown().await.is_empty());
    assert_eq!(t.post(later("g1", 1_000)).await, Outcome::ScheduledBefore(it));
    assert!(matches!(t.post(later("g1", 1)).await, Outcome::IdReused(_)));
    t.pass(59_000);
    t.scheduled(later("g1", 1)).await;
}

async fn only_what_waits_can_be_cancelled(mut t: Case) {
    assert_eq!(t.cancel("nobody").await, Unscheduled::Unknown);
    t.accepted(gift("now")).await;
    assert_eq!(t.cancel("now").await, Unscheduled::Shown);
    t.scheduled(later("g1", 10)).await;
    t.pass(10);
    let due_but_not_shown = t.now;
    t.scheduled(later("g2", 10)).await;
    assert_eq!(t.cancel("g1").await, Unscheduled::Cancelled(due_but_not_shown));
    assert_eq!(t.cancel("g1").await, Unscheduled::Unknown);
    t.pass(10);
    assert_eq!(ids(&t.shown().await), ["g2"]);
    assert_eq!(t.cancel("g2").await, Unscheduled::Shown);
}

async fn cancelling_one_of_many_leaves_the_others_in_order(mut t: Case) {
    for n in 0..6 {
        t.scheduled(later(&format!("g{n}"), 100)).await;
    }
    for id in ["g0", "g3", "g5"] {
        assert!(matches!(t.cancel(id).await, Unscheduled::Cancelled(_)), "{id}");
    }
    t.scheduled(later("g6", 100)).await;
    t.pass(100);
    assert_eq!(ids(&t.shown().await), ["g1", "g2", "g4", "g6"]);
}

async fn waiting_gifts_are_listed_in_the_order_of_their_show_page_by_page(mut t: Case) {
    let mut wanted = vec![];
    for n in 0..25u64 {
        let ms = 1_000 + n * 7 % 5;
        t.scheduled(later(&format!("g{n}"), ms)).await;
        wanted.push((t.now.plus(ms), n));
    }
    wanted.sort_unstable();
    for size in [1, 4, 24, 25, 26] {
        let (mut seen, mut after) = (vec![], None);
        loop {
            let page = t.engine.list_scheduled(&t.feed, after, size).await.unwrap();
            assert!(page.gifts.len() <= size);
            seen.extend(page.gifts.iter().map(|it| (it.place.at, it.gift.id.clone())));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let wanted: Vec<(Millis, GiftId)> =
            wanted.iter().map(|(at, n)| (*at, format!("g{n}").parse().unwrap())).collect();
        assert_eq!(seen, wanted, "pages of {size}");
    }
}

async fn a_page_goes_on_where_the_last_one_ended_whatever_happened_to_its_gifts(mut t: Case) {
    for n in 0..9 {
        t.scheduled(later(&format!("g{n}"), 100)).await;
    }
    let after = t.engine.list_scheduled(&t.feed, None, 4).await.unwrap().next;
    for id in ["g2", "g3", "g5"] {
        t.cancel(id).await;
    }
    t.scheduled(later("early", 50)).await;
    t.scheduled(later("late", 100)).await;
    let page = t.engine.list_scheduled(&t.feed, after, 100).await.unwrap();
    let rest: Vec<_> = page.gifts.iter().map(|it| it.gift.id.as_str().to_owned()).collect();
    assert_eq!((rest, page.next), (["g4", "g6", "g7", "g8", "late"].map(String::from).to_vec(), None));
}

async fn a_listed_gift_is_the_event_as_it_was_accepted(mut t: Case) {
    let spec = gift("g1")
        .by("a\n\"b\"")
        .count(7)
        .value(9_007_199_254_740_991, "EUR")
        .combo("run 1", 3)
        .end()
        .with("message", json!("hi \u{202e}there \u{2028}"))
        .with("tier", json!(0))
        .with("occurred_at", json!("2026-01-31T12:00:00Z"))
        .with("delay_ms", json!(5))
        .with("meta", json!({"k": [1.5e300, "\n"]}))
        .test();
    t.scheduled(spec.clone()).await;
    let page = t.waiting().await;
    assert_eq!((page.gifts[0].gift.clone(), page.gifts[0].place.at), (spec.parse(), t.now.plus(5)));
}

async fn one_batch_may_hold_gifts_for_now_and_for_later(mut t: Case) {
    let outcomes = t.post_all([later("g1", 10), gift("g2"), later("g3", 5), gift("g4").by("x")]).await;
    let said: Vec<bool> = outcomes.iter().map(|o| matches!(o, Outcome::Scheduled(_))).collect();
    assert_eq!(said, [true, false, true, false]);
    assert_eq!(t.list().await.rows.len(), 2);
    t.pass(10);
    assert_eq!(ids(&t.shown().await), ["g3", "g1"]);
}

async fn an_id_twice_in_one_batch_waits_once(mut t: Case) {
    let outcomes = t.post_all([later("g1", 10), later("g1", 10), later("g1", 11)]).await;
    assert!(matches!(outcomes[0], Outcome::Scheduled(_)));
    assert!(matches!(outcomes[1], Outcome::ScheduledBefore(_)));
    assert!(matches!(outcomes[2], Outcome::IdReused(_)));
    t.pass(20);
    assert_eq!(ids(&t.shown().await), ["g1"]);
}

async fn a_test_gift_may_wait_too(mut t: Case) {
    t.scheduled(later("g1", 10).test()).await;
    t.pass(10);
    t.shown().await;
    assert!(t.list().await.rows[0].test);
}

/// Turns of the case's own feed; others of a shared store are left alone.
async fn turn(t: &Case, over: Vec<DueDone>) -> Vec<String> {
    let turn = t.engine.claim_due(over, 1_000, t.now).await.unwrap();
    turn.feeds.into_iter().filter(|it| it.feed == t.feed).map(|it| it.token).collect()
}

async fn a_feed_with_something_due_gets_a_turn_and_then_none(mut t: Case) {
    assert!(turn(&t, vec![]).await.is_empty());
    // Longer than Redis keeps looking for what was announced and has not come.
    t.scheduled(later("g1", 6_000)).await;
    t.scheduled(later("g2", 14_000)).await;
    assert!(turn(&t, vec![]).await.is_empty(), "not yet");
    t.pass(6_000);
    let tokens = turn(&t, vec![]).await;
    assert_eq!(tokens.len(), 1);
    let run = t.engine.run_due(&t.feed, t.now).await.unwrap();
    assert_eq!((run.handled.len(), run.next), (1, Some(t.now.plus(8_000))));
    let done = DueDone { feed: t.feed.clone(), token: tokens[0].clone(), next: run.next };
    assert!(turn(&t, vec![done]).await.is_empty());
    t.pass(7_999);
    assert!(turn(&t, vec![]).await.is_empty());
    t.pass(1);
    let tokens = turn(&t, vec![]).await;
    assert_eq!(tokens.len(), 1);
    let run = t.engine.run_due(&t.feed, t.now).await.unwrap();
    assert_eq!((run.handled.len(), run.next), (1, None));
    let done = DueDone { feed: t.feed.clone(), token: tokens[0].clone(), next: None };
    assert!(turn(&t, vec![done]).await.is_empty());
    t.pass(600_000);
    assert!(turn(&t, vec![]).await.is_empty());
    assert_eq!(t.engine.claim_due(vec![], 10, t.now).await.unwrap().waiting, 0);
    t.list().await;
}

async fn several_who_run_one_feed_show_every_gift_once(mut t: Case) {
    t.patch(json!({"dedup": "off"})).await;
    let all: Vec<String> = (0..300).map(|n| format!("g{n}")).collect();
    for part in all.chunks(100) {
        t.post_all(part.iter().map(|id| later(id, 10))).await;
    }
    t.pass(10);
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
        runs.spawn(async move {
            let mut handled = vec![];
            loop {
                let run = engine.run_due(&feed, now).await.unwrap();
                handled.extend(run.handled);
                if run.next.is_none() {
                    return handled;
                }
            }
        });
    }
    let handled: Vec<_> = runs.join_all().await.into_iter().flatten().collect();
    assert_eq!(handled.len(), 300);
    let list = t.list().await;
    assert_eq!(list.at.seq, 300);
    let users: Vec<_> = list.rows.iter().rev().map(|row| row.user.to_string()).collect();
    assert!(users[9].contains("g299") && users[0].contains("g290"), "{users:?}");
}

async fn feeds_take_turns(mut t: Case) {
    t.patch(json!({"dedup": "off"})).await;
    let crowded = t.feed.clone();
    for part in 0..3 {
        t.post_all((0..100).map(|n| later(&format!("g{part}-{n}"), 10))).await;
    }
    let quiet = crate::support::case::fresh_feed();
    t.pass(5);
    t.engine.publish(&quiet, vec![later("q", 9).parse()], t.now).await.unwrap();
    t.pass(10);
    let (mut over, mut order) = (vec![], vec![]);
    for _ in 0..3 {
        let turn = t.engine.claim_due(std::mem::take(&mut over), 1, t.now).await.unwrap();
        let it = turn.feeds.into_iter().next().expect("somebody's turn");
        let run = t.engine.run_due(&it.feed, t.now).await.unwrap();
        order.push(it.feed.clone());
        over.push(DueDone { feed: it.feed, token: it.token, next: run.next });
        t.pass(1);
    }
    if !matches!(t.store, Storage::Model(_)) {
        let mut wanted = [crowded.clone(), quiet, crowded];
        if matches!(t.store, Storage::Cluster(..)) {
            // Each part of the index has its own order, and parts take turns.
            order.sort_unstable();
            wanted.sort_unstable();
        }
        assert_eq!(order, wanted, "one step each");
    }
    t.list().await;
}
