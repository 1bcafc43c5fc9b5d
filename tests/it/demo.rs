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
        Demo::play_with(url, &[])
    }

    fn play_with(url: &str, more: &[&str]) -> Demo {
        let demo = Command::new(env!("CARGO_BIN_EXE_tipcast"))
            .args(["demo", "--url", url, "--feed", "show", "--rate", "200", "--seed", "7"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn();
        Demo(demo.unwrap())
    }

    /// SIGINT, as Ctrl-C sends it; whether it ended well, and what it had said.
    async fn interrupt(mut self) -> (bool, String) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
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
async fn where_keys_are_needed_the_demo_sends_one() {
    let key = "a-key-of-the-tests-own";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![key.to_owned().into()];
    })
    .await;
    let played = Demo::play_with(&app.url(), &["--key", key]);
    reaches(&app.url(), 20).await;
    let (well, said) = played.interrupt().await;
    assert!(well && !said.contains(key), "{said}");
}
