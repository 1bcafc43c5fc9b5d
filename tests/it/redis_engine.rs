//! What is special to the Redis engine: a store that forgets scripts, loses keys, goes back, freezes,
//! dies, or is not what it was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tipcast::domain::{
    Answer, Change, FeedId, Gift, MAX_SAFE, Millis, Op, Outcome, Policy, PolicyPatch, Position, Status,
};
use tipcast::engine::redis::{RedisEngine, RedisOptions};
use tipcast::engine::{Engine, EngineError, Missed, Notice, PolicyChange, Subscription};

use crate::support::redis_server::RedisServer;

const NOW: Millis = Millis(1_800_000_000_000);

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

async fn engine_on(server: &RedisServer) -> Arc<RedisEngine> {
    let options = RedisOptions { store_clock: false, ..RedisOptions::new(server.url()) };
    RedisEngine::open(options).await.unwrap()
}

fn feed() -> FeedId {
    "room1".parse().unwrap()
}

fn gift_of(json: serde_json::Value) -> Gift {
    let raw = RawValue::from_string(json.to_string()).unwrap();
    Gift::parse(&raw, None).unwrap()
}

/// A gift of a kind of its own, so that it is a row of its own.
fn gift(id: &str) -> Gift {
    gift_of(json!({"id": id, "user": {"id": "ann", "name": "Ann"}, "gift": {"id": id, "name": "Rose"}}))
}

async fn post(engine: &RedisEngine, id: &str) -> Answer {
    new(engine.publish(&feed(), vec![gift(id)], NOW).await.unwrap().remove(0))
}

fn new(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::New(answer) => answer,
        other => panic!("wanted a new answer, got {other:?}"),
    }
}

async fn at(engine: &RedisEngine) -> Position {
    engine.snapshot(&feed(), NOW).await.unwrap().at
}

async fn ids(engine: &RedisEngine) -> Vec<String> {
    let rows = engine.snapshot(&feed(), NOW).await.unwrap().rows;
    rows.iter()
        .map(|row| serde_json::from_str::<serde_json::Value>(&row.gift).unwrap()["id"].to_string())
        .collect()
}

async fn next(subscription: &mut Subscription) -> Notice {
    let notice = tokio::time::timeout(PATIENCE, subscription.next()).await;
    notice.expect("a notice in time").expect("an open subscription")
}

/// Waits until a notice tells of this change.
async fn told_of(subscription: &mut Subscription, at: &Position) -> Change {
    loop {
        if let Notice::Changes(changes) = next(subscription).await
            && let Some(change) = changes.iter().find(|c| c.epoch == at.epoch && c.seq == at.seq)
        {
            return change.clone();
        }
    }
}

async fn told_lost(subscription: &mut Subscription) {
    while !matches!(next(subscription).await, Notice::Lost) {}
}

/// Calls until it works; how long that took.
async fn heals(engine: &RedisEngine, id: &str) -> (Answer, Duration) {
    let since = Instant::now();
    loop {
        match engine.publish(&feed(), vec![gift(id)], NOW).await {
            Ok(mut outcomes) => match outcomes.remove(0) {
                Outcome::New(answer) | Outcome::Duplicate(answer) => return (answer, since.elapsed()),
                other => panic!("{other:?}"),
            },
            Err(EngineError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(other) => panic!("{other:?}"),
        }
        assert!(since.elapsed() < PATIENCE, "it does not heal");
    }
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connect()).unwrap();
    keys.sort();
    keys
}

fn run(server: &RedisServer, words: &[&str]) {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]);
    cmd.query::<redis::Value>(&mut server.connect()).unwrap();
}

/// Every key and its content.
fn dump(server: &RedisServer) -> Vec<(String, Vec<u8>)> {
    let mut connection = server.connect();
    let dumped = |key: String| {
        let content = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
        (key, content)
    };
    keys(server).into_iter().map(dumped).collect()
}

/// What a failover does: the store is as it was then.
fn go_back(server: &RedisServer, then: &[(String, Vec<u8>)]) {
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("FLUSHALL");
    for (key, content) in then {
        pipe.cmd("RESTORE").arg(key).arg(0).arg(content);
    }
    pipe.query::<redis::Value>(&mut server.connect()).unwrap();
}

