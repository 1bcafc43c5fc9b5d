//! What a watcher can resume over.

use serde_json::json;
use tipcast::domain::{Epoch, Position};
use tipcast::engine::Missed;

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::gift;

on_every_engine![
    history_holds_exactly_the_newest_changes,
    a_history_of_zero_covers_only_where_the_feed_stands,
    a_shorter_history_uncovers_at_once_and_a_longer_one_brings_nothing_back,
    changes_come_in_pages,
    positions_of_other_lives_or_ahead_are_not_covered,
    a_batch_longer_than_the_history_leaves_its_end,
    reopening_the_store_changes_nothing,
    a_reopened_store_still_knows_ids_and_locks,
    a_reopened_store_still_knows_policy_and_history,
];

async fn post_some(t: &mut Case, ids: std::ops::Range<u32>) {
    for n in ids {
        t.accepted(gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
}

async fn history_holds_exactly_the_newest_changes(mut t: Case) {
    t.patch(json!({"history": 10})).await;
    post_some(&mut t, 0..10).await;
    assert!(t.covers(0).await);
    post_some(&mut t, 10..13).await;
    for seq in 0..14 {
        match t.after(seq).await {
            Missed::Changes(changes) => {
                assert!(seq >= 3, "{seq} is older than the newest ten");
                let seqs: Vec<_> = changes.iter().map(|c| c.seq).collect();
                assert_eq!(seqs, (seq + 1..=13).collect::<Vec<_>>());
            }
            Missed::NotCovered => assert!(seq < 3, "{seq} is within the newest ten"),
        }
    }
}

async fn a_history_of_zero_covers_only_where_the_feed_stands(mut t: Case) {
    t.patch(json!({"history": 0})).await;
    post_some(&mut t, 0..3).await;
    assert_eq!(t.after(3).await, Missed::Changes(vec![]));
    for seq in 0..3 {
        assert_eq!(t.after(seq).await, Missed::NotCovered, "{seq}");
    }
}

async fn a_shorter_history_uncovers_at_once_and_a_longer_one_brings_nothing_back(mut t: Case) {
    post_some(&mut t, 0..8).await;
    t.patch(json!({"history": 3})).await;
    assert!(t.covers(5).await && !t.covers(4).await);
    t.patch(json!({"history": 1000})).await;
    assert!(t.covers(5).await && !t.covers(4).await);
    post_some(&mut t, 8..12).await;
    assert!(t.covers(5).await && !t.covers(4).await, "grown, not moved");
    t.put(json!({"history": 0})).await;
    assert!(t.covers(12).await && !t.covers(11).await);
}

async fn changes_come_in_pages(mut t: Case) {
    post_some(&mut t, 0..7).await;
    let mut since = Position { seq: 0, ..t.replica.at.clone() };
    let mut seqs = vec![];
    loop {
        let Missed::Changes(page) = t.engine.read_changes(&t.feed, &since, 3).await.unwrap() else {
            panic!("covered")
        };
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        since.seq = last.seq;
        seqs.extend(page.iter().map(|c| c.seq));
    }
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7]);
}

async fn positions_of_other_lives_or_ahead_are_not_covered(mut t: Case) {
    post_some(&mut t, 0..2).await;
    let here = t.replica.at.clone();
    let elsewhere = [
        Position { seq: 3, ..here.clone() },
        Position { seq: u64::MAX, ..here.clone() },
        Position { seq: (1 << 53) + 1, ..here.clone() },
        Position { epoch: Epoch::mint(), seq: 1 },
        Position { epoch: Epoch::mint(), seq: 0 },
        Position::start(),
        Position { epoch: Epoch::none(), seq: 2 },
    ];
    for since in elsewhere {
        assert_eq!(t.engine.read_changes(&t.feed, &since, 10).await.unwrap(), Missed::NotCovered, "{since}");
    }
    let nobody = fresh_feed();
    for since in [here, Position { epoch: Epoch::none(), seq: 1 }] {
        assert_eq!(t.engine.read_changes(&nobody, &since, 10).await.unwrap(), Missed::NotCovered, "{since}");
    }
}

async fn a_batch_longer_than_the_history_leaves_its_end(mut t: Case) {
    t.patch(json!({"history": 5, "dedup": "off"})).await;
    let gifts: Vec<_> = (0..128).map(|n| gift(&format!("g{n}"))).collect();
    t.post_all(gifts).await;
    assert!(t.covers(123).await && !t.covers(122).await);
}

async fn again(mut t: Case) -> Case {
    let before = t.list().await;
    t.engine.close().await;
    let Case { store, engine, feed, now, .. } = t;
    drop(engine);
    let engine = store.open().await;
    let mut t = Case::with(store, engine, feed).await;
    t.now = now;
    assert_eq!(t.list().await, before);
    t
}

async fn reopening_the_store_changes_nothing(mut t: Case) {
    let full = gift("g1").value(7, "EUR").with("message", json!("\u{1F339} \"<b>\"")).with("tier", json!(3));
    t.accepted(full.with("meta", json!({"k": [1, 2.5, null]}))).await;
    t.accepted(gift("g2").by("bob").combo("c", 4).end()).await;
    t.accepted(gift("g3").by("eve").test()).await;
    let mut t = again(t).await;
    t.merged(gift("g4").by("eve").test()).await;
    let mut t = again(t).await;
    t.merged(gift("g5").by("bob").combo("c", 5)).await;
    assert_eq!(t.list().await.at.seq, 4, "the combo is still closed");
}

async fn a_reopened_store_still_knows_ids_and_locks(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    let mut t = again(t).await;
    t.duplicate(gift("g1"), &first).await;
    t.pass(4_999);
    let merged = t.merged(gift("g2")).await;
    assert_eq!(merged.row, first.row);
    let mut t = again(t).await;
    t.duplicate(gift("g2"), &merged).await;
    t.pass(4_999);
    t.merged(gift("g3")).await;
    let mut t = again(t).await;
    t.pass(5_000);
    t.accepted(gift("g4")).await;
}

async fn a_reopened_store_still_knows_policy_and_history(mut t: Case) {
    let policy = t.patch(json!({"capacity": 3, "history": 6, "row_ttl_ms": 1000})).await;
    post_some(&mut t, 0..8).await;
    let before = t.after(2).await;
    let mut t = again(t).await;
    assert_eq!(t.engine.read_policy(&t.feed).await.unwrap(), policy);
    assert_eq!(t.after(2).await, before);
    assert!(!t.covers(1).await);
    t.pass(1000);
    assert_eq!(t.list().await.at.seq, 11, "three rows expired");
    let mut t = again(t).await;
    t.patch(json!({"capacity": 4})).await;
    let t = again(t).await;
    assert!(t.covers(12).await && !t.covers(11).await, "the reset still uncovers");
}
