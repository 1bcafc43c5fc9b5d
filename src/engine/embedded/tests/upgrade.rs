//! Folders that older versions wrote are brought up to date with everything they hold.

use super::*;
use crate::domain::{DueKind, GiftId};
use crate::engine::{
    CancelScheduled, ClaimEntries, ListDeadDue, ListDeadLetters, ListDrops, ListHolds, ListWebhooks, Publish,
    ReadGroup, ReadSnapshot, Unscheduled,
};

#[test]
fn a_file_of_the_first_layout_is_brought_up_to_date_with_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tipcast.db");
    let old = Connection::open(&path).unwrap();
    layouts::make(&old, 1).unwrap();
    old.execute_batch(
        "INSERT INTO feeds VALUES (1, 'f', 'e', 0, 0, 10, '{}', '');
        INSERT INTO changes VALUES (1, 1, '1 0 0 reset' || char(10));
        INSERT INTO locks VALUES (1, 'key', 'e-1', 9);
        INSERT INTO ids VALUES (1, 'a', zeroblob(16), 0, 'e', 1, 'e-1', NULL, 9);",
    )
    .unwrap();
    drop(old);
    for _ in 0..2 {
        let (db, found) = open::open(&path).unwrap();
        assert_eq!(found.damage, []);
        let read =
            feed::Feed::load(&db, &feed("f"), &Arc::default(), &log::Log::read(&db, Vec::new()).unwrap())
                .unwrap()
                .unwrap();
        assert_eq!((read.state.list.at.seq, read.state.locks["key"].until), (1, Millis(9)));
        let (ids, id) = (ids::Ids::read(&db).unwrap(), "a".parse().unwrap());
        let (known, until) = ids.find(&db, 1, &id).unwrap().unwrap();
        assert_eq!(until, Millis(9));
        assert!(
            matches!(known.fate, crate::domain::answer::GiftFate::Taken(answer) if answer.row.as_ref().is_some_and(|row| row.as_str() == "e-1"))
        );
    }
}

/// Has chunks of ids stand in one order again.
fn as_layout_16(db: &Connection) {
    let runs: i64 = db.query_row("SELECT count(DISTINCT run) FROM ids", [], |r| r.get(0)).unwrap();
    assert_eq!(runs, 1, "they are in one");
    db.execute_batch(
        "DROP TABLE requests;
        ALTER TABLE ids RENAME TO runs;
        CREATE TABLE ids (
            feed INTEGER NOT NULL, first TEXT NOT NULL, count INTEGER NOT NULL, least INTEGER NOT NULL, body TEXT NOT NULL,
            seal INTEGER NOT NULL, PRIMARY KEY (feed, first)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO ids SELECT feed, first, count, least, body, seal(feed, first, count, least, body) FROM runs;
        DROP TABLE runs; PRAGMA user_version=16;",
    )
    .unwrap();
}

/// Every id of both feeds is known, but for those of the one that is hurt, which is refused.
async fn ids_are_known(dir: &Path, is_hurt: bool, told: &str) {
    let engine = open(dir);
    for name in ["hurt", "well"] {
        for id in ["0", "1", "2", "approved", "waits", "undone", "after", "later"] {
            let rest = match id {
                "approved" | "waits" => r#","message":"hi""#,
                "later" => r#","delay_ms":60000"#,
                _ => "",
            };
            let again = gift(&format!("{name}-{id}"), rest);
            let done = engine.run(Publish { feed: feed(name), gifts: vec![again], now: NOW }).await;
            if name == "hurt" && is_hurt {
                assert!(matches!(done, Err(EngineError::FeedDamaged(_))), "{told} {id}: {done:?}");
            } else {
                let done = done.unwrap().remove(0);
                let is_known = matches!(
                    done,
                    Outcome::Duplicate(_) | Outcome::ScheduledBefore(_) | Outcome::InReviewBefore(_)
                );
                assert!(is_known, "{told} {id} of {name}: {done:?}");
            }
        }
    }
    is_well(&engine, "well", "w").await;
    engine.close().await.unwrap();
    let report = files::check(dir).unwrap();
    let named: Vec<_> = report.damage.into_iter().map(|it| it.feed).collect();
    assert_eq!(named, if is_hurt { vec![Some(feed("hurt"))] } else { vec![] }, "{told}");
}

#[tokio::test]
async fn a_folder_with_ids_in_one_order_keeps_them_and_what_is_damaged_of_them() {
    let whole = filled().await;
    as_layout_16(&database(whole.path()));
    for damage in ["", "least = least + 1", "feed = feed + 256", "first = 'z' || first"] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        if !damage.is_empty() {
            let sql = format!("UPDATE ids SET {damage} WHERE feed = ?1");
            assert!(db.execute(&sql, [no_of(&db, "hurt")]).unwrap() > 0);
        }
        drop(db);
        ids_are_known(dir.path(), !damage.is_empty(), damage).await;
    }
}

