//! How much of a ledger is kept, for which readers, and that it survives.

use serde_json::json;
use tipcast::domain::story::EntryState;
use tipcast::domain::{Ask, Cursor, EntryStatus, Start};
use tipcast::engine::{ReportLimits, Save};

use crate::support::case::Case;
use crate::support::readers::{ASK, attempts, cursors, gifts, handed, of_feed, reader_of};

on_every_engine![
    a_ledger_that_nobody_reads_keeps_its_newest_entries,
    unacknowledged_entries_of_a_group_are_kept,
    pending_entries_are_kept,
    acknowledged_entries_go,
    unfinished_entries_of_a_webhook_are_kept,
    entries_beyond_the_backlog_are_lost_and_counted,
    pending_entries_beyond_the_backlog_are_counted_once,
    thousands_of_pending_entries_that_are_cut_are_counted_once,
    a_webhook_is_told_what_it_lost_before_all_else,
    old_entries_are_lost_and_counted,
    a_group_at_the_end_loses_nothing,
    everything_survives_another_engine_on_the_same_store,
    unread_data_is_there_however_often_the_store_opens,
];

const SMALL: ReportLimits =
    ReportLimits { ledger_max: 100, backlog_max: 200, max_age_ms: 0, max_attempts: 16, dead_max: 1_000 };

async fn a_ledger_that_nobody_reads_keeps_its_newest_entries(mut t: Case) {
    t.reopen_keeping(SMALL).await;
    t.give_many(0..1_000).await;
    let all = handed(&t.take("g").await);
    assert_eq!(all, (900..1_000).map(|n| format!("n{n}")).collect::<Vec<_>>());
    assert_eq!(t.group("g").await.unwrap().lost, 0, "it was not there then");
}

async fn unacknowledged_entries_of_a_group_are_kept(mut t: Case) {
    t.reopen_keeping(ReportLimits { backlog_max: 5_000, ..SMALL }).await;
    t.ask("g", Ask { from: Start::Now, ..ASK }).await.unwrap();
    t.give_many(0..900).await;
    assert_eq!(t.stands("g").await, (900, 0, 0));
    assert_eq!(handed(&t.consume("g").await), (0..900).map(|n| format!("n{n}")).collect::<Vec<_>>());
}

async fn pending_entries_are_kept(mut t: Case) {
    t.reopen_keeping(ReportLimits { backlog_max: 5_000, ..SMALL }).await;
    t.give_many(0..10).await;
    let first = t.ask("g", Ask { lease_ms: 1_000, ..ASK }).await.unwrap().entries;
    t.ack("g", &cursors(&first)[..5]).await;
    t.give_many(10..800).await;
    let rest = t.take("g").await;
    assert_eq!(handed(&rest), (10..800).map(|n| format!("n{n}")).collect::<Vec<_>>());
    t.ack("g", &cursors(&rest)).await;
    t.give_many(800..900).await;
    t.consume("g").await;
    t.pass(1_000);
    let again = t.take("g").await;
    assert_eq!(attempts(&again), (5..10).map(|n| (format!("n{n}"), 2)).collect::<Vec<_>>());
    assert_eq!(t.group("g").await.unwrap().lost, 0);
}

async fn acknowledged_entries_go(mut t: Case) {
    t.reopen_keeping(ReportLimits { backlog_max: 5_000, ..SMALL }).await;
    for n in 0..9 {
        t.give_many(n * 100..(n + 1) * 100).await;
        t.consume("g").await;
    }
    assert_eq!(t.take("late").await.len(), 100);
}

async fn unfinished_entries_of_a_webhook_are_kept(mut t: Case) {
    t.reopen_keeping(ReportLimits { backlog_max: 5_000, ..SMALL }).await;
    let hook = of_feed(&t.feed, "w");
    t.hook(&hook).await;
    t.give_many(0..900).await;
    assert_eq!(t.open_job(&hook).await.unwrap().backlog, 900);
    assert_eq!(gifts(&t.open_job(&hook).await.unwrap().entries[..1]), ["n0"]);
}

