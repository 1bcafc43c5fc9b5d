//! Slots that move while everybody works, and nodes that are found by any of their names.

use super::*;
use crate::support::cluster::Plan;
use crate::support::valkey;

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_under_load_and_nothing_is_lost() {
    let cluster = Cluster::start(0);
    let engine = engine_on(cluster.url()).await;
    let (feed, other) = (feed_at(&cluster, 0), feed_at(&cluster, 1));
    cluster.nodes.iter().for_each(has_run);
    insist(&engine, &feed, "before").await;
    let mut watcher = Follower::start(&engine, &feed).await;
    let producers = [Producer::start(&engine, &feed), Producer::start(&engine, &other)];
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Held open: keys that exist answer here, new ones nowhere.
    move_slot(&cluster, &feed, (0, 1), Duration::from_millis(500)).await;
    let moved = Instant::now();
    let took = insist(&engine, &feed, "after").await.saturating_duration_since(moved);
    println!("gifts again {took:?} after the slot moved");
    let first = post(&engine, &feed, "first").await.unwrap();
    watcher.hears_of(&first.at).await;
    // By the server's word alone, without history.
    let last = post(&engine, &feed, "last").await.unwrap();
    watcher.hears_of(&last.at).await;
    assert_eq!(watcher.snapshots, 0, "nothing was lost");
    let [moved, still] = producers;
    let (taken, refused, _) = moved.stop().await;
    println!("{} taken and {} refused while the slot moved", taken.len(), refused.len());
    assert!(refused.iter().all(|e| matches!(e, StoreError::Unavailable(_))), "{refused:?}");
    let (_, refused, _) = still.stop().await;
    assert!(refused.is_empty(), "other shards notice nothing: {refused:?}");
    for id in &taken {
        is_known(&engine, &feed, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_go_there_and_back_under_load_and_every_watcher_follows() {
    let cluster = Cluster::start(0);
    let engine = engine_on(cluster.url()).await;
    let feeds: Vec<FeedId> =
        ["a", "b", "c", "d"].map(|begin| cluster.name_at(0, begin).parse().unwrap()).into();
    let still = feed_at(&cluster, 2);
    cluster.nodes.iter().for_each(has_run);
    let bystander = Producer::start(&engine, &still);
    let (mut watchers, mut producers) = (Vec::new(), Vec::new());
    for feed in &feeds {
        insist(&engine, feed, "before").await;
        watchers.push(Follower::start(&engine, feed).await);
        producers.push(Producer::start(&engine, feed));
    }
    // The old owner takes each subscription away unasked.
    for round in 0..2 * rounds() {
        let way = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        for feed in &feeds {
            move_slot(&cluster, feed, way, Duration::ZERO).await;
        }
        for (feed, watcher) in feeds.iter().zip(&mut watchers) {
            let id = format!("round-{round}");
            insist(&engine, feed, &id).await;
            let at = post(&engine, feed, &id).await.unwrap().at;
            watcher.hears_of(&at).await;
        }
    }
    for ((feed, watcher), producer) in feeds.iter().zip(&mut watchers).zip(producers) {
        let (taken, refused, _) = producer.stop().await;
        assert!(refused.iter().all(|e| matches!(e, StoreError::Unavailable(_))), "{refused:?}");
        for id in &taken {
            is_known(&engine, feed, id).await;
        }
        let last = post(&engine, feed, "last").await.unwrap();
        watcher.hears_of(&last.at).await;
        assert_eq!(watcher.snapshots, 0, "{feed}: nothing was lost");
    }
    let (taken, refused, _) = bystander.stop().await;
    assert!(refused.is_empty() && !taken.is_empty(), "other shards notice nothing: {refused:?}");
}

/// Moves a feed's slot as operators do, and holds it open for so long before the first key goes.
pub(super) async fn move_slot(cluster: &Cluster, feed: &FeedId, way: (usize, usize), held: Duration) {
    let (from, to) = (&cluster.nodes[way.0], &cluster.nodes[way.1]);
    let slot = from.run(&["CLUSTER", "KEYSLOT", feed.as_str()]);
    let ids = [from, to].map(|node| node.run(&["CLUSTER", "MYID"]));
    assert_eq!(to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]), "OK");
    assert_eq!(from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]), "OK");
    tokio::time::sleep(held).await;
    let port = to.port.to_string();
    loop {
        let keys = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
        if keys.is_empty() {
            break;
        }
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "2000", "KEYS"];
        migrate.extend(keys.lines());
        let moved = from.run(&migrate);
        assert!(moved == "OK" || moved == "NOKEY", "{moved}");
    }
    for node in [to, from].into_iter().chain(&cluster.nodes) {
        assert_eq!(node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[1]]), "OK");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn valkey_moves_a_slot_at_once_and_nothing_is_refused() {
    let Some(program) = valkey::program() else { return };
    let cluster = Cluster::of(Plan { program: &program, ..Plan::default() });
    let engine = engine_on(cluster.url()).await;
    let feed = feed_at(&cluster, 0);
    let mut watcher = Follower::start(&engine, &feed).await;
    let producer = Producer::start(&engine, &feed);
    insist(&engine, &feed, "before").await;
    let slot = cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", feed.as_str()]);
    let to = cluster.nodes[1].run(&["CLUSTER", "MYID"]);
    let moved = cluster.nodes[0].run(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &to]);
    assert_eq!(moved, "OK");
    cluster.wait_for_promotion(feed.as_str(), 0);
    insist(&engine, &feed, "after").await;
    let last = post(&engine, &feed, "last").await.unwrap();
    watcher.hears_of(&last.at).await;
    let (taken, refused, _) = producer.stop().await;
    assert!(refused.is_empty(), "{refused:?}");
    for id in &taken {
        is_known(&engine, &feed, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_and_strangers_among_the_named_nodes_do_no_harm() {
    let cluster = Cluster::start(1);
    let only_a_replica = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", cluster.nodes[4].port);
    let engine = engine_on(only_a_replica).await;
    for primary in 0..3 {
        insist(&engine, &feed_at(&cluster, primary), "a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_another_kind_are_refused_with_what_to_write_instead() {
    let cluster = Cluster::start(0);
    let single = crate::support::redis_server::RedisServer::start();
    let refused = async |url: String| match Store::redis(StoreOptions::new(url)).await {
        Err(StoreError::Open(why)) => why,
        other => panic!("wanted it refused, got {:?}", other.map(|engine| engine.name())),
    };
    let why = refused(cluster.nodes[0].url()).await;
    assert!(why.contains(&format!("redis+cluster://127.0.0.1:{}", cluster.nodes[0].port)), "{why}");
    let why = refused(format!("redis+cluster://127.0.0.1:{}", single.port)).await;
    assert!(why.contains(&format!("redis://127.0.0.1:{}", single.port)), "{why}");
    let why = refused(format!("redis+sentinel://127.0.0.1:{}/main", single.port)).await;
    assert!(why.contains("no sentinel"), "{why}");
}