/// Gives ids a row each again.
fn as_layout_15(db: &Connection) {
    as_layout_16(db);
    db.execute_batch(
        "ALTER TABLE ids RENAME TO chunks;
        CREATE TABLE ids (
            feed INTEGER NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
            epoch TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, count INTEGER, until INTEGER NOT NULL,
            part TEXT NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (feed, id)
        ) STRICT, WITHOUT ROWID;",
    )
    .unwrap();
    let mut query = db.prepare("SELECT feed, body FROM chunks ORDER BY feed, first").unwrap();
    let chunks = query.query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?))).unwrap();
    for (feed, body) in chunks.map(Result::unwrap) {
        for lines in id_lines::IdLines::all(&body).unwrap() {
            let (head, part) = lines.text.trim_end_matches('\n').split_once('\n').unwrap();
            let words: Vec<&str> = head.split(' ').collect();
            let number = |n: usize| words[n].parse::<i64>().ok();
            let fingerprint = Fingerprint::from_hex(words[1]).unwrap().0;
            let epoch = words[3];
            let row =
                if words[5].starts_with('-') { format!("{epoch}{}", words[5]) } else { words[5].to_owned() };
            let sql = "INSERT INTO ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
                seal(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10))";
            let (status, seq, count, until) = (number(2), number(4), number(6), number(7));
            let values = params![feed, lines.id, fingerprint, status, epoch, seq, row, count, until, part];
            db.execute(sql, values).unwrap();
        }
    }
    drop(query);
    db.execute_batch("DROP TABLE chunks; PRAGMA user_version=15").unwrap();
}

#[tokio::test]
async fn a_folder_with_a_row_for_each_id_keeps_them_and_what_is_damaged_of_them() {
    let whole = filled().await;
    as_layout_15(&database(whole.path()));
    for damage in ["", "status = status + 1", "feed = feed + 256", "id = 'z' || id"] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        if !damage.is_empty() {
            let sql = format!("UPDATE ids SET {damage} WHERE feed = ?1 AND id = 'hurt-1'");
            assert_eq!(db.execute(&sql, [no_of(&db, "hurt")]).unwrap(), 1);
        }
        drop(db);
        ids_are_known(dir.path(), !damage.is_empty(), damage).await;
    }
}

/// Nothing is beside the file, and it does not say that anything could be.
fn as_layout_14(db: &Connection) {
    as_layout_15(db);
    db.execute_batch("DROP TABLE journal; PRAGMA user_version=14;").unwrap();
}

#[tokio::test]
async fn a_folder_without_a_journal_keeps_what_is_logged_and_gets_one() {
    let dir = filled().await;
    as_layout_14(&database(dir.path()));
    std::fs::remove_file(journal::path(&folder::database(dir.path()))).unwrap();
    let engine = open(dir.path());
    assert_eq!(engine.run(ReadSnapshot { feed: feed("well-2"), now: NOW }).await.unwrap().at.seq, 4);
    for name in ["hurt", "well", "hurt-2", "well-2"] {
        is_well(&engine, name, "w").await;
    }
    engine.close().await.unwrap();
    assert_eq!(files::check(dir.path()).unwrap().damage, []);
    let logged = "SELECT count(*) FROM log WHERE ids LIKE 'w-2 %'";
    let logged: i64 = database(dir.path()).query_row(logged, [], |r| r.get(0)).unwrap();
    assert_eq!(logged, 4, "what the journal held came to the table");
}

