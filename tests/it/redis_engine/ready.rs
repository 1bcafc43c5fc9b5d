//! Gifts whose texts are made before the script runs: what they leave is what the script leaves that makes them itself, and
//! nothing is written where the feed is not what was thought.

use std::collections::BTreeMap;

use super::*;
use crate::support::dice::{Dice, seeds};
use tipcast::engine::record::{entry_extra, push_body};
use tipcast::engine::redis::scripts;
use tipcast::engine::{Publish, ReportLimits, SetPolicy};

/// A key's type, content and milliseconds to live.
type Key = (String, Vec<String>, i64);

/// The last runs of scripts, the newest first, by their SHA-1. Needs `slowlog-log-slower-than` 0.
fn last_scripts(server: &RedisServer) -> Vec<String> {
    let log: Vec<Vec<redis::Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(100_000).query(&mut server.connect()).unwrap();
    let words = |entry: &Vec<redis::Value>| redis::from_redis_value::<Vec<String>>(entry[3].clone()).ok();
    let words = log.iter().filter_map(words).filter(|words| words[0].eq_ignore_ascii_case("evalsha"));
    words.map(|words| words[1].clone()).collect()
}

fn sha(script: &scripts::Script) -> String {
    redis::Script::new(&script.source()).get_hash().to_owned()
}

/// Runs that wrote ready-made texts, of the last ones.
fn ready_runs(server: &RedisServer) -> usize {
    let ready = sha(&scripts::READY_PUBLISH);
    last_scripts(server).iter().filter(|run| **run == ready).count()
}

/// Everything that is stored.
fn stored(server: &RedisServer) -> BTreeMap<String, Key> {
    let mut redis = server.connect();
    let keys: Vec<String> = redis::cmd("KEYS").arg("tc:{*").query(&mut redis).unwrap();
    let mut all = BTreeMap::new();
    for key in keys {
        let mut ask = |words: &[&str]| -> redis::Value {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            command.query(&mut redis).unwrap()
        };
        let kind: String = redis::from_redis_value(ask(&["TYPE", &key])).unwrap();
        let ttl: i64 = redis::from_redis_value(ask(&["PTTL", &key])).unwrap();
        let content = match kind.as_str() {
            "string" => vec![redis::from_redis_value(ask(&["GET", &key])).unwrap()],
            "list" => redis::from_redis_value(ask(&["LRANGE", &key, "0", "-1"])).unwrap(),
            "hash" => {
                let rows: BTreeMap<String, String> =
                    redis::from_redis_value(ask(&["HGETALL", &key])).unwrap();
                rows.into_iter().map(|(id, row)| format!("{id}={row}")).collect()
            }
            other => panic!("{key} is a {other}"),
        };
        all.insert(key, (kind, content, ttl));
    }
    all
}

/// Puts back what was stored.
fn restore(server: &RedisServer, was: &BTreeMap<String, Key>) {
    let mut redis = server.connect();
    let mut run = |words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.exec(&mut redis).unwrap();
    };
    run(&["FLUSHDB"]);
    for (key, (kind, content, ttl)) in was {
        match kind.as_str() {
            "string" => run(&["SET", key, &content[0]]),
            "list" => content.iter().for_each(|it| run(&["RPUSH", key, it])),
            _ => content.iter().for_each(|it| {
                let (id, row) = it.split_once('=').unwrap();
                run(&["HSET", key, id, row]);
            }),
        }
        if *ttl > 0 {
            run(&["PEXPIRE", key, &ttl.to_string()]);
        }
    }
}

fn some_gift(dice: &mut Dice, id: &str) -> Gift {
    let name = dice.of(&["Ann", "Zoë ☃ \"quoted\"", "名無し", "a\\b", ""]);
    let user = json!({"id": format!("u{}", dice.below(1_000_000)), "name": if name.is_empty() { "-" } else { name }});
    let mut gift = json!({"id": id, "user": user, "gift": {"id": dice.of(&["rose", "🚀"]), "name": "R"}});
    if dice.one_in(2) {
        gift["count"] = (1 + dice.below(1_000)).into();
    }
    if dice.one_in(2) {
        gift["value"] = json!({"amount": dice.below(1 << 40), "currency": "EUR"});
    }
    if dice.one_in(2) {
        gift["message"] = dice.of(&["hi", "line\nbreak \u{7f} ünï", "👍"]).into();
    }
    if dice.one_in(3) {
        gift["tier"] = dice.below(6).into();
    }
    if dice.one_in(3) {
        gift["meta"] = json!({"k": "v w"});
    }
    gift_of(gift)
}

