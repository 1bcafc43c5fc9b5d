use proptest::prelude::*;

use super::*;
use crate::domain::EntryStatus;

/// How long an attempt holds a batch.
const HOLD: u64 = 12_000;
const HOUR: u64 = 3_600_000;
const PATIENCE: Patience = Patience { give_up_ms: 24 * HOUR, jitter: 0.0 };

fn entries(from: u64, count: u64, at: i64) -> Vec<Entry> {
    let entry = |n| Entry {
        cursor: Cursor(n),
        status: EntryStatus::Accepted,
        at: Millis(at),
        seq: None,
        row: None,
        gift: "{}".into(),
        delta: None,
        reason: None,
        drop: None,
        hold: None,
        trace: None,
    };
    (from..from + count).map(entry).collect()
}

fn spec(batch_max: u64, batch_ms: u64) -> HookSpec {
    let (url, secret) = (String::new(), String::new());
    HookSpec {
        url,
        secret,
        batch_max,
        batch_ms,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    }
}

fn queues(entries: &[Entry]) -> Queues<'_> {
    Queues { entries, again: &[] }
}

fn failed(ms: Option<u64>) -> Verdict {
    Verdict::Failed("it answered 500".into(), ms)
}

#[test]
fn a_batch_is_sent_when_it_is_full_or_its_oldest_has_waited() {
    let (spec, few) = (spec(3, 1_000), entries(5, 2, 10_000));
    let mut progress = Progress::default();
    assert_eq!(progress.next(queues(&[]), &spec, (Millis(10_000), HOLD), "a"), Next::Nothing);
    assert_eq!(progress.next(queues(&few), &spec, (Millis(10_400), HOLD), "a"), Next::Wait(600));
    assert_eq!(progress.next(queues(&few), &spec, (Millis(11_000), HOLD), "a"), Next::Send);
    assert_eq!(progress.batch.as_ref().map(|b| (b.first, b.len, b.tries)), Some((5, 2, 1)));
    let many = entries(5, 9, 10_000);
    let mut progress = Progress::default();
    assert_eq!(progress.next(queues(&many), &spec, (Millis(10_000), HOLD), "a"), Next::Send);
    assert_eq!(progress.batch_of(queues(&many)).len(), 3);
}

#[test]
fn a_batch_that_fails_stays_the_same_and_waits_longer_each_time_until_it_is_dead() {
    let (spec, mut all) = (spec(8, 0), entries(1, 4, 0));
    let mut progress = Progress::default();
    let mut now = Millis(0);
    assert_eq!(progress.next(queues(&all), &spec, (now, HOLD), "first"), Next::Send);
    // What comes meanwhile does not join it.
    all.extend(entries(5, 3, 0));
    let mut pauses = Vec::new();
    let dead = loop {
        let sent = progress.batch_of(queues(&all)).to_vec();
        assert_eq!(sent.len(), 4);
        let settled = progress.settle(&sent, &failed(None), PATIENCE, now);
        if settled.done {
            break settled.dead;
        }
        let Next::Wait(ms) = progress.next(queues(&all), &spec, (now, HOLD), "x") else { panic!() };
        pauses.push(ms);
        now = now.plus(ms);
        let line = progress.to_line();
        progress = Progress::read(&line);
        assert_eq!(progress.next(queues(&all), &spec, (now, HOLD), "x"), Next::Send);
        assert_eq!(progress.batch.as_ref().unwrap().id, "first");
    };
    assert_eq!(pauses[..8], PAUSES_MS);
    assert_eq!(pauses.iter().sum::<u64>(), 24 * HOUR, "the last attempt is when the time is over");
    assert!(dead.unwrap().contains("it answered 500"));
}

#[test]
fn an_endpoint_that_asks_for_time_gets_it() {
    let (spec, all) = (spec(8, 0), entries(1, 4, 0));
    let mut progress = Progress::default();
    progress.next(queues(&all), &spec, (Millis(0), HOLD), "a");
    progress.settle(&all, &failed(Some(120_000)), PATIENCE, Millis(0));
    assert_eq!(progress.next(queues(&all), &spec, (Millis(0), HOLD), "x"), Next::Wait(120_000));
}

#[test]
fn gone_keeps_the_batch() {
    let (spec, all) = (spec(8, 0), entries(1, 4, 0));
    let mut progress = Progress::default();
    progress.next(queues(&all), &spec, (Millis(0), HOLD), "a");
    let settled = progress.settle(&all, &Verdict::Gone, PATIENCE, Millis(0));
    assert_eq!(settled, Settled::default());
    assert_eq!(progress.next(queues(&all), &spec, (Millis(9), HOLD), "x"), Next::Send);
    assert_eq!(progress.batch.unwrap().id, "a");
}

