//! What is an entry, and what an entry says.

use serde_json::json;
use tipcast::domain::pull::Seek;
use tipcast::domain::{ClaimOutcome, Claimed, Confirmed, Cursor, Delta, Entry, EntryStatus, GroupId, Millis};
use tipcast::engine::Unscheduled;

use crate::support::case::Case;
use crate::support::claims::{claim, held, hold, rockets, with};
use crate::support::gifts::gift;
use crate::support::readers::{cursors, event, fates, handed};

on_every_engine![
    every_gift_that_counts_is_an_entry_once,
    an_entry_says_what_became_of_the_gift_where_and_when,
    a_frame_of_a_combo_that_changes_nothing_is_an_entry_too,
    a_scheduled_gift_is_an_entry_when_it_is_shown_and_a_cancelled_one_never,
    a_sale_is_an_entry_once_and_a_hold_none,
    an_entry_gives_the_event_back,
    numbers_begin_at_the_first_entrys_time_and_have_no_holes,
    every_feed_has_numbers_of_its_own,
    retracted_rows_stay_in_the_ledger,
    a_ledger_is_read_from_any_number_and_nobody_is_handed_it,
    a_group_is_moved_to_any_place_and_what_it_had_pending_is_dropped,
];

async fn every_gift_that_counts_is_an_entry_once(mut t: Case) {
    t.patch(json!({"dedup": "combine", "dedup_window_ms": 5_000})).await;
    t.accepted(gift("a1")).await;
    t.merged(gift("a2")).await;
    t.patch(json!({"dedup": "drop"})).await;
    t.suppressed(gift("a3")).await;
    t.post(gift("t1").by("tester").test()).await;
    let first = t.accepted(gift("b1").by("bob")).await;
    t.duplicate(gift("b1").by("bob"), &first).await;
    t.post(gift("b1").by("bob").count(2)).await;
    // Several in one step, the same twice among them.
    t.post_all([gift("c1").by("c"), gift("c1").by("c"), gift("c2").by("c"), gift("t2").by("d").test()]).await;
    let (accepted, merged, suppressed) =
        (EntryStatus::Accepted, EntryStatus::Merged, EntryStatus::Suppressed);
    let wanted = [
        ("a1", accepted),
        ("a2", merged),
        ("a3", suppressed),
        ("b1", accepted),
        ("c1", accepted),
        ("c2", suppressed),
    ];
    let wanted: Vec<_> = wanted.into_iter().map(|(id, status)| (id.to_owned(), status)).collect();
    assert_eq!(fates(&t.take("g").await), wanted);
}

async fn an_entry_says_what_became_of_the_gift_where_and_when(mut t: Case) {
    t.patch(json!({"dedup": "combine"})).await;
    let first = t.accepted(gift("a1")).await;
    t.pass(7);
    let second = t.merged(gift("a2")).await;
    t.patch(json!({"dedup": "drop"})).await;
    t.pass(5);
    let third = t.suppressed(gift("a3")).await;
    let all = t.take("g").await;
    let said: Vec<_> =
        all.iter().map(|it| (it.entry.seq, it.entry.row.clone(), t.now.since(it.entry.at))).collect();
    assert_eq!(
        said,
        [(Some(first.at.seq), first.row, 12), (Some(second.at.seq), second.row, 5), (None, third.row, 0),]
    );
}

async fn a_frame_of_a_combo_that_changes_nothing_is_an_entry_too(mut t: Case) {
    t.accepted(gift("f1").combo("c", 5).end()).await;
    let late = t.merged(gift("f2").combo("c", 3)).await;
    let all = t.take("g").await;
    assert_eq!(handed(&all), ["f1", "f2"]);
    let entry = &all[1].entry;
    assert_eq!((entry.status, entry.seq), (EntryStatus::Merged, Some(late.at.seq)));
}

async fn a_scheduled_gift_is_an_entry_when_it_is_shown_and_a_cancelled_one_never(mut t: Case) {
    t.scheduled(gift("s1").with("delay_ms", json!(1_000))).await;
    t.scheduled(gift("s2").by("bob").with("delay_ms", json!(500))).await;
    t.accepted(gift("n1").by("cid")).await;
    assert!(matches!(t.cancel("s2").await, Unscheduled::Cancelled(_)));
    assert_eq!(handed(&t.consume("g").await), ["n1"]);
    t.pass(1_500);
    let shown = t.shown().await.remove(0);
    let all = t.consume("g").await;
    assert_eq!(handed(&all), ["s1"]);
    let entry = &all[0].entry;
    assert_eq!((entry.at, entry.seq, entry.row.as_ref()), (t.now, Some(shown.at.seq), shown.row.as_ref()));
    assert_eq!(event(entry)["delay_ms"], 1_000, "as it was accepted");
}

