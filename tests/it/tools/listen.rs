//! What is printed, what is forwarded, and what is acknowledged, through restarts of everybody.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{command, entries, wait_for_gifts};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::{Process, signal};
use crate::support::receiver::{OK, Receiver, Reply, SECRET};

fn listen(url: &str, more: &[&str]) -> Process {
    let mut args = command(&["listen"], url);
    args.extend(more.iter().map(|word| (*word).to_owned()));
    let process = Process::spawned(&args);
    process.wait_for_words("listening to feed show");
    process
}

async fn group(url: &str) -> Value {
    let answer =
        crate::support::api::http().build().unwrap().get(format!("{url}/v1/feeds/show/groups/listen"));
    answer.send().await.unwrap().json().await.unwrap()
}

/// Waits until the group has acknowledged everything.
async fn acknowledged(url: &str) {
    let since = Instant::now();
    loop {
        let stands = group(url).await;
        if stands["lag"] == 0 && stands["pending"] == 0 {
            return;
        }
        assert!(since.elapsed() < 3 * PATIENCE, "{stands}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// SIGINT; it ends well, and soon.
fn interrupt(mut process: Process) -> String {
    let since = Instant::now();
    signal("INT", process.id());
    assert!(process.wait().success(), "{}", process.said());
    assert!(since.elapsed() < Duration::from_secs(10));
    process.said()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_prints_what_comes_goes_on_where_it_was_and_ends_when_asked() {
    let app = TestApp::start().await;
    let url = app.url();
    app.give("show", &gift("before").by("ann")).await;
    let first = listen(&url, &[]);
    app.give("show", &gift("a").by("bob").with("meta", json!({"n": 1}))).await;
    app.post_json("show", &serde_json::from_str(
        r#"{"id":"b","user":{"id":"cid","name":"C"},"gift":{"id":"g","name":"G"},"message":"a \"line\"\nmore"}"#
    ).unwrap()).await;
    wait_for_gifts(&first, &["a", "b"]);
    acknowledged(&url).await;
    let said = interrupt(first);
    assert_eq!(entries(&said)[0]["type"], "gift.accepted");
    app.give("show", &gift("c").by("dan")).await;
    let second = listen(&url, &[]);
    wait_for_gifts(&second, &["c"]);
    interrupt(second);
    let all = listen(&url, &["--group", "other", "--from", "start"]);
    wait_for_gifts(&all, &["before", "a", "b", "c"]);
    interrupt(all);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_no_float_holds_stop_nothing() {
    let app = TestApp::start().await;
    let process = listen(&app.url(), &[]);
    let body = r#"{"id":"x","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"meta":{"n":1e999}}"#;
    assert_eq!(app.call("POST", "/v1/feeds/show/gifts", Some(body)).await.status, 201);
    process.wait_for_words("1e999");
    acknowledged(&app.url()).await;
    interrupt(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_restarts_is_waited_for() {
    let backing = Backing::folder();
    let mut gateway = Process::on(&backing);
    let address = gateway.authority().to_owned();
    let url = format!("http://{address}");
    let process = listen(&url, &[]);
    gateway.give("show", &gift("a").by("ann")).await;
    wait_for_gifts(&process, &["a"]);
    acknowledged(&url).await;
    gateway.kill();
    process.wait_for_words("does not answer");
    let gateway = Process::serve_at(&address, &backing.args());
    process.wait_for_words("answers again");
    gateway.give("show", &gift("b").by("bob")).await;
    wait_for_gifts(&process, &["a", "b"]);
    interrupt(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_forwarded_signed_and_acknowledged_when_they_are_taken() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let target = receiver.url("hook");
    let process = listen(&app.url(), &["--forward", &target, "--secret", SECRET]);
    for id in ["a", "b", "c"] {
        app.give("show", &gift(id).by(id)).await;
    }
    assert_eq!(receiver.wait_for_gifts(3).await, ["a", "b", "c"]);
    acknowledged(&app.url()).await;
    wait_for_gifts(&process, &["a", "b", "c"]);
    // It is away for a while: the same delivery comes again, under the same id.
    receiver.answers(|_| Reply::Status(503, ""));
    app.give("show", &gift("d").by("dan")).await;
    let refused =
        receiver.wait_for("two attempts", |got| got.iter().filter(|it| !it.accepted).count() > 1).await;
    let away: Vec<_> = refused.iter().filter(|it| !it.accepted).map(|it| it.id.clone()).collect();
    assert_eq!(away[0], away[1]);
    receiver.answers(|_| OK);
    assert_eq!(receiver.wait_for_gifts(4).await[3], "d");
    acknowledged(&app.url()).await;
    interrupt(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_refused_is_given_back_alone() {
    let app = TestApp::start().await;
    let receiver =
        Receiver::that(|it| if it.gifts().contains(&"bad".to_owned()) { Reply::Status(500, "") } else { OK })
            .await;
    for id in ["a", "bad", "c"] {
        app.give("show", &gift(id).by(id)).await;
    }
    let target = receiver.url("hook");
    let process = listen(&app.url(), &["--from", "start", "--forward", &target, "--secret", SECRET]);
    assert_eq!(receiver.wait_for_gifts(2).await, ["a", "c"]);
    let again = |got: &[crate::support::receiver::Delivery]| {
        got.iter().any(|it| it.gifts() == ["bad"] && it.json["entries"][0]["attempt"] == 2)
    };
    receiver.wait_for("another attempt", again).await;
    receiver.answers(|_| OK);
    assert_eq!(receiver.wait_for_gifts(3).await, ["a", "c", "bad"]);
    acknowledged(&app.url()).await;
    interrupt(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_hangs_keeps_nobody_from_stopping_and_gets_the_entries_later() {
    let app = TestApp::start().await;
    let receiver = Receiver::that(|_| Reply::Hang).await;
    let target = receiver.url("hook");
    let process = listen(&app.url(), &["--forward", &target, "--secret", SECRET]);
    app.give("show", &gift("a")).await;
    receiver.wait_for("a delivery", |got| !got.is_empty()).await;
    interrupt(process);
    receiver.answers(|_| OK);
    let process = listen(&app.url(), &["--forward", &target, "--secret", SECRET]);
    assert_eq!(receiver.wait_for_gifts(1).await, ["a"]);
    acknowledged(&app.url()).await;
    interrupt(process);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_words_and_missing_keys_end_it_with_what_to_do() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec!["a-key-of-the-tests-own".to_owned().into()];
    })
    .await;
    let url = app.url();
    for (more, code, word) in [
        (&[][..], 1, "--key"),
        (&["--secret", SECRET], 2, "--forward"),
        (&["--forward", "http://127.0.0.1:1", "--secret", "hunter2"], 2, "whsec_"),
        (&["--from", "later"], 2, "now"),
    ] {
        let mut args = command(&["listen"], &url);
        args.extend(more.iter().map(|word| (*word).to_owned()));
        let (status, said) = tokio::task::spawn_blocking(move || Process::run(&args)).await.unwrap();
        assert!(status.code() == Some(code) && said.contains(word), "{more:?}: {status:?} {said}");
    }
    let process = listen(&url, &["--key", "a-key-of-the-tests-own"]);
    interrupt(process);
}
