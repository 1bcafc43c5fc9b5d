//! What is only logged: it is there after a kill at any point, while the disk refuses, and beside pages that rot.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::{Change, Dedup, GiftTakenBack, Position, RowId, Status};
use crate::engine::{
    ClaimEntries, Missed, ProbeStore, Publish, ReadChanges, ReadSnapshot, RetractGift, RetractRow, SetPolicy,
};

/// What is on disk now, as a kill would leave it: the engine is between two commits.
pub(super) fn killed(dir: &Path) -> tempfile::TempDir {
    let to = copy(dir);
    for name in ["tipcast.db-wal", "tipcast.journal"] {
        std::fs::copy(dir.join(name), to.path().join(name)).unwrap();
    }
    to
}

async fn changes(engine: &EmbeddedEngine, name: &str, since: &Position) -> Vec<Change> {
    match engine.run(ReadChanges { feed: feed(name), since: since.clone(), max: 10_000 }).await.unwrap() {
        Missed::Changes(changes) => changes,
        Missed::NotCovered => panic!("{since} is not covered"),
    }
}

pub(super) async fn entries(engine: &EmbeddedEngine, name: &str) -> usize {
    let ask = Ask { max: 1_000, lease_ms: 1_000, from: Start::Start };
    engine
        .run(ClaimEntries { feed: feed(name), group: "g".parse().unwrap(), ask, now: NOW })
        .await
        .unwrap()
        .unwrap()
        .entries
        .len()
}

#[tokio::test]
async fn whenever_it_is_killed_what_was_acknowledged_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path());
    let names = ["a", "b", "c"];
    // Of each feed: the ids that were taken, and the newest row.
    let mut known: BTreeMap<&str, (Vec<String>, Option<RowId>)> = BTreeMap::new();
    let mut taken_back = BTreeSet::new();
    let mut seed = 7_u64;
    for step in 0..70 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let name = names[(seed >> 33) as usize % 3];
        let (ids, row) = known.entry(name).or_default();
        match (seed >> 40) % 12 {
            0 => {
                // Much at once.
                let some: Vec<String> = (0..70).map(|n| format!("{step}-{n}")).collect();
                let gifts = some.iter().map(|id| gift(id, "")).collect();
                engine.run(Publish { feed: feed(name), gifts, now: NOW }).await.unwrap();
                ids.extend(some);
            }
            1 => {
                let patch = PolicyPatch { capacity: Some(5 + step), ..PolicyPatch::default() };
                engine
                    .run(SetPolicy { feed: feed(name), change: PolicyChange::Merge(patch), now: NOW })
                    .await
                    .unwrap();
            }
            2 => {
                if let Some(row) = row.take() {
                    engine.run(RetractRow { feed: feed(name), row: row.clone(), now: NOW }).await.unwrap();
                }
            }
            3 => engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap(),
            4 => {
                engine.close().await.unwrap();
                engine = open(dir.path());
            }
            5 => drop(engine.run(ReadSnapshot { feed: feed(name), now: NOW }).await.unwrap()),
            // Nothing but its id changes of what it was.
            6 => {
                if let Some(id) = ids.last() {
                    engine
                        .run(RetractGift { feed: feed(name), id: id.parse().unwrap(), now: NOW })
                        .await
                        .unwrap();
                    taken_back.insert((name, id.clone()));
                    *row = None;
                }
            }
            _ => {
                let id = format!("{step}");
                let done = engine
                    .run(Publish { feed: feed(name), gifts: vec![gift(&id, "")], now: NOW })
                    .await
                    .unwrap()
                    .remove(0);
                let Outcome::New(answer) = done else { panic!("{done:?}") };
                (*row, _) = (answer.row, ids.push(id));
            }
        }
        let killed = killed(dir.path());
        let again = open(killed.path());
        for (name, (ids, _)) in &known {
            let (is, was) = (
                again.run(ReadSnapshot { feed: feed(name), now: NOW }).await.unwrap(),
                engine.run(ReadSnapshot { feed: feed(name), now: NOW }).await.unwrap(),
            );
            assert_eq!((&is.at, &is.rows), (&was.at, &was.rows), "{name} after step {step}");
            if is.at.seq == 0 {
                continue;
            }
            let since = Position { seq: is.at.seq.saturating_sub(100).max(1), ..is.at.clone() };
            if let Missed::Changes(_) =
                engine.run(ReadChanges { feed: feed(name), since: since.clone(), max: 9 }).await.unwrap()
            {
                assert_eq!(changes(&again, name, &since).await, changes(&engine, name, &since).await);
            }
            for id in ids.iter().filter(|id| taken_back.contains(&(*name, (*id).clone()))) {
                let done = again
                    .run(RetractGift { feed: feed(name), id: id.parse().unwrap(), now: NOW })
                    .await
                    .unwrap();
                assert_eq!(done, GiftTakenBack::Done, "{name} after step {step}");
            }
            let gone = taken_back.iter().filter(|(of, _)| of == name).count();
            assert_eq!(entries(&again, name).await, ids.len() + gone, "{name} after step {step}");
            for id in ids.iter().rev().take(3) {
                let done = again
                    .run(Publish { feed: feed(name), gifts: vec![gift(id, "")], now: NOW })
                    .await
                    .unwrap()
                    .remove(0);
                assert!(matches!(done, Outcome::Duplicate(_)), "{name} after step {step}: {done:?}");
            }
        }
        again.close().await.unwrap();
        assert_eq!(files::check(killed.path()).unwrap().damage, [], "after step {step}");
    }
}