/// Runs the script that makes the texts itself, with the inputs of what another left; true when it took the gifts.
fn run_plain(
    server: &RedisServer,
    policy: &Policy,
    ledger_max: u64,
    gifts: &[Gift],
    now: Millis,
    after: &BTreeMap<String, Key>,
) -> bool {
    let key = |name: &str| format!("tc:{{room1}}:{name}");
    let meta = &after[&key("meta")].1[0];
    let tag = meta.split(' ').nth(2).unwrap();
    let text = |name: &str, at: usize| {
        after.get(&key(name)).map(|it| it.1[0].split(' ').nth(at).unwrap().to_owned()).unwrap_or_default()
    };
    let epoch = text("meta", 0);
    let life = epoch.get(epoch.len().saturating_sub(5)..).filter(|_| epoch.len() > 5).unwrap_or("00000");
    let locks = if policy.dedup == Dedup::Off { 0 } else { policy.dedup_window_ms };
    let rules = format!(
        "{} {} {} {} {locks} {} {ledger_max} {}",
        now.0,
        policy.capacity,
        policy.history,
        policy.idempotency_window_ms,
        text("reports", 1),
        life
    );
    let overrides = after.get(&key("policy")).map(|it| it.1[0].clone()).unwrap_or_default();
    let names = ["rows", "hist", "ledger", "list", "meta", "policy", "reports", "blocks"];
    let mut keys: Vec<String> = names.map(key).into();
    let mut args = vec![tag.to_owned(), String::new(), key("live"), overrides, rules];
    for gift in gifts {
        keys.push(key(&format!("id:{}", gift.id)));
        keys.push(key(&format!("lock:{}", tipcast::domain::row::lock_key(gift))));
        let mut body = String::new();
        push_body(&mut body, gift, "");
        let part = match &gift.value {
            Some(value) => format!("{}:{}:{}", gift.count, value.amount, value.currency),
            None => format!("{}::", gift.count),
        };
        args.extend([gift.fingerprint.to_string(), body, entry_extra(gift), part]);
    }
    let mut command = redis::cmd("EVAL");
    command.arg(scripts::PUBLISH_PLAIN.source()).arg(keys.len()).arg(keys).arg(args);
    let said: Vec<String> = command.query(&mut server.connect()).unwrap();
    !said[0].is_empty()
}

/// What the history must hold is its end: how often the rest is trimmed is each script's own.
fn only_covered(mut all: BTreeMap<String, Key>) -> BTreeMap<String, Key> {
    let meta: Vec<u64> =
        all["tc:{room1}:meta"].1[0].split(' ').map(|word| word.parse().unwrap_or_default()).collect();
    let keep = (meta[1] - meta[3]) as usize;
    let hist = &mut all.get_mut("tc:{room1}:hist").unwrap().1;
    assert!(hist.len() >= keep && hist.len() <= keep + 32, "{} of {keep}", hist.len());
    hist.drain(..hist.len() - keep);
    all
}

#[tokio::test]
async fn ready_made_texts_leave_in_every_key_what_the_script_leaves_that_makes_them() {
    let server = RedisServer::start();
    run(&server, &["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000"]);
    let mut compared = 0;
    for seed in seeds(0..12) {
        let mut dice = Dice(seed);
        run(&server, &["FLUSHALL"]);
        let patch = PolicyPatch {
            capacity: Some(dice.of(&[1, 2, 5, 10])),
            dedup: Some(dice.of(&[Dedup::Off, Dedup::Combine, Dedup::Drop])),
            history: Some(dice.of(&[1, 7, 40, 1_024])),
            idempotency_window_ms: Some(dice.of(&[1_000, 86_400_000])),
            ..PolicyPatch::default()
        };
        let ledger_max = dice.of(&[40, 10_000]);
        let reports = ReportLimits { ledger_max, ..ReportLimits::default() };
        let options = || RedisOptions { store_clock: false, reports, ..RedisOptions::new(server.url()) };
        let nodes = [Engine::redis(options()).await.unwrap(), Engine::redis(options()).await.unwrap()];
        let own_policy = dice.one_in(2);
        let patch = if own_policy { patch } else { PolicyPatch::default() };
        if own_policy {
            nodes[0]
                .run(SetPolicy { feed: feed(), change: PolicyChange::Merge(patch.clone()), now: NOW })
                .await
                .unwrap();
        }
        let policy = Policy::default().with(&patch);
        let mut now = NOW;
        for n in 0..40 {
            now = Millis(now.0 + dice.below(3) as i64 * 400);
            let gifts: Vec<Gift> =
                (0..dice.of(&[1, 1, 2, 3, 12])).map(|k| some_gift(&mut dice, &format!("g{n}-{k}"))).collect();
            if dice.one_in(20) {
                restart_numbering(&server, &mut dice);
            }
            let node = &nodes[usize::from(dice.one_in(5))];
            let before = stored(&server);
            run(&server, &["SLOWLOG", "RESET"]);
            let outcomes = node.run(Publish { feed: feed(), gifts: gifts.clone(), now }).await.unwrap();
            assert!(outcomes.iter().all(|it| matches!(it, Outcome::New(_))), "seed {seed}: {outcomes:?}");
            let wrote_last = last_scripts(&server).first().cloned();
            if wrote_last != Some(sha(&scripts::READY_PUBLISH)) {
                continue;
            }
            let after = stored(&server);
            restore(&server, &before);
            if !run_plain(&server, &policy, ledger_max, &gifts, now, &after) {
                // A list that was evicted is written anew here, and makes the other refuse.
                assert!(!before.contains_key("tc:{room1}:list"), "seed {seed}, call {n}: {before:#?}");
                restore(&server, &after);
                continue;
            }
            let by_plain = stored(&server);
            let (ours, theirs) = (only_covered(after.clone()), only_covered(by_plain));
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "seed {seed}");
            for (key, (kind, content, ttl)) in &ours {
                let other = &theirs[key];
                assert_eq!((kind, content), (&other.0, &other.1), "seed {seed}, call {n}: {key}");
                assert!((ttl - other.2).abs() < 30_000, "{key}: {ttl} and {}", other.2);
            }
            restore(&server, &after);
            compared += 1;
        }
    }
    assert!(compared > 100 || std::env::var("TIPCAST_SEED").is_ok(), "{compared}");
}

