//! Moves that are refused, and say what to do. The folder is never changed.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Target, folder_of, stop};
use crate::support::app::Backing;
use crate::support::damage::hurt;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::stores::{Corner, Storage};

/// The folder's files, but those that SQLite makes for readers.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let all = entries.map(|entry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap_or_default())
    });
    all.filter(|(name, bytes)| !(name.ends_with("-shm") || name.ends_with("-wal") && bytes.is_empty()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_refused_says_what_to_do_and_changes_nothing() {
    let backing = Backing::folder();
    let dir = folder_of(&backing);
    let target = Target::of(Storage::redis());
    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(1) && said.contains("is not there"), "{said}");
    let mut gateway = Process::on(&backing);
    for n in 0..20 {
        gateway.give("show", &gift(&format!("g{n}"))).await;
    }
    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(1) && said.contains("another tipcast process uses"), "{said}");
    // Killed, with what it had written last in its log alone.
    gateway.kill();
    let before = files(dir);

    let nobody = ["--to", "redis://127.0.0.1:1"];
    let mut words = target.command(dir, &[]);
    let at = words.iter().position(|word| word == "--to").unwrap();
    words.splice(at..at + 2, nobody.map(Into::into));
    let (status, said) = Process::run(&words);
    assert!(status.code() == Some(1) && said.contains("127.0.0.1:1") && said.contains("--resume"), "{said}");

    let Storage::Redis(Corner { server, prefix }) = &target.store else { unreachable!() };
    let foreign = format!("{prefix}{{show}}:list");
    server.run(&["SET", &foreign, "x"]);
    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(1) && said.contains("is not empty") && said.contains(&foreign), "{said}");
    server.run(&["DEL", &foreign]);

    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(0) && said.contains("moved 1 feeds"), "{said}");
    assert_eq!(files(dir), before, "the folder was changed");
    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(1) && said.contains("is not empty"), "{said}");
    // Back to one machine, while the folder is still there.
    assert_eq!(Process::on(&backing).get_feed("show").await["seq"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_folder_is_not_moved_before_it_is_recovered() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    gateway.give("show", &gift("g")).await;
    gateway.give("other", &gift("g")).await;
    drop(gateway);
    hurt(folder_of(&backing), "show", "list");
    let target = Target::of(Storage::redis());
    let (code, said) = target.take(folder_of(&backing), &[]);
    assert!(code == Some(1) && said.contains("store recover") && said.contains("feed show"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_who_writes_there_meanwhile_is_found_out() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    for n in 0..5 {
        gateway.give("show", &gift(&format!("g{n}"))).await;
    }
    stop(gateway);
    let target = Target::of(Storage::redis());
    let Storage::Redis(Corner { server, prefix }) = &target.store else { unreachable!() };
    // As a run leaves it that was killed when all was written.
    let mark = format!("{prefix}{{probe}}:form");
    server.run(&["SET", &mark, "moving"]);
    server.run(&["SET", &format!("{prefix}{{strange}}:id:1"), "x"]);
    let (code, said) = target.take(folder_of(&backing), &["--resume"]);
    assert!(code == Some(1) && said.contains("1 keys are not what the folder has"), "{said}");
    assert!(said.contains("{strange}:id:1"), "{said}");
    server.run(&["DEL", &format!("{prefix}{{strange}}:id:1")]);
    let (code, said) = target.take(folder_of(&backing), &["--resume"]);
    assert!(code == Some(0), "{said}");
}
