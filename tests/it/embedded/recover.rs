//! `tipcast store recover`: what can be read of a damaged folder is served again, and what is lost is listed.

use std::path::Path;

use serde_json::{Value, json};

use super::store_command::store;
use crate::support::app::Backing;
use crate::support::damage::hurt;
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::gift;
use crate::support::process::Process;

const FEEDS: usize = 30;
const GIFTS: usize = 20;

fn name(feed: usize) -> String {
    format!("show-{feed}")
}

/// Feeds with gifts, ids of which are remembered, and a group that has read half of the first one's.
async fn filled(gateway: &Process) {
    for feed in 0..FEEDS {
        let gifts: Vec<Value> =
            (0..GIFTS).map(|n| gift(&format!("g{n}")).by(&format!("user-{n}")).json()).collect();
        assert_eq!(gateway.post_batch(&name(feed), &gifts).await.status, 200);
    }
    let taken = claim(gateway, GIFTS / 2).await;
    let cursors: Vec<&Value> = taken.iter().map(|entry| &entry["cursor"]).collect();
    let path = format!("/v1/feeds/{}/groups/backend/ack", name(0));
    let said = gateway.call("POST", &path, Some(&json!({"cursors": cursors}).to_string())).await.json();
    assert_eq!(said["acked"], GIFTS / 2);
}

async fn claim(gateway: &Process, max: usize) -> Vec<Value> {
    let path = format!("/v1/feeds/{}/groups/backend/claim", name(0));
    let said =
        gateway.call("POST", &path, Some(&json!({"consumer": "c", "max": max}).to_string())).await.json();
    said["entries"].as_array().unwrap().clone()
}

fn closed_in_good_order(mut gateway: Process) {
    gateway.terminate();
    assert!(gateway.wait().success());
}

async fn ids(gateway: &Process, feed: usize) -> Vec<String> {
    let said = gateway.get_feed(&name(feed)).await;
    said["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["user"]["id"].as_str().unwrap().to_owned())
        .collect()
}

fn newest() -> Vec<String> {
    (GIFTS - 10..GIFTS).rev().map(|n| format!("user-{n}")).collect()
}

fn recovered(dir: &Path, story: &str) -> String {
    let (code, said) = store(dir, &["recover"]);
    assert_eq!(code, Some(0), "{story}: {said}");
    let (code, checked) = store(dir, &["check"]);
    assert_eq!(code, Some(0), "{story}: {checked}");
    said
}

#[tokio::test]
async fn a_feed_that_is_damaged_goes_on_with_what_is_left_and_every_other_with_all_of_it() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    filled(&gateway).await;
    let epoch = gateway.get_feed(&name(1)).await["epoch"].clone();
    let (code, said) = store(dir.path(), &["recover"]);
    assert!(code == Some(1) && said.contains("another tipcast process uses"), "{said}");
    drop(gateway);
    hurt(dir.path(), &name(7), "list");

    let said = recovered(dir.path(), "a record");
    assert!(
        said.contains("feed show-7") && !said.contains("show-8") && said.contains("tipcast.db.damaged"),
        "{said}"
    );
    let gateway = Process::on(&backing);
    for feed in (0..FEEDS).filter(|feed| *feed != 7) {
        assert_eq!(ids(&gateway, feed).await, newest(), "{feed}");
    }
    assert_eq!(gateway.get_feed(&name(7)).await["feed"], "show-7", "it answers");
    assert_eq!(gateway.give(&name(7), &gift("new")).await["status"], "accepted");
    // A repeat is one still, and a reader goes on where it was.
    let repeat = gift("g3").by("user-3");
    assert_eq!(gateway.give(&name(1), &repeat).await["duplicate"], true);
    assert_ne!(gateway.give(&name(1), &gift("new")).await["epoch"], epoch);
    let rest = claim(&gateway, 100).await;
    let numbers: Vec<&str> = rest.iter().map(|entry| entry["gift"]["id"].as_str().unwrap()).collect();
    assert_eq!(numbers, (GIFTS / 2..GIFTS).map(|n| format!("g{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn remains_of_a_damaged_folder_are_served_again() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let mut gateway = Process::on(&backing);
    filled(&gateway).await;
    gateway.kill();
    let files = ["tipcast.db", "tipcast.db-wal"].map(|name| std::fs::read(dir.path().join(name)).unwrap());
    // Once more, closed in good order: all of it is in the database.
    closed_in_good_order(Process::on(&backing));
    let closed = std::fs::read(dir.path().join("tipcast.db")).unwrap();
    for seed in seeds(0..4) {
        let mut dice = Dice(seed);
        let (mut log, mut page, mut cut) = (files[1].clone(), closed.clone(), closed.clone());
        // What is behind a damaged frame is lost, so most of the log is in front of it.
        let at = log.len() / 2 + dice.below(log.len() as u64 / 4) as usize;
        log[at] ^= 1;
        let hit = 4_096 * (3 + dice.below(page.len() as u64 / 4_096 - 3) as usize);
        page[hit..hit + 4_096].fill(0x5a);
        cut.truncate(closed.len() - 4_096 * (1 + dice.below(4) as usize));
        for (what, database, log) in
            [("log", &files[0], Some(&log)), ("page", &page, None), ("cut", &cut, None)]
        {
            let story = format!("seed {seed}: {what}");
            let copy = Backing::folder();
            let Backing::Folder(dir) = &copy else { unreachable!() };
            std::fs::write(dir.path().join("tipcast.db"), database).unwrap();
            log.iter().for_each(|log| std::fs::write(dir.path().join("tipcast.db-wal"), log).unwrap());
            let (code, said) = store(dir.path(), &["check"]);
            assert_eq!(code, Some(1), "{story}: {said}");
            let mut args = copy.args();
            args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
            let (status, said) = Process::run(&args);
            assert!(!status.success() && said.contains("recover` would save"), "{story}: {said}");
            let said = recovered(dir.path(), &story);
            assert!(said.contains("What is lost"), "{story}: {said}");
            assert_eq!(&std::fs::read(dir.path().join("tipcast.db.damaged")).unwrap(), database, "{story}");
            let gateway = Process::on(&copy);
            let (mut whole, mut answers) = (0, 0);
            for feed in 0..FEEDS {
                let ids = ids(&gateway, feed).await;
                whole += usize::from(ids == newest());
                answers += usize::from(gateway.post_gift(&name(feed), &gift("new")).await.status < 300);
            }
            assert_eq!(answers, FEEDS, "{story}: every feed goes on");
            assert!(whole * 3 >= FEEDS, "{story}: {whole} feeds of {FEEDS} are whole; {said}");
        }
    }
}

#[tokio::test]
async fn a_recovery_that_was_killed_is_finished_by_the_next_and_a_folder_without_a_store_is_refused() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let (code, said) = store(dir.path(), &["recover"]);
    assert!(code == Some(1) && said.contains("is not there"), "{said}");
    let gateway = Process::on(&backing);
    filled(&gateway).await;
    closed_in_good_order(gateway);
    // Between the two renames.
    let path = |name: &str| dir.path().join(name);
    std::fs::rename(path("tipcast.db"), path("tipcast.db.damaged")).unwrap();
    std::fs::write(path("tipcast.db.unfinished"), "half").unwrap();
    let mut args = backing.args();
    args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains("interrupted"), "{said}");
    let said = recovered(dir.path(), "killed");
    assert!(said.contains("Nothing is lost"), "{said}");
    let gateway = Process::on(&backing);
    assert_eq!(ids(&gateway, 3).await, newest());
}
