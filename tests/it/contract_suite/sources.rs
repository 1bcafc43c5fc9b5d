//! What a store keeps of sources: set and changed by one at a time, counted, and gone with all they have.

use tipcast::domain::{FeedId, GiftId, Millis, Position, Source, SourceId, SourceNote, SourceOutcome};
use tipcast::engine::{REFUNDS_MAX, Refund, SOURCES_MAX, Swapped};

use crate::support::case::{Case, fresh_feed};

on_every_engine![
    a_source_is_swapped_by_who_knows_its_version,
    a_feed_has_so_many_sources_and_no_more,
    deliveries_are_counted_and_the_last_error_stays,
    a_source_that_is_deleted_takes_its_counts_along,
    refunds_are_remembered_before_and_after_the_gift,
    as_many_refunds_are_remembered_as_may_be,
    sources_outlive_the_process_and_begin_no_feed,
];

fn name(text: &str) -> SourceId {
    text.parse().unwrap()
}

fn new(t: &Case, settings: &str) -> Source {
    Source::new(&t.feed, settings.into(), [t.now.0 as u128, 7], t.now)
}

async fn swap(t: &Case, source: &str, was: Option<u64>, to: Option<Source>) -> Swapped {
    t.engine.swap_source(&t.feed, &name(source), was, to.as_ref()).await.unwrap()
}

async fn note(t: &Case, source: &str, note: SourceNote) {
    t.engine.record_delivery(&t.feed, &name(source), &note, t.now).await.unwrap();
}

async fn a_source_is_swapped_by_who_knows_its_version(t: Case) {
    let hostile = "{\"a\":\"\\\"\u{1F339}\n'; DROP\"}";
    let first = new(&t, hostile);
    assert_eq!(t.engine.list_sources(&t.feed).await.unwrap(), vec![]);
    assert_eq!(swap(&t, "b", Some(1), Some(first.clone())).await, Swapped::Stale);
    assert_eq!(swap(&t, "b", None, None).await, Swapped::Done, "nothing in the place of nothing");
    assert_eq!(swap(&t, "b", None, Some(first.clone())).await, Swapped::Done);
    assert_eq!(swap(&t, "b", None, Some(first.clone())).await, Swapped::Stale);
    assert_eq!(swap(&t, "a", None, Some(first.clone())).await, Swapped::Done);
    let kept = t.engine.list_sources(&t.feed).await.unwrap();
    let names: Vec<_> = kept.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(kept[1].1, first);
    let second = first.set("{}".into());
    assert_eq!(swap(&t, "b", Some(1), Some(second.clone())).await, Swapped::Done);
    assert_eq!(swap(&t, "b", Some(1), Some(second.clone())).await, Swapped::Stale);
    let kept = t.engine.list_sources(&t.feed).await.unwrap();
    assert_eq!((&kept[1].1, kept[1].1.path.is(&first.path)), (&second, true));
    assert_eq!(swap(&t, "b", Some(1), None).await, Swapped::Stale);
    assert_eq!(swap(&t, "b", Some(2), None).await, Swapped::Done);
    assert_eq!(t.engine.list_sources(&t.feed).await.unwrap().len(), 1);
    assert_eq!(t.engine.list_sources(&fresh_feed()).await.unwrap(), vec![]);
}

async fn a_feed_has_so_many_sources_and_no_more(t: Case) {
    for n in 0..SOURCES_MAX {
        assert_eq!(swap(&t, &format!("s{n}"), None, Some(new(&t, "{}"))).await, Swapped::Done);
    }
    assert_eq!(swap(&t, "more", None, Some(new(&t, "{}"))).await, Swapped::Full);
    let again = new(&t, "{}").set("{}".into());
    assert_eq!(swap(&t, "s3", Some(1), Some(again)).await, Swapped::Done, "one that is there may change");
    assert_eq!(swap(&t, "s0", Some(1), None).await, Swapped::Done);
    assert_eq!(swap(&t, "more", None, Some(new(&t, "{}"))).await, Swapped::Done);
}

