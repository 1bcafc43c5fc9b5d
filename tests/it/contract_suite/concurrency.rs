//! Many callers at once: every call is one step.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tipcast::domain::{Outcome, Status};

use crate::support::case::Case;
use crate::support::gifts::gift;

on_every_engine![
    callers_at_once_share_one_numbering_without_holes,
    the_same_gift_from_many_callers_at_once_is_taken_once,
    a_flood_of_one_kind_from_many_callers_is_one_row,
    only_one_of_many_callers_retracts_a_row,
];

async fn callers_at_once_share_one_numbering_without_holes(mut t: Case) {
    t.patch(json!({"dedup": "off", "history": 100_000})).await;
    let callers = (0..8).map(|caller| {
        let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
        tokio::spawn(async move {
            let mut answers = vec![];
            for n in 0..20 {
                let gifts = (0..1 + n % 4).map(|k| gift(&format!("{caller}-{n}-{k}")).parse()).collect();
                for outcome in engine.publish(&feed, gifts, now).await.unwrap() {
                    let Outcome::New(answer) = outcome else { panic!("{outcome:?}") };
                    assert!(engine.known(&feed).is_none_or(|known| known.seq >= answer.at.seq));
                    answers.push((answer.at.seq, answer.row.unwrap()));
                }
            }
            answers
        })
    });
    let mut rows = BTreeMap::new();
    for caller in callers.collect::<Vec<_>>() {
        let answers = caller.await.unwrap();
        assert!(answers.is_sorted(), "one caller's gifts stay in order");
        rows.extend(answers);
    }
    assert_eq!(rows.len(), 8 * 50);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (1..=400).collect::<Vec<_>>());
    assert_eq!(rows.values().collect::<BTreeSet<_>>().len(), 400, "every row has its own name");
    let list = t.list().await;
    assert_eq!(list.at.seq, 400);
    let newest: Vec<_> = rows.values().rev().take(10).cloned().collect();
    assert_eq!(t.row_ids().await, newest);
}

async fn the_same_gift_from_many_callers_at_once_is_taken_once(mut t: Case) {
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
            tokio::spawn(async move {
                engine.publish(&feed, vec![gift("g1").parse()], now).await.unwrap().remove(0)
            })
        })
        .collect();
    let (mut new, mut answers) = (0, BTreeSet::new());
    for caller in callers {
        match caller.await.unwrap() {
            Outcome::New(answer) => {
                new += 1;
                answers.insert(format!("{answer:?}"));
            }
            Outcome::Duplicate(answer) => drop(answers.insert(format!("{answer:?}"))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((new, answers.len()), (1, 1));
    assert_eq!(t.list().await.at.seq, 1);
}

async fn a_flood_of_one_kind_from_many_callers_is_one_row(mut t: Case) {
    let callers: Vec<_> = (0..16)
        .map(|n| {
            let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
            let gift = gift(&format!("g{n}")).count(3).value(5, "EUR").parse();
            tokio::spawn(async move { engine.publish(&feed, vec![gift], now).await.unwrap().remove(0) })
        })
        .collect();
    let mut accepted = 0;
    for caller in callers {
        let Outcome::New(answer) = caller.await.unwrap() else { panic!("every one is new") };
        accepted += u32::from(answer.status == Status::Accepted);
    }
    let list = t.list().await;
    assert_eq!((accepted, list.rows.len(), list.rows[0].count), (1, 1, 48));
    assert_eq!(list.rows[0].value.as_ref().unwrap().amount, 80);
}

async fn only_one_of_many_callers_retracts_a_row(mut t: Case) {
    let row = t.accepted(gift("g1")).await.row.unwrap();
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (engine, feed, row, now) = (t.engine.clone(), t.feed.clone(), row.clone(), t.now);
            tokio::spawn(async move { engine.retract_row(&feed, &row, now).await.unwrap() })
        })
        .collect();
    let mut done = 0;
    for caller in callers {
        done += u32::from(caller.await.unwrap().is_some());
    }
    assert_eq!((done, t.list().await.at.seq), (1, 2));
}
