//! A receiver in another language, with the tools that its users would take.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use serde_json::json;

use super::*;
use crate::support::TestApp;
use crate::support::app::Backing;

/// The program; ends with the test.
struct Python {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Python {
    fn start() -> Python {
        let root = env!("CARGO_MANIFEST_DIR");
        let mut child = Command::new("python3")
            .arg(format!("{root}/tests/it/webhooks/receiver.py"))
            .env("PYTHONPATH", format!("{root}/target/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is installed: make test sees to it");
        let out = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| drop(said.send(line)));
        });
        Python { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(3 * PATIENCE).expect("it says something")
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_receiver_in_python_gets_every_gift_signed_and_repeats_that_it_can_tell() {
    let python = Python::start();
    let first = python.line();
    let port = first.split(' ').nth(1).unwrap();
    println!("the receiver is {first}");
    let app = TestApp::with(&Backing::folder(), |config| config.webhooks.allow_private = true).await;
    let hook = json!({"url": format!("http://127.0.0.1:{port}/game"), "secret": SECRET, "batch_max": 5, "batch_ms": 10});
    let said = app.call("PUT", "/v1/feeds/show/webhooks/game", Some(&hook.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
    app.patch_policy("show", json!({"dedup": "off"})).await;
    let name = "Zoë \u{1f339} \"quoted\" \u{5d0}\u{5d1} <b>";
    let wanted: Vec<String> = (0..23).map(|n| format!("g{n}")).collect();
    for id in &wanted {
        let spec = gift(id).with("user", json!({"id": id, "name": name}));
        let said = app.call("POST", "/v1/feeds/show/gifts", Some(&spec.json().to_string())).await;
        assert_eq!(said.status, 201, "{said:?}");
    }
    let got = tokio::task::spawn_blocking(move || (0..23).map(|_| python.line()).collect::<Vec<_>>())
        .await
        .unwrap();
    let wanted: Vec<_> = wanted.iter().map(|id| format!("gift show {id} {name} gift.accepted")).collect();
    assert_eq!(got, wanted, "in order, each new once, nothing refused");
}