#[tokio::test]
async fn a_bad_url_and_a_bad_prefix_are_said_at_once() {
    for url in ["", "http://localhost", "redis://", "rediss://localhost"] {
        let opened = RedisEngine::open(RedisOptions::new(url)).await;
        assert!(matches!(opened.as_ref().err(), Some(EngineError::Open(why)) if why.len() > 20), "{url}");
    }
    let options = RedisOptions { prefix: "{x}".into(), ..RedisOptions::new("redis://127.0.0.1:1") };
    assert!(matches!(RedisEngine::open(options).await.err(), Some(EngineError::Open(_))));
}

#[tokio::test]
async fn a_redis_that_is_down_at_the_start_is_waited_for() {
    let mut server = RedisServer::start();
    server.kill();
    let engine = engine_on(&server).await;
    let since = Instant::now();
    for _ in 0..50 {
        let refused = engine.publish(&feed(), vec![gift("a")], NOW).await;
        assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
        assert!(matches!(engine.subscribe(&feed()).await, Err(EngineError::Unavailable(_))));
        assert!(matches!(engine.probe().await, Err(EngineError::Unavailable(_))));
    }
    assert!(since.elapsed() < Duration::from_secs(2), "calls fail at once while it is down");
    server.start_again();
    let (answer, took) = heals(&engine, "a").await;
    assert_eq!(answer.status, Status::Accepted);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    for n in 1..=3 {
        assert_eq!(post(&engine, &format!("g{n}")).await.at.seq, n);
        run(&server, &["SCRIPT", "FLUSH", "SYNC"]);
        let (first, second) = tokio::join!(at(&engine), at(&engine));
        assert_eq!((first.seq, second.seq), (n, n));
        run(&server, &["SCRIPT", "FLUSH", "SYNC"]);
    }
}

#[tokio::test]
async fn two_engines_on_one_redis_see_each_others_changes() {
    let server = RedisServer::start();
    let (one, two) = (engine_on(&server).await, engine_on(&server).await);
    let mut of_one = one.subscribe(&feed()).await.unwrap();
    let mut of_two = two.subscribe(&feed()).await.unwrap();
    let first = post(&one, "a").await;
    let second = post(&two, "b").await;
    for subscription in [&mut of_one, &mut of_two] {
        let a = told_of(subscription, &first.at).await;
        let b = told_of(subscription, &second.at).await;
        assert_eq!((a.prev, b.prev, b.seq), (0, a.tag, 2));
    }
    assert_eq!(one.known(&feed()), Some(second.at.clone()), "a received change counts");
    let patch = PolicyPatch { capacity: Some(1), ..PolicyPatch::default() };
    let policy = one.set_policy(&feed(), PolicyChange::Merge(patch), NOW).await.unwrap();
    assert_eq!((policy.capacity, two.policy(&feed()).await.unwrap()), (1, policy.clone()));
    for subscription in [&mut of_one, &mut of_two] {
        let mut reset = false;
        loop {
            match next(subscription).await {
                Notice::Changes(changes) => reset |= changes.iter().any(|c| c.op == Op::Reset),
                Notice::Policy(told) => break assert_eq!(*told, policy),
                Notice::Lost => {}
            }
        }
        assert!(reset);
    }
    assert_eq!(ids(&two).await, ["\"b\""]);
}

#[tokio::test]
async fn reading_and_watching_a_feed_that_nobody_wrote_to_writes_nothing() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let subscription = engine.subscribe(&feed()).await.unwrap();
    assert_eq!(at(&engine).await, Position::start());
    assert_eq!(engine.heads(&[feed()]).await.unwrap()[0].at, Position::start());
    assert_eq!(engine.changes(&feed(), &Position::start(), 9).await, Ok(Missed::Changes(vec![])));
    assert_eq!(engine.policy(&feed()).await, Ok(Policy::default()));
    assert_eq!(engine.retract(&feed(), &"a-1".parse().unwrap(), NOW).await, Ok(None));
    assert!(keys(&server).is_empty(), "{:?}", keys(&server));
    drop(subscription);
}

#[tokio::test]
async fn a_flushed_store_is_an_empty_feed_and_then_a_new_epoch() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let before = post(&engine, "a").await;
    run(&server, &["FLUSHALL"]);
    assert_eq!(engine.heads(&[feed()]).await.unwrap()[0].at, Position::start());
    assert_eq!(at(&engine).await, Position::start());
    assert_eq!(engine.known(&feed()), None);
    let after = post(&engine, "a").await;
    assert_eq!(after.at.seq, 1);
    assert!(after.at.epoch.as_str() > before.at.epoch.as_str());
    assert_eq!(engine.changes(&feed(), &before.at, 9).await, Ok(Missed::NotCovered));
}