/// Something of the feed is gone, so that the next gift begins anew or finds the list as it was.
fn restart_numbering(server: &RedisServer, dice: &mut Dice) {
    let key = dice.of(&["list", "rows", "hist", "meta"]);
    run(server, &["DEL", &format!("tc:{{room1}}:{key}")]);
}

#[tokio::test]
async fn what_was_evicted_or_garbled_between_two_gifts_is_never_half_written() {
    let server = RedisServer::start();
    for (key, kept) in [("list", 10), ("rows", 1), ("hist", 10), ("ledger", 10), ("reports", 10)] {
        for few in [true, false] {
            run(&server, &["FLUSHALL"]);
            let engine = engine_on(&server).await;
            for n in 0..if few { 5 } else { 14 } {
                post(&engine, &format!("g{n}")).await;
            }
            let before = at(&engine).await;
            run(&server, &["DEL", &format!("tc:{{room1}}:{key}")]);
            let entries = || -> u64 {
                redis::cmd("LLEN").arg("tc:{room1}:ledger").query(&mut server.connect()).unwrap()
            };
            let had = entries();
            let after = post(&engine, "next").await.at;
            let wanted = if kept == 10 && few { 6 } else { kept };
            assert_eq!(ids(&engine).await.len(), wanted, "{key} {few}");
            // Without its numbers a ledger begins anew.
            let wanted = if key == "reports" { 1 } else { had + 1 };
            assert_eq!(entries(), wanted, "{key} {few}: one gift, one entry");
            assert_eq!(after.epoch == before.epoch, !matches!(key, "rows" | "hist"), "{key} {few}");
            assert_eq!(at(&engine).await, after);
        }
    }
}

#[tokio::test]
async fn two_nodes_that_post_in_turn_cost_two_runs_a_gift_and_never_lose_one() {
    let server = RedisServer::start();
    run(&server, &["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000"]);
    let nodes = [engine_on(&server).await, engine_on(&server).await];
    // Each learns that it is not alone.
    for n in 0..12 {
        post(&nodes[n % 2], &format!("first{n}")).await;
    }
    run(&server, &["SLOWLOG", "RESET"]);
    let mut last = at(&nodes[0]).await.seq;
    run(&server, &["SLOWLOG", "RESET"]);
    for n in 0..20 {
        let seq = post(&nodes[n % 2], &format!("g{n}")).await.at.seq;
        assert_eq!(seq, last + 1);
        last = seq;
    }
    assert_eq!((ready_runs(&server), last_scripts(&server).len()), (20, 40), "a look and a gift each");
    // Alone again, a node stops looking.
    for n in 0..3 {
        post(&nodes[0], &format!("h{n}")).await;
    }
    run(&server, &["SLOWLOG", "RESET"]);
    for n in 0..10 {
        post(&nodes[0], &format!("i{n}")).await;
    }
    assert_eq!((ready_runs(&server), last_scripts(&server).len()), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_post_to_one_feed_at_the_same_time_take_every_gift_once() {
    let server = RedisServer::start();
    let options = || RedisOptions::new(server.url());
    let nodes = [Engine::redis(options()).await.unwrap(), Engine::redis(options()).await.unwrap()];
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200usize {
        let engine = nodes[n % 2].clone();
        calls.spawn(async move {
            let answer = engine
                .run(Publish { feed: feed(), gifts: vec![gift(&format!("g{n}"))], now: NOW })
                .await
                .unwrap()
                .remove(0);
            let again = engine
                .run(Publish { feed: feed(), gifts: vec![gift(&format!("g{n}"))], now: NOW })
                .await
                .unwrap()
                .remove(0);
            let answer = new(answer);
            assert!(matches!(&again, Outcome::Duplicate(same) if same.at == answer.at), "{again:?}");
            answer.at.seq
        });
    }
    let mut all = vec![];
    while let Some(seq) = calls.join_next().await {
        all.push(seq.unwrap());
    }
    all.sort();
    assert_eq!(all, (1..=200).collect::<Vec<u64>>());
}