/// Has ids stand in the order of ids, and nothing of them in the log: they are to be in their table already.
fn as_layout_13(db: &Connection) {
    as_layout_14(db);
    db.execute_batch(
        "ALTER TABLE ids RENAME TO ids_by_feed;
        CREATE TABLE ids (
            feed INTEGER NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
            epoch TEXT NOT NULL, seq INTEGER NOT NULL, row TEXT NOT NULL, count INTEGER, until INTEGER NOT NULL,
            part TEXT NOT NULL DEFAULT '', seal INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (id, feed)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO ids SELECT * FROM ids_by_feed; DROP TABLE ids_by_feed;
        ALTER TABLE log RENAME TO log_with_ids; DROP INDEX log_places;
        CREATE TABLE log (
            place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, seq INTEGER NOT NULL, changes TEXT NOT NULL,
            locks TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
            entries TEXT NOT NULL, seal INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX log_places ON log (place, feed);
        INSERT INTO log SELECT place, feed, seq, changes, locks, last, count, at, entries,
            seal(place, feed, seq, changes, locks, last, count, at, entries) FROM log_with_ids;
        DROP TABLE log_with_ids; PRAGMA user_version=13;",
    )
    .unwrap();
}

#[tokio::test]
async fn a_folder_with_ids_in_the_order_of_ids_keeps_them_and_what_is_damaged_of_its_log() {
    let whole = filled().await;
    as_layout_13(&database(whole.path()));
    for damage in ["count = count + 1", "feed = feed + 256"] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        let sql =
            format!("UPDATE log SET {damage} WHERE place = (SELECT max(place) FROM log WHERE feed = ?1)");
        assert_eq!(db.execute(&sql, [no_of(&db, "hurt-2")]).unwrap(), 1);
        drop(db);
        let engine = open(dir.path());
        let refused = engine.run(ReadSnapshot { feed: feed("hurt-2"), now: NOW }).await;
        assert!(matches!(refused, Err(EngineError::FeedDamaged(_))), "{damage}: {refused:?}");
        for name in ["hurt", "well"] {
            let again = gift(&format!("{name}-1"), "");
            let done = engine
                .run(Publish { feed: feed(name), gifts: vec![again], now: NOW })
                .await
                .unwrap()
                .remove(0);
            assert!(matches!(done, Outcome::Duplicate(_)), "{damage}: {done:?}");
        }
        assert_eq!(
            engine.run(ReadSnapshot { feed: feed("well-2"), now: NOW }).await.unwrap().at.seq,
            4,
            "{damage}"
        );
        is_well(&engine, "well-2", "w").await;
        engine.close().await.unwrap();
    }
}

/// Brings what is logged of changes to their table, and the rest to the table that was before the log.
fn as_layout_12(db: &Connection) {
    as_layout_13(db);
    db.execute_batch(
        "CREATE TABLE jots (
            place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL,
            at INTEGER NOT NULL, body TEXT NOT NULL, seal INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        INSERT INTO jots SELECT place, feed, last, count, at, entries, seal(place, feed, last, count, at, entries)
            FROM log WHERE count > 0;
        INSERT INTO changes SELECT feed, seq, changes, locks, seal(feed, seq, changes, locks) FROM log WHERE seq > 0;
        DROP TABLE log; PRAGMA user_version=12;",
    )
    .unwrap();
}

#[tokio::test]
async fn a_folder_of_the_layout_before_the_log_keeps_its_entries_and_what_is_damaged_of_them() {
    let whole = filled().await;
    as_layout_12(&database(whole.path()));
    for damage in ["count = count + 1", "feed = feed + 256"] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        let sql =
            format!("UPDATE jots SET {damage} WHERE place = (SELECT min(place) FROM jots WHERE feed = ?1)");
        assert_eq!(db.execute(&sql, [no_of(&db, "hurt-2")]).unwrap(), 1);
        drop(db);
        let engine = open(dir.path());
        let refused = engine.run(ReadSnapshot { feed: feed("hurt-2"), now: NOW }).await;
        assert!(matches!(refused, Err(EngineError::FeedDamaged(_))), "{damage}: {refused:?}");
        let ask = Ask { max: 9, lease_ms: 1_000, from: Start::Start };
        let taken = engine
            .run(ClaimEntries { feed: feed("well-2"), group: "g".parse().unwrap(), ask, now: NOW })
            .await
            .unwrap()
            .unwrap();
        assert_eq!(taken.entries.len(), 4, "{damage}");
        engine.close().await.unwrap();
        let report = files::check(dir.path()).unwrap();
        assert_eq!(
            report.damage.iter().map(|it| it.feed.clone()).collect::<Vec<_>>(),
            [Some(feed("hurt-2"))]
        );
    }
}

