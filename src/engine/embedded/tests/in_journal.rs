//! The journal is cut, flips, is old, is read by others, and cannot be written.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::logged::{entries, killed};
use super::*;
use crate::engine::{ProbeStore, Publish, ReadSnapshot, SetPolicy};
use journal::Reading;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn file(dir: &Path) -> PathBuf {
    journal::path(&folder::database(dir))
}

fn len(dir: &Path) -> u64 {
    std::fs::metadata(file(dir)).unwrap().len()
}

async fn give(engine: &EmbeddedEngine, name: &str, id: &str) -> Result<Outcome, EngineError> {
    engine
        .run(Publish { feed: feed(name), gifts: vec![gift(id, "")], now: NOW })
        .await
        .map(|mut all| all.remove(0))
}

async fn seq(engine: &EmbeddedEngine, name: &str) -> Result<u64, EngineError> {
    engine.run(ReadSnapshot { feed: feed(name), now: NOW }).await.map(|shown| shown.at.seq)
}

/// Feeds that have begun, so that what comes next goes to the journal alone.
async fn begun(dir: &Path) -> Arc<EmbeddedEngine> {
    let engine = open(dir);
    for name in NAMES {
        give(&engine, name, "first").await.unwrap();
    }
    assert_eq!(len(dir), 0, "the first gift of a feed goes to its tables");
    engine
}

/// The same, with nine gifts in the journal: three for each.
async fn given(dir: &Path) -> Arc<EmbeddedEngine> {
    let engine = begun(dir).await;
    for n in 0..9 {
        give(&engine, NAMES[n % 3], &format!("g-{n}")).await.unwrap();
    }
    engine
}

/// A batch, which is one commit.
async fn give_many(engine: &EmbeddedEngine, name: &str, id: &str) {
    let many = (0..100).map(|n| gift(&format!("{id}-{n}"), "")).collect();
    let taken = engine.run(Publish { feed: feed(name), gifts: many, now: NOW }).await.unwrap();
    assert!(taken.iter().all(|it| matches!(it, Outcome::New(_))), "{taken:?}");
}

/// What the database says is damaged, by name.
fn named(dir: &Path) -> Vec<Option<String>> {
    let damage = files::check(dir).unwrap().damage;
    damage.into_iter().map(|it| it.feed.map(|feed| feed.to_string())).collect()
}

