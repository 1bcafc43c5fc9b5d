//! `tipcast store check | backup | restore`, as an operator at three in the morning has them.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::support::app::Backing;
use crate::support::damage::hurt;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

pub(super) fn store(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let all = ["store"].iter().chain(args).map(|arg| arg.to_string());
    let all: Vec<String> = all.chain(["--data-dir".into(), dir.display().to_string()]).collect();
    let (status, said) = Process::run(&all);
    (status.code(), said)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn files(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test]
async fn a_restore_that_was_killed_half_way_is_no_folder_for_a_gateway_and_the_next_one_finishes_it() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    gateway.give("show", &gift("g")).await;
    let elsewhere = TempDir::new().unwrap();
    let file = elsewhere.path().join("backup");
    let (code, said) = store(dir.path(), &["backup", text(&file)]);
    assert_eq!(code, Some(0), "{said}");
    drop(gateway);

    let restored = Backing::folder();
    let Backing::Folder(to) = &restored else { unreachable!() };
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(to.path().join("tipcast.db.unfinished"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(to.path().join("tipcast.lock"), "").unwrap();
    let mut args = restored.args();
    args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains("interrupted"), "{said}");
    let (code, said) = store(to.path(), &["restore", text(&file)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!to.path().join("tipcast.db.unfinished").exists());
    assert_eq!(Process::on(&restored).get_feed("show").await["seq"], 1);
}

#[tokio::test]
async fn a_backup_made_while_the_gateway_runs_is_brought_back_with_a_new_epoch_for_every_feed() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    gateway.patch_policy("show", json!({"capacity": 20, "dedup": "off"})).await;
    for n in 0..15 {
        gateway.give("show", &gift(&format!("g{n}"))).await;
    }
    gateway.give("other", &gift("o")).await;
    let before = gateway.get_feed("show").await;

    let elsewhere = TempDir::new().unwrap();
    let file = elsewhere.path().join("show.backup");
    let (code, said) = store(dir.path(), &["check"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = store(dir.path(), &["backup", text(&file)]);
    assert!(code == Some(0) && said.contains("2 feeds"), "{said}");
    // After the backup: a watcher may have seen this.
    gateway.give("show", &gift("later")).await;
    let position = gateway.get_feed("show").await["seq"].clone();
    assert_eq!(position, 16);

    let (code, said) = store(dir.path(), &["backup", text(&file)]);
    assert!(code == Some(1) && said.contains("is there already"), "{said}");
    let (code, said) = store(dir.path(), &["restore", text(&file)]);
    assert!(code == Some(1) && said.contains("another tipcast process uses"), "{said}");
    drop(gateway);
    let (code, said) = store(dir.path(), &["restore", text(&file)]);
    assert!(code == Some(1) && said.contains("not empty"), "{said}");

    let restored = Backing::folder();
    let Backing::Folder(to) = &restored else { unreachable!() };
    let (code, said) = store(to.path(), &["restore", text(&file)]);
    assert!(code == Some(0) && said.contains("2 feeds"), "{said}");
    let gateway = Process::on(&restored);
    let after = gateway.get_feed("show").await;
    assert_ne!(after["epoch"], before["epoch"], "watchers may have seen more");
    assert_eq!(after["rows"], before["rows"]);
    assert_eq!(after["capacity"], 20);
    let again = gateway.post_gift("show", &gift("g3")).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)), "ids are known");
    gateway.give("show", &gift("new")).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_for_the_list().await;
}

#[tokio::test]
async fn a_damaged_feed_is_named_and_a_gateway_starts_on_its_folder_for_all_others() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    for feed in ["good", "rotten", "fine"] {
        gateway.give(feed, &gift("g")).await;
    }
    drop(gateway);
    hurt(dir.path(), "rotten", "list");
    let (code, said) = store(dir.path(), &["check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("feed rotten") && !said.contains("feed good") && !said.contains("feed fine"),
        "{said}"
    );

    let gateway = Process::on(&backing);
    let said = gateway.post_gift("rotten", &gift("x")).await;
    assert_eq!(
        (said.status, said.json()["type"].clone()),
        (503, json!("/problems/feed-damaged")),
        "{said:?}"
    );
    for feed in ["good", "fine", "new"] {
        for n in 0..10 {
            gateway.give(feed, &gift(&format!("more-{n}")).by(&format!("u{n}"))).await;
        }
    }
    assert!(gateway.said().contains("rotten"), "the log names it");
    let metrics = gateway.get("/metrics").await;
    assert!(metrics.text.contains("tipcast_feeds_damaged 1"), "{}", metrics.text);
}