async fn deliveries_are_counted_and_the_last_error_stays(mut t: Case) {
    note(&t, "nobody", SourceOutcome::Accepted.into()).await;
    assert_eq!(t.engine.list_sources(&t.feed).await.unwrap(), vec![]);
    swap(&t, "a", None, Some(new(&t, "{}"))).await;
    swap(&t, "a-b", None, Some(new(&t, "{}"))).await;
    let began = t.now;
    note(&t, "a", SourceOutcome::Accepted.into()).await;
    t.pass(5);
    note(&t, "a", SourceNote::wrong(SourceOutcome::Refused, "\"no\" \u{1F339}\n")).await;
    t.pass(5);
    note(&t, "a", SourceOutcome::Accepted.into()).await;
    note(&t, "a-b", SourceOutcome::InReview.into()).await;
    let kept = t.engine.list_sources(&t.feed).await.unwrap();
    let tally = &kept[0].2;
    assert_eq!(tally.counts[&SourceOutcome::Accepted], 2);
    assert_eq!((tally.counts[&SourceOutcome::Refused], tally.counts.len()), (1, 2));
    assert_eq!(tally.last_at, Some(began.plus(10)));
    assert_eq!(tally.last_error, Some((began.plus(5), "\"no\" \u{1F339}\n".to_owned())));
    assert_eq!(kept[1].2.counts.len(), 1);
    // Setting it again keeps what came.
    swap(&t, "a", Some(1), Some(kept[0].1.set("{}".into()))).await;
    assert_eq!(t.engine.list_sources(&t.feed).await.unwrap()[0].2, *tally);
}

async fn a_source_that_is_deleted_takes_its_counts_along(t: Case) {
    for source in ["a", "a.b"] {
        swap(&t, source, None, Some(new(&t, "{}"))).await;
        note(&t, source, SourceNote::wrong(SourceOutcome::Refused, "no")).await;
    }
    swap(&t, "a", Some(1), None).await;
    swap(&t, "a", None, Some(new(&t, "{}"))).await;
    let kept = t.engine.list_sources(&t.feed).await.unwrap();
    assert_eq!((kept[0].2.counts.len(), kept[0].2.last_at, &kept[0].2.last_error), (0, None, &None));
    assert_eq!(kept[1].2.counts.len(), 1, "its neighbour keeps its own");
}

fn gift(n: usize) -> GiftId {
    format!("shop:pi_{n}").parse().unwrap()
}

async fn refunds_are_remembered_before_and_after_the_gift(t: Case) {
    let refund_of = async |feed: FeedId, n| t.engine.read_refund(&feed, &gift(n)).await.unwrap();
    assert_eq!(refund_of(t.feed.clone(), 1).await, None);
    for (refund, remembered) in [
        (Refund::Part(400), Refund::Part(400)),
        (Refund::Part(300), Refund::Part(400)),
        (Refund::Part(9_007_199_254_740_991), Refund::Part(9_007_199_254_740_991)),
        (Refund::Whole, Refund::Whole),
        (Refund::Part(500), Refund::Whole),
    ] {
        t.engine.record_refund(&t.feed, &gift(1), refund, t.now).await.unwrap();
        assert_eq!(refund_of(t.feed.clone(), 1).await, Some(remembered));
    }
    assert_eq!(refund_of(t.feed.clone(), 2).await, None);
    assert_eq!(refund_of(fresh_feed(), 1).await, None);
}

async fn as_many_refunds_are_remembered_as_may_be(t: Case) {
    for n in 0..REFUNDS_MAX + 2 {
        t.engine.record_refund(&t.feed, &gift(n), Refund::Whole, Millis(t.now.0 + n as i64)).await.unwrap();
    }
    for (n, kept) in [(0, false), (1, false), (2, true), (REFUNDS_MAX + 1, true)] {
        assert_eq!(t.engine.read_refund(&t.feed, &gift(n)).await.unwrap().is_some(), kept, "{n}");
    }
}

async fn sources_outlive_the_process_and_begin_no_feed(mut t: Case) {
    swap(&t, "a", None, Some(new(&t, "{}"))).await;
    note(&t, "a", SourceOutcome::Accepted.into()).await;
    t.engine.record_refund(&t.feed, &gift(1), Refund::Whole, t.now).await.unwrap();
    assert_eq!(t.engine.read_snapshot(&t.feed, t.now).await.unwrap().at, Position::start());
    let before = t.engine.list_sources(&t.feed).await.unwrap();
    t.engine.close().await;
    t.engine = t.store.open().await;
    assert_eq!(t.engine.list_sources(&t.feed).await.unwrap(), before);
    assert!(t.engine.read_refund(&t.feed, &gift(1)).await.unwrap().is_some());
}