#[test]
fn a_pause_from_before_somebody_asked_is_over_and_a_delivery_under_way_stays_where_it_is() {
    let (spec, all) = (spec(8, 0), entries(1, 4, 0));
    let mut progress = Progress::default();
    progress.next(queues(&all), &spec, (Millis(0), HOLD), "a");
    progress.end_pause(Millis(1));
    assert!(matches!(progress.next(queues(&all), &spec, (Millis(2), HOLD), "x"), Next::Wait(_)));
    progress.settle(&all, &Verdict::Failed("down".into(), Some(3_600_000)), PATIENCE, Millis(1_000));
    progress.end_pause(Millis(999));
    assert_eq!(progress.next(queues(&all), &spec, (Millis(1_001), HOLD), "x"), Next::Wait(3_599_999));
    progress.end_pause(Millis(1_001));
    assert_eq!(progress.next(queues(&all), &spec, (Millis(1_001), HOLD), "x"), Next::Send);
    assert_eq!(progress.batch.unwrap().id, "a");
}

#[test]
fn a_delivery_under_way_is_not_taken_by_another_node() {
    let (spec, all) = (spec(8, 0), entries(1, 4, 0));
    let mut progress = Progress::default();
    assert_eq!(progress.next(queues(&all), &spec, (Millis(0), HOLD), "a"), Next::Send);
    let mut heir = Progress::read(&progress.to_line());
    assert_eq!(heir.next(queues(&all), &spec, (Millis(1_000), HOLD), "x"), Next::Wait(HOLD - 1_000));
    assert_eq!(heir.next(queues(&all), &spec, (Millis(HOLD as i64), HOLD), "x"), Next::Send);
    assert_eq!(heir.batch.map(|batch| (batch.id, batch.tries)), Some(("a".into(), 2)));
}

#[test]
fn old_entries_are_dropped_before_every_attempt() {
    let spec = HookSpec { delivery: Delivery::BestEffort, max_age_ms: 180_000, ..spec(8, 0) };
    let mut all = entries(1, 2, 0);
    all.extend(entries(3, 2, 100_000));
    let mut progress = Progress::default();
    assert_eq!(progress.next(queues(&all), &spec, (Millis(180_000), HOLD), "a"), Next::Send);
    progress.settle(&all, &failed(None), PATIENCE, Millis(180_000));
    let now = Millis(186_000);
    assert_eq!(progress.next(queues(&all), &spec, (now, HOLD), "b"), Next::Drop { again: false, len: 2 });
    assert_eq!(progress.next(queues(&all[2..]), &spec, (now, HOLD), "b"), Next::Send);
    let batch = progress.batch.unwrap();
    assert_eq!((&*batch.id, batch.first, batch.len), ("b", 3, 2), "another batch has another name");
}

#[test]
fn replayed_entries_go_first_and_keep_apart_from_the_ledger() {
    let (spec, ledger, again) = (spec(3, 0), entries(10, 5, 0), entries(2, 2, 0));
    let both = Queues { entries: &ledger, again: &again };
    let mut progress = Progress::default();
    assert_eq!(progress.next(both, &spec, (Millis(9), HOLD), "a"), Next::Send);
    assert_eq!(progress.batch_of(both), &again[..]);
    assert!(progress.settle(&again, &Verdict::Accepted, PATIENCE, Millis(9)).done);
    assert_eq!(progress.next(queues(&ledger), &spec, (Millis(9), HOLD), "b"), Next::Send);
    assert_eq!(progress.batch_of(queues(&ledger)), &ledger[..3]);
}

#[test]
fn entries_cut_under_a_batch_change_the_batch() {
    let (spec, all) = (spec(3, 0), entries(1, 5, 0));
    let mut progress = Progress::default();
    progress.next(queues(&all), &spec, (Millis(0), HOLD), "a");
    progress.settle(&all[..3], &failed(None), PATIENCE, Millis(0));
    assert_eq!(progress.next(queues(&all[2..]), &spec, (Millis(0), HOLD), "b"), Next::Send);
    assert_eq!(progress.batch.unwrap().id, "b");
}

