//! What kills, power losses and failed writes leave of a folder: none of it is taken for damage, and nothing that was answered is
//! missing. What really is damaged is found, and recovered as SQLite itself would.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tipcast::engine::embedded::files::check;
use tipcast::engine::embedded::recover::recover;
use tipcast::engine::embedded::{EmbeddedOptions, EmbeddedStore, Owner, Reply};

use crate::support::dice::{Dice, seeds};
use crate::support::stores::in_memory;

const PATIENCE: Duration = Duration::from_secs(10);

/// A frame of the log: its header, and a page.
const FRAME: usize = 24 + 4_096;

/// What becomes of a folder under a store that runs.
type TakeAway = fn(&Path);

fn owners(key: &[u8]) -> Owner<'_> {
    Owner::Feed(key)
}

fn open(dir: &Path) -> Result<EmbeddedStore, String> {
    EmbeddedStore::open(EmbeddedOptions::new(dir.to_owned(), owners, Arc::new(|_: &[u8], _: &[u8]| {})))
}

/// One commit of `count` items, each of `bytes` bytes.
async fn push(store: &EmbeddedStore, count: usize, bytes: usize) {
    let item = "x".repeat(bytes);
    let words = ["RPUSH", "list"].into_iter().chain(std::iter::repeat_n(item.as_str(), count));
    let said = store.command(words.map(str::as_bytes).collect(), PATIENCE).await.unwrap();
    assert!(matches!(said, Reply::Int(_)), "{said:?}");
}

async fn length(store: &EmbeddedStore) -> i64 {
    let words = ["LLEN", "list"].map(str::as_bytes);
    match store.command(words.into_iter().collect(), PATIENCE).await.unwrap() {
        Reply::Int(length) => length,
        other => panic!("{other:?}"),
    }
}

/// The database and its log, as the disk has them.
fn files_of(dir: &Path) -> [Vec<u8>; 2] {
    ["tipcast.db", "tipcast.db-wal"].map(|name| std::fs::read(dir.join(name)).unwrap_or_default())
}