#[tokio::test]
async fn a_commit_that_a_kill_cut_short_did_not_happen_and_all_before_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let engine = given(dir.path()).await;
    let whole = len(dir.path());
    give(&engine, "a", "cut").await.unwrap();
    let killed = killed(dir.path());
    for cut in (whole..len(dir.path())).step_by(61) {
        let dir = copy_of(killed.path());
        OpenOptions::new().write(true).open(file(dir.path())).unwrap().set_len(cut).unwrap();
        assert_eq!(named(dir.path()), [], "cut at {cut}");
        let engine = open(dir.path());
        for name in NAMES {
            assert_eq!(seq(&engine, name).await.unwrap(), 4, "{name}, cut at {cut}");
            assert_eq!(entries(&engine, name).await, 4, "{name}, cut at {cut}");
        }
        let (cut_short, other) = (give(&engine, "a", "cut").await, give(&engine, "a", "g-6").await);
        assert!(matches!(cut_short, Ok(Outcome::New(_))), "{cut_short:?}, cut at {cut}");
        assert!(matches!(other, Ok(Outcome::Duplicate(_))), "{other:?}, cut at {cut}");
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn of_a_batch_that_a_kill_cut_short_nothing_is_there_and_a_whole_one_is_there_whole() {
    let dir = tempfile::tempdir().unwrap();
    let engine = given(dir.path()).await;
    give_many(&engine, "b", "whole").await;
    let whole = len(dir.path());
    give_many(&engine, "a", "cut").await;
    let killed = killed(dir.path());
    let end = len(dir.path());
    assert!(end - whole > 20_000, "it goes to the journal: {whole} became {end}");
    for cut in (whole..end).step_by(2_003).chain([end - 1, end]) {
        let dir = copy_of(killed.path());
        OpenOptions::new().write(true).open(file(dir.path())).unwrap().set_len(cut).unwrap();
        assert_eq!(named(dir.path()), [], "cut at {cut}");
        let engine = open(dir.path());
        let of_a = if cut == end { 104 } else { 4 };
        for (name, expected) in [("a", of_a), ("b", 104), ("c", 4)] {
            assert_eq!(seq(&engine, name).await.unwrap(), expected, "{name}, cut at {cut}");
            assert_eq!(entries(&engine, name).await, expected as usize, "{name}, cut at {cut}");
        }
        for (name, id, is_there) in [("a", "cut-7", cut == end), ("b", "whole-99", true)] {
            let done = give(&engine, name, id).await.unwrap();
            assert_eq!(matches!(done, Outcome::Duplicate(_)), is_there, "{done:?}, cut at {cut}");
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_byte_that_flips_in_a_batch_hurts_its_feed_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = given(dir.path()).await;
    let from = len(dir.path());
    give_many(&engine, "b", "many").await;
    let to = len(dir.path());
    // Of the last one nobody can say that it was whole.
    give(&engine, "c", "behind").await.unwrap();
    let killed = killed(dir.path());
    for at in (from..to).step_by(1_997) {
        let dir = copy_of(killed.path());
        flip(dir.path(), at);
        assert_eq!(named(dir.path()), [Some("b".to_owned())], "at {at}");
        let engine = open(dir.path());
        assert!(matches!(seq(&engine, "b").await, Err(EngineError::FeedDamaged(_))), "at {at}");
        for (name, expected) in [("a", 4), ("c", 5)] {
            assert_eq!(seq(&engine, name).await.unwrap(), expected, "{name}, at {at}");
            give_many(&engine, name, "after").await;
        }
        engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
        engine.close().await.unwrap();
        assert_eq!(named(dir.path()), [Some("b".to_owned())], "it stays so, at {at}");
    }
}

#[tokio::test]
async fn what_is_appended_behind_a_commit_that_was_cut_short_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let engine = begun(dir.path()).await;
    give(&engine, "a", "cut").await.unwrap();
    let killed = killed(dir.path());
    let cut = len(dir.path()) - 100;
    OpenOptions::new().write(true).open(file(killed.path())).unwrap().set_len(cut).unwrap();
    // Somebody reads the folder, so nothing is written over.
    let reading = Reading::begin(&folder::database(killed.path())).unwrap();
    let engine = open(killed.path());
    for n in 0..3 {
        give(&engine, "b", &format!("g-{n}")).await.unwrap();
    }
    assert!(len(killed.path()) > cut);
    drop(reading);
    let again = copy_of(killed.path());
    let again = (open(again.path()), again);
    assert_eq!((seq(&again.0, "a").await.unwrap(), seq(&again.0, "b").await.unwrap()), (1, 4));
    assert_eq!(named(again.1.path()), []);
}

#[tokio::test]
async fn a_byte_that_flips_in_the_journal_hurts_the_feed_whose_record_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let engine = begun(dir.path()).await;
    let mut ends = vec![];
    for n in 0..6 {
        give(&engine, NAMES[n % 3], &format!("g-{n}")).await.unwrap();
        ends.push(len(dir.path()));
    }
    let killed = killed(dir.path());
    // Of the last one nobody can say that it was whole.
    for at in (0..ends[4]).step_by(157) {
        let dir = copy_of(killed.path());
        flip(dir.path(), at);
        let whose = NAMES[ends.iter().position(|end| at < *end).unwrap() % 3];
        assert_eq!(named(dir.path()), [Some(whose.to_owned())], "at {at}");
        let engine = open(dir.path());
        for name in NAMES {
            match seq(&engine, name).await {
                Ok(seq) => assert!(seq == 3 && name != whose, "{name}, at {at}"),
                Err(EngineError::FeedDamaged(_)) => assert_eq!(name, whose, "at {at}"),
                Err(error) => panic!("{name}, at {at}: {error:?}"),
            }
        }
        for name in NAMES.iter().filter(|name| **name != whose) {
            give(&engine, name, "after").await.unwrap();
        }
        engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
        engine.close().await.unwrap();
        assert_eq!(named(dir.path()), [Some(whose.to_owned())], "it stays so, at {at}");
    }
}

#[tokio::test]
async fn what_is_in_tables_already_is_not_read_from_the_journal_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = given(dir.path()).await;
    let old = std::fs::read(file(dir.path())).unwrap();
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    for rounds in 0..2 {
        // Killed before anything was written over it.
        let killed = killed(dir.path());
        std::fs::write(file(killed.path()), &old).unwrap();
        assert_eq!(named(killed.path()), []);
        let again = open(killed.path());
        for name in NAMES {
            let (is, was) = (seq(&again, name).await.unwrap(), seq(&engine, name).await.unwrap());
            assert_eq!(is, was, "{name}");
        }
        again.close().await.unwrap();
        let logged = database(killed.path());
        let logged: i64 = logged.query_row("SELECT count(*) FROM log", [], |r| r.get(0)).unwrap();
        assert_eq!(logged, 0);
        if rounds == 0 {
            // A commit to the tables, of what the journal does not know.
            let patch = PolicyPatch { capacity: Some(7), ..PolicyPatch::default() };
            engine
                .run(SetPolicy { feed: feed("b"), change: PolicyChange::Merge(patch), now: NOW })
                .await
                .unwrap();
        }
    }
    // What comes next is written over the old.
    give(&engine, "c", "next").await.unwrap();
    assert_eq!(len(dir.path()), old.len() as u64);
    let killed = killed(dir.path());
    let again = open(killed.path());
    assert_eq!(seq(&again, "c").await.unwrap(), 5);
    assert_eq!(entries(&again, "c").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_while_gifts_flow_holds_all_that_was_acknowledged_before_it_began() {
    let dir = tempfile::tempdir().unwrap();
    let engine = begun(dir.path()).await;
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let load = tokio::spawn({
        let (engine, is_over) = (engine.clone(), is_over.clone());
        async move {
            for n in 0_usize.. {
                give(&engine, NAMES[n % 3], &format!("g-{n}")).await.unwrap();
                match n % 40 {
                    9 => engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap(),
                    21 => {
                        let many = (0..70).map(|k| gift(&format!("many-{n}-{k}"), "")).collect();
                        drop(engine.run(Publish { feed: feed("b"), gifts: many, now: NOW }).await.unwrap());
                    }
                    // What is written beside the log.
                    33 => {
                        let patch =
                            PolicyPatch { capacity: Some(5 + n as u64 % 9), ..PolicyPatch::default() };
                        engine
                            .run(SetPolicy { feed: feed("a"), change: PolicyChange::Merge(patch), now: NOW })
                            .await
                            .unwrap();
                    }
                    _ => {}
                }
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
    let elsewhere = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let mut known = BTreeMap::new();
        for name in NAMES {
            known.insert(name, seq(&engine, name).await.unwrap());
        }
        let to = elsewhere.path().join(format!("backup-{round}"));
        let (from, copy) = (dir.path().to_owned(), to.clone());
        let report = tokio::task::spawn_blocking(move || {
            assert_eq!(files::check(&from).unwrap().damage, []);
            files::backup(&from, &copy)
        });
        assert_eq!(report.await.unwrap().unwrap().damage, [], "round {round}");
        let restored = tempfile::tempdir().unwrap();
        files::restore(restored.path(), &to, &Policy::default()).unwrap();
        let again = open(restored.path());
        for (name, seq_before) in known {
            let seq = seq(&again, name).await.unwrap();
            assert!(seq >= seq_before, "round {round}: {name} had {seq_before}, its copy {seq}");
        }
        again.close().await.unwrap();
    }
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    load.await.unwrap();
    engine.close().await.unwrap();
    assert_eq!((named(dir.path()), len(dir.path())), (vec![], 0));
}

#[tokio::test]
async fn while_somebody_reads_the_journal_nothing_is_written_over_and_it_does_not_grow_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let engine = begun(dir.path()).await;
    give(&engine, "a", "seen").await.unwrap();
    let mut reading = Reading::begin(&folder::database(dir.path())).unwrap();
    let seen = database(dir.path());
    seen.execute_batch("BEGIN; SELECT count(*) FROM feeds").unwrap();
    let mut lens = vec![len(dir.path())];
    for n in 0..4 {
        engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
        give(&engine, "a", &format!("later-{n}")).await.unwrap();
        lens.push(len(dir.path()));
    }
    assert!(lens.is_sorted_by(|a, b| a < b), "{lens:?}");
    let parts = reading.parts(&seen).unwrap();
    assert_eq!(parts.len(), 1, "what belongs to what the reader sees of the tables: {parts:?}");
    let logged =
        || -> i64 { database(dir.path()).query_row("SELECT count(*) FROM log", [], |r| r.get(0)).unwrap() };
    assert_eq!(logged(), 0);
    let most = lens[4];
    engine
        .task((1, Some(NOW)), move |feeds| {
            feeds.journal.limit(most);
            Ok(())
        })
        .await
        .unwrap();
    for n in 0..3 {
        give(&engine, "a", &format!("full-{n}")).await.unwrap();
    }
    assert_eq!(
        (len(dir.path()), logged()),
        (most, 4),
        "one that was in the journal, and three that were not"
    );
    drop((reading, seen));
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    give(&engine, "a", "again").await.unwrap();
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    give(&engine, "a", "from-the-beginning").await.unwrap();
    assert_eq!((len(dir.path()), logged()), (most, 0));
    assert_eq!(entries(&engine, "a").await, 11);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_refuses_its_commits_and_keeps_what_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let engine = begun(dir.path()).await;
    give(&engine, "a", "before").await.unwrap();
    let swap = async |to: File| {
        let mut to = Some(to);
        let swap = move |feeds: &mut Feeds| Ok(to.take().map(|to| feeds.journal.swap(to)));
        engine.task((1, Some(NOW)), swap).await.unwrap().unwrap()
    };
    let works = swap(File::open(file(dir.path())).unwrap()).await;
    let before = len(dir.path());
    for name in ["a", "b"] {
        let refused = give(&engine, name, "refused").await;
        assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    }
    assert_eq!((seq(&engine, "a").await.unwrap(), seq(&engine, "b").await.unwrap()), (2, 1));
    assert!(engine.run(ProbeStore).await.is_err(), "red as long as lone gifts are refused");
    let killed = killed(dir.path());
    assert_eq!(seq(&open(killed.path()), "a").await.unwrap(), 2);
    drop(swap(works).await);
    engine.run(ProbeStore).await.unwrap();
    assert_eq!(len(dir.path()), before, "the probe gave back what it took");
    for name in ["a", "b"] {
        assert!(matches!(give(&engine, name, "refused").await, Ok(Outcome::New(_))));
    }
    let killed = logged::killed(dir.path());
    let again = open(killed.path());
    assert_eq!((seq(&again, "a").await.unwrap(), seq(&again, "b").await.unwrap()), (3, 2));
    engine.close().await.unwrap();
}

#[tokio::test]
async fn when_nobody_knows_what_of_the_journal_is_in_force_those_who_are_in_it_are_damaged() {
    for in_journal in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let engine = begun(dir.path()).await;
        give(&engine, "a", "lone").await.unwrap();
        if !in_journal {
            engine.close().await.unwrap();
        }
        let dir = if in_journal { killed(dir.path()) } else { copy(dir.path()) };
        assert_eq!(database(dir.path()).execute("UPDATE journal SET generation = 77", []).unwrap(), 1);
        let engine = open(dir.path());
        let (a, b) = (seq(&engine, "a").await, seq(&engine, "b").await);
        assert_eq!((matches!(a, Err(EngineError::FeedDamaged(_))), b.ok()), (in_journal, Some(1)), "{a:?}");
        for name in ["b", "new", "new"] {
            give(&engine, name, &format!("to-{name}")).await.unwrap();
        }
        engine.close().await.unwrap();
        let expected = if in_journal { vec![Some("a".to_owned())] } else { vec![] };
        assert_eq!(named(dir.path()), expected);
    }
}

fn flip(dir: &Path, at: u64) {
    let hurt = OpenOptions::new().read(true).write(true).open(file(dir)).unwrap();
    let mut byte = [0];
    hurt.read_exact_at(&mut byte, at).unwrap();
    hurt.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn copy_of(killed: &Path) -> tempfile::TempDir {
    logged::killed(killed)
}
