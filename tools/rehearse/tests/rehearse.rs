//! A client that does everything right passes the rehearsal, and one that is broken fails in the scenario that is
//! about what it does wrong.

use std::path::Path;
use std::process::{Command, Output};

fn rehearse(only: &str, broken: &str) -> Output {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watcher.py");
    Command::new(env!("CARGO_BIN_EXE_tipcast-rehearse"))
        .args(["--slack-ms", "15000", "--only", only, "--", "python3"])
        .arg(client)
        .env("BREAK", broken)
        .output()
        .unwrap()
}

#[test]
fn a_client_that_does_everything_right_passes() {
    let all = "plain,gap,repeat,ahead,epoch,not-mine,half,pieces,pings,silence,goodbye,refused,back-off,proxy,busy,gone,\
               token-ends,token-over,without";
    let done = rehearse(all, "");
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(told.lines().filter(|line| line.starts_with("ok ")).count(), 19, "{told}");
}

#[test]
fn a_client_that_is_broken_fails_where_it_is_and_nowhere_else() {
    for (broken, fails) in [
        ("gap", "gap"),
        ("pong", "pings"),
        ("pause", "goodbye"),
        ("pause", "busy"),
        ("stop", "refused"),
        ("silence", "silence"),
        ("token", "token-ends"),
        ("without", "without"),
    ] {
        let done = rehearse(&format!("plain,{fails}"), broken);
        let told = String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{broken}: {told}");
        let failed: Vec<_> = told.lines().filter(|line| line.starts_with("FAILED")).collect();
        assert!(failed.len() == 1 && failed[0].contains(fails), "{broken}: {told}");
    }
}

#[test]
fn a_client_that_does_not_come_is_told_where_it_was_awaited() {
    let done = Command::new(env!("CARGO_BIN_EXE_tipcast-rehearse"))
        .args(["--only", "busy", "--", "true"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("where this command plays the gateway") && said.contains("TIPCAST_URL"), "{said}");
}

#[test]
fn missing_sounds_are_reported() {
    let done = rehearse("plain,opera", "");
    assert_eq!(done.status.code(), Some(2));
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(why.contains("opera") && why.contains("back-off"), "{why}");
    let none = Command::new(env!("CARGO_BIN_EXE_tipcast-rehearse")).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("tipcast-rehearse --"));
}