async fn entries_beyond_the_backlog_are_lost_and_counted(mut t: Case) {
    t.reopen_keeping(SMALL).await;
    t.ask("g", ASK).await.unwrap();
    t.give_many(0..1_500).await;
    let view = t.group("g").await.unwrap();
    assert_eq!(view.lag + view.lost, 1_500);
    assert!((200..1_000).contains(&view.lag), "at least the backlog, and not much more: {view:?}");
    // The first thing that it gets says what it lost, once.
    let first = Cursor::first(t.now).0;
    let ask = Ask { max: 1, lease_ms: 30_000, from: Start::Start };
    let told_at = t.now;
    for attempt in 1..=2 {
        let told = t.ask("g", ask).await.unwrap().entries.remove(0);
        assert_eq!((told.entry.status, told.attempt), (EntryStatus::Lost, attempt));
        let (last, lost) = (first + view.lost - 1, view.lost);
        assert_eq!((told.entry.cursor, told.entry.at, told.entry.delta), (Cursor(last), told_at, None));
        let wanted = json!({"from": first.to_string(), "to": last.to_string(), "count": lost});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&told.entry.gift).unwrap(), wanted);
        assert_eq!(t.nack("g", &[told.entry.cursor]).await, Some(1));
        t.pass(2_000);
    }
    assert_eq!(t.ask("g", ask).await.unwrap().entries[0].attempt, 3);
    assert_eq!(t.ack("g", &[Cursor(first + view.lost - 1)]).await, Some(1));
    let all = t.consume("g").await;
    assert_eq!(handed(&all), (view.lost..1_500).map(|n| format!("n{n}")).collect::<Vec<_>>());
    t.give(&["more"]).await;
    assert_eq!(handed(&t.take("g").await), ["more"]);
    assert_eq!(t.group("g").await.unwrap().lost, view.lost);
    // What became of an entry that was cut is still known.
    let group = reader_of("g");
    assert_eq!(t.state_of(&group, Cursor(first)).await, Some(EntryState::Lost));
    assert_eq!(t.state_of(&group, Cursor(first + view.lost)).await, Some(EntryState::Acknowledged));
}

async fn a_webhook_is_told_what_it_lost_before_all_else(mut t: Case) {
    t.reopen_keeping(SMALL).await;
    let hook = of_feed(&t.feed, "w");
    t.hook(&hook).await;
    t.give(&["first"]).await;
    t.open_job(&hook).await.unwrap();
    t.give_many(0..1_500).await;
    for _ in 0..2 {
        let work = t.open_job(&hook).await.unwrap();
        assert_eq!(work.again.iter().map(|it| it.status).collect::<Vec<_>>(), [EntryStatus::Lost]);
        let lost: serde_json::Value = serde_json::from_str(&work.again[0].gift).unwrap();
        let to = work.entries[0].cursor.0 - 1;
        assert_eq!((work.again[0].cursor, &lost["to"]), (Cursor(to), &json!(to.to_string())));
        assert_eq!(lost["count"].as_u64().unwrap(), 1_501 - work.backlog);
    }
}

async fn pending_entries_beyond_the_backlog_are_counted_once(mut t: Case) {
    t.reopen_keeping(SMALL).await;
    t.give_many(0..100).await;
    let all = t.take("g").await;
    t.ack("g", &cursors(&all)[..50]).await;
    t.give_many(100..1_500).await;
    let view = t.group("g").await.unwrap();
    assert_eq!((view.pending, view.lag + view.lost), (0, 1_450));
    assert_eq!(t.ack("g", &cursors(&all)).await, Some(0), "they are gone");
}

/// More than one call takes out of what is pending.
async fn thousands_of_pending_entries_that_are_cut_are_counted_once(mut t: Case) {
    t.reopen_keeping(ReportLimits { backlog_max: 2_600, ..SMALL }).await;
    t.take("g").await;
    t.give_many(0..2_500).await;
    while !t.take("g").await.is_empty() {}
    assert_eq!(t.stands("g").await, (0, 2_500, 0));
    t.give_many(2_500..6_000).await;
    let view = t.group("g").await.unwrap();
    assert_eq!((view.pending, view.lag + view.lost), (0, 6_000));
    t.pass(ASK.lease_ms);
    // Every call takes a part out, whatever else it does.
    for _ in 0..4 {
        t.ack("g", &[]).await;
        let now = t.group("g").await.unwrap();
        // What is pending is the entry that says what was lost.
        assert_eq!((now.pending, now.lag, now.lost), (1, view.lag, view.lost));
    }
    let first = t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().entries;
    t.ack("g", &cursors(&first)).await;
    let mut consumed = 0;
    while consumed < view.lag {
        consumed += t.consume("g").await.len() as u64;
    }
    assert_eq!(consumed, view.lag);
    let last = t.group("g").await.unwrap();
    assert_eq!((last.pending, last.lag, last.lost), (0, 0, view.lost));
}

