//! `tipcast demo` as people run it: the program itself against a gateway.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::TestApp;
use crate::support::app::Backing;

const PATIENCE: Duration = Duration::from_secs(30);

/// The program; killed when a test fails.
struct Demo(Child);

impl Demo {
    fn play(url: &str) -> Demo {
        Demo::play_with(url, &["--rate", "200"])
    }

    fn play_with(url: &str, more: &[&str]) -> Demo {
        let demo = Command::new(env!("CARGO_BIN_EXE_tipcast"))
            .args(["demo", "--url", url, "--feed", "show", "--seed", "7"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn();
        Demo(demo.unwrap())
    }

    /// SIGINT, as Ctrl-C sends it; whether it ended well, and what it had said.
    async fn interrupt(self) -> (bool, String) {
        self.end("-INT").await
    }

    /// The same with another signal.
    async fn end(mut self, signal: &str) -> (bool, String) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the demo does not stop");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        (status.success(), said)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the feed has this many changes.
async fn reaches(url: &str, seq: u64) {
    let client = crate::support::api::http().build().unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.get(format!("{url}/v1/feeds/show")).send().await.unwrap();
        let list: Value = answer.json().await.unwrap();
        if list["seq"].as_u64().unwrap() >= seq {
            return;
        }
        assert!(Instant::now() < deadline, "the show stands still: {list:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_demo_plays_until_it_is_stopped_and_a_second_run_shows_again() {
    let app = TestApp::start().await;
    let url = app.url();
    let first = Demo::play(&url);
    reaches(&url, 40).await;
    let (well, said) = first.interrupt().await;
    assert!(well && said.contains(" sent: ") && said.contains("; 0 refused, 0 retries"), "{said}");

    let second = Demo::play(&url);
    reaches(&url, 200).await;
    let (well, said) = second.interrupt().await;
    assert!(well, "{said}");
}

#[tokio::test]
async fn the_demo_sends_a_key_where_needed() {
    let key = "a-key-of-the-tests-own";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![key.to_owned().into()];
    })
    .await;
    let played = Demo::play_with(&app.url(), &["--rate", "200", "--key", key]);
    reaches(&app.url(), 20).await;
    let (well, said) = played.interrupt().await;
    assert!(well && !said.contains(key), "{said}");
}

/// Waits until what GET says of the feed is as wanted.
async fn says(app: &TestApp, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + 3 * PATIENCE;
    loop {
        let said = app.get(&format!("/v1/feeds/show/{path}")).await;
        if said.status == 200 && wanted(&said.json()) {
            return;
        }
        assert!(Instant::now() < deadline, "no {what}: {said:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_demo_plays_all_of_a_show_and_leaves_no_rule_behind_that_needs_a_host() {
    let app = TestApp::start().await;
    // Enough that a refund comes soon, and a message too; no more, or nothing waits.
    let demo = Demo::play_with(&app.url(), &["--rate", "20"]);
    says(&app, "review", "message that waits", |said| {
        said["review"].as_array().is_some_and(|all| all.iter().any(|it| it["gift"]["message"].is_string()))
    })
    .await;
    says(&app, "goals/tonight", "goal that fills", |goal| goal["value"].as_u64() > Some(0)).await;
    says(&app, "leaders?period=session&by=points", "leaders", |said| {
        said["leaders"].as_array().is_some_and(|all| all.len() > 3)
    })
    .await;
    // Names that wait are let in by the host that the demo plays.
    reaches(&app.url(), 60).await;
    let (well, said) = demo.end("-TERM").await;
    assert!(well && said.contains(" waited for a host, "), "{said}");
    assert!(!said.contains(" 0 waited for a host"), "{said}");
    let policy = app.get_policy("show").await;
    assert_eq!((&policy["review"], &policy["totals"]), (&"off".into(), &serde_json::json!(["session"])));
}

#[tokio::test]
async fn gifts_only_leaves_the_policy_alone() {
    let app = TestApp::start().await;
    let before = app.get_policy("show").await;
    let demo = Demo::play_with(&app.url(), &["--rate", "100", "--gifts-only"]);
    reaches(&app.url(), 20).await;
    let (well, said) = demo.interrupt().await;
    assert!(well && !said.contains("refund"), "{said}");
    assert_eq!(app.get_policy("show").await, before);
    assert_eq!(app.get("/v1/feeds/show/goals").await.json()["goals"], serde_json::json!([]));
}
