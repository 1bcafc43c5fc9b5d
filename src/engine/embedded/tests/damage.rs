//! A byte flips in a record: it is seen, its feed answers so, and nobody else notices.

use super::*;
use crate::engine::{
    ClaimDue, ClaimJobs, ListReaders, ListRevocations, ListWebhooks, Publish, ReadHeads, ReadSnapshot,
    RevokeViewer,
};

/// What else a value could be.
fn flipped(value: Value) -> Value {
    match value {
        Value::Null => Value::Integer(1),
        Value::Integer(n) => Value::Integer(n ^ 64),
        Value::Text(text) if text.is_empty() => Value::Text("x".into()),
        Value::Text(text) => {
            let mut bytes = text.into_bytes();
            let at = bytes.len() / 2;
            bytes[at] ^= 0x10;
            Value::Text(String::from_utf8(bytes).unwrap())
        }
        Value::Blob(bytes) => Value::Blob([&[1], &bytes[..]].concat()),
        Value::Real(_) => unreachable!(),
    }
}

/// Every column of every table, with the rows that belong to the feed that is to be hurt.
fn targets(db: &Connection) -> Vec<(String, String, String)> {
    let mut found = vec![];
    for table in db::tables(db).unwrap() {
        let whose = match table.as_str() {
            // Of no feed: see the tests of viewers.
            "probe" | "revoked" | "requests" | "journal" => continue,
            "feeds" => "name = 'hurt'".to_owned(),
            "hooks" => "scope = 'hurt'".to_owned(),
            "sources" | "refunds" | "blocks" => "feed = 'hurt'".to_owned(),
            "log" => format!("feed = {} AND seq > 0", no_of(db, "hurt-2")),
            _ => format!("feed = {}", no_of(db, "hurt")),
        };
        let count: i64 =
            db.query_row(&format!("SELECT count(*) FROM {table} WHERE {whose}"), [], |r| r.get(0)).unwrap();
        assert!(count > 0, "nothing is kept in {table}: it is not tested");
        let mut info = db.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        for column in info.query_map([], |r| r.get::<_, String>(0)).unwrap() {
            found.push((table.clone(), column.unwrap(), whose.clone()));
        }
    }
    found
}

/// Flips a byte in a column of the first such row.
fn flip(db: &Connection, table: &str, column: &str, whose: &str) {
    let sql = format!("SELECT {column} FROM {table} WHERE {whose} LIMIT 1");
    let was: Value = db.query_row(&sql, [], |r| r.get(0)).unwrap();
    let to = flipped(was.clone());
    // Of all rows that have this value the first one only: keys of tables differ, so by what the whole row holds.
    let mut info =
        db.prepare(&format!("SELECT name FROM pragma_table_info('{table}') WHERE pk > 0")).unwrap();
    let keys: Vec<String> = info.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
    let key = keys.join(", ");
    let sql = format!(
        "UPDATE {table} SET {column} = ?1 WHERE ({key}) = (SELECT {key} FROM {table} WHERE {whose} AND {column} IS ?2 LIMIT 1)"
    );
    assert_eq!(db.execute(&sql, params![to, was]).unwrap(), 1, "{table}.{column}");
}