#[tokio::test]
async fn a_key_that_was_evicted_is_a_new_epoch_and_never_an_error() {
    for key in ["list", "rows", "hist", "meta", "policy"] {
        for writing in [true, false] {
            let server = RedisServer::start();
            let engine = engine_on(&server).await;
            let mut subscription = engine.subscribe(&feed()).await.unwrap();
            let patch = PolicyPatch { row_ttl_ms: Some(60_000), ..PolicyPatch::default() };
            engine.set_policy(&feed(), PolicyChange::Merge(patch), NOW).await.unwrap();
            for id in ["a", "b", "c"] {
                post(&engine, id).await;
            }
            let before = at(&engine).await;
            told_of(&mut subscription, &before).await;
            run(&server, &["DEL", &format!("tc:{{room1}}:{key}")]);
            if writing {
                let after = post(&engine, "d").await.at;
                assert_eq!(after.epoch != before.epoch, key != "policy", "{key}");
                let rows = ids(&engine).await;
                let kept = matches!(key, "hist" | "policy");
                assert_eq!(rows.len(), if kept { 4 } else { 1 }, "{key}: {rows:?}");
                told_of(&mut subscription, &after).await;
            } else {
                let after = at(&engine).await;
                assert_eq!(after.epoch != before.epoch, key != "policy", "{key}: {after}");
                assert_eq!(ids(&engine).await.len(), if matches!(key, "hist" | "policy") { 3 } else { 0 });
                if key != "policy" {
                    told_lost(&mut subscription).await;
                    assert_eq!(engine.changes(&feed(), &before, 9).await, Ok(Missed::NotCovered));
                }
            }
            let last = post(&engine, "e").await;
            assert_eq!(at(&engine).await, last.at);
        }
    }
}

#[tokio::test]
async fn a_store_that_went_back_gets_a_new_epoch() {
    for write_first in [false, true] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        let (_, then) = (post(&engine, "a").await, post(&engine, "b").await);
        let saved = dump(&server);
        let later = post(&engine, "c").await;
        let mut subscription = engine.subscribe(&feed()).await.unwrap();
        go_back(&server, &saved);
        assert_eq!(engine.heads(&[feed()]).await.unwrap()[0].at, then.at, "heads only tell");
        assert_eq!(engine.changes(&feed(), &then.at, 9).await, Ok(Missed::NotCovered));
        let now = if write_first { post(&engine, "d").await.at } else { at(&engine).await };
        assert!(now.epoch.as_str() > later.at.epoch.as_str());
        assert_eq!(now.seq, then.at.seq + u64::from(write_first), "the numbers go on from the store's");
        told_lost(&mut subscription).await;
        assert_eq!(ids(&engine).await.len(), 2 + usize::from(write_first), "the rows are the store's");
        assert_eq!(at(&engine).await, now, "once is enough");
        assert_eq!(engine.known(&feed()), Some(now));
    }
}

#[tokio::test]
async fn a_store_that_went_back_and_moved_on_past_us_gets_a_new_epoch() {
    for further in [1, 2, 5] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        post(&engine, "a").await;
        let saved = dump(&server);
        post(&engine, "b").await;
        let later = post(&engine, "c").await;
        let mut subscription = engine.subscribe(&feed()).await.unwrap();
        go_back(&server, &saved);
        // A node that knows nothing of b and c.
        let other = engine_on(&server).await;
        let mut last = None;
        for n in 0..1 + further {
            last = Some(post(&other, &format!("other-{n}")).await.at);
        }
        let last = last.unwrap();
        assert_eq!(last.epoch, later.at.epoch);
        told_of(&mut subscription, &last).await;
        assert_eq!(engine.known(&feed()), Some(later.at.clone()), "another's word is not enough");
        let now = at(&engine).await;
        assert!(now.epoch.as_str() > later.at.epoch.as_str(), "{now} after {}", later.at);
        assert_eq!(now.seq, last.seq);
        assert_eq!(at(&other).await, now);
    }
}

