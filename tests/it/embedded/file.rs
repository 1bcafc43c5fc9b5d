//! The file of the store in the process: whatever came is there again after an end at any moment, and a damaged byte takes one
//! owner along and no other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tipcast::engine::embedded::recover::recover;
use tipcast::engine::embedded::{
    CallRefusal, Changes, EmbeddedOptions, EmbeddedStore, Keyspace, Owner, Reply,
};

use super::commands::{comparable, some_command};
use crate::support::dice::{Dice, seeds};
use crate::support::stores::in_memory;

const PATIENCE: Duration = Duration::from_secs(10);

/// Every key is its own owner.
fn owners(key: &[u8]) -> Owner<'_> {
    Owner::Feed(key)
}

fn open(dir: &Path, stretch: usize) -> Result<EmbeddedStore, String> {
    let told = Arc::new(|_: &[u8], _: &[u8]| {});
    EmbeddedStore::open(EmbeddedOptions { stretch, ..EmbeddedOptions::new(dir.to_owned(), owners, told) })
}

/// What the process would leave that is killed now: nothing is under way.
fn killed(dir: &Path) -> TempDir {
    let copy = in_memory();
    for file in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

async fn ask(store: &EmbeddedStore, words: &[String]) -> Result<Reply, CallRefusal> {
    store.command(words.iter().map(|word| word.as_bytes()).collect(), PATIENCE).await
}

/// What stands under a key, whatever it is, by the commands that read it.
fn reading(key: &str) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    vec![
        words(&["GET", key]),
        words(&["HGETALL", key]),
        words(&["LRANGE", key, "0", "-1"]),
        words(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
    ]
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn is_as(store: &EmbeddedStore, space: &mut Keyspace, now: i64, story: &str) {
    for words in KEYS.iter().flat_map(|key| reading(key)) {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let wanted = comparable(&words[0], space.execute(&bytes, now, &mut Changes::default()));
        let said = comparable(&words[0], ask(store, &words).await.unwrap());
        assert_eq!(said, wanted, "{story}: {words:?}");
    }
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

#[tokio::test]
async fn answered_writes_survive_a_stop_during_a_move() {
    for seed in seeds(90..114) {
        let mut dice = Dice(seed);
        let (mut dir, mut space) = (in_memory(), Keyspace::default());
        // So short that stretches are moved all the time, or so long that all of it stays in the log.
        let stretch = dice.of(&[200, 2_000, 20_000, 1 << 20]);
        let mut store = open(dir.path(), stretch).unwrap();
        let now = now();
        for step in 0..600 {
            let words = some_command(&mut dice);
            let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let wanted = comparable(&words[0], space.execute(&bytes, now, &mut Changes::default()));
            let said = comparable(&words[0], ask(&store, &words).await.unwrap());
            assert_eq!(said, wanted, "seed {seed}, step {step}: {words:?}");
            if dice.one_in(25) {
                if dice.one_in(2) {
                    let left = killed(dir.path());
                    drop(std::mem::replace(&mut dir, left));
                } else {
                    store.close().await;
                }
                store = open(dir.path(), stretch).unwrap();
                is_as(&store, &mut space, now, &format!("seed {seed}, stretch {stretch}, step {step}")).await;
            }
        }
    }
}

/// One byte of a value in this row of a table is another one.
fn flip(dir: &Path, table: &str, column: &str, row: usize, dice: &mut Dice) -> bool {
    let file = Connection::open(dir.join("tipcast.db")).unwrap();
    let (key, order) =
        if table == "elements" { ("key, element", "key, element") } else { ("number, 0", "number") };
    let select = format!("SELECT {key}, {column} FROM {table} ORDER BY {order} LIMIT 1 OFFSET {row}");
    let found = file.query_row(&select, [], |it| {
        let value: (rusqlite::types::Value, rusqlite::types::Value, Vec<u8>) =
            (it.get(0)?, it.get(1)?, it.get(2)?);
        Ok(value)
    });
    let Ok((first, second, mut bytes)) = found else { return false };
    let at = dice.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 << dice.below(8);
    let update = match table {
        "elements" => format!("UPDATE elements SET {column} = ?3 WHERE key = ?1 AND element = ?2"),
        _ => format!("UPDATE {table} SET {column} = ?3 WHERE number = ?1 AND ?2 = 0"),
    };
    file.execute(&update, rusqlite::params![first, second, bytes]).unwrap() == 1
}

/// A file with what some commands left, closed in good order; the same data, and when it was.
async fn filled(dice: &mut Dice) -> (TempDir, Keyspace, i64) {
    let (dir, mut space, now) = (in_memory(), Keyspace::default(), now());
    let store = open(dir.path(), dice.of(&[200, 2_000, 1 << 20])).unwrap();
    for _ in 0..200 {
        let words = some_command(dice);
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        space.execute(&bytes, now, &mut Changes::default());
        ask(&store, &words).await.unwrap();
    }
    store.close().await;
    (dir, space, now)
}

#[tokio::test]
async fn a_damaged_byte_takes_its_owner_along_and_no_other() {
    let mut all_hurt = 0;
    let mut tried = std::collections::BTreeMap::<&str, u32>::new();
    for seed in seeds(0..60) {
        let mut dice = Dice(seed);
        let (dir, mut space, now) = filled(&mut dice).await;
        let (table, column) = dice.of(&[
            ("elements", "value"),
            ("elements", "element"),
            ("log", "frame"),
            ("soon", "frame"),
            ("later", "frame"),
        ]);
        let row = dice.below(6) as usize;
        if !flip(dir.path(), table, column, row, &mut dice) {
            continue;
        }
        *tried.entry(table).or_default() += 1;
        let store = open(dir.path(), 1 << 20).unwrap();
        let mut hurt = 0;
        for key in KEYS {
            for words in reading(key) {
                let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                let wanted = comparable(&words[0], space.execute(&bytes, now, &mut Changes::default()));
                match ask(&store, &words).await {
                    Err(CallRefusal::Failed(why)) if why.starts_with("DAMAGED ") => {
                        hurt += u32::from(words[0] == "GET")
                    }
                    said => assert_eq!(
                        comparable(&words[0], said.unwrap()),
                        wanted,
                        "seed {seed}, {table}: {words:?}"
                    ),
                }
            }
        }
        // What lists the parts of a row is there twice.
        assert!(hurt <= 1, "seed {seed}: {table}, {column}, row {row}");
        all_hurt += hurt;
        // It stays so, whatever becomes of the record.
        drop(store);
        let store = open(dir.path(), 1 << 20).unwrap();
        let mut still = 0;
        for key in KEYS {
            still += u32::from(ask(&store, &reading(key)[0]).await.is_err());
        }
        assert_eq!(still, hurt, "seed {seed}");
    }
    assert!(all_hurt >= 10 || std::env::var("TIPCAST_SEED").is_ok(), "{all_hurt}");
    assert!(tried.len() >= 3 || std::env::var("TIPCAST_SEED").is_ok(), "{tried:?}");
}

/// Any byte of the file is another one, be it in a record or in what SQLite keeps about its pages: nothing wrong is ever read.
#[tokio::test]
async fn whichever_byte_of_the_file_is_damaged_what_is_read_is_right_or_it_is_said_that_it_is_damaged() {
    let (mut refused, mut hurt, mut whole) = (0, 0, 0);
    let mut recovered = 0;
    for seed in seeds(0..6) {
        let mut dice = Dice(seed);
        let (dir, mut space, now) = filled(&mut dice).await;
        let good = std::fs::read(dir.path().join("tipcast.db")).unwrap();
        for _ in 0..60 {
            let mut bytes = good.clone();
            // Half of them where pages say what is on them.
            let at = match dice.one_in(2) {
                true => dice.below(bytes.len() as u64 / 4_096) as usize * 4_096 + dice.below(40) as usize,
                false => dice.below(bytes.len() as u64) as usize,
            };
            bytes[at] ^= 1 << dice.below(8);
            let copy = in_memory();
            std::fs::write(copy.path().join("tipcast.db"), bytes).unwrap();
            let store = match open(copy.path(), 1 << 20) {
                Ok(store) => store,
                Err(why) => {
                    refused += 1;
                    assert!(why.contains("tipcast.db"), "{why}");
                    // What can be read of it is right or not there, unless SQLite cannot begin at all.
                    match recover(copy.path(), owners, |_, _, _| true) {
                        Ok(None) => panic!("seed {seed}, byte {at}: refused, and nothing to recover: {why}"),
                        Ok(Some(said)) => {
                            recovered += 1;
                            assert!(said.aside.exists(), "seed {seed}, byte {at}");
                            open(copy.path(), 1 << 20)
                                .unwrap_or_else(|e| panic!("seed {seed}, byte {at}: {e}"));
                        }
                        Err(why) => assert!(why.contains("restore"), "{why}"),
                    }
                    continue;
                }
            };
            for key in KEYS {
                for words in reading(key) {
                    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
                    let wanted = comparable(&words[0], space.execute(&bytes, now, &mut Changes::default()));
                    match ask(&store, &words).await {
                        Err(CallRefusal::Failed(why)) if why.starts_with("DAMAGED ") => hurt += 1,
                        said => {
                            assert_eq!(
                                comparable(&words[0], said.unwrap()),
                                wanted,
                                "seed {seed}, byte {at}: {words:?}"
                            );
                            whole += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 10 && hurt > 10 && whole > 10, "{refused} {hurt} {whole}");
    assert!(recovered * 2 > refused, "{recovered} of {refused}");
}
