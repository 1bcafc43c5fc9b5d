//! A feed that nobody wrote to.

use serde_json::json;
use tipcast::domain::{Policy, Position};
use tipcast::engine::Missed;

use crate::support::case::{Case, fresh_feed};
use crate::support::gifts::gift;

on_every_engine![
    it_is_empty_and_stands_at_the_start,
    a_policy_alone_does_not_begin_it,
    a_policy_set_before_the_first_gift_holds_for_it,
    refused_gifts_do_not_begin_it,
    its_first_gift_begins_an_epoch_of_its_own,
    heads_come_in_the_order_asked,
];

async fn it_is_empty_and_stands_at_the_start(mut t: Case) {
    for _ in 0..2 {
        let list = t.list().await;
        assert_eq!((list.at, list.tag, list.rows.len()), (Position::start(), 0, 0));
        assert_eq!(list.policy, Policy::default());
        assert_eq!(t.engine.read_policy(&t.feed).await.unwrap(), Policy::default());
        assert_eq!(t.head().await.at, Position::start());
        assert_eq!(t.after(0).await, Missed::Changes(vec![]));
    }
    assert_eq!(t.retract(&"0-1".parse().unwrap()).await, None);
    assert_eq!(t.list().await.at, Position::start());
}

async fn a_policy_alone_does_not_begin_it(mut t: Case) {
    t.patch(json!({"capacity": 3, "history": 2})).await;
    t.put(json!({"capacity": 7})).await;
    assert_eq!(t.list().await.at, Position::start());
    assert_eq!(t.head().await.at, Position::start());
}

async fn a_policy_set_before_the_first_gift_holds_for_it(mut t: Case) {
    t.patch(json!({"capacity": 1, "dedup": "off"})).await;
    t.accepted(gift("g1")).await;
    assert_eq!(t.accepted(gift("g2")).await.at.seq, 2);
    assert_eq!(t.list().await.rows.len(), 1);
}

async fn refused_gifts_do_not_begin_it(mut t: Case) {
    t.post(gift("g1").with("delay_ms", json!(5))).await;
    assert_eq!(t.list().await.at, Position::start());
}

async fn its_first_gift_begins_an_epoch_of_its_own(mut t: Case) {
    let first = t.accepted(gift("g1")).await;
    assert!(!first.at.epoch.is_none() && first.at.seq == 1);
    let (store, engine) = (t.store, t.engine.clone());
    let mut other = Case::with(store, engine, fresh_feed()).await;
    let second = other.accepted(gift("g1")).await;
    assert_ne!(first.at.epoch, second.at.epoch);
    assert_ne!(first.row, second.row);
}

async fn heads_come_in_the_order_asked(mut t: Case) {
    t.accepted(gift("g1")).await;
    let (mine, nobody) = (t.feed.clone(), fresh_feed());
    let asked = [nobody.clone(), mine.clone(), nobody, mine];
    let heads = t.engine.read_heads(&asked).await.unwrap();
    let heads: Vec<_> = heads.into_iter().map(Result::unwrap).collect();
    let seqs: Vec<_> = heads.iter().map(|head| head.at.seq).collect();
    assert_eq!(seqs, [0, 1, 0, 1]);
    assert_eq!((heads[1].tag, heads[0].tag), (t.replica.tag, 0));
    assert_eq!(t.engine.read_heads(&[]).await.unwrap(), []);
}
