//! What is special to the Redis engine: a store that forgets scripts, loses keys, goes back, freezes,
//! dies, or is not what it was.

mod form;
mod idle;
mod keeping;
mod lost_state;
mod outages;
mod presence;
mod publishing;
mod reports;
mod rights;
mod walks;

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tipcast::domain::{
    Answer, Change, Dedup, FeedId, Gift, MAX_SAFE, Millis, Op, Outcome, Policy, PolicyPatch, Position, Status,
};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Missed, Notice, PolicyChange, Store, StoreError, Subscription};

use crate::support::redis_server::RedisServer;

const NOW: Millis = Millis(1_800_000_000_000);

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

async fn engine_on(server: &RedisServer) -> Store {
    engine_by(server, false).await
}

/// One whose time is the server's, as a gateway's is, or what its callers say.
async fn engine_by(server: &RedisServer, store_clock: bool) -> Store {
    Store::redis(StoreOptions { store_clock, ..StoreOptions::new(server.url()) }).await.unwrap()
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

async fn post(engine: &Store, id: &str) -> Answer {
    new(engine.publish(&feed(), vec![gift(id)], NOW).await.unwrap().remove(0))
}

fn new(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::New(answer) => answer,
        other => panic!("wanted a new answer, got {other:?}"),
    }
}

async fn at(engine: &Store) -> Position {
    engine.read_snapshot(&feed(), NOW).await.unwrap().at
}

async fn ids(engine: &Store) -> Vec<String> {
    let rows = engine.read_snapshot(&feed(), NOW).await.unwrap().rows;
    rows.iter()
        .map(|row| serde_json::from_str::<serde_json::Value>(&row.gift).unwrap()["id"].to_string())
        .collect()
}

async fn next(subscription: &mut Subscription) -> Notice {
    let notice = tokio::time::timeout(PATIENCE, subscription.next()).await;
    notice.expect("a notice in time").expect("an open subscription")
}

/// Waits until a notice announces this change.
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

/// Calls until it works.
async fn heals(engine: &Store, id: &str) -> Answer {
    let since = Instant::now();
    loop {
        match engine.publish(&feed(), vec![gift(id)], NOW).await {
            Ok(mut outcomes) => match outcomes.remove(0) {
                Outcome::New(answer) | Outcome::Duplicate(answer) => return answer,
                other => panic!("{other:?}"),
            },
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(other) => panic!("{other:?}"),
        }
        assert!(since.elapsed() < PATIENCE, "it does not heal");
    }
}

fn every_key(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connect()).unwrap();
    keys.sort();
    keys
}

/// All keys but the mark of the form.
fn keys(server: &RedisServer) -> Vec<String> {
    every_key(server).into_iter().filter(|key| !key.ends_with(":form")).collect()
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
    every_key(server).into_iter().map(dumped).collect()
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