/// Gives locks a row each again.
fn as_layout_11(db: &Connection) {
    as_layout_12(db);
    db.execute_batch(
        "ALTER TABLE locks RENAME TO chunks;
        CREATE TABLE locks (
            feed INTEGER NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL, until INTEGER NOT NULL,
            seal INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (feed, key)
        ) STRICT, WITHOUT ROWID;",
    )
    .unwrap();
    let mut query = db.prepare("SELECT feed, body FROM chunks ORDER BY feed, place").unwrap();
    let chunks = query.query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?))).unwrap();
    for (feed, body) in chunks.map(Result::unwrap) {
        for (key, lock) in locks::read_locks(&body).unwrap() {
            let sql = "INSERT OR REPLACE INTO locks VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))";
            db.execute(sql, params![feed, key, lock.row.as_str(), lock.until.0]).unwrap();
        }
    }
    drop(query);
    db.execute_batch("DROP TABLE chunks; PRAGMA user_version=11").unwrap();
}

#[tokio::test]
async fn a_folder_with_a_row_for_each_lock_keeps_them_and_what_is_damaged_of_them() {
    let whole = filled().await;
    as_layout_11(&database(whole.path()));
    for damage in ["until = until + 1", "feed = feed + 256"] {
        let dir = copy(whole.path());
        let db = database(dir.path());
        let sql = format!(
            "UPDATE locks SET {damage} WHERE key = (SELECT min(key) FROM locks WHERE feed = ?1) AND feed = ?1"
        );
        assert_eq!(db.execute(&sql, [no_of(&db, "hurt")]).unwrap(), 1);
        drop(db);
        let engine = open(dir.path());
        let refused = engine.run(ReadSnapshot { feed: feed("hurt"), now: NOW }).await;
        assert!(matches!(refused, Err(EngineError::FeedDamaged(_))), "{damage}: {refused:?}");
        let mut again = gift("well-again", "");
        again.user.id = "u-well-0".into();
        let outcome =
            engine.run(Publish { feed: feed("well"), gifts: vec![again], now: NOW }).await.unwrap().remove(0);
        assert!(
            matches!(&outcome, Outcome::New(answer) if answer.status == crate::domain::Status::Merged),
            "{damage}: {outcome:?}"
        );
        engine.close().await.unwrap();
        let report = files::check(dir.path()).unwrap();
        assert_eq!(report.damage.iter().map(|it| it.feed.clone()).collect::<Vec<_>>(), [Some(feed("hurt"))]);
    }
}

