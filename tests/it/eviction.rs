//! A Redis that lets go of keys when its memory is full: the gateway says so before it happens, and what went with a
//! ledger is counted and said.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::stores::Corner;

fn tell(server: &RedisServer, command: &[&str]) {
    let mut tell = redis::cmd(command[0]);
    command[1..].iter().for_each(|word| {
        tell.arg(word);
    });
    tell.query::<redis::Value>(&mut server.connect()).unwrap();
}

async fn metric(gateway: &Process, name: &str) -> u64 {
    let text = gateway.get("/metrics").await.text;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name}:\n{text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_policy_of_redis_is_reported_at_start() {
    let server = Arc::new(RedisServer::start());
    let backing = Backing::corner(Corner::of(server.clone()));
    tell(&server, &["CONFIG", "SET", "maxmemory", "100mb"]);
    for (policy, evicts, words) in [
        ("allkeys-lru", 1, "lets go of whatever it holds"),
        ("volatile-ttl", 1, "lets go of ids"),
        ("noeviction", 0, "connected to Redis"),
    ] {
        tell(&server, &["CONFIG", "SET", "maxmemory-policy", policy]);
        let gateway = Process::on(&backing);
        let said = gateway.wait_for_words(words);
        assert_eq!(metric(&gateway, "tipcast_redis_may_evict").await, evicts, "{policy}");
        assert!(said.matches("lets go of").count() as u64 <= evicts, "once for a server: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_told_to_evict_under_a_running_gateway_is_noticed() {
    let server = Arc::new(RedisServer::start());
    tell(&server, &["CONFIG", "SET", "maxmemory", "100mb"]);
    let gateway = Process::on(&Backing::corner(Corner::of(server.clone())));
    for (policy, evicts, words) in
        [("allkeys-lru", 1, "lets go of whatever it holds"), ("noeviction", 0, "lets go of nothing any more")]
    {
        tell(&server, &["CONFIG", "SET", "maxmemory-policy", policy]);
        gateway.wait_for_words(words);
        assert_eq!(metric(&gateway, "tipcast_redis_may_evict").await, evicts, "{policy}");
        let ready = gateway.get("/readyz").await;
        assert_eq!(ready.status, 200, "{}", ready.text);
        let warning = ready.json()["warning"].as_str().unwrap_or_default().to_owned();
        assert_eq!(warning.contains("set maxmemory-policy noeviction"), evicts == 1, "{warning:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_went_is_counted_by_its_true_number_and_said_once() {
    let corner = Corner::of(Arc::new(RedisServer::start()));
    let gateway = Process::on(&Backing::corner(corner.clone()));
    let claim = async |max: u64| -> Value {
        let ask = json!({"consumer": "c", "max": max}).to_string();
        gateway.call("POST", "/v1/feeds/show/groups/g/claim", Some(&ask)).await.json()
    };
    claim(1).await;
    for n in 0..7 {
        gateway.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    assert_eq!(claim(2).await["entries"].as_array().unwrap().len(), 2);
    // Just what an eviction does.
    tell(&corner.server, &["DEL", &format!("{}{{show}}:ledger", corner.prefix)]);
    for n in 7..10 {
        gateway.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let view = gateway.get("/v1/feeds/show/groups/g").await.json();
    assert_eq!((&view["lost"], &view["lag"], &view["pending"]), (&json!(7), &json!(3), &json!(0)), "{view}");
    assert_eq!(metric(&gateway, "tipcast_report_lost_total").await, 7);
    let said = gateway.wait_for_words("Redis let go of a ledger");
    assert_eq!(said.matches("let go of a ledger").count(), 1);
    let rest = claim(9).await;
    let entries = rest["entries"].as_array().unwrap();
    assert_eq!(
        (&entries[0]["type"], &entries[0]["lost"]["count"]),
        (&json!("ledger.lost"), &json!(5)),
        "two were pending"
    );
    let ids: Vec<&str> = entries[1..].iter().map(|it| it["gift"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["g7", "g8", "g9"]);
}