#[tokio::test]
async fn a_store_that_went_back_to_an_earlier_life_gets_a_new_epoch() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    post(&engine, "a").await;
    let saved = dump(&server);
    run(&server, &["FLUSHALL"]);
    let second = post(&engine, "b").await;
    go_back(&server, &saved);
    let now = at(&engine).await;
    assert!(now.epoch.as_str() > second.at.epoch.as_str());
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
        calls.spawn(async move {
            let since = Instant::now();
            let result = engine.publish(&feed(), vec![gift(&format!("f{n}"))], NOW).await;
            (result, since.elapsed())
        });
    }
    while let Some(done) = calls.join_next().await {
        let (result, took) = done.unwrap();
        assert!(matches!(result, Err(EngineError::Unavailable(_))), "{result:?}");
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    let since = Instant::now();
    assert!(engine.probe().await.is_err() && since.elapsed() < Duration::from_secs(3));
    // Long enough for every connection to be given up.
    while frozen.elapsed() < Duration::from_secs(5) {
        let since = Instant::now();
        assert!(engine.snapshot(&feed(), NOW).await.is_err());
        assert!(since.elapsed() < Duration::from_secs(4));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let since = Instant::now();
    assert!(engine.snapshot(&feed(), NOW).await.is_err());
    assert!(since.elapsed() < Duration::from_millis(200), "known to be down: {:?}", since.elapsed());
    server.thaw();
    let (answer, took) = heals(&engine, "after").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    told_lost(&mut subscription).await;
    let thawed = Instant::now();
    while engine.probe().await.is_err() {
        assert!(thawed.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(at(&engine).await.epoch, answer.at.epoch);
}

#[tokio::test]
async fn a_killed_redis_comes_back_with_everything_and_subscriptions_go_on() {
    let mut server = RedisServer::durable();
    let engine = engine_on(&server).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    let before = post(&engine, "a").await;
    told_of(&mut subscription, &before.at).await;
    server.kill();
    let since = Instant::now();
    assert!(matches!(engine.snapshot(&feed(), NOW).await, Err(EngineError::Unavailable(_))));
    assert!(since.elapsed() < Duration::from_secs(1));
    server.start_again();
    let (after, took) = heals(&engine, "b").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(after.at, Position { epoch: before.at.epoch, seq: 2 }, "nothing was lost");
    told_lost(&mut subscription).await;
    let (last, _) = heals(&engine, "c").await;
    told_of(&mut subscription, &last.at).await;
    engine.probe().await.unwrap();
}

#[tokio::test]
async fn a_read_only_replica_is_unavailable_and_a_demoted_primary_too() {
    let primary = RedisServer::start();
    let replica = RedisServer::replica_of(&primary);
    let engine = engine_on(&replica).await;
    let refused = engine.publish(&feed(), vec![gift("a")], NOW).await;
    assert!(matches!(&refused, Err(EngineError::Unavailable(why)) if why.contains("replica")), "{refused:?}");
    run(&replica, &["REPLICAOF", "NO", "ONE"]);
    assert_eq!(heals(&engine, "a").await.0.status, Status::Accepted);
    run(&replica, &["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let refused = engine.publish(&feed(), vec![gift("b")], NOW).await;
    assert!(matches!(&refused, Err(EngineError::Unavailable(why)) if why.contains("replica")), "{refused:?}");
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
        matches!(&refused, Err(EngineError::Unavailable(why)) if why.contains("maxmemory")),
        "{refused:?}"
    );
    assert_eq!(dump(&server), before, "nothing was written");
    run(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(post(&engine, "b").await.at.seq, 2);
    run(&server, &["CONFIG", "SET", "requirepass", "secret"]);
    let engine = engine_on(&server).await;
    let refused = engine.publish(&feed(), vec![gift("c")], NOW).await;
    assert!(
        matches!(&refused, Err(EngineError::Unavailable(why)) if why.contains("credentials")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn sums_stop_at_the_largest_safe_integer_and_are_exact_below() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let send = async |id: String, amount: u64| {
        let gift =
            gift_of(json!({"id": id, "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"},
            "count": 1_000_000, "value": {"amount": amount, "currency": "EUR"}}));
        new(engine.publish(&feed(), vec![gift], NOW).await.unwrap().remove(0));
        let row = engine.snapshot(&feed(), NOW).await.unwrap().rows[0].clone();
        (row.count, row.value.clone().unwrap().amount)
    };
    assert_eq!(send("a".into(), MAX_SAFE - 3).await, (1_000_000, MAX_SAFE - 3));
    assert_eq!(send("b".into(), 1).await.1, MAX_SAFE - 2);
    assert_eq!(send("c".into(), 1).await.1, MAX_SAFE - 1);
    assert_eq!(send("d".into(), 1).await.1, MAX_SAFE);
    assert_eq!(send("e".into(), 1).await.1, MAX_SAFE);
    assert_eq!(send("f".into(), MAX_SAFE).await, (6_000_000, MAX_SAFE));
    // A count that a float's shortest spelling would round.
    let key = "tc:{room1}:rows";
    let id = engine.snapshot(&feed(), NOW).await.unwrap().rows[0].id.to_string();
    let text: String = redis::cmd("HGET").arg(key).arg(&id).query(&mut server.connect()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[6] = "1234567890123456";
    run(&server, &["HSET", key, &id, &(lines.join("\n") + "\n")]);
    assert_eq!(send("g".into(), 0).await.0, 1_234_567_891_123_456);
}

#[tokio::test]
async fn a_lock_of_one_user_and_kind_never_meets_another() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let send = async |user: &str, kind: &str| {
        let gift = gift_of(json!({"user": {"id": user, "name": "U"}, "gift": {"id": kind, "name": "G"}}));
        new(engine.publish(&feed(), vec![gift], NOW).await.unwrap().remove(0)).status
    };
    let pairs = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a\",\"b", "c"),
        ("a", "b\",\"c"),
        ("a\n", "c"),
        ("a", "\nc"),
        ("a b", "c"),
    ];
    for (user, kind) in pairs {
        assert_eq!(send(user, kind).await, Status::Accepted, "{user} {kind}");
    }
    for (user, kind) in pairs {
        assert_eq!(send(user, kind).await, Status::Merged, "{user} {kind}");
    }
}

#[tokio::test]
async fn junk_under_our_keys_leaves_nothing_half_written() {
    for key in ["list", "rows", "hist", "meta", "policy", "id:b", "lock:[\"ann\",\"b\"]"] {
        for junk in [["SET", "x"], ["LPUSH", "x"], ["SADD", "x"]] {
            let server = RedisServer::start();
            let engine = engine_on(&server).await;
            post(&engine, "a").await;
            let key = format!("tc:{{room1}}:{key}");
            run(&server, &["DEL", &key]);
            run(&server, &[junk[0], &key, junk[1]]);
            let before = dump(&server);
            match engine.publish(&feed(), vec![gift("b")], NOW).await {
                Err(EngineError::Unavailable(why)) => {
                    assert!(why.contains("prefix"), "{key}: {why}");
                    assert_eq!(dump(&server), before, "{key}: nothing was written");
                    run(&server, &["DEL", &key]);
                    post(&engine, "b").await;
                }
                Err(other) => panic!("{other:?}"),
                Ok(outcomes) => {
                    let answer = new(outcomes[0].clone());
                    let list = engine.snapshot(&feed(), NOW).await.unwrap();
                    // A list of the right length that names no row is found out when it is read.
                    let whole = list.at == answer.at && list.rows[0].id == answer.row;
                    assert!(whole || list.at == Position::start(), "{key}: {list:?}");
                }
            }
            let last = post(&engine, "c").await;
            assert_eq!(at(&engine).await, last.at, "{key}");
        }
    }
}

#[tokio::test]
async fn an_idle_feed_expires_as_a_whole_and_its_policy_stays() {
    let server = RedisServer::start();
    let options =
        RedisOptions { store_clock: false, feed_idle_ttl_ms: 300, ..RedisOptions::new(server.url()) };
    let engine = RedisEngine::open(options).await.unwrap();
    let patch = PolicyPatch { capacity: Some(3), ..PolicyPatch::default() };
    engine.set_policy(&feed(), PolicyChange::Merge(patch), NOW).await.unwrap();
    let before = post(&engine, "a").await;
    let since = Instant::now();
    while at(&engine).await != Position::start() {
        assert!(since.elapsed() < PATIENCE, "it expires");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(engine.policy(&feed()).await.unwrap().capacity, 3);
    let after = post(&engine, "b").await;
    assert!(after.at.epoch != before.at.epoch && after.at.seq == 1);
    assert_eq!(ids(&engine).await.len(), 1);
    // Switched off: the next change keeps the feed for ever.
    let engine = engine_on(&server).await;
    post(&engine, "c").await;
    for key in ["list", "rows", "hist", "meta"] {
        let ttl: i64 =
            redis::cmd("PTTL").arg(format!("tc:{{room1}}:{key}")).query(&mut server.connect()).unwrap();
        assert_eq!(ttl, -1, "{key}");
    }
}

#[tokio::test]
async fn another_default_capacity_cuts_the_list_and_tells_the_watchers() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    for n in 0..5 {
        post(&engine, &format!("g{n}")).await;
    }
    let before = at(&engine).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    // The next deploy has another default.
    let defaults = Policy { capacity: 3, ..Policy::default() };
    let options = RedisOptions { store_clock: false, defaults, ..RedisOptions::new(server.url()) };
    let engine = RedisEngine::open(options).await.unwrap();
    let list = engine.snapshot(&feed(), NOW).await.unwrap();
    assert_eq!((list.rows.len(), list.policy.capacity), (3, 3));
    assert_eq!(list.at, Position { seq: before.seq + 1, ..before.clone() });
    assert_eq!(told_of(&mut subscription, &list.at).await.op, Op::Reset);
    assert_eq!(engine.changes(&feed(), &before, 9).await, Ok(Missed::NotCovered));
    assert_eq!(at(&engine).await, list.at, "once");
}

#[tokio::test]
async fn redis_gives_the_time_when_it_is_asked_to() {
    let server = RedisServer::start();
    let engine = RedisEngine::open(RedisOptions::new(server.url())).await.unwrap();
    let long_ago = Millis(1);
    engine.publish(&feed(), vec![gift("a")], long_ago).await.unwrap();
    let list = engine.snapshot(&feed(), long_ago).await.unwrap();
    let now = Millis::now();
    assert!(now.since(list.rows[0].at) < 60_000 && now.since(list.now) < 60_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn gifts_of_one_call_stay_together_whoever_calls_at_the_same_time() {
    let server = RedisServer::start();
    let engine = RedisEngine::open(RedisOptions::new(server.url())).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..300u64 {
        let engine = engine.clone();
        calls.spawn(async move {
            let gifts: Vec<_> = (0..1 + n % 3).map(|g| gift(&format!("{n}-{g}"))).collect();
            let wanted: Vec<_> = gifts.iter().map(|gift| gift.id.clone()).collect();
            let answers = engine.publish(&feed(), gifts, NOW).await.unwrap().into_iter().map(new);
            let answers: Vec<Answer> = answers.collect();
            assert_eq!(answers.iter().map(|a| a.id.clone()).collect::<Vec<_>>(), wanted);
            answers.iter().map(|a| a.at.seq).collect::<Vec<_>>()
        });
    }
    let mut all = vec![];
    while let Some(seqs) = calls.join_next().await {
        let seqs = seqs.unwrap();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
        all.extend(seqs);
    }
    all.sort();
    assert_eq!(all, (1..=600).collect::<Vec<u64>>());
}

#[tokio::test]
async fn nobody_listening_any_more_ends_the_subscription() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let listeners = || {
        let counts: Vec<(String, u64)> =
            redis::cmd("PUBSUB").arg("NUMSUB").arg("tc:{room1}:live").query(&mut server.connect()).unwrap();
        counts[0].1
    };
    let first = engine.subscribe(&feed()).await.unwrap();
    let mut second = engine.subscribe(&feed()).await.unwrap();
    assert_eq!(listeners(), 1, "one for all");
    drop(first);
    let answer = post(&engine, "a").await;
    told_of(&mut second, &answer.at).await;
    drop(second);
    let since = Instant::now();
    while listeners() > 0 {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut again = engine.subscribe(&feed()).await.unwrap();
    let answer = post(&engine, "b").await;
    told_of(&mut again, &answer.at).await;
}

#[tokio::test]
async fn a_closed_engine_ends_subscriptions_and_refuses_calls() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    engine.close().await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().is_none());
    assert!(matches!(engine.publish(&feed(), vec![gift("a")], NOW).await, Err(EngineError::Unavailable(_))));
    assert!(matches!(engine.subscribe(&feed()).await, Err(EngineError::Unavailable(_))));
    assert!(matches!(engine.probe().await, Err(EngineError::Unavailable(_))));
}