async fn a_sale_is_an_entry_once_and_a_hold_none(mut t: Case) {
    t.define("r", with(rockets(9), "per_user", json!(9))).await;
    let body = with(with(claim("c1", "ann"), "count", json!(2)), "message", json!("for \"you\""));
    let sold = t.filled("r", body.clone()).await;
    assert!(matches!(t.claim("r", &body).await, Claimed::Again(_)));
    let (kept, _) = held(&t.filled("r", hold("c2", "bob")).await);
    let (given_back, _) = held(&t.filled("r", hold("c3", "cid")).await);
    t.give_back(&given_back).await;
    let all = t.consume("g").await;
    assert_eq!(fates(&all), [("c1".to_owned(), EntryStatus::Sold)]);
    let ClaimOutcome::Sold(sale) = sold.fate else { panic!("{sold:?}") };
    let entry = &all[0].entry;
    assert_eq!((entry.seq, entry.row.as_ref()), (Some(sale.at.seq), Some(&sale.row)));
    let wanted = json!({
        "id": "c1", "user": {"id": "ann", "name": "user ann"}, "gift": {"id": "rocket", "name": "Rocket"},
        "count": 2, "message": "for \"you\"",
    });
    assert_eq!(event(entry), wanted);
    let of = |entry: &Entry| (entry.drop.as_ref().map(ToString::to_string), entry.hold.clone());
    assert_eq!(of(entry), (Some("r".to_owned()), None));
    assert_eq!(entry.delta, Some(Delta { count: 2, value: None }));
    t.pass(10);
    assert!(matches!(t.confirm(&kept).await, Confirmed::New(_)));
    assert!(matches!(t.confirm(&kept).await, Confirmed::Again(_)));
    let all = t.consume("g").await;
    assert_eq!(fates(&all), [("c2".to_owned(), EntryStatus::Sold)]);
    assert_eq!(of(&all[0].entry), (Some("r".to_owned()), Some(kept)));
    assert_eq!((all[0].entry.at, event(&all[0].entry)["user"]["id"].as_str()), (t.now, Some("bob")));
}

async fn an_entry_gives_the_event_back(mut t: Case) {
    let user = json!({"id": "a:b \"c\"", "name": "Ann \u{1F339}", "avatar": "https://a.example/x"});
    let posted = [
        gift("plain").count(1),
        gift("full")
            .with("user", user)
            .with("gift", json!({"id": "g", "name": "G\\", "icon": "https://a.example/i"}))
            .count(1_000_000)
            .value(9_007_199_254_740_991, "EUR")
            .combo("c d", 3)
            .end()
            .with("message", json!("\"hi\" there\\"))
            .with("tier", json!(0))
            .with("occurred_at", json!("2026-01-31T12:00:05.000Z"))
            .with("deliver_at", json!("2026-01-31T12:00:06.000Z"))
            .with("meta", json!({"a b": [1, null, {"c": "\n"}]})),
        gift("frame").by("cid").count(2).combo("c", 0).with("delay_ms", json!(0)),
        gift("tier").by("dan").count(3).with("tier", json!(9)).with("meta", json!({})),
    ];
    t.post_all(posted.clone()).await;
    let all = t.take("g").await;
    let events: Vec<_> = all.iter().map(|it| event(&it.entry)).collect();
    assert_eq!(events, posted.map(|gift| gift.json()));
}

async fn numbers_begin_at_the_first_entrys_time_and_have_no_holes(mut t: Case) {
    let begun = t.now;
    t.post(gift("t").by("tester").test()).await;
    t.pass(50);
    t.give(&["a", "b"]).await;
    t.pass(50);
    t.give(&["c"]).await;
    t.give_many(0..300).await;
    let numbers = cursors(&t.take("g").await);
    let first = Cursor::first(begun.plus(50)).0;
    assert_eq!(numbers, (first..first + 303).map(Cursor).collect::<Vec<_>>());
}

