//! A disk that refuses: nothing that it refused is shown, reads go on, and readiness tells the truth.

use super::*;
use crate::engine::{
    ClaimDue, ClaimEntries, ProbeStore, Publish, ReadChanges, ReadSnapshot, RunDue, Subscribe,
};

/// As a full disk would: the files may not grow beyond what they have, or again may.
pub(super) async fn fill_up(engine: &EmbeddedEngine, full: bool) {
    engine
        .task((1, Some(NOW)), move |feeds| {
            let pages: i64 = feeds.db.conn.query_row("PRAGMA page_count", [], |r| r.get(0))?;
            let most = if full { pages } else { 1 << 30 };
            feeds.db.conn.pragma_update(None, "max_page_count", most)?;
            feeds.journal.limit(if full { 0 } else { 1 << 30 });
            Ok(())
        })
        .await
        .unwrap();
}

pub(super) async fn give(engine: &EmbeddedEngine, name: &str, id: &str) -> Result<Vec<Outcome>, EngineError> {
    let long = format!(r#","message":"{}""#, "words ".repeat(30));
    let gifts = (0..100).map(|n| gift(&format!("{id}-{n}"), &long)).collect();
    engine.run(Publish { feed: feed(name), gifts, now: NOW }).await
}

#[tokio::test]
async fn a_full_disk_refuses_writes_shows_nothing_of_them_and_goes_on_reading() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for name in ["a", "b"] {
        give(&engine, name, "first").await.unwrap();
    }
    engine.run(ProbeStore).await.unwrap();
    let before = engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
    let mut heard = engine.run(Subscribe { feed: feed("a") }).await.unwrap();
    fill_up(&engine, true).await;
    let refused = give(&engine, "a", "second").await;
    assert!(matches!(&refused, Err(EngineError::Unavailable(why)) if why.contains("full")), "{refused:?}");
    assert!(heard.try_next().is_none(), "nothing of it was told");
    for name in ["a", "b"] {
        let list = engine.run(ReadSnapshot { feed: feed(name), now: NOW }).await.unwrap();
        assert_eq!(list.at.seq, before.at.seq);
    }
    assert!(
        matches!(engine.run(ReadChanges { feed: feed("a"), since: before.at.clone(), max: 9 }).await, Ok(crate::engine::Missed::Changes(none)) if none.is_empty())
    );
    assert!(engine.run(ProbeStore).await.is_err(), "red while the disk refuses");

    fill_up(&engine, false).await;
    engine.run(ProbeStore).await.unwrap();
    let taken = give(&engine, "a", "second").await.unwrap();
    assert!(matches!(taken[0], Outcome::New(_)), "what was refused did not happen, so it is new");
    let list = engine.run(ReadSnapshot { feed: feed("a"), now: NOW }).await.unwrap();
    assert_eq!((list.at.epoch, list.at.seq), (before.at.epoch, before.at.seq + 100));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn readers_of_a_group_whose_commit_fails_are_answered_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    give(&engine, "a", "first").await.unwrap();
    give(&engine, "b", "first").await.unwrap();
    fill_up(&engine, true).await;
    let (a, b) = (feed("a"), feed("b"));
    let (write, read, other) = tokio::join!(
        give(&engine, "a", "second"),
        engine.run(ReadSnapshot { feed: a.clone(), now: NOW }),
        engine.run(ReadSnapshot { feed: b.clone(), now: NOW })
    );
    assert!(write.is_err());
    assert_eq!((read.unwrap().at.seq, other.unwrap().at.seq), (100, 100));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn what_waits_in_a_group_that_failed_is_as_it_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let later = gift("later", r#","delay_ms":1000"#);
    engine.run(Publish { feed: feed("a"), gifts: vec![later], now: NOW }).await.unwrap();
    give(&engine, "a", "first").await.unwrap();
    fill_up(&engine, true).await;
    assert!(give(&engine, "a", "second").await.is_err());
    fill_up(&engine, false).await;
    let turn = engine.run(ClaimDue { over: vec![], max: 9, now: NOW.plus(1_000) }).await.unwrap();
    assert_eq!(turn.feeds.len(), 1);
    assert_eq!(engine.run(RunDue { feed: feed("a"), now: NOW.plus(1_000) }).await.unwrap().handled.len(), 1);
    let group: crate::domain::GroupId = "g".parse().unwrap();
    let ask = Ask { max: 1_000, lease_ms: 1_000, from: Start::Start };
    let taken = engine
        .run(ClaimEntries { feed: feed("a"), group: group.clone(), ask, now: NOW })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(taken.entries.len(), 101, "each gift that was taken is an entry, once");
    engine.close().await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_stored_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("data");
    let engine = open(&dir);
    give(&engine, "a", "first").await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    engine.close().await.unwrap();
}
