//! Servers behind names that only the operator's map of addresses leads to, and connections that are cut and held up.

use super::*;
use crate::support::cluster::Plan;
use crate::support::proxy::{Mode, Proxy};
use crate::support::redis_server::RedisServer;

/// Nodes that announce names which nobody can look up; a proxy before each, and the map that leads there.
async fn behind_names() -> (Cluster, Vec<Proxy>, StoreOptions) {
    let cluster = Cluster::of(Plan {
        options: &|at| {
            let name = format!("node{at}.invalid");
            ["--cluster-announce-hostname", &name, "--cluster-preferred-endpoint-type", "hostname"]
                .map(str::to_owned)
                .into()
        },
        ..Plan::default()
    });
    for node in &cluster.nodes {
        node.wait("it knows every name", |node| {
            let slots = node.run(&["CLUSTER", "SLOTS"]);
            (0..cluster.nodes.len()).all(|at| slots.contains(&format!("node{at}.invalid")))
        });
    }
    let (mut proxies, mut addresses, mut seeds) = (Vec::new(), Vec::new(), Vec::new());
    for (at, node) in cluster.nodes.iter().enumerate() {
        let proxy = Proxy::before(([127, 0, 0, 1], node.port).into()).await;
        addresses.push(format!("node{at}.invalid:{}={}", node.port, proxy.address));
        seeds.push(format!("node{at}.invalid:{}", node.port));
        proxies.push(proxy);
    }
    let options =
        StoreOptions { addresses, ..StoreOptions::new(format!("redis+cluster://{}", seeds.join(","))) };
    (cluster, proxies, options)
}

#[tokio::test(flavor = "multi_thread")]
async fn ways_that_are_cut_and_held_up_are_the_trouble_of_their_shard_alone() {
    let (cluster, proxies, options) = behind_names().await;
    let engine = Store::redis(options).await.unwrap();
    let feeds: Vec<_> = (0..3).map(|at| feed_at(&cluster, at)).collect();
    let (mut watchers, mut producers) = (Vec::new(), Vec::new());
    for feed in &feeds {
        insist(&engine, feed, "before").await;
        watchers.push(Follower::start(&engine, feed).await);
        producers.push(Producer::start(&engine, feed));
    }
    // The third has no trouble at all.
    for round in 0..2 * rounds() {
        for mode in [Mode::Cut, Mode::Stalled] {
            let (victim, at) = (&feeds[round % 2], &proxies[round % 2]);
            at.set(mode);
            let since = Instant::now();
            while post(&engine, victim, &format!("{round}-{mode:?}")).await.is_ok() {
                assert!(since.elapsed() < PATIENCE, "nothing passes any more");
            }
            has_shards(&engine, Shards { up: 2, down: 1 }).await;
            at.set(Mode::Open);
            insist(&engine, victim, &format!("{round}-{mode:?}-over")).await;
            has_shards(&engine, Shards { up: 3, down: 0 }).await;
        }
    }
    for (at, producer) in producers.into_iter().enumerate() {
        let (taken, refused, mut times) = producer.stop().await;
        println!("shard {at}: {} taken, {} refused, p99 {:?}", taken.len(), refused.len(), p99(&mut times));
        assert!(at < 2 || refused.is_empty(), "the third shard had no trouble: {refused:?}");
        for id in &taken {
            is_known(&engine, &feeds[at], id).await;
        }
        let last = post(&engine, &feeds[at], "last").await.unwrap();
        watchers[at].hears_of(&last.at).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_another_server_behind_the_same_address_vouch_for_nothing() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    let replicas = [RedisServer::replica_of(&one), RedisServer::replica_of(&two)];
    for primary in [&one, &two] {
        primary.wait("it has its replica", |it| it.run(&["INFO", "replication"]).contains("state=online"));
    }
    let proxy = Proxy::before(([127, 0, 0, 1], one.port).into()).await;
    let options =
        StoreOptions { wait_replicas: 1, ..StoreOptions::new(format!("redis://{}", proxy.address)) };
    let engine = Store::redis(options).await.unwrap();
    let feed: FeedId = "room".parse().unwrap();
    insist(&engine, &feed, "a").await;
    // New connections lead elsewhere, as behind a virtual address that moved; the fence is the first to make one.
    proxy.lead_to(([127, 0, 0, 1], two.port).into());
    drop(replicas);
    let fence = one.run(&["CLIENT", "LIST"]);
    let fence = fence.lines().find(|line| line.contains("cmd=info") || line.contains("cmd=wait"));
    let id = fence.and_then(|line| line.split(['=', ' ']).nth(1)).expect("the fence's connection").to_owned();
    one.run(&["CLIENT", "KILL", "ID", &id]);
    let _replica = RedisServer::replica_of(&two);
    two.wait("it has its replica", |it| it.run(&["INFO", "replication"]).contains("state=online"));
    two.wait("the fence asks its replicas", |it| !it.run(&["KEYS", "*fence*"]).is_empty());
    for n in 0..5 {
        let refused = post(&engine, &feed, &format!("b{n}")).await;
        assert!(matches!(refused, Err(StoreError::NotReplicated(_))), "{refused:?}");
    }
}