#[tokio::test]
async fn changes_that_history_has_let_go_of_never_reach_their_table_and_their_locks_do() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let (history, dedup, dedup_window_ms) = (Some(20), Some(Dedup::Drop), Some(60_000));
    let patch = PolicyPatch { history, dedup, dedup_window_ms, ..PolicyPatch::default() };
    engine.run(SetPolicy { feed: feed("a"), change: PolicyChange::Merge(patch), now: NOW }).await.unwrap();
    for n in 0..300 {
        engine
            .run(Publish { feed: feed("a"), gifts: vec![gift(&format!("lone-{n}"), "")], now: NOW })
            .await
            .unwrap();
    }
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    let was = engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
    let first = "SELECT CAST(body AS INTEGER) FROM changes ORDER BY last LIMIT 1";
    let first = engine.task((1, None), move |feeds| feeds.db.value::<u64>(first, [])).await.unwrap();
    assert_eq!(first, Some(was.at.seq - 19));
    let killed = killed(dir.path());
    let again = open(killed.path());
    let is = again.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
    assert_eq!((&is.at, &is.rows), (&was.at, &was.rows));
    let since = Position { seq: was.at.seq - 20, ..was.at.clone() };
    assert_eq!(changes(&again, "a", &since).await, changes(&engine, "a", &since).await);
    // The lock of a gift whose change is in no table.
    let same = Gift { id: "more".parse().unwrap(), ..gift("lone-100", "") };
    let done = again.run(Publish { feed: feed("a"), gifts: vec![same], now: NOW }).await.unwrap().remove(0);
    assert!(matches!(&done, Outcome::New(answer) if answer.status == Status::Suppressed), "{done:?}");
}