async fn old_entries_are_lost_and_counted(mut t: Case) {
    let limits = ReportLimits { backlog_max: 100_000, max_age_ms: 60_000, ..SMALL };
    t.reopen_keeping(limits).await;
    t.ask("g", ASK).await.unwrap();
    t.give_many(0..100).await;
    t.pass(60_001);
    t.give_many(100..1_500).await;
    let view = t.group("g").await.unwrap();
    assert_eq!(view.lag + view.lost, 1_500);
    assert!((1..=100).contains(&view.lost), "only what is too old: {view:?}");
    assert!(view.oldest_ms == 0 || view.lost < 100, "{view:?}");
}

async fn a_group_at_the_end_loses_nothing(mut t: Case) {
    t.reopen_keeping(SMALL).await;
    for n in 0..10 {
        t.give_many(n * 100..(n + 1) * 100).await;
        assert_eq!(t.consume("g").await.len(), 100);
    }
    assert_eq!(t.group("g").await.unwrap().lost, 0);
}

async fn everything_survives_another_engine_on_the_same_store(mut t: Case) {
    let limits = ReportLimits { max_attempts: 1, ..ReportLimits::default() };
    t.reopen_keeping(limits).await;
    let hook = of_feed(&t.feed, "w");
    let made = t.hook(&hook).await;
    t.give(&["a", "b", "c"]).await;
    let one = t.ask("g", Ask { max: 1, lease_ms: 1_000, ..ASK }).await.unwrap().entries;
    t.pass(1_000);
    // "a" dies, "b" stays in somebody's hands, "c" was never handed out.
    let two = t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().entries;
    let work = t.open_job(&hook).await.unwrap();
    let through = Some(work.entries[0].cursor);
    let save = Save { progress: "half way".into(), through, ..Save::default() };
    let work = t.save_job(&hook, save).await.unwrap();
    let (view, letters) = (t.group("g").await, t.letters(&reader_of("g")).await);
    t.reopen_keeping(limits).await;
    assert_eq!((t.group("g").await, t.letters(&reader_of("g")).await), (view, letters.clone()));
    assert_eq!((letters[0].entry.clone(), t.stands("g").await), (one[0].entry.clone(), (1, 1, 1)));
    assert_eq!(t.engine.read_webhook(&hook).await.unwrap(), Some(made));
    assert_eq!(t.open_job(&hook).await, Some(work));
    t.give(&["d"]).await;
    let rest = t.take("g").await;
    assert_eq!(handed(&rest), ["c", "d"]);
    assert_eq!(rest[1].entry.cursor.0, one[0].entry.cursor.0 + 3);
    assert_eq!(t.ack("g", &cursors(&two)).await, Some(1));
    assert_eq!(t.turn(vec![]).await.waiting, 1, "what is there to send is a job");
}

async fn unread_data_is_there_however_often_the_store_opens(mut t: Case) {
    for some in [0..3, 3..300, 300..4_800, 4_800..5_000] {
        t.give_many(some).await;
        t.reopen_keeping(ReportLimits::default()).await;
    }
    let hook = of_feed(&t.feed, "w");
    t.hook(&hook).await;
    t.give_many(5_000..5_001).await;
    assert_eq!(gifts(&t.open_job(&hook).await.unwrap().entries), ["n5000"]);
    let mut all = Vec::new();
    loop {
        let some = t.take("g").await;
        if some.is_empty() {
            break;
        }
        t.ack("g", &cursors(&some)).await;
        all.extend(some);
    }
    assert_eq!(handed(&all), (0..5_001).map(|n| format!("n{n}")).collect::<Vec<_>>());
    let numbers: Vec<u64> = cursors(&all).iter().map(|cursor| cursor.0).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "numbered without holes");
}
