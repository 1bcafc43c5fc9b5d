//! The log, when nobody reads it or the disk is full: the gateway goes on, counts what is lost, and leaves in order.

use std::io::{PipeReader, Write};
use std::process::Stdio;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;

/// Long enough for the slowest machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// A pipe that is full and stays so, because nobody reads it. Keep the reader for as long as it must not be closed.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // Blocks in the end; ends when the reader is dropped.
    std::thread::spawn(move || while filler.write_all(&[b'x'; 4_096]).is_ok() {});
    (reader, writer.into())
}

/// A pipe whose reader is gone.
fn closed_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

async fn start(level: &str, stdout: Stdio, stderr: Stdio) -> (Process, Backing) {
    let backing = Backing::folder();
    let args = [vec!["--listen".into(), "127.0.0.1:0".into()], backing.args()].concat();
    let env = vec![("TIPCAST_LOG__LEVEL".to_owned(), level.to_owned())];
    let start = move || Process::listening_to(&args, env, stdout, stderr);
    (tokio::task::spawn_blocking(start).await.unwrap(), backing)
}

async fn dropped(gateway: &Process) -> u64 {
    let metrics = gateway.get("/metrics").await.text;
    let value = metrics.lines().find_map(|line| line.strip_prefix("tipcast_log_dropped_total "));
    value.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

/// Has the gateway log a line for each entry that is handed out, until it has lost some.
async fn log_until_lines_are_lost(gateway: &Process) {
    for batch in 0..8 {
        let gifts: Vec<_> =
            (0..128).map(|n| gift(&format!("b{batch}-{n}")).by(&format!("u{n}")).json()).collect();
        assert_eq!(gateway.post_batch("show", &gifts).await.status, 200);
    }
    while dropped(gateway).await == 0 {
        join_all((0..8).map(async |group| {
            for round in 0..64 {
                let path = format!("/v1/feeds/show/groups/g{group}/claim");
                let body = json!({"consumer": format!("c{round}"), "max": 1, "wait_ms": 0, "from": "start"});
                let said = gateway.call("POST", &path, Some(&body.to_string())).await;
                assert_eq!(said.status, 200, "{said:?}");
            }
        }))
        .await;
    }
}

async fn serves_and_leaves(mut gateway: Process) {
    gateway.give("other", &gift("last")).await;
    gateway.terminate();
    let ended = tokio::task::spawn_blocking(move || gateway.wait());
    assert_eq!(timeout(PATIENCE, ended).await.expect("it leaves").unwrap().code(), Some(0));
}

#[tokio::test]
async fn nobody_waits_for_a_reader_of_the_log_that_has_stopped() {
    let (_reader, stderr) = full_pipe();
    let (gateway, _store) = start("tipcast=debug", Stdio::piped(), stderr).await;
    timeout(PATIENCE, log_until_lines_are_lost(&gateway)).await.expect("requests are answered");
    serves_and_leaves(gateway).await;
}

#[tokio::test]
async fn a_log_on_a_full_disk_costs_its_lines_and_nothing_else() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (gateway, _store) = start("tipcast=debug", Stdio::piped(), full.into()).await;
    timeout(PATIENCE, log_until_lines_are_lost(&gateway)).await.expect("requests are answered");
    serves_and_leaves(gateway).await;
}

#[tokio::test]
async fn a_gateway_starts_although_nobody_reads_its_standard_output() {
    let (_reader, stdout) = full_pipe();
    let (gateway, _store) = start("info", stdout, Stdio::piped()).await;
    serves_and_leaves(gateway).await;
}

#[tokio::test]
async fn a_gateway_starts_although_its_standard_output_is_closed() {
    let (gateway, _store) = start("info", closed_pipe(), Stdio::piped()).await;
    serves_and_leaves(gateway).await;
}

#[test]
fn a_command_says_that_its_output_is_full_and_ends_quietly_where_it_is_closed() {
    let command = |stdout: Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tipcast"));
        let out = command.arg("default-config").stdout(stdout).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    assert_eq!(command(closed_pipe()), (Some(0), String::new()));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (code, said) = command(full.into());
    assert!(code == Some(1) && said.contains("standard output cannot be written"), "{code:?} {said}");
}

