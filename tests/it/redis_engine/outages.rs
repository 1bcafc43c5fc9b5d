//! A store that is not there, not answering, or not fit.

use super::*;
use crate::support::case::Case;
use crate::support::gifts::gift as spec;
use crate::support::stores::{Corner, Storage};

#[tokio::test]
async fn a_bad_url_and_a_bad_prefix_are_said_at_once() {
    for url in ["", "http://localhost", "redis://", "redis+cluster://", "redis+sentinel://localhost"] {
        let opened = Store::redis(StoreOptions::new(url)).await;
        assert!(matches!(opened.as_ref().err(), Some(StoreError::Open(why)) if why.len() > 20), "{url}");
    }
    let options = StoreOptions { prefix: "{x}".into(), ..StoreOptions::new("redis://127.0.0.1:1") };
    assert!(matches!(Store::redis(options).await.err(), Some(StoreError::Open(_))));
}

/// A server that is as old as this, and agrees to everything else.
fn old_server(version: &'static str) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                // *N, then $LENGTH and WORD N times.
                while let Some(Ok(head)) = lines.next() {
                    let count: usize = head[1..].parse().unwrap();
                    let words: Vec<String> = (0..count).map(|_| lines.nth(1).unwrap().unwrap()).collect();
                    let info = format!("redis_version:{version}\r\n");
                    let reply = match words[0].as_str() {
                        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
                        _ => "+OK\r\n".to_owned(),
                    };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_is_too_old_is_said_at_once() {
    let port = old_server("6.2.14");
    let opened = Store::redis(StoreOptions::new(format!("redis://127.0.0.1:{port}/"))).await;
    assert!(
        matches!(opened.as_ref().err(), Some(StoreError::Open(why)) if why.contains("6.2.14") && why.contains("7.0")),
        "{:?}",
        opened.err()
    );
}

#[tokio::test]
async fn a_redis_that_is_down_at_the_start_is_waited_for() {
    let mut server = RedisServer::start();
    server.kill();
    let engine = engine_on(&server).await;
    let since = Instant::now();
    for _ in 0..50 {
        let refused = engine.publish(&feed(), vec![gift("a")], NOW).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        assert!(matches!(engine.subscribe(&feed()).await, Err(StoreError::Unavailable(_))));
        assert!(matches!(engine.probe_store().await, Err(StoreError::Unavailable(_))));
    }
    // Each that waited for its time would take two seconds.
    assert!(since.elapsed() < PATIENCE, "calls fail at once while it is down");
    server.start_again();
    let answer = heals(&engine, "a").await;
    assert_eq!(answer.status, Status::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_redis_is_unavailable_and_heals() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    post(&engine, "a").await;
    server.freeze();
    let frozen = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200 {
        let engine = engine.clone();
        calls.spawn(async move { engine.publish(&feed(), vec![gift(&format!("f{n}"))], NOW).await });
    }
    // One after the other they would take 400 seconds.
    let all = tokio::time::timeout(PATIENCE, calls.join_all()).await.expect("no call hangs");
    assert!(all.iter().all(|result| matches!(result, Err(StoreError::Unavailable(_)))), "{all:?}");
    assert!(engine.probe_store().await.is_err());
    // Once every connection was given up, calls fail at once: ten take less time than one that waits.
    loop {
        let since = Instant::now();
        for _ in 0..10 {
            assert!(engine.read_snapshot(&feed(), NOW).await.is_err());
        }
        if since.elapsed() < Duration::from_secs(2) {
            break;
        }
        assert!(frozen.elapsed() < PATIENCE, "it is not known to be down");
    }
    server.thaw();
    let answer = heals(&engine, "after").await;
    told_lost(&mut subscription).await;
    let thawed = Instant::now();
    while engine.probe_store().await.is_err() {
        assert!(thawed.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(at(&engine).await.epoch, answer.at.epoch);
}

#[tokio::test]
async fn changes_read_after_a_loss_may_repeat_once() {
    let server = Arc::new(RedisServer::start());
    let mut t = Case::on(Storage::Redis(Corner::of(server.clone()))).await;
    t.accepted(spec("a").kind("a")).await;
    for round in ["b", "c"] {
        let mut other = t.engine.subscribe(&t.feed).await.unwrap();
        server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        told_lost(&mut other).await;
        // The case's own subscription got the same, and has not looked. What is published from here on reaches it
        // behind that, and read by it from history before.
        for n in 0..3 {
            t.accepted(spec(&format!("{round}{n}")).kind(&format!("{round}{n}"))).await;
        }
    }
    assert_eq!(t.list().await.at.seq, 7);
}

#[tokio::test]
async fn a_killed_redis_comes_back_with_everything_and_subscriptions_go_on() {
    let mut server = RedisServer::durable();
    let engine = engine_on(&server).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    let before = post(&engine, "a").await;
    told_of(&mut subscription, &before.at).await;
    server.kill();
    assert!(matches!(engine.read_snapshot(&feed(), NOW).await, Err(StoreError::Unavailable(_))));
    server.start_again();
    let after = heals(&engine, "b").await;
    assert_eq!((after.at.seq, ids(&engine).await.len()), (2, 2), "nothing was lost");
    assert_ne!(after.at.epoch, before.at.epoch, "which a server that was started again cannot prove");
    told_lost(&mut subscription).await;
    let last = heals(&engine, "c").await;
    told_of(&mut subscription, &last.at).await;
    let since = Instant::now();
    while let Err(error) = engine.probe_store().await {
        assert!(since.elapsed() < PATIENCE, "{error}");
    }
}

#[tokio::test]
async fn a_read_only_replica_is_unavailable_and_a_demoted_primary_too() {
    let primary = RedisServer::start();
    let replica = RedisServer::replica_of(&primary);
    let engine = engine_on(&replica).await;
    let refused = engine.publish(&feed(), vec![gift("a")], NOW).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("replica")), "{refused:?}");
    run(&replica, &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(heals(&engine, "a").await.status, Status::Accepted);
    run(&replica, &["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let refused = engine.publish(&feed(), vec![gift("b")], NOW).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("replica")), "{refused:?}");
}

#[tokio::test]
async fn a_server_without_memory_or_credentials_says_what_to_do() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    post(&engine, "a").await;
    run(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let before = dump(&server);
    let refused = engine.publish(&feed(), vec![gift("b")], NOW).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("maxmemory")),
        "{refused:?}"
    );
    assert_eq!(dump(&server), before, "nothing was written");
    run(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(post(&engine, "b").await.at.seq, 2);
    run(&server, &["CONFIG", "SET", "requirepass", "secret"]);
    let engine = engine_on(&server).await;
    let refused = engine.publish(&feed(), vec![gift("c")], NOW).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("credentials")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_closed_engine_ends_subscriptions_and_refuses_calls() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    engine.close().await;
    assert!(tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().is_none());
    assert!(matches!(engine.publish(&feed(), vec![gift("a")], NOW).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(engine.subscribe(&feed()).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(engine.probe_store().await, Err(StoreError::Unavailable(_))));
}
