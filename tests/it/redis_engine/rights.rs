//! Rights that are taken from a gateway's Redis user while it runs: no half of a call stays, no feed counts as damaged, and readiness
//! says so.

use serde_json::{Value, json};
use tipcast::engine::protocol::scripts::COMMANDS;

use crate::support::cluster::{Cluster, Plan};
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::redis_server::{AclBlock, RedisServer};

/// A gateway on servers, as the user of the documented line.
struct Bench<'a> {
    gateway: Process,
    servers: &'a [RedisServer],
}

impl Bench<'_> {
    fn set_user(&self, rule: &str) {
        for server in self.servers {
            assert_eq!(server.run(&["ACL", "SETUSER", "tipcast", rule]), "OK");
        }
    }

    /// Waits until readiness says this.
    async fn wait_for_light(&self, is_green: bool, story: &str) {
        let since = std::time::Instant::now();
        while (self.gateway.get("/readyz").await.status == 200) != is_green {
            assert!(since.elapsed() < super::PATIENCE, "{story}: the light is never {is_green}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Whether it was done; nothing but a store that is away may be the reason if not.
    async fn is_done(&self, method: &str, path: &str, body: Value, story: &str) -> bool {
        let said = self.gateway.call(method, path, Some(&body.to_string())).await;
        if said.status == 503 {
            let problem = said.problem(503);
            assert_eq!(problem["type"], "/problems/unavailable", "{story}: {method} {path}: {problem}");
            return false;
        }
        assert!(said.status < 300, "{story}: {method} {path}: {said:?}");
        true
    }
}

async fn summary(gateway: &Process, feed: &str) -> (u64, u64) {
    let said = gateway.get(&format!("/v1/feeds/{feed}/ledger/summary")).await.json();
    let amount =
        said["values"].as_array().and_then(|all| all.first()).map_or(0, |it| it["amount"].as_u64().unwrap());
    (said["entries"].as_u64().unwrap(), amount)
}

/// Each command is taken away in its turn, and calls are made again and again, as clients do that get 503.
async fn nothing_is_done_by_half(url: String, servers: &[RedisServer], prefix: &str) {
    let gateway = Process::start(
        "127.0.0.1:0",
        vec!["--redis".into(), url],
        vec![("TIPCAST_REDIS__PREFIX".into(), prefix.into())],
    );
    let bench = Bench { gateway, servers };
    let gateway = &bench.gateway;
    bench.wait_for_light(true, "start").await;
    let drop = json!({"gift": {"id": "r", "name": "R"}, "total": 1_000, "per_user": 1_000});
    for feed in ["plain", "all"] {
        let path = format!("/v1/feeds/{feed}/drops/rocket");
        assert!(gateway.call("PUT", &path, Some(&drop.to_string())).await.status < 300);
        let claim = json!({"consumer": "a", "max": 1, "from": "now"});
        let path = format!("/v1/feeds/{feed}/groups/game/claim");
        assert!(gateway.call("POST", &path, Some(&claim.to_string())).await.status < 300);
    }
    gateway.patch_policy("all", json!({"totals": ["all", "day"], "points": {"EUR": 1}, "capacity": 3})).await;
    let mut refused = Vec::new();
    for (n, command) in COMMANDS.split(' ').enumerate() {
        bench.set_user(&format!("-{}", command.to_lowercase()));
        let (mut calls, mut is_refused) = (Vec::new(), false);
        for feed in ["plain", "all"] {
            let base = format!("/v1/feeds/{feed}");
            let one = gift(&format!("g{n}")).by(&format!("u{}", n % 4)).value(1_000, "EUR").json();
            calls.push(("POST", format!("{base}/gifts"), one));
            let claim = json!({"id": format!("c{n}"), "user": {"id": "ann", "name": "Ann"}, "pay": "now"});
            calls.push(("POST", format!("{base}/drops/rocket/claims"), claim));
            if n > 0 {
                calls.push(("POST", format!("{base}/gifts/g{}/refund", n - 1), json!({"refunded": 400})));
            }
            if n > 1 {
                calls.push(("POST", format!("{base}/gifts/g{}/retract", n - 2), json!({})));
            }
        }
        for _ in 0..3 {
            for (method, path, body) in &calls {
                is_refused |= !bench.is_done(method, path, body.clone(), command).await;
            }
        }
        if is_refused {
            bench.wait_for_light(false, command).await;
            refused.push(command);
        }
        bench.set_user(&format!("+{}", command.to_lowercase()));
        bench.wait_for_light(true, command).await;
        for (method, path, body) in &calls {
            assert!(bench.is_done(method, path, body.clone(), command).await, "{command}: {path}");
        }
    }
    println!("refused without one of {refused:?}");
    assert!(refused.len() > 10, "{refused:?}");
    let all = COMMANDS.split(' ').count() as u64;
    // Of the newest two gifts one is refunded in part, and one is whole; all others were taken back.
    for feed in ["plain", "all"] {
        let (entries, amount) = summary(gateway, feed).await;
        assert_eq!(amount, 1_000 + 600, "{feed}");
        assert_eq!(entries, all + all + (all - 1) + (all - 2), "{feed}: gifts, sales, refunds, retractions");
        let drop = gateway.get(&format!("/v1/feeds/{feed}/drops/rocket")).await.json();
        assert_eq!((drop["sold"].as_u64(), drop["free"].as_u64()), (Some(all), Some(1_000 - all)), "{feed}");
    }
    let totals = gateway.get("/v1/feeds/all/totals").await.json();
    assert_eq!(totals["totals"]["all"]["values"][0]["amount"], 1_600, "{totals}");
    assert!(gateway.get("/metrics").await.text.contains("\ntipcast_feeds_damaged 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_half_of_a_call_stays_when_any_command_is_taken_from_the_user_of_a_redis() {
    let mut server = RedisServer::start();
    server.make_user(AclBlock::Single);
    let url = server.url();
    nothing_is_done_by_half(url, &[server], "t1:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_half_of_a_call_stays_when_any_command_is_taken_from_the_user_of_a_cluster() {
    let mut cluster = Cluster::of(Plan::default());
    for node in &mut cluster.nodes {
        node.make_user(AclBlock::Cluster);
    }
    let url = cluster.url();
    nothing_is_done_by_half(url, &cluster.nodes, "t1:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_channels_that_are_taken_away_leave_no_half_either() {
    let mut server = RedisServer::start();
    server.make_user(AclBlock::Single);
    let servers = [server];
    let gateway = Process::start(
        "127.0.0.1:0",
        vec!["--redis".into(), servers[0].url()],
        vec![("TIPCAST_REDIS__PREFIX".into(), "t1:".into())],
    );
    let bench = Bench { gateway, servers: &servers };
    bench.wait_for_light(true, "start").await;
    let one = gift("g").value(1_000, "EUR").json();
    let first = gift("first").value(1, "EUR").json();
    assert!(bench.is_done("POST", "/v1/feeds/show/gifts", first, "first").await);
    let (every_key, every_channel) = ("~t*", "&t*");
    for taken in [
        // Only some of a feed's keys, and only reading.
        vec!["resetkeys", "~t1:{show}:[a-k]*", "~t1:{p*"],
        vec!["resetkeys", "%R~t*", "~t1:{p*"],
        vec!["resetchannels", "&t1:{probe}*"],
    ] {
        taken.iter().for_each(|rule| bench.set_user(rule));
        for _ in 0..3 {
            assert!(!bench.is_done("POST", "/v1/feeds/show/gifts", one.clone(), taken[0]).await, "{taken:?}");
        }
        for rule in ["resetkeys", every_key, "resetchannels", every_channel] {
            bench.set_user(rule);
        }
        bench.wait_for_light(true, "given back").await;
        let (entries, amount) = summary(&bench.gateway, "show").await;
        assert_eq!((entries, amount), (1, 1), "{taken:?}");
    }
    assert!(bench.is_done("POST", "/v1/feeds/show/gifts", one, "given back").await);
    assert_eq!(summary(&bench.gateway, "show").await, (2, 1_001));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_error_of_a_server_is_no_damage() {
    let server = RedisServer::start();
    let gateway = Process::start("127.0.0.1:0", vec!["--redis".into(), server.url()], vec![]);
    let bench = Bench { gateway, servers: &[] };
    bench.wait_for_light(true, "start").await;
    // What a proxy or a quota answers: here no script may be run at all.
    let renamed = server.run(&["ACL", "SETUSER", "default", "-evalsha"]);
    assert_eq!(renamed, "OK");
    assert!(!bench.is_done("POST", "/v1/feeds/show/gifts", gift("g").json(), "no scripts").await);
    bench.wait_for_light(false, "no scripts").await;
    assert_eq!(server.run(&["ACL", "SETUSER", "default", "+evalsha"]), "OK");
    bench.wait_for_light(true, "given back").await;
    assert!(bench.is_done("POST", "/v1/feeds/show/gifts", gift("g").json(), "given back").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_on_two_databases_of_one_redis_do_not_hear_each_other() {
    let server = RedisServer::start();
    let on = |database: u8| {
        let url = format!("redis://127.0.0.1:{}/{database}", server.port);
        Process::start("127.0.0.1:0", vec!["--redis".into(), url], vec![])
    };
    let (one, other) = (on(0), on(1));
    let mut epochs = Vec::new();
    for gateway in [&one, &other] {
        gateway.give("show", &gift("first")).await;
        epochs.push(gateway.get_feed("show").await["epoch"].clone());
    }
    let mut watchers = Vec::new();
    for gateway in [&one, &other] {
        let mut watcher = crate::support::watcher::Watcher::open(gateway, "show").await;
        watcher.wait_for_the_list().await;
        watchers.push(watcher);
    }
    for n in 0..20 {
        one.give("show", &gift(&format!("a{n}")).by(&format!("u{n}"))).await;
        other.give("show", &gift(&format!("b{n}")).by(&format!("u{n}"))).await;
    }
    for (gateway, epoch) in [&one, &other].into_iter().zip(&epochs) {
        let feed = gateway.get_feed("show").await;
        assert_eq!((&feed["epoch"], feed["seq"].as_u64()), (epoch, Some(21)), "{feed}");
    }
    let heard = server.run(&["PUBSUB", "SHARDCHANNELS", "*"]);
    for channel in ["tc:{show}:live:0", "tc:{show}:live:1"] {
        assert!(heard.contains(channel), "{heard}");
    }
}