fn folder_of(files: &[Vec<u8>; 2]) -> TempDir {
    let dir = in_memory();
    for (name, bytes) in ["tipcast.db", "tipcast.db-wal"].iter().zip(files) {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// The log in which any half of what is new was kept, in units of this size.
fn torn(before: &[u8], after: &[u8], unit: usize, dice: &mut Dice) -> Vec<u8> {
    let mut log = before.to_vec();
    log.resize(before.len().max(after.len()), 0);
    for at in (0..after.len()).step_by(unit) {
        let end = (at + unit).min(after.len());
        if dice.one_in(2) {
            log[at..end].copy_from_slice(&after[at..end]);
        }
    }
    log
}

/// A gateway starts on it, all that was answered is there, and `check` finds nothing.
async fn is_whole(files: &[Vec<u8>; 2], answered: i64, story: &str) -> i64 {
    let dir = folder_of(files);
    let report = check(dir.path(), owners).unwrap_or_else(|why| panic!("{story}: {why}"));
    assert!(report.shared.is_empty() && report.damaged.is_empty(), "{story}: {report:?}");
    assert_eq!(recover(dir.path(), owners, |_, _, _| true).unwrap().map(|it| it.aside), None, "{story}");
    let store = open(dir.path()).unwrap_or_else(|why| panic!("{story}: {why}"));
    let found = length(&store).await;
    assert!(found >= answered, "{story}: {found} of {answered}");
    store.close().await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn any_half_of_the_last_commit_is_no_damage() {
    let dir = in_memory();
    let store = open(dir.path()).unwrap();
    let mut dice = Dice(4711);
    for round in 0..4 {
        for _ in 0..5 {
            push(&store, 1, 300).await;
        }
        let answered = length(&store).await;
        let before = files_of(dir.path());
        // One that is torn is mostly larger than what comes after it.
        push(&store, [1, 40, 300, 3][round], 900).await;
        let after = files_of(dir.path());
        for image in 0..50 {
            for unit in [512, 4_096] {
                let log = torn(&before[1], &after[1], unit, &mut dice);
                let files = [before[0].clone(), log];
                is_whole(&files, answered, &format!("round {round}, image {image}, unit {unit}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_inside_large_commits_and_gifts_between_them_are_no_damage() {
    for seed in seeds(0..12) {
        let mut dice = Dice(seed);
        let mut files = files_of(in_memory().path());
        let mut answered = 0;
        for step in 0..6 {
            let dir = folder_of(&files);
            let store = open(dir.path()).unwrap_or_else(|why| panic!("seed {seed}, step {step}: {why}"));
            let found = length(&store).await;
            assert!(found >= answered, "seed {seed}, step {step}: {found} of {answered}");
            for _ in 0..dice.below(4) {
                push(&store, 1, 200).await;
            }
            answered = length(&store).await;
            let before = files_of(dir.path());
            push(&store, 20 + dice.below(300) as usize, 700).await;
            let after = files_of(dir.path());
            // Killed in the middle: a part of the commit is there, and never its end.
            let most = (after[1].len() - before[1].len()).max(FRAME) as u64;
            let end = (before[1].len() + dice.below(most) as usize).min(after[1].len().saturating_sub(FRAME));
            files = [before[0].clone(), after[1][..end.max(before[1].len())].to_vec()];
            store.close().await;
        }
        is_whole(&files, answered, &format!("seed {seed}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_front_of_the_last_two_commits_is_found_and_recovered_as_sqlite_would() {
    let dir = in_memory();
    let store = open(dir.path()).unwrap();
    for n in 0..40 {
        push(&store, 1 + n % 3, 300 + n).await;
    }
    let files = files_of(dir.path());
    let ends: Vec<usize> = files[1][32..]
        .chunks_exact(FRAME)
        .enumerate()
        .filter(|(_, frame)| frame[4..8] != [0; 4])
        .map(|(n, _)| 32 + (n + 1) * FRAME)
        .collect();
    let last = ends[ends.len() - 3];
    let mut dice = Dice(99);
    for flip in 0..60 {
        let mut hurt = files.clone();
        let at = dice.below(last as u64) as usize;
        hurt[1][at] ^= 1 << dice.below(8);
        let story = format!("flip {flip}, byte {at}");
        let copy = folder_of(&hurt);
        let Err(why) = open(copy.path()) else { panic!("{story}: a gateway starts") };
        assert!(why.contains("tipcast.db-wal") && why.contains("recover` would save"), "{story}: {why}");
        assert!(check(copy.path(), owners).is_err(), "{story}");
        assert!(files_of(copy.path()) == hurt, "{story}: nothing was changed");
        if flip % 3 > 0 {
            continue;
        }
        // What SQLite itself makes of it, from the rows of its log.
        let other = folder_of(&hurt);
        let sqlite = Connection::open(other.path().join("tipcast.db")).unwrap();
        let commits: i64 = sqlite.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap_or(0);
        let items: i64 = (0..commits).map(|n| 1 + n % 3).sum();
        let recovered = recover(copy.path(), owners, |_, _, _| true).unwrap().expect("it is damaged");
        assert!(recovered.shared[0].contains("frame"), "{story}: {recovered:?}");
        let store = open(copy.path()).unwrap();
        assert!(length(&store).await >= items, "{story}: {items}");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_of_folders_whose_log_is_torn_loses_nothing_that_sqlite_keeps() {
    for seed in seeds(0..20) {
        let mut dice = Dice(seed);
        let dir = in_memory();
        let store = open(dir.path()).unwrap();
        for _ in 0..4 + dice.below(8) {
            push(&store, 1 + dice.below(3) as usize, 300).await;
        }
        let answered = length(&store).await;
        let before = files_of(dir.path());
        push(&store, 1 + dice.below(200) as usize, 500).await;
        let after = files_of(dir.path());
        let log = torn(&before[1], &after[1], if dice.one_in(2) { 512 } else { 4_096 }, &mut dice);
        // A page that no row is on is damaged as well, so that there is something to recover.
        let mut database = before[0].clone();
        database.extend([0x5a; 4_096]);
        for files in [[before[0].clone(), log.clone()], [database, log]] {
            let copy = folder_of(&files);
            // Nothing to recover is an answer: then the folder is as it was.
            recover(copy.path(), owners, |_, _, _| true).unwrap();
            let store = open(copy.path()).unwrap();
            let found = length(&store).await;
            assert!(found >= answered, "seed {seed}: {found} of {answered}");
            store.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_triggers_and_tables_of_others_is_refused_and_restored_without_them() {
    use tipcast::engine::embedded::files::{backup, restore};
    let dir = in_memory();
    let store = open(dir.path()).unwrap();
    push(&store, 3, 100).await;
    let to = in_memory();
    let file = to.path().join("tonight.backup");
    backup(dir.path(), &file, owners).unwrap();
    store.close().await;
    for path in [&file, &dir.path().join("tipcast.db")] {
        let conn = Connection::open(path).unwrap();
        conn.execute_batch(
            "CREATE TABLE theirs (a);
             CREATE VIEW seen AS SELECT number FROM log;
             CREATE TRIGGER thief AFTER INSERT ON log BEGIN DELETE FROM log WHERE number < new.number; END;",
        )
        .unwrap();
    }
    let Err(why) = open(dir.path()) else { panic!("a gateway starts on it") };
    assert!(why.contains("theirs") && why.contains("recover"), "{why}");
    assert!(!check(dir.path(), owners).unwrap().shared.is_empty());
    let back = in_memory();
    restore(back.path(), &file, owners).unwrap();
    assert!(check(back.path(), owners).unwrap().shared.is_empty());
    let store = open(back.path()).unwrap();
    push(&store, 2, 100).await;
    assert_eq!(length(&store).await, 5);
    store.close().await;
    // Only SQLite's own names begin with `sqlite_`; one that looks like them is found too.
    let conn = Connection::open(back.path().join("tipcast.db")).unwrap();
    conn.execute_batch("CREATE TRIGGER sqlitethief AFTER INSERT ON log BEGIN DELETE FROM log; END;").unwrap();
    drop(conn);
    let Err(why) = open(back.path()) else { panic!("a gateway starts on it") };
    assert!(why.contains("sqlitethief"), "{why}");
    let recovered = recover(dir.path(), owners, |_, _, _| true).unwrap().expect("it is damaged");
    assert_eq!(recovered.feeds, 1);
    let store = open(dir.path()).unwrap();
    assert_eq!(length(&store).await, 3);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_deleted_moved_or_replaced_takes_no_write_along_and_the_light_is_red() {
    let take_away: [(&str, TakeAway); 4] = [
        ("deleted", |dir| std::fs::remove_dir_all(dir).unwrap()),
        ("moved", |dir| std::fs::rename(dir, dir.with_added_extension("away")).unwrap()),
        ("without its lock", |dir| std::fs::remove_file(dir.join("tipcast.lock")).unwrap()),
        ("with another log", |dir| {
            let log = dir.join("tipcast.db-wal");
            std::fs::rename(&log, dir.join("old")).unwrap();
            std::fs::copy(dir.join("old"), log).unwrap();
        }),
    ];
    for (story, take) in take_away {
        let parent = in_memory();
        let dir = parent.path().join("data");
        let store = open(&dir).unwrap();
        push(&store, 1, 10).await;
        store.prove(PATIENCE).await.unwrap();
        take(&dir);
        assert!(store.prove(PATIENCE).await.is_err(), "{story}: green");
        for _ in 0..50 {
            let words = ["RPUSH", "list", "x"].map(str::as_bytes);
            assert!(store.command(words.into_iter().collect(), PATIENCE).await.is_err(), "{story}: taken");
        }
        assert_eq!(length(&store).await, 1, "{story}: reading goes on");
        if story == "moved" {
            std::fs::rename(dir.with_added_extension("away"), &dir).unwrap();
            let since = std::time::Instant::now();
            while store.prove(PATIENCE).await.is_err() {
                assert!(since.elapsed() < PATIENCE, "{story}: red for ever");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            push(&store, 1, 10).await;
        }
        store.close().await;
    }
}
