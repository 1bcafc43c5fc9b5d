//! `/v1/ws`: many feeds on one socket.

use serde_json::json;

use crate::support::TestApp;
use crate::support::gifts::gift;
use crate::support::many::Many;

on_both_stores_and_over_tls![
    each_feed_behaves_as_on_a_socket_of_its_own,
    a_feed_that_was_given_up_sends_nothing_more,
    sixty_four_feeds_fit_and_one_more_is_an_error,
    a_frame_that_is_no_command_is_an_error_and_the_socket_stays_open,
    sixteen_bad_frames_close_the_socket_with_4000,
    a_position_that_cannot_be_resumed_gets_a_snapshot,
];

async fn each_feed_behaves_as_on_a_socket_of_its_own() {
    let app = TestApp::start().await;
    app.give("a", &gift("g1")).await;
    let mut many = Many::open(&app).await;
    for feed in ["a", "b", "c"] {
        many.subscribe(feed).await;
    }
    many.wait_until("three lists", |m| m.folds.values().all(|fold| fold.snapshots == 1)).await;
    for n in 0..10 {
        app.give("a", &gift(&format!("a{n}")).by(&format!("u{n}"))).await;
        app.give("b", &gift(&format!("b{n}")).by(&format!("u{n}"))).await;
    }
    many.wait_until("all gifts", |m| m.fold("a").seq() == 11 && m.fold("b").seq() == 10).await;
    assert_eq!((many.fold("a").snapshots, many.fold("b").snapshots), (1, 2));
    assert_eq!(many.fold("c").position().unwrap(), "0:0");
    for feed in ["a", "b"] {
        many.fold(feed).assert_is(&app.get_feed(feed).await);
    }
}

async fn a_feed_that_was_given_up_sends_nothing_more() {
    let app = TestApp::start().await;
    app.give("a", &gift("g1")).await;
    let mut many = Many::open(&app).await;
    many.subscribe("a").await;
    many.wait_until("a list", |m| m.fold("a").seq() == 1).await;
    many.unsubscribe("a").await;
    many.subscribe("b").await;
    many.wait_until("the other list", |m| m.fold("b").snapshots == 1).await;
    assert_eq!(many.unsubscribed, ["a"]);
    app.give("a", &gift("g2")).await;
    app.give("b", &gift("g1")).await;
    many.wait_until("the other gift", |m| m.fold("b").seq() == 1).await;
    assert_eq!(many.fold("a").seq(), 1);
    let fold = many.fold("a").clone();
    many.resume(fold).await;
    many.wait_until("the missed gift", |m| m.fold("a").seq() == 2).await;
    assert_eq!((many.fold("a").resumes, many.errors.len()), (1, 0));
    many.fold("a").assert_is(&app.get_feed("a").await);
}

async fn sixty_four_feeds_fit_and_one_more_is_an_error() {
    let app = TestApp::start().await;
    let mut many = Many::open(&app).await;
    for n in 0..64 {
        many.subscribe(&format!("f{n}")).await;
    }
    many.wait_until("all lists", |m| m.folds.values().all(|fold| fold.snapshots == 1)).await;
    many.say(&json!({"type": "subscribe", "feed": "one-more"}).to_string()).await;
    many.wait_until("an error", |m| m.errors.len() == 1).await;
    assert_eq!(many.errors[0]["feed"], "one-more", "{}", many.errors[0]);
    for feed in ["f0", "f63"] {
        app.give(feed, &gift("g1")).await;
        many.wait_until("its gift", |m| m.fold(feed).seq() == 1).await;
    }
    many.unsubscribe("f0").await;
    many.subscribe("one-more").await;
    many.wait_until("the list", |m| m.fold("one-more").snapshots == 1).await;
    assert_eq!(many.errors.len(), 1);
}

async fn a_frame_that_is_no_command_is_an_error_and_the_socket_stays_open() {
    let app = TestApp::start().await;
    let bad = [
        "nonsense",
        "",
        "{",
        "[]",
        "5",
        "null",
        "{}",
        "{\"type\":\"dance\",\"feed\":\"a\"}",
        "{\"type\":\"subscribe\"}",
        "{\"type\":\"subscribe\",\"feed\":\"a b\"}",
        "{\"type\":\"subscribe\",\"feed\":5}",
        "{\"type\":5,\"feed\":\"a\"}",
        "{\"type\":\"unsubscribe\"}",
        "{\"feed\":\"a\"}",
        "{\"type\":\"subscribe\",\"feed\":\"a\"} x",
    ];
    let mut many = Many::open(&app).await;
    for (n, text) in bad.iter().enumerate() {
        many.say(text).await;
        many.wait_until(&format!("an error for {text}"), |m| m.errors.len() == n + 1).await;
    }
    many.subscribe("a").await;
    many.wait_until("a list all the same", |m| m.fold("a").snapshots == 1).await;
    app.give("a", &gift("g1")).await;
    many.wait_until("its gift", |m| m.fold("a").seq() == 1).await;
}

async fn sixteen_bad_frames_close_the_socket_with_4000() {
    let app = TestApp::start().await;
    let mut many = Many::open(&app).await;
    for _ in 0..16 {
        many.say("nonsense").await;
    }
    assert_eq!(many.wait_for_close().await, Some(4000));
    assert!((15..=16).contains(&many.errors.len()), "{}", many.errors.len());
}

async fn a_position_that_cannot_be_resumed_gets_a_snapshot() {
    let app = TestApp::start().await;
    app.give("a", &gift("g1")).await;
    for since in ["", "nonsense", "other:1", "0:0"] {
        let mut many = Many::open(&app).await;
        many.subscribe("b").await;
        let mut fold = many.fold("b").clone();
        fold.feed = "a".into();
        many.folds.insert("a".into(), fold);
        many.say(&json!({"type": "subscribe", "feed": "a", "since": since}).to_string()).await;
        many.wait_until("a list", |m| m.fold("a").seq() == 1).await;
        assert_eq!((many.fold("a").snapshots, many.errors.len()), (1, 0), "{since}");
    }
}