/// Takes the seals off a folder, so that it is as the layout before them wrote it.
fn as_layout_7(dir: &Path) {
    let db = database(dir);
    as_layout_11(&db);
    db.execute_batch(
        "DROP TABLE probe; DROP TABLE revoked; DROP TABLE blocks; DROP TABLE approved; DROP TABLE tallies; DROP TABLE told; DROP TABLE gifters; DROP TABLE undone;",
    )
    .unwrap();
    // What counted stands beside what a gift added to its row.
    db.execute_batch("UPDATE ids SET part = substr(part, 1, instr(part || char(10), char(10)) - 1);")
        .unwrap();
    db.execute_batch("DELETE FROM due WHERE kind = 't'").unwrap();
    for table in db::tables(&db).unwrap() {
        db.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN seal")).unwrap();
    }
    db.execute_batch("PRAGMA user_version=7").unwrap();
    let fresh = Connection::open_in_memory().unwrap();
    layouts::make(&fresh, 7).unwrap();
    let shape = |db: &Connection| {
        let sql = "SELECT m.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema m, pragma_table_info(m.name) c
            WHERE m.type = 'table' ORDER BY 1, c.cid";
        let mut query = db.prepare(sql).unwrap();
        let read = |r: &rusqlite::Row<'_>| {
            Ok((
                r.get::<_, String>(0)?,
                r.get::<_, String>(1)?,
                r.get::<_, String>(2)?,
                r.get::<_, i64>(3)?,
                r.get::<_, i64>(4)?,
            ))
        };
        query.query_map([], read).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(shape(&db), shape(&fresh), "it is the old layout");
}

#[tokio::test]
async fn a_folder_of_the_layout_before_seals_keeps_everything() {
    let dir = filled().await;
    as_layout_7(dir.path());
    let why = files::check(dir.path()).unwrap_err();
    assert!(why.contains("older tipcast"), "{why}");
    let engine = open(dir.path());
    for name in ["hurt", "well"] {
        let feed = feed(name);
        let list = engine.run(ReadSnapshot { feed: feed.clone(), now: NOW }).await.unwrap();
        assert_eq!((list.policy.capacity, list.drops.len()), (7, 1));
        let again = engine
            .run(Publish { feed: feed.clone(), gifts: vec![gift(&format!("{name}-0"), "")], now: NOW })
            .await
            .unwrap();
        assert!(matches!(again[0], Outcome::Duplicate(_)), "ids are known");
        assert_eq!(engine.run(ListDrops { feed: feed.clone(), now: NOW }).await.unwrap()[0].held, 1);
        assert_eq!(
            engine.run(ListHolds { feed: feed.clone(), user: "held".into(), now: NOW }).await.unwrap().len(),
            1
        );
        assert_eq!(engine.run(ListDeadDue { feed: feed.clone() }).await.unwrap()[0].reason, "why");
        let group: crate::domain::GroupId = "g".parse().unwrap();
        let view = engine
            .run(ReadGroup { feed: feed.clone(), group: group.clone(), now: NOW })
            .await
            .unwrap()
            .unwrap();
        assert_eq!((view.pending, view.dead), (1, 1));
        assert_eq!(
            engine
                .run(ListDeadLetters { feed: feed.clone(), reader: Reader::Group(group) })
                .await
                .unwrap()
                .len(),
            1
        );
        let id: GiftId = format!("{name}-later").parse().unwrap();
        assert_eq!(
            engine.run(CancelScheduled { feed: feed.clone(), id: id.clone(), now: NOW }).await.unwrap(),
            Unscheduled::Cancelled(NOW.plus(60_000))
        );
    }
    let hooks = engine.run(ListWebhooks).await.unwrap();
    assert_eq!(hooks.len(), 3);
    let (feed, group) = (feed("well-2"), "g".parse::<crate::domain::GroupId>().unwrap());
    let ask = Ask { max: 9, lease_ms: 1_000, from: Start::Start };
    let logged = engine.run(ClaimEntries { feed: feed.clone(), group: group.clone(), ask, now: NOW });
    assert_eq!(logged.await.unwrap().unwrap().entries.len(), 4);
    assert_eq!(DueKind::Gift.letter(), 'g');
    engine.close().await.unwrap();
    assert_eq!(files::check(dir.path()).unwrap().damage, []);
}

#[test]
fn a_file_of_a_newer_layout_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tipcast.db");
    drop(open::open(&path).unwrap());
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!("PRAGMA user_version={}", layouts::NEWEST + 1)).unwrap();
    drop(db);
    let why = open::open(&path).err().unwrap();
    assert!(why.contains("newer tipcast") && why.contains("run that one"), "{why}");
}