/// All that it says, as lines of JSON.
fn json_lines(said: &str) -> Vec<Value> {
    said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[tokio::test]
async fn a_log_of_json_has_no_other_line_and_says_the_address() {
    let backing = Backing::folder();
    let env = vec![("TIPCAST_LOG__FORMAT".to_owned(), "json".to_owned())];
    let mut gateway = Process::start("127.0.0.1:0", backing.args(), env);
    gateway.wait_for_words("ready to serve");
    gateway.terminate();
    assert!(gateway.wait().success());
    let lines = json_lines(&gateway.said());
    let line = |message: &str| {
        lines.iter().find(|line| line["message"] == message).unwrap_or_else(|| panic!("{lines:#?}"))
    };
    assert!(line("listening")["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{lines:#?}");
    let starting = line("starting");
    for (field, part) in [
        ("store", "embedded"),
        ("listen", "http://127.0.0.1:0"),
        ("keys", "none"),
        ("strangers", "this machine"),
    ] {
        assert!(starting[field].as_str().unwrap().contains(part), "{starting}");
    }
}

#[tokio::test]
async fn refusals_are_logged_with_reason_and_debug_logs_every_request() {
    let backing = Backing::folder();
    let env = ["FORMAT=json", "LEVEL=debug"].map(|it| it.split_once('=').unwrap());
    let mut env: Vec<_> = env.map(|(name, value)| (format!("TIPCAST_LOG__{name}"), value.to_owned())).into();
    env.push(("TIPCAST_AUTH__PRODUCER_KEYS".to_owned(), "a-key-of-the-tests-own".to_owned()));
    let mut gateway = Process::start("127.0.0.1:0", backing.args(), env);
    let post = |body: Value, key: &str| {
        let request = gateway.request("POST", "/v1/feeds/show/gifts").bearer_auth(key).json(&body);
        crate::support::api::Api::send(request)
    };
    for n in 0..3 {
        let hidden = json!({"id": format!("hidden-{n}"), "user": {"id": "u", "name": "Hidden"}, "hidden": 1});
        assert_eq!(post(hidden, "a-key-of-the-tests-own").await.status, 422);
        assert_eq!(post(gift("g").json(), "a-hidden-key").await.status, 401);
        assert_eq!(post(gift(&format!("g{n}")).json(), "a-key-of-the-tests-own").await.status / 100, 2);
    }
    gateway.get("/v1/feeds/show?token=hidden").await;
    gateway.call("POST", "/in/hidden", Some("{}")).await;
    gateway.terminate();
    assert!(gateway.wait().success());
    let said = gateway.said();
    assert!(!said.to_lowercase().contains("hidden"), "{said}");
    let lines = json_lines(&said);
    let of = |level: &str, problem: Value| {
        lines.iter().filter(|it| it["level"] == level && it["problem"] == problem).collect::<Vec<_>>()
    };
    for (problem, status) in [("invalid", 422), ("unauthenticated", 401)] {
        let refused = of("INFO", json!(problem));
        assert_eq!(refused.len(), 1, "one line a minute: {said}");
        let line = refused[0];
        assert_eq!((&line["path"], &line["feed"]), (&json!("/v1/feeds/{feed}/gifts"), &json!("show")));
        assert_eq!((&line["status"], &line["method"]), (&json!(status), &json!("POST")));
        assert_eq!(of("DEBUG", json!(problem)).len(), 3, "{said}");
    }
    let answered = lines.iter().filter(|it| it["message"] == "answered" && it["status"].as_u64() < Some(300));
    assert!(
        answered.filter(|it| it["ms"].is_u64() && it["path"] == "/v1/feeds/{feed}/gifts").count() == 3,
        "{said}"
    );
}

#[tokio::test]
async fn the_log_says_ready_when_redis_answers_and_before_that_what_is_missing() {
    let mut redis = RedisServer::start();
    let url = redis.url();
    redis.kill();
    let gateway = Process::serve(&["--redis".to_owned(), url]);
    let said = gateway.wait_for_words("waiting for the store: ");
    assert!(!said.contains("ready to serve"), "{said}");
    assert_eq!(gateway.get("/readyz").await.status, 503);
    redis.start_again();
    let said = gateway.wait_for_words("ready to serve");
    assert!(!said.contains("the store is back"), "one line says it: {said}");
}
