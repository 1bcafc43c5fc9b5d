//! `[limits]` on watchers.

use std::time::Duration;

use futures_util::SinkExt;
use tokio_tungstenite::tungstenite::Message;

use super::{LOCAL, ask, connect};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, Socket, read_socket};

const PATH: &str = "/v1/feeds/show/ws";
const GREEDY: [u8; 4] = [127, 0, 0, 9];

async fn limited(watchers: usize, per_address: usize) -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.limits.watchers = watchers;
        config.limits.watchers_per_address = per_address;
        config.limits.count_loopback = true;
    })
    .await
}

/// True when this is a list, false when the socket was closed with 4129 after an error said why.
async fn is_place(first: Brought, socket: &mut Socket) -> bool {
    match first {
        Brought::Frame(frame) if frame["type"] == "snapshot" => true,
        Brought::Frame(frame) => {
            assert_eq!((&frame["type"], &frame["code"]), (&"error".into(), &"too_many_connections".into()));
            let closed = read_socket(socket).await;
            assert!(matches!(closed, Brought::Closed(Some(4129))), "{closed:?}");
            let end = tokio::time::timeout(PATIENCE, read_socket(socket)).await;
            assert!(matches!(end, Ok(Brought::Closed(None))), "the connection ends too: {end:?}");
            false
        }
        other => panic!("{other:?}"),
    }
}

/// As [`is_place`], of what comes first.
async fn has_place(socket: &mut Socket) -> bool {
    let first = read_socket(socket).await;
    is_place(first, socket).await
}

#[tokio::test]
async fn many_connects_from_one_address_stop_at_the_limit_and_cost_nobody_else() {
    let app = limited(1_000, 25).await;
    let mut greedy: Vec<Socket> = vec![];
    let (mut refused, mut told) = (0, 0);
    let mut rounds = tokio::task::JoinSet::new();
    for n in 0..400 {
        let api = crate::support::api::Api::clone(&app);
        let path = if n % 2 == 0 { PATH } else { "/v1/ws" };
        rounds.spawn(async move {
            let connected = connect(&api, path, &[], GREEDY).await;
            let mut socket = match connected {
                Ok(socket) => socket,
                Err(status) => return Err(status),
            };
            if path == "/v1/ws" {
                // Nothing comes by itself here unless there is no place.
                let watch = r#"{"type":"subscribe","feed":"show"}"#;
                let _ = socket.send(Message::text(watch)).await;
            }
            Ok((has_place(&mut socket).await, socket))
        });
    }
    while let Some(round) = rounds.join_next().await {
        match round.unwrap() {
            Ok((true, socket)) => greedy.push(socket),
            Ok((false, _)) => told += 1,
            Err(503) => refused += 1,
            Err(status) => panic!("{status}"),
        }
    }
    assert_eq!((greedy.len(), told + refused), (25, 375), "{told} were told, {refused} refused");

    let mut other = connect(&app, PATH, &[], LOCAL).await.unwrap();
    assert!(has_place(&mut other).await);
    app.give("show", &gift("g1")).await;
    let frame = tokio::time::timeout(PATIENCE, read_socket(&mut other)).await.unwrap();
    assert!(matches!(&frame, Brought::Frame(frame) if frame["seq"] == 1), "{frame:?}");

    greedy.pop();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match connect(&app, PATH, &[], GREEDY).await {
            Ok(mut again) => {
                if has_place(&mut again).await {
                    break;
                }
            }
            // Too many were refused a moment ago: the rest get no reason.
            Err(503) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(status) => panic!("{status}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "a place that was left is free again");
    }
}

#[tokio::test]
async fn the_total_is_a_limit_for_everybody_and_sse_is_told_in_http() {
    let app = limited(3, 2).await;
    let mut first = connect(&app, PATH, &[], GREEDY).await.unwrap();
    assert!(has_place(&mut first).await);
    let sse = |from: &str| {
        let client = crate::support::api::http().local_address(Some(from.parse().unwrap())).build();
        client.unwrap().get(format!("{}/v1/feeds/show/sse", app.url())).send()
    };
    let second = sse("127.0.0.9").await.unwrap();
    assert_eq!(second.status(), 200);
    let third = sse("127.0.0.9").await.unwrap();
    assert_eq!(third.status(), 429);
    assert!(third.headers().contains_key("retry-after"));
    assert!(third.text().await.unwrap().contains("/problems/too-many-connections"));
    let third = sse("127.0.0.8").await.unwrap();
    assert_eq!(third.status(), 200);
    let fourth = sse("127.0.0.7").await.unwrap();
    assert_eq!(fourth.status(), 503);
    assert!(fourth.text().await.unwrap().contains("/problems/no-place"));
    let mut fifth = connect(&app, PATH, &[], LOCAL).await.unwrap();
    assert!(!has_place(&mut fifth).await);
    let _held = (second, third);
    ask(&app, "GET /v1/feeds/show", &[], None).await;
}

#[tokio::test]
async fn loopback_is_not_counted_unless_asked_and_proxies_are_believed_when_trusted() {
    let plain = TestApp::with(&Backing::folder(), |config| config.limits.watchers_per_address = 1).await;
    let behind = TestApp::with(&Backing::folder(), |config| {
        config.limits.watchers_per_address = 1;
        config.http.trusted_proxies = vec!["127.0.0.0/30".into()];
    })
    .await;
    let mut held = vec![];
    for _ in 0..3 {
        let claim = [("x-forwarded-for", "192.0.2.1")];
        let mut socket = connect(&plain, PATH, &claim, LOCAL).await.unwrap();
        assert!(has_place(&mut socket).await, "nobody is believed here");
        held.push(socket);
    }
    for (chain, has) in [
        ("192.0.2.1", true),
        ("192.0.2.2", true),
        ("192.0.2.1", false),
        ("203.0.113.9, 192.0.2.1", false),
        ("203.0.113.9, 192.0.2.1, 127.0.0.2", false),
        ("2001:db8::1", true),
        ("2001:db8::2", false),
        ("2001:db8:0:1::2", true),
    ] {
        let mut socket = connect(&behind, PATH, &[("x-forwarded-for", chain)], LOCAL).await.unwrap();
        assert_eq!(has_place(&mut socket).await, has, "{chain}");
        held.push(socket);
    }
}
