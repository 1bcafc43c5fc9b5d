//! `tipcast-bench` as people run it: the program itself against a gateway.

use serde_json::Value;

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::process::Process;

/// Runs the tool to its end: exit code and everything it said.
async fn bench(args: &[&str]) -> (Option<i32>, String) {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let run = move || {
        let (status, said) = Process::run_tool("tipcast-bench", &args);
        (status.code(), said)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// The report of a run against `app` that must end well.
async fn report(app: &TestApp, args: &[&str]) -> Value {
    let url = app.url();
    let (code, said) = bench(&[&["--url", &url, "--warm-up", "0", "--json", "-"], args].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

#[tokio::test]
async fn deliveries_of_every_watcher_are_counted() {
    let app = TestApp::start().await;
    let args = ["--watchers", "12", "--feeds", "3", "--rate", "60", "--seconds", "1"];
    let report = report(&app, &args).await;
    let gifts = number(&report, "/gifts/accepted");
    assert!(gifts >= 30.0, "{report:#}");
    assert_eq!(number(&report, "/deliveries/expected"), gifts * 4.0, "four watchers see each gift");
    assert_eq!(number(&report, "/deliveries/received"), gifts * 4.0);
    for none in ["lost", "repeated", "out_of_order", "malformed", "folded"] {
        assert_eq!(number(&report, &format!("/deliveries/{none}")), 0.0, "{none}");
    }
    for whose in ["watcher", "last_watcher", "answer"] {
        let at = |share: &str| number(&report, &format!("/latency_ms/{whose}/{share}"));
        assert!(at("p50") <= at("p90") && at("p90") <= at("p99") && at("p99") <= at("max"), "{report:#}");
    }
    assert_eq!(number(&report, "/connect/watchers"), 12.0);
}

#[tokio::test]
async fn batches_at_full_speed_and_watchers_that_stall_end_at_the_newest_list() {
    let app = TestApp::start().await;
    let args = ["--watchers", "10", "--stall", "0.5", "--rate", "0", "--in-flight", "200", "--batch", "50"];
    let report = report(&app, &[&args[..], &["--seconds", "1", "--flush-ms", "5"]].concat()).await;
    assert_eq!(number(&report, "/stalled/watchers"), 5.0);
    assert_eq!(number(&report, "/stalled/converged"), 5.0);
    let expected = number(&report, "/deliveries/expected");
    let came = number(&report, "/deliveries/received") + number(&report, "/deliveries/folded");
    assert!(expected > 0.0 && came == expected, "{report:#}");
    assert_eq!(app.get_policy("bench-0").await["flush_ms"], 5);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn idle_watchers_are_only_connected_and_the_servers_process_is_looked_at() {
    let app = TestApp::start().await;
    let pid = std::process::id().to_string();
    let args = ["--idle", "--watchers", "20", "--seconds", "0", "--source-addresses", "3", "--pid", &pid];
    let report = report(&app, &args).await;
    assert_eq!(number(&report, "/connect/watchers"), 20.0);
    assert!(number(&report, "/connect/server_rss") > 0.0);
    assert!(report.get("gifts").is_none());
}

#[tokio::test]
async fn a_storm_of_watchers_costs_the_store_one_read_and_loses_nobody_a_gift() {
    let app = TestApp::start().await;
    let args = ["--storm", "--watchers", "300", "--connecting", "300", "--rate", "20", "--seconds", "1"];
    let report = report(&app, &args).await;
    assert_eq!(number(&report, "/connect/watchers"), 300.0);
    assert_eq!(number(&report, "/storm/store_reads"), 1.0, "{report:#}");
    assert!(number(&report, "/storm/all_live_ms") > 0.0);
    assert!(number(&report, "/deliveries/received") > 0.0);
    for none in ["lost", "repeated", "out_of_order", "malformed"] {
        assert_eq!(number(&report, &format!("/deliveries/{none}")), 0.0, "{none}");
    }
}

#[tokio::test]
async fn the_load_sends_a_key_where_needed() {
    let key = "a-key-of-the-tests-own";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![key.to_owned().into()];
    })
    .await;
    let args = ["--watchers", "1", "--seconds", "0.2", "--rate", "20"];
    let url = app.url();
    let (code, said) = bench(&[&["--url", &url], &args[..]].concat()).await;
    assert!(code == Some(1) && said.contains("401"), "{code:?} {said}");
    report(&app, &[&args[..], &["--key", key]].concat()).await;
}

#[tokio::test]
async fn other_peoples_servers_are_not_loaded_by_mistake() {
    let (code, said) = bench(&["--url", "http://192.0.2.1:8080"]).await;
    assert!(code == Some(2) && said.contains("--i-own-this-host"), "{code:?} {said}");
    let (code, said) = bench(&["--url", "http://127.0.0.1:1", "--watchers", "1"]).await;
    assert!(code == Some(1) && said.contains("127.0.0.1:1"), "{code:?} {said}");
}