async fn every_feed_has_numbers_of_its_own(mut t: Case) {
    t.give(&["a", "b"]).await;
    let engine = t.engine.clone();
    let mut other = Case::with(
        crate::support::stores::Storage::model(),
        engine,
        format!("{}-2", t.feed).parse().unwrap(),
    )
    .await;
    other.pass(10);
    other.give(&["c"]).await;
    t.give(&["d"]).await;
    let first = Cursor::first(t.now).0;
    assert_eq!(cursors(&t.take("g").await), [Cursor(first), Cursor(first + 1), Cursor(first + 2)]);
    assert_eq!(cursors(&other.take("g").await), [Cursor::first(other.now)]);
}

async fn retracted_rows_stay_in_the_ledger(mut t: Case) {
    let answer = t.accepted(gift("a")).await;
    assert!(t.retract(answer.row.as_ref().unwrap()).await.is_some());
    let all = [("a".to_owned(), EntryStatus::Accepted), ("a".to_owned(), EntryStatus::Retracted)];
    assert_eq!(fates(&t.take("g").await), all);
}

async fn a_ledger_is_read_from_any_number_and_nobody_is_handed_it(mut t: Case) {
    let read = async |t: &Case, from: u64, max: usize| {
        let part = t.engine.read_ledger(&t.feed, Cursor(from), max, t.now).await.unwrap();
        (part.entries.iter().map(|entry| entry.cursor.0).collect::<Vec<_>>(), part.behind.0, part.entries)
    };
    assert!(read(&t, 0, 10).await.0.is_empty(), "of a feed that nobody knows");
    for n in 0..5 {
        t.accepted(gift(&format!("g{n}")).by(&n.to_string())).await;
    }
    let all = t.take("g").await;
    let first = Cursor::first(t.now).0;
    let (numbers, behind, entries) = read(&t, 0, 10).await;
    assert_eq!((numbers, behind), ((first..first + 5).collect(), first + 5));
    assert_eq!(entries, all.into_iter().map(|it| it.entry).collect::<Vec<_>>());
    assert_eq!(read(&t, first + 1, 2).await.0, [first + 1, first + 2]);
    assert_eq!(read(&t, first + 4, 2).await.0, [first + 4]);
    assert!(read(&t, first + 5, 2).await.0.is_empty() && read(&t, first + 500, 2).await.0.is_empty());
    assert_eq!(t.take("h").await.len(), 5, "nobody was handed anything");
}

async fn a_group_is_moved_to_any_place_and_what_it_had_pending_is_dropped(mut t: Case) {
    let group: GroupId = "g".parse().unwrap();
    let seek = async |t: &Case, to: Seek| t.engine.seek_group(&t.feed, &group, to, t.now).await.unwrap();
    assert_eq!(seek(&t, Seek::Start).await, None, "there is no such group");
    let first = Cursor::first(t.now).0;
    let mut times = vec![];
    for n in 0..5 {
        t.accepted(gift(&format!("g{n}")).by(&n.to_string())).await;
        times.push(t.now);
        t.pass(1_000);
    }
    assert_eq!(t.take("g").await.len(), 5);
    assert_eq!(seek(&t, Seek::Start).await, Some(Cursor(first)));
    assert_eq!(t.group("g").await.unwrap().pending, 0);
    let again = t.take("g").await;
    assert_eq!(handed(&again), ["g0", "g1", "g2", "g3", "g4"]);
    assert!(again.iter().all(|it| it.attempt == 1));
    assert_eq!(t.ack("g", &cursors(&again)).await, Some(5));
    for (to, at) in [
        (Seek::To(Cursor(first + 3)), first + 3),
        (Seek::To(Cursor(1)), first),
        (Seek::To(Cursor(first + 900)), first + 5),
        (Seek::Now, first + 5),
        (Seek::At(times[2]), first + 2),
        (Seek::At(times[1].plus(1)), first + 2),
        (Seek::At(Millis(0)), first),
        (Seek::At(t.now.plus(1)), first + 5),
    ] {
        assert_eq!(seek(&t, to).await, Some(Cursor(at)), "{to:?}");
        assert_eq!(seek(&t, Seek::To(Cursor(at))).await, Some(Cursor(at)), "the same place");
        let next = t.take("g").await;
        assert_eq!(cursors(&next), (at..first + 5).map(Cursor).collect::<Vec<_>>(), "{to:?}");
    }
    seek(&t, Seek::Now).await;
    t.accepted(gift("new").by("new")).await;
    assert_eq!(handed(&t.take("g").await), ["new"]);
}