#[tokio::test]
async fn a_folder_without_a_store_is_refused_with_advice() {
    let empty = TempDir::new().unwrap();
    let (code, said) = store(empty.path(), &["check"]);
    assert!(code == Some(1) && said.contains("--data-dir"), "{said}");
    let note = empty.path().join("note.txt");
    std::fs::write(&note, "no backup").unwrap();
    let target = TempDir::new().unwrap();
    let (code, said) = store(target.path(), &["restore", text(&note)]);
    assert!(code == Some(1) && said.contains("note.txt"), "{said}");
    assert_eq!(files(target.path()), [""; 0], "nothing half-done is left");
    let (code, said) = store(&target.path().join("new"), &["restore", text(&note)]);
    assert!(code == Some(1) && said.contains("note.txt"), "{said}");
    assert_eq!(files(target.path()), [""; 0], "nor the folder that it made");
}

#[tokio::test]
async fn a_damaged_byte_in_what_a_killed_gateway_had_logged_is_said_and_nothing_is_forgotten_for_it() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let mut gateway = Process::on(&backing);
    for n in 0..80 {
        gateway.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    gateway.kill();
    let log = dir.path().join("tipcast.db-wal");
    let good = std::fs::read(&log).unwrap();
    let mut args = backing.args();
    args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
    for at in [5, 40, good.len() / 3, good.len() / 2] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let (status, said) = Process::run(&args);
        assert!(!status.success() && said.contains("tipcast.db-wal"), "byte {at}: {said}");
        let (code, said) = store(dir.path(), &["check"]);
        assert!(code == Some(1) && said.contains("tipcast.db-wal"), "byte {at}: {said}");
        assert!(std::fs::read(&log).unwrap() == bytes, "nothing was changed");
    }
    std::fs::write(&log, &good).unwrap();
    assert_eq!(Process::on(&backing).get_feed("show").await["seq"], 80);
}

#[tokio::test]
async fn damage_in_what_all_feeds_share_keeps_a_gateway_from_starting_and_says_what_to_do() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    let later = gift("g").with("delay_ms", json!(3_600_000));
    assert_eq!(gateway.post_gift("show", &later).await.status, 202);
    drop(gateway);
    hurt(dir.path(), "due:0", "feeds");
    let mut args = backing.args();
    args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains("due:0") && said.contains("restore"), "{said}");
    let (code, said) = store(dir.path(), &["check"]);
    assert!(code == Some(1) && said.contains("of no feed alone") && said.contains("due:0"), "{said}");
}

#[tokio::test]
async fn a_folder_of_another_form_is_refused_and_stays_as_it_is() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let file = dir.path().join("tipcast.db");
    let mut args = backing.args();
    args.extend(["--listen", "127.0.0.1:0"].map(Into::into));
    for (owner, form, word) in
        [(0x5469_7043, 100, "form 100"), (0x5469_7043, 999, "form 999"), (7, 101, "another program")]
    {
        let db = rusqlite::Connection::open(&file).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS feeds (no INTEGER)").unwrap();
        db.pragma_update(None, "application_id", owner).unwrap();
        db.pragma_update(None, "user_version", form).unwrap();
        drop(db);
        let before = std::fs::read(&file).unwrap();
        let (status, said) = Process::run(&args);
        assert!(!status.success() && said.contains(word) && said.contains("--data-dir"), "{said}");
        let (code, said) = store(dir.path(), &["check"]);
        assert!(code == Some(1) && said.contains(word), "{said}");
        assert!(std::fs::read(&file).unwrap() == before, "nothing was changed");
    }
}
