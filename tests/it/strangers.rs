//! What strangers may cost: names that they make up leave nothing behind, and what they ask for too fast or
//! too much is refused with what to do, or waits.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, Socket, open_socket, read_socket};

async fn command(socket: &mut Socket, kind: &str, feed: &str) {
    let text = json!({"type": kind, "feed": feed}).to_string();
    socket.send(Message::text(text)).await.unwrap();
}

async fn frame(socket: &mut Socket) -> Value {
    match timeout(PATIENCE, read_socket(socket)).await.expect("a frame") {
        Brought::Frame(frame) => frame,
        closed => panic!("{closed:?}"),
    }
}

async fn metric(app: &TestApp, name: &str) -> u64 {
    let text = app.get("/metrics").await.text;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name}:\n{text}"))
}

on_both_stores!(
    a_feed_that_nobody_wrote_to_is_let_go_with_its_last_watcher_and_one_with_a_list_is_not,
    plain_reads_of_a_watched_feed_cost_the_store_nothing_and_see_what_was_just_acknowledged,
    drops_are_read_once_for_all_who_ask_and_are_exact_behind_every_claim,
    metrics_name_drops_of_public_feeds_only,
);

async fn a_feed_that_nobody_wrote_to_is_let_go_with_its_last_watcher_and_one_with_a_list_is_not() {
    let app = TestApp::start().await;
    app.give("written", &gift("one")).await;
    let mut socket = open_socket(&app, "/v1/ws", None).await.unwrap();
    for n in 0..60 {
        command(&mut socket, "subscribe", &format!("made-up-{n}")).await;
        assert_eq!(frame(&mut socket).await["type"], "snapshot");
        command(&mut socket, "unsubscribe", &format!("made-up-{n}")).await;
        assert_eq!(frame(&mut socket).await["type"], "unsubscribed");
    }
    command(&mut socket, "subscribe", "written").await;
    assert_eq!(frame(&mut socket).await["seq"], 1);
    command(&mut socket, "unsubscribe", "written").await;
    assert_eq!(frame(&mut socket).await["type"], "unsubscribed");
    assert_eq!(metric(&app, "tipcast_feeds_watched").await, 1, "only the one that has a list lingers");
}

async fn plain_reads_of_a_watched_feed_cost_the_store_nothing_and_see_what_was_just_acknowledged() {
    let app = TestApp::start().await;
    app.give("show", &gift("g0").by("u0")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    let reads = "tipcast_engine_call_seconds_count{operation=\"snapshot\"}";
    let before = metric(&app, reads).await;
    for _ in 0..50 {
        assert_eq!(app.get_feed("show").await["seq"], 1);
    }
    assert_eq!(metric(&app, reads).await, before);
    for n in 1..20 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        assert_eq!(app.get_feed("show").await["seq"], n + 1, "what was acknowledged is seen at once");
    }
}

