//! Entries that cannot be handled, and where they are in Redis.

use tipcast::engine::{DUE_TRIES, DueFate, rest_after};

use super::*;
use crate::support::case::Case;
use crate::support::damage::hurt;
use crate::support::stores::Storage;

/// Spoils what is stored of a gift.
pub type Spoil = Box<dyn Fn(&str)>;

pub async fn spoiled_gifts_are_given_up_and_hold_up_nobody(mut t: Case, spoil: Spoil) {
    t.patch(json!({"dedup": "off"})).await;
    for id in ["a", "bad", "c"] {
        t.scheduled(later(id, 10)).await;
    }
    spoil("bad");
    t.pass(10);
    let mut fates = t.work().await;
    fates.retain(|it| !matches!(it.fate, DueFate::SetAside));
    assert_eq!(fates.len(), 2, "its neighbours are shown: {fates:?}");
    assert_eq!(t.list().await.at.seq, 2);
    for tries in 1..DUE_TRIES {
        assert!(t.engine.list_dead_due(&t.feed).await.unwrap().is_empty());
        t.pass(rest_after(tries) - 1);
        assert!(t.work().await.is_empty(), "it rests");
        t.pass(1);
        let fates = t.work().await;
        assert_eq!(fates.len(), 1, "after {tries} tries");
        assert_eq!(matches!(fates[0].fate, DueFate::Dead(_)), tries == DUE_TRIES - 1, "{fates:?}");
    }
    let dead = t.engine.list_dead_due(&t.feed).await.unwrap();
    assert_eq!((dead.len(), dead[0].id.as_str(), dead[0].kind), (1, "bad", 'g'));
    assert!(dead[0].reason.contains("cannot be read"), "{dead:?}");
    assert_eq!((dead[0].at, dead[0].kind_word()), (t.now, "gift"));
    t.pass(600_000);
    assert!(t.work().await.is_empty(), "once and for all");
    t.scheduled(later("next", 10)).await;
    t.pass(10);
    assert_eq!(t.shown().await.len(), 1);
    assert!(t.waiting().await.gifts.is_empty());
}

#[tokio::test]
async fn a_gift_that_cannot_be_read_in_redis_is_given_up_and_holds_up_nobody() {
    for text in [&b"no gift"[..], b"0000000000000002 gbad\nbad\nxx\n", b"\xff\xfe", b""] {
        let corner = Corner::new();
        let t = Case::on(Storage::Redis(corner.clone())).await;
        let later = format!("{}{{{}}}:later", corner.prefix, t.feed);
        let spoil = move |id: &str| {
            redis::cmd("HSET")
                .arg(&later)
                .arg(id)
                .arg(text)
                .query::<()>(&mut corner.server.connect())
                .unwrap();
        };
        spoiled_gifts_are_given_up_and_hold_up_nobody(t, Box::new(spoil)).await;
    }
}

#[tokio::test]
async fn a_gift_that_is_damaged_in_a_folder_is_never_shown_and_holds_up_no_other_feed() {
    let store = Storage::embedded();
    let engine = store.open_store().await;
    let [bad, good]: [tipcast::domain::FeedId; 2] = ["bad", "good"].map(|name| name.parse().unwrap());
    let now = Millis(1_800_000_000_000);
    for feed in [&bad, &good] {
        let gifts = vec![later("g", 10).parse()];
        engine.publish(feed, gifts, now).await.unwrap();
    }
    engine.close().await;
    let Storage::Embedded(dir) = &store else { unreachable!() };
    hurt(dir.path(), "bad", "later");
    let engine = store.open_store().await;
    let now = now.plus(10);
    let turn = engine.claim_due(vec![], 9, now).await.unwrap();
    assert_eq!(turn.feeds.len(), 2);
    let refused = engine.run_due(&bad, now).await;
    assert!(matches!(refused, Err(tipcast::engine::StoreError::FeedDamaged(_))), "{refused:?}");
    assert_eq!(engine.run_due(&good, now).await.unwrap().handled.len(), 1);
    let turn = engine.claim_due(vec![], 9, now).await.unwrap();
    assert!(
        turn.feeds.is_empty() && turn.next_in_ms.is_none_or(|ms| ms >= 100),
        "nobody spins on it: {turn:?}"
    );
}

