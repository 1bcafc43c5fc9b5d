//! Slots that move while everybody works, and nodes that are found by any of their names.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_under_load_and_nothing_is_lost() {
    let cluster = Cluster::start(0);
    let engine = engine_on(cluster.url()).await;
    let (feed, other) = (feed_at(&cluster, 0), feed_at(&cluster, 1));
    let mut watcher = Follower::start(&engine, &feed).await;
    let producers = [Producer::start(&engine, &feed), Producer::start(&engine, &other)];
    tokio::time::sleep(Duration::from_millis(300)).await;
    let slot = cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", feed.as_str()]);
    let ids: Vec<_> = cluster.nodes.iter().map(|node| node.run(&["CLUSTER", "MYID"])).collect();
    let (from, to) = (&cluster.nodes[0], &cluster.nodes[1]);
    to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
    from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
    // Held open: keys that exist answer here, new ones nowhere.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let port = to.port.to_string();
    loop {
        let keys = from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
        if keys.is_empty() {
            break;
        }
        for key in keys.lines() {
            let moved = from.run(&["MIGRATE", "127.0.0.1", &port, key, "0", "2000"]);
            assert!(moved == "OK" || moved == "NOKEY", "{moved}");
        }
    }
    for node in [to, from, &cluster.nodes[2]] {
        assert_eq!(node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[1]]), "OK");
    }
    let moved = Instant::now();
    let took = insist(&engine, &feed, "after").await.saturating_duration_since(moved);
    println!("gifts again {took:?} after the slot moved");
    let first = post(&engine, &feed, "first").await.unwrap();
    watcher.hears_of(&first.at).await;
    // By the server's word alone, without history.
    let last = post(&engine, &feed, "last").await.unwrap();
    watcher.hears_of(&last.at).await;
    let [moved, still] = producers;
    let (taken, refused, _) = moved.stop().await;
    println!("{} taken and {} refused while the slot moved", taken.len(), refused.len());
    assert!(refused.iter().all(|e| matches!(e, EngineError::Unavailable(_))), "{refused:?}");
    let (_, refused, _) = still.stop().await;
    assert!(refused.is_empty(), "other shards notice nothing: {refused:?}");
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
    let refused = async |url: String| match RedisEngine::open(RedisOptions::new(url)).await {
        Err(EngineError::Open(why)) => why,
        other => panic!("wanted it refused, got {:?}", other.map(|engine| engine.name())),
    };
    let why = refused(cluster.nodes[0].url()).await;
    assert!(why.contains(&format!("redis+cluster://127.0.0.1:{}", cluster.nodes[0].port)), "{why}");
    let why = refused(format!("redis+cluster://127.0.0.1:{}", single.port)).await;
    assert!(why.contains(&format!("redis://127.0.0.1:{}", single.port)), "{why}");
    let why = refused(format!("redis+sentinel://127.0.0.1:{}/main", single.port)).await;
    assert!(why.contains("no sentinel"), "{why}");
}