#[tokio::test]
async fn a_byte_that_flips_in_any_column_is_seen_and_hurts_that_feed_alone() {
    let whole = filled().await;
    assert_eq!(files::check(whole.path()).unwrap().damage, []);
    for (table, column, whose) in targets(&database(whole.path())) {
        let case = format!("{table}.{column}");
        let dir = copy(whole.path());
        flip(&database(dir.path()), &table, &column, &whose);
        let hurt = if table == "log" { "hurt-2" } else { "hurt" };
        let report = files::check(dir.path()).unwrap();
        let named: Vec<_> = report.damage.iter().map(|it| it.feed.as_ref().map(FeedId::as_str)).collect();
        assert_eq!(named, [Some(hurt)], "{case}: {:?}", report.damage);

        let metrics = Arc::new(Metrics::default());
        let engine = EmbeddedEngine::open_metered(EmbeddedOptions::new(dir.path()), metrics.clone()).unwrap();
        let refused = engine.run(Publish { feed: feed(hurt), gifts: vec![gift("x", "")], now: NOW }).await;
        assert!(matches!(refused, Err(EngineError::FeedDamaged(_))), "{case}: {refused:?}");
        assert_eq!(metrics.feeds_damaged.get(), 1, "{case}");
        let heads =
            engine.run(ReadHeads { feeds: vec![feed("well"), feed(hurt), feed("new")] }).await.unwrap();
        assert!(heads[0].is_ok() && heads[1].is_err() && heads[2].is_ok(), "{case}");
        let turn = engine.run(ClaimDue { over: vec![], max: 9, now: NOW.plus(300_000) }).await.unwrap();
        let expected = if hurt == "hurt" { vec![feed("well")] } else { vec![feed("hurt"), feed("well")] };
        let mut due: Vec<_> = turn.feeds.into_iter().map(|turn| turn.feed).collect();
        due.sort();
        assert_eq!(due, expected, "{case}");
        let hooks = engine.run(ListWebhooks).await.unwrap();
        assert!(hooks.iter().any(|(key, _)| key.scope == HookScope::All), "{case}");
        let readers = engine.run(ListReaders { feed: None }).await.unwrap();
        assert!(readers.iter().any(|(name, _)| *name == feed("well")), "{case}");
        is_well(&engine, "well", "w").await;
        is_well(&engine, "well-2", "w").await;
        is_well(&engine, "new", "n").await;
        let jobs = engine
            .run(ClaimJobs { over: vec![], max: 99, lease_ms: 1_000, now: NOW.plus(300_000) })
            .await
            .unwrap()
            .jobs;
        assert!(jobs.iter().all(|lease| lease.job.feed != feed(hurt)), "{case}");
        let of_well = |lease: &crate::engine::JobLease| {
            lease.job.feed == feed("well") && matches!(lease.job.reader, Reader::Hook(_))
        };
        assert!(jobs.iter().any(of_well), "{case}: {jobs:?}");
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn damage_that_shows_in_the_middle_of_a_group_leaves_the_rest_of_it_whole() {
    let dir = filled().await;
    let engine = open(dir.path());
    let after = gift("hurt-0", "");
    // Behind the engine's back, as a disk would do it: in the middle of its work.
    let rotten = |feeds: &mut Feeds| {
        feeds.db.begin()?;
        feeds.db.run("UPDATE ids SET seal = seal + 1 WHERE body LIKE '%hurt-0 %'", [])?;
        Ok(())
    };
    engine.task((1, Some(NOW)), rotten).await.unwrap();
    let (hurt, well) = (feed("hurt"), feed("well"));
    // One group: the writer is held up while these come in.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut wait = Some(wait);
    let held = engine.task((1, Some(NOW)), move |_| {
        // Once, although the group is run again.
        let _ = wait.take().map(|wait| wait.recv());
        Ok(())
    });
    let calls = async {
        let first = engine.run(Publish { feed: hurt.clone(), gifts: vec![gift("before", "")], now: NOW });
        let second = engine.run(Publish { feed: well.clone(), gifts: vec![gift("between", "")], now: NOW });
        let third = engine.run(Publish { feed: hurt.clone(), gifts: vec![after], now: NOW });
        let fourth = engine.run(Publish { feed: well.clone(), gifts: vec![gift("behind", "")], now: NOW });
        let go = async {
            tokio::task::yield_now().await;
            go.send(()).unwrap();
        };
        tokio::join!(first, second, third, fourth, go)
    };
    let (held, (first, second, third, fourth, ())) = tokio::join!(held, calls);
    held.unwrap();
    for done in [second, fourth] {
        assert!(matches!(done.unwrap()[0], Outcome::New(_)));
    }
    assert!(matches!(third, Err(EngineError::FeedDamaged(_))), "{third:?}");
    let together = matches!(first, Err(EngineError::FeedDamaged(_)));
    assert!(together || first.is_ok(), "{first:?}");
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    engine.close().await.unwrap();
    let count = |id: &str| -> i64 {
        let sql = "SELECT count(*) FROM ids WHERE char(10) || body LIKE '%' || char(10) || ?1 || ' %'";
        database(dir.path()).query_row(sql, [id], |r| r.get(0)).unwrap()
    };
    assert_eq!((count("between"), count("behind")), (1, 1));
    // What was logged of a damaged feed stays in the log.
    let logged = "SELECT count(*) FROM log WHERE ids LIKE 'before %'";
    let logged: i64 = database(dir.path()).query_row(logged, [], |r| r.get(0)).unwrap();
    assert_eq!(count("before") + logged, i64::from(!together), "what was refused did not happen");
}

#[tokio::test]
async fn a_change_that_is_missing_is_not_passed_over() {
    let whole = filled().await;
    let engine = open(whole.path());
    for batch in 0..4 {
        let gifts = (0..64).map(|n| gift(&format!("much-{batch}-{n}"), ""));
        engine.run(Publish { feed: feed("much"), gifts: gifts.collect(), now: NOW }).await.unwrap();
        engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    }
    for n in 0..4 {
        engine
            .run(Publish { feed: feed("hurt-2"), gifts: vec![gift(&format!("more-{n}"), "")], now: NOW })
            .await
            .unwrap();
    }
    engine.close().await.unwrap();
    // Of the one most is logged; of the other all is in the table.
    for (name, table, place) in [("hurt-2", "log", "place"), ("much", "changes", "last")] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        let no = no_of(&db, name);
        let sql = format!("SELECT {place} FROM {table} WHERE feed = ?1 ORDER BY {place}");
        let sql = if table == "log" { sql.replace("?1", "?1 AND seq > 0") } else { sql };
        let chunks: Vec<i64> =
            db.prepare(&sql).unwrap().query_map([no], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(chunks.len() > 2, "{name}: {chunks:?}");
        let sql = format!("DELETE FROM {table} WHERE feed = ?1 AND {place} = ?2");
        db.execute(&sql, [no, chunks[chunks.len() - 2]]).unwrap();
        drop(db);
        let report = files::check(dir.path()).unwrap();
        assert_eq!(report.damage.len(), 1);
        assert_eq!(report.damage[0].feed, Some(feed(name)));
        let engine = open(dir.path());
        assert!(matches!(
            engine.run(ReadSnapshot { feed: feed(name), now: NOW }).await,
            Err(EngineError::FeedDamaged(_))
        ));
        is_well(&engine, "well", "w").await;
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_page_that_is_overwritten_hurts_those_whose_records_stand_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    // Enough changes for pages of their own.
    for name in ["a", "b", "c"] {
        for batch in 0..12 {
            let gifts = (0..40)
                .map(|n| gift(&format!("{name}-{batch}-{n}"), r#","message":"some words to fill it""#));
            engine.run(Publish { feed: feed(name), gifts: gifts.collect(), now: NOW }).await.unwrap();
        }
    }
    engine.close().await.unwrap();
    let file = folder::database(dir.path());
    // The overflow pages of b's list hold its words: the first one that has its gifts and nobody else's.
    let mut bytes = std::fs::read(&file).unwrap();
    let has = |page: &[u8], text: &str| page.windows(text.len()).any(|it| it == text.as_bytes());
    let mut hit = 0;
    for page in bytes.chunks_mut(4096).skip(1) {
        if has(page, "u-b-11-") && !has(page, "u-a-") && !has(page, "u-c-") && hit == 0 {
            let at = page.windows(7).position(|it| it == b"u-b-11-").unwrap();
            page[at] ^= 1;
            hit += 1;
        }
    }
    assert_eq!(hit, 1);
    std::fs::write(&file, bytes).unwrap();
    let report = files::check(dir.path()).unwrap();
    assert_eq!(report.damage.iter().filter_map(|it| it.feed.clone()).collect::<Vec<_>>(), [feed("b")]);
    let engine = open(dir.path());
    for name in ["a", "c"] {
        is_well(&engine, name, "w").await;
    }
    assert!(matches!(
        engine.run(ReadSnapshot { feed: feed("b"), now: NOW }).await,
        Err(EngineError::FeedDamaged(_))
    ));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_byte_that_flips_in_a_revocation_hurts_its_viewer_alone() {
    let of = |sub: &str, ms| Revocation { sub: sub.into(), before: NOW.plus(ms), until: NOW.plus(90_000) };
    for column in ["sub", "before", "until", "seal"] {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path());
        engine.run(RevokeViewer { revocation: of("ann", 0), now: NOW }).await.unwrap();
        engine.run(RevokeViewer { revocation: of("eve", 0), now: NOW }).await.unwrap();
        engine.close().await.unwrap();
        flip(&database(dir.path()), "revoked", column, "no = 1");
        let report = files::check(dir.path()).unwrap();
        assert_eq!(report.damage.len(), 1, "{column}: {:?}", report.damage);
        let engine = open(dir.path());
        let page = engine.run(ListRevocations { after: RevokedAt::default(), max: 9 }).await.unwrap();
        assert_eq!((page.revoked, page.at.seq), (vec![of("eve", 0)], 2), "{column}");
        assert_eq!(
            engine.run(RevokeViewer { revocation: of("ann", 1), now: NOW }).await.unwrap(),
            NOW.plus(1),
            "it is revoked once more"
        );
        assert_eq!(
            engine.run(ListRevocations { after: page.at.clone(), max: 9 }).await.unwrap().revoked,
            [of("ann", 1)],
            "{column}"
        );
    }
}

#[tokio::test]
async fn what_concerns_no_token_any_more_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { steady_for: Duration::ZERO, ..EmbeddedOptions::new(dir.path()) };
    let engine = EmbeddedEngine::open(options).unwrap();
    let of = |sub: &str, before: Millis| Revocation { sub: sub.into(), before, until: before.plus(1_000) };
    for sub in ["a", "b", "c"] {
        engine.run(RevokeViewer { revocation: of(sub, NOW), now: NOW }).await.unwrap();
    }
    let later = NOW.plus(1_000);
    engine.run(RevokeViewer { revocation: of("d", later), now: later }).await.unwrap();
    let page = engine.run(ListRevocations { after: RevokedAt::default(), max: 9 }).await.unwrap();
    let subs: Vec<_> = page.revoked.iter().map(|one| &*one.sub).collect();
    assert_eq!(subs, ["c", "d"], "the newest of the old ones stays until another is the newest");
}