#[test]
fn unwanted_entries_are_skipped_and_lost_ones_never() {
    let spec = HookSpec { types: vec!["goal.*".into(), "gift.merged".into()], ..spec(8, 0) };
    let mut all = entries(1, 6, 0);
    all[2].status = EntryStatus::Merged;
    all[4].status = EntryStatus::Goal;
    let mut progress = Progress::default();
    let next = progress.next(queues(&all), &spec, (Millis(0), HOLD), "a");
    assert_eq!(next, Next::Pass { again: false, len: 2 });
    assert_eq!(progress.next(queues(&all[2..]), &spec, (Millis(0), HOLD), "a"), Next::Send);
    let sent = progress.batch_of(queues(&all[2..]));
    let wanted: Vec<_> = sent.iter().filter(|it| spec.wants(it)).map(|it| it.cursor.0).collect();
    assert_eq!((sent.len(), wanted), (4, vec![3, 5]));
    // Set to other types since: nothing of the batch is wanted any more.
    let other = HookSpec { types: vec!["drop.*".into()], ..spec.clone() };
    let next = progress.next(queues(&all[2..]), &other, (Millis(0), HOLD), "b");
    assert_eq!((next, &progress.batch), (Next::Pass { again: false, len: 4 }, &None));
    all[0].status = EntryStatus::Lost;
    assert!(spec.wants(&all[0]) && !spec.wants(&all[1]));
}

/// Sends everything to an endpoint that refuses batches with a poisoned entry or above a size; gives what
/// was accepted, what is dead, and how often was sent.
fn deliver(count: u64, batch_max: u64, poisoned: &[u64], too_large: usize) -> (Vec<u64>, Vec<u64>, usize) {
    let (spec, all) = (spec(batch_max, 0), entries(1, count, 0));
    let (mut progress, mut now, mut at) = (Progress::default(), Millis(0), 0);
    let (mut accepted, mut dead, mut sends) = (vec![], vec![], 0);
    loop {
        match progress.next(queues(&all[at..]), &spec, (now, HOLD), "b") {
            Next::Nothing => return (accepted, dead, sends),
            Next::Wait(ms) => now = now.plus(ms),
            Next::Drop { .. } | Next::Pass { .. } => panic!("nothing is too old, or unwanted"),
            Next::Send => {
                sends += 1;
                let sent = progress.batch_of(queues(&all[at..])).to_vec();
                let bad = sent.iter().any(|it| poisoned.contains(&it.cursor.0));
                let verdict = match bad {
                    _ if sent.len() > too_large => Verdict::TooLarge,
                    true => Verdict::Refused("the endpoint answered 400".into()),
                    false => Verdict::Accepted,
                };
                let settled = progress.settle(&sent, &verdict, PATIENCE, now);
                progress = Progress::read(&progress.to_line());
                if settled.done {
                    at += sent.len();
                    let to = if settled.dead.is_some() { &mut dead } else { &mut accepted };
                    to.extend(sent.iter().map(|it| it.cursor.0));
                }
            }
        }
        assert!(sends < 10_000, "it comes to an end");
    }
}

#[test]
fn one_poisoned_entry_of_a_full_batch_is_found_by_halving() {
    let (accepted, dead, sends) = deliver(256, 128, &[60], usize::MAX);
    assert_eq!(dead, [60]);
    assert_eq!(accepted, (1..=256).filter(|n| *n != 60).collect::<Vec<_>>());
    assert!(sends < 160, "{sends}");
}

proptest! {
    #[test]
    fn entries_around_a_refused_one_arrive_once_in_order(
        count in 1..300u64, batch_max in 1..130u64,
        poisoned in prop::collection::vec(1..300u64, 0..4), too_large in 1..200usize,
    ) {
        let (accepted, dead, _) = deliver(count, batch_max, &poisoned, too_large);
        let is_bad = |n: &u64| poisoned.contains(n);
        let wanted: Vec<u64> = (1..=count).filter(|n| !is_bad(n)).collect();
        prop_assert_eq!(accepted, wanted);
        let wanted: Vec<u64> = (1..=count).filter(is_bad).collect();
        prop_assert_eq!(dead, wanted);
    }
}

#[test]
fn a_clock_that_is_set_back_holds_no_batch_up() {
    let (spec, few) = (spec(8, 1_000), entries(1, 2, 5 * HOUR as i64));
    let now = |ms: u64| (Millis(ms as i64), HOLD);
    // Gathered at a time that is still to come.
    let mut progress = Progress::default();
    assert_eq!(progress.next(queues(&few), &spec, now(10), "a"), Next::Send);
    // It fails at five o'clock, and the clock goes back an hour.
    progress.settle(&few, &failed(None), PATIENCE, Millis(5 * HOUR as i64));
    assert_eq!(progress.next(queues(&few), &spec, now(5 * HOUR + 1), "b"), Next::Wait(4_999));
    assert_eq!(progress.next(queues(&few), &spec, now(4 * HOUR), "b"), Next::Send);
}