#[tokio::test]
async fn an_entry_of_a_kind_that_this_version_does_not_know_rests_and_holds_up_nobody() {
    let corner = Corner::new();
    let mut t = Case::on(Storage::Redis(corner.clone())).await;
    t.scheduled(later("g1", 10)).await;
    let due = format!("{}{{{}}}:due", corner.prefix, t.feed);
    let unknown = "0000000000000000 zthing";
    let mut redis = corner.server.connect();
    redis::cmd("ZADD").arg(&due).arg(t.now.0).arg(unknown).query::<()>(&mut redis).unwrap();
    t.pass(10);
    let fates: Vec<_> = t.work().await.into_iter().map(|it| matches!(it.fate, DueFate::Shown(_))).collect();
    assert_eq!(fates, [false, true]);
    let score: f64 = redis::cmd("ZSCORE").arg(&due).arg(unknown).query(&mut redis).unwrap();
    assert_eq!(score as i64, t.now.plus(rest_after(1)).0);
}

#[tokio::test]
async fn entries_that_tipcast_did_not_write_are_put_away_and_hold_up_nobody() {
    let corner = Corner::new();
    let mut t = Case::on(Storage::Redis(corner.clone())).await;
    t.scheduled(later("g1", 10)).await;
    let due = format!("{}{{{}}}:due", corner.prefix, t.feed);
    let mut redis = corner.server.connect();
    for member in [&b"nonsense"[..], b"x y", b"", b"\xff\xfe"] {
        redis::cmd("ZADD").arg(&due).arg(5).arg(member).query::<()>(&mut redis).unwrap();
    }
    t.pass(10);
    assert_eq!(t.work().await.len(), 4, "three rest, the gift is shown");
    for tries in 1..DUE_TRIES {
        t.pass(rest_after(tries));
        assert_eq!(t.work().await.len(), 3);
    }
    let dead = t.engine.list_dead_due(&t.feed).await.unwrap();
    assert_eq!((dead.len(), dead[0].kind_word()), (3, "unknown"), "{dead:?}");
    let left: u64 = redis::cmd("EXISTS").arg(&due).query(&mut redis).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_shown_queue_leaves_nothing() {
    let corner = Corner::new();
    let engine = node(&corner).await;
    schedule(&engine, &[later("g1", 1), later("g2", 1), later("g3", 600_000)]).await;
    let id: tipcast::domain::GiftId = "g3".parse().unwrap();
    engine.cancel_scheduled(&feed(), &id, Millis::now()).await.unwrap();
    let work = tipcast::work::due::DueLoop::start(engine.clone(), Default::default(), &Default::default());
    wait_for_seq(&engine, 2).await;
    let since = Instant::now();
    loop {
        let pattern = format!("{}*", corner.prefix);
        let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut corner.server.connect()).unwrap();
        let of_queue = |key: &String| {
            [":due", ":later", ":tries", ":dead", ":feeds", ":marks"].iter().any(|end| key.ends_with(end))
        };
        if !keys.iter().any(of_queue) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{keys:?}");
        sleep(Duration::from_millis(5)).await;
    }
    work.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_divide_the_index_differently_show_everything() {
    let corner = Corner::new();
    let many = node_with(&corner, |options| options.due_parts = 16).await;
    let one = node(&corner).await;
    let feeds: Vec<FeedId> = (0..12).map(|n| format!("room{n}").parse().unwrap()).collect();
    for feed in &feeds {
        many.publish(feed, vec![later("g1", 1).parse()], Millis::now()).await.unwrap();
    }
    drop(many);
    // The node that knows one part looks into the others, one each time that it finds nothing.
    let mut work = tipcast::work::due::DueWork::new(one.clone(), Default::default());
    for _ in 0..60 {
        work.step(Millis::now()).await.unwrap();
        sleep(Duration::from_millis(2)).await;
    }
    let heads = one.read_heads(&feeds).await.unwrap();
    assert!(heads.iter().flatten().filter(|head| head.at.seq == 1).count() == feeds.len(), "{heads:?}");
}