#[tokio::test]
async fn what_is_only_logged_is_read_back_while_the_disk_refuses_and_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for n in 0..5 {
        engine
            .run(Publish { feed: feed("a"), gifts: vec![gift(&format!("lone-{n}"), "")], now: NOW })
            .await
            .unwrap();
    }
    let before = engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
    disk::fill_up(&engine, true).await;
    for _ in 0..2 {
        assert!(disk::give(&engine, "a", "much").await.is_err());
        let list = engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
        assert_eq!((&list.at, &list.rows), (&before.at, &before.rows));
        let since = Position { seq: 1, ..before.at.clone() };
        let seqs: Vec<u64> = changes(&engine, "a", &since).await.iter().map(|change| change.seq).collect();
        assert_eq!(seqs, [2, 3, 4, 5]);
    }
    disk::fill_up(&engine, false).await;
    engine.run(ProbeStore).await.unwrap();
    engine.run(Publish { feed: feed("a"), gifts: vec![gift("after", "")], now: NOW }).await.unwrap();
    engine.close().await.unwrap();
    let engine = open(dir.path());
    assert_eq!(
        engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap().at,
        Position { seq: 6, ..before.at.clone() }
    );
    assert_eq!(entries(&engine, "a").await, 6);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_page_of_the_log_that_rots_hurts_those_whose_records_are_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let names: Vec<String> = (10..50).map(|n| format!("f{n}")).collect();
    for round in 0..3 {
        for name in &names {
            let it = gift(&format!("{name}-{round}"), r#","message":"some words to fill it""#);
            engine.run(Publish { feed: feed(name), gifts: vec![it], now: NOW }).await.unwrap();
        }
    }
    engine.close().await.unwrap();
    let file = folder::database(dir.path());
    let mut bytes = std::fs::read(&file).unwrap();
    let has = |page: &[u8], text: &str| page.windows(text.len()).any(|it| it == text.as_bytes());
    // A leaf of a table with the second gift of this feed and not its first one, which is in the list that was
    // written whole.
    let is_it = |page: &[u8]| page[0] == 0x0d && has(page, "u-f30-1") && !has(page, "u-f30-0");
    let pages: Vec<usize> =
        (1..bytes.len() / 4096).filter(|n| is_it(&bytes[n * 4096..(n + 1) * 4096])).collect();
    assert_eq!(pages.len(), 1);
    let page = &mut bytes[pages[0] * 4096..(pages[0] + 1) * 4096];
    let hurt: Vec<FeedId> =
        names.iter().filter(|name| has(page, &format!("u-{name}-"))).map(|it| feed(it)).collect();
    assert!((1..20).contains(&hurt.len()), "{hurt:?}");
    page[..8].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let conn = database(dir.path());
    let no_of: BTreeMap<&str, i64> = names.iter().map(|name| (&**name, no_of(&conn, name))).collect();
    let unreadable = log::unreadable(&conn).unwrap();
    assert_eq!(unreadable, hurt.iter().map(|name| no_of[name.as_str()]).collect());
    let log = log::Log::read(&db::Db::new(conn), Vec::new()).unwrap();
    for name in &names {
        let records = log.records(no_of[&**name]);
        match hurt.contains(&feed(name)) {
            true => assert!(matches!(records, Err(Fault::Garbled(_))), "{name}: {records:?}"),
            false => assert_eq!(records.unwrap().len(), 3, "{name}"),
        }
    }
}

#[tokio::test]
async fn a_record_that_does_not_say_whose_it_is_keeps_nobody_else_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for n in 0..3 {
        for name in ["a", "b"] {
            engine
                .run(Publish { feed: feed(name), gifts: vec![gift(&format!("{name}-{n}"), "")], now: NOW })
                .await
                .unwrap();
        }
    }
    let whole = engine.run(ReadSnapshot { feed: feed("b"), now: NOW }).await.unwrap();
    engine.close().await.unwrap();
    // SQLite keeps texts out of a strict table's numbers; a byte that flips in the file does not ask it.
    let a = no_of(&database(dir.path()), "a");
    let strict = |from: &str, to: &str| {
        let conn = database(dir.path());
        conn.execute_batch("PRAGMA writable_schema = ON").unwrap();
        let sql =
            "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) WHERE name = 'log' AND sql LIKE '%' || ?1";
        assert_eq!(conn.execute(sql, [from, to]).unwrap(), 1);
    };
    strict(") STRICT", ")");
    let sql = "UPDATE log SET feed = 'x' WHERE place = (SELECT max(place) FROM log WHERE feed = ?1)";
    assert_eq!(database(dir.path()).execute(sql, [a]).unwrap(), 1);
    strict(")", ") STRICT");
    let engine = open(dir.path());
    let list = engine.run(ReadSnapshot { feed: feed("b"), now: NOW }).await.unwrap();
    assert_eq!((&list.at, &list.rows), (&whole.at, &whole.rows));
    engine.run(Publish { feed: feed("b"), gifts: vec![gift("b-after", "")], now: NOW }).await.unwrap();
    engine.close().await.unwrap();
}