/// Defines a drop of which there is enough.
async fn define(app: &TestApp, feed: &str, drop: &str) {
    let spec = json!({"gift": {"id": "r", "name": "R"}, "total": 100, "per_user": 100});
    let said = app.call("PUT", &format!("/v1/feeds/{feed}/drops/{drop}"), Some(&spec.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
}

async fn drops_are_read_once_for_all_who_ask_and_are_exact_behind_every_claim() {
    let app = TestApp::start().await;
    for n in 0..64 {
        define(&app, "show", &format!("d{n}")).await;
    }
    let one = "tipcast_engine_call_seconds_count{operation=\"tick\"}";
    let all = "tipcast_engine_call_seconds_count{operation=\"drops\"}";
    let since = Instant::now();
    let (ticks, reads) = (metric(&app, one).await, metric(&app, all).await);
    for n in 0..200 {
        let path = if n % 2 == 0 { "/v1/feeds/show/drops" } else { "/v1/feeds/show/drops/d7" };
        assert_eq!(app.get(path).await.status, 200);
    }
    // One read a second, and one after each thing that was due of a drop: watchers get it a while after it was defined.
    let (ticks, reads) = (metric(&app, one).await - ticks, metric(&app, all).await - reads);
    let struck = metric(&app, "tipcast_engine_call_seconds_count{operation=\"run_due\"}").await;
    assert_eq!(ticks, 0, "a drop at rest is read, not run");
    assert!(reads <= 2 + since.elapsed().as_secs() + struck, "{reads} reads, {struck} struck");
    for n in 1..20 {
        let claim = json!({"id": format!("c{n}"), "user": {"id": "ann", "name": "Ann"}, "pay": "now"});
        let said = app.call("POST", "/v1/feeds/show/drops/d7/claims", Some(&claim.to_string())).await;
        assert_eq!(said.status, 201, "{said:?}");
        assert_eq!(
            app.get("/v1/feeds/show/drops/d7").await.json()["sold"],
            n,
            "what was sold is seen at once"
        );
    }
    assert_eq!(app.get("/v1/feeds/show/drops/none").await.status, 404);
    define(&app, "other", "late").await;
    assert_eq!(app.get("/v1/feeds/other/drops/late").await.status, 200);
}

async fn metrics_name_drops_of_public_feeds_only() {
    let app = TestApp::start().await;
    for feed in ["open", "hidden-room"] {
        define(&app, feed, "rocket").await;
    }
    app.patch_policy("hidden-room", json!({"visibility": "private"})).await;
    let since = Instant::now();
    let text = loop {
        let text = app.get("/metrics").await.text;
        if text.contains("tipcast_drop_units{feed=\"open\",drop=\"rocket\",units=\"free\"} 100") {
            break text;
        }
        assert!(since.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!text.contains("hidden-room"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_come_too_fast_are_errors_and_then_a_close_that_says_back_off() {
    let app = TestApp::start().await;
    // What is answered is read while the rest is sent: a connection that ends under a writer would take the
    // answers with it.
    let (mut sink, mut stream) = open_socket(&app, "/v1/ws", None).await.unwrap().split();
    let flood = async {
        for n in 0..1_000 {
            let text = json!({"type": "unsubscribe", "feed": format!("f{n}")}).to_string();
            if sink.feed(Message::text(text)).await.is_err() {
                break;
            }
        }
        let _ = sink.flush().await;
    };
    let answers = async {
        let mut slow = 0;
        loop {
            match stream.next().await {
                Some(Ok(Message::Text(text))) => slow += u32::from(text.contains("slow_down")),
                Some(Ok(Message::Close(frame))) => return (slow, frame.map(|f| u16::from(f.code))),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (slow, None),
            }
        }
    };
    let both = async { tokio::join!(flood, answers) };
    let ((), (slow, code)) = timeout(PATIENCE, both).await.expect("it closes");
    assert!(slow >= 1, "closed with {code:?}");
    assert!(matches!(code, Some(4129) | None), "{code:?}");
    assert!(metric(&app, "tipcast_bounds_met_total{bound=\"commands_per_second\"}").await >= 1);
}

async fn loop_to_close(socket: &mut Socket) -> (Vec<Value>, Option<u16>) {
    let mut frames = vec![];
    loop {
        match timeout(PATIENCE, read_socket(socket)).await.expect("it closes") {
            Brought::Frame(frame) => frames.push(frame),
            Brought::Closed(code) => return (frames, code),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_watches_so_many_feeds_and_is_told_what_to_do_on_every_transport() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.count_loopback = true;
        config.limits.subscriptions_per_address = 3;
    })
    .await;
    let mut many = open_socket(&app, "/v1/ws", None).await.unwrap();
    for n in 0..3 {
        command(&mut many, "subscribe", &format!("f{n}")).await;
        assert_eq!(frame(&mut many).await["type"], "snapshot");
    }
    command(&mut many, "subscribe", "f3").await;
    let told = frame(&mut many).await;
    assert_eq!(
        (&told["type"], &told["code"], &told["feed"]),
        (&json!("error"), &json!("too_many_subscriptions"), &json!("f3"))
    );
    let mut one = open_socket(&app, "/v1/feeds/f4/ws", None).await.unwrap();
    let (frames, code) = loop_to_close(&mut one).await;
    assert_eq!((frames[0]["type"].as_str(), code), (Some("error"), Some(4129)));
    app.get("/v1/feeds/f5/sse").await.problem(429);
    command(&mut many, "unsubscribe", "f0").await;
    assert_eq!(frame(&mut many).await["type"], "unsubscribed");
    command(&mut many, "subscribe", "f3").await;
    assert_eq!(frame(&mut many).await["type"], "snapshot");
    assert_eq!(metric(&app, "tipcast_bounds_met_total{bound=\"subscriptions_per_address\"}").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_that_nobody_else_watches_are_limited_for_an_address() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.count_loopback = true;
        config.limits.new_feeds_per_second = 1;
        config.limits.new_feeds_burst = 2;
    })
    .await;
    let mut other = open_socket(&app, "/v1/ws", None).await.unwrap();
    command(&mut other, "subscribe", "known").await;
    assert_eq!(frame(&mut other).await["type"], "snapshot");
    let mut socket = open_socket(&app, "/v1/ws", None).await.unwrap();
    for n in 0..14 {
        command(&mut socket, "subscribe", &format!("f{n}")).await;
    }
    let mut refused = 0;
    for _ in 0..14 {
        refused += u32::from(frame(&mut socket).await["code"] == "too_many_new_feeds");
    }
    assert!(refused >= 1, "fourteen at once, and two are allowed");
    command(&mut socket, "subscribe", "known").await;
    assert_eq!(frame(&mut socket).await["type"], "snapshot", "what somebody watches already is not new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_follows_so_many_feeds_and_more_people_may_watch_them() {
    let app = TestApp::with(&Backing::folder(), |config| config.limits.followed_feeds = 3).await;
    let mut socket = open_socket(&app, "/v1/ws", None).await.unwrap();
    for n in 0..3 {
        command(&mut socket, "subscribe", &format!("f{n}")).await;
        assert_eq!(frame(&mut socket).await["type"], "snapshot");
    }
    command(&mut socket, "subscribe", "f3").await;
    assert_eq!(frame(&mut socket).await["code"], "no_place");
    let mut one = open_socket(&app, "/v1/feeds/f3/ws", None).await.unwrap();
    assert_eq!(loop_to_close(&mut one).await.1, Some(4129));
    let mut one = open_socket(&app, "/v1/feeds/f0/ws", None).await.unwrap();
    assert_eq!(frame(&mut one).await["type"], "snapshot");
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_changes_are_read_for_an_address_up_to_its_budget_and_beyond_it_it_gets_snapshots() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.count_loopback = true;
        // Nothing comes back while the test runs.
        config.limits.history_bytes_per_second = 1;
        config.limits.history_bytes_burst = 262_144;
    })
    .await;
    // More than what is read once for everybody who comes back.
    app.patch_policy("show", json!({"dedup": "off", "history": 10_000})).await;
    for batch in 0..64 {
        let long = |n: usize| {
            gift(&format!("b{batch}-{n}")).by(&format!("u{n}")).with("message", json!("m".repeat(200)))
        };
        let gifts: Vec<_> = (0..64).map(|n| long(n).json()).collect();
        assert_eq!(app.post_batch("show", &gifts).await.status, 200);
    }
    let list = app.get_feed("show").await;
    let (epoch, last) = (list["epoch"].as_str().unwrap(), list["seq"].as_u64().unwrap());
    let (mut bytes, mut begins) = (0, Vec::new());
    for _ in 0..12 {
        let path = format!("/v1/feeds/show/ws?since={epoch}:1");
        let mut socket = open_socket(&app, &path, None).await.unwrap();
        let mut at = 0;
        while at < last {
            let frame = frame(&mut socket).await;
            if at == 0 {
                begins.push(frame["type"].as_str().unwrap().to_owned());
            }
            bytes += frame.to_string().len();
            at = frame["seq"].as_u64().unwrap();
        }
    }
    assert_eq!((&*begins[0], &*begins[11]), ("resumed", "snapshot"), "{begins:?}");
    assert!(bytes < 1_000_000, "{bytes} bytes for 12 watchers who came back");
    assert!(metric(&app, "tipcast_bounds_met_total{bound=\"history_bytes_per_second\"}").await >= 9);
    assert!(metric(&app, "tipcast_history_bytes_total").await < 600_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_again_and_again_on_one_connection_waits_and_live_changes_do_not() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.limits.replay_bytes_per_second = 65_536;
        config.limits.replay_bytes_burst = 65_536;
    })
    .await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    for batch in 0..8 {
        let gifts: Vec<_> =
            (0..64).map(|n| gift(&format!("b{batch}-{n}")).by(&format!("u{n}")).json()).collect();
        assert_eq!(app.post_batch("show", &gifts).await.status, 200);
    }
    let list = app.get_feed("show").await;
    let since = format!("{}:1", list["epoch"].as_str().unwrap());
    let mut live = app.watch("show").await;
    let mut socket = open_socket(&app, "/v1/ws", None).await.unwrap();
    let asked = 20;
    for _ in 0..asked {
        let text = json!({"type": "subscribe", "feed": "show", "since": since}).to_string();
        socket.send(Message::text(text)).await.unwrap();
    }
    let begun = Instant::now();
    let mut bytes = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        match timeout(Duration::from_millis(500), read_socket(&mut socket)).await {
            Ok(Brought::Frame(frame)) => bytes += frame.to_string().len(),
            Ok(closed) => panic!("{closed:?}"),
            Err(_) => {}
        }
    }
    let seconds = begun.elapsed().as_secs_f64() + 1.0;
    // The burst, the rate, and one batch beyond.
    assert!((bytes as f64) < 65_536.0 * (1.0 + seconds) + 400_000.0, "{bytes} bytes in {seconds} s");
    assert!(metric(&app, "tipcast_bounds_met_total{bound=\"replay_bytes_per_second\"}").await >= 1);
    app.give("show", &gift("now").by("somebody")).await;
    live.wait_until("the newest", |fold| fold.seq() == 513).await;
}
