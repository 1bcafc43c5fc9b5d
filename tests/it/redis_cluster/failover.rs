//! Primaries that die, freeze and come back; shards that are away as a whole.

use super::*;
use crate::support::cluster::Sentinels;
use tipcast::engine::DueDone;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_and_other_shards_notice_nothing() {
    let mut cluster = Cluster::start(1);
    let engine = engine_on(cluster.url()).await;
    let (lost, other) = (feed_at(&cluster, 0), feed_at(&cluster, 1));
    cluster.nodes.iter().for_each(has_run);
    insist(&engine, &lost, "before").await;
    insist(&engine, &other, "before").await;
    let mut watchers = [Follower::start(&engine, &lost).await, Follower::start(&engine, &other).await];
    has_shards(&engine, Shards { up: 3, down: 0 }).await;
    let producer = Producer::start(&engine, &other);
    is_replicated(&cluster.nodes[0]);
    cluster.nodes[0].kill();
    let since = Instant::now();
    while cluster.nodes[1].run(&["CLUSTER", "NODES"]).matches("master").count() == 3 {
        // Refused within the time of a call, or taken.
        let answered = tokio::time::timeout(PATIENCE, post(&engine, &lost, "meanwhile")).await;
        if answered.expect("no call hangs").is_ok() {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "a replica is promoted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let key = format!("tc:{{{lost}}}:list");
    cluster.wait_for_promotion(&key, 0);
    let promoted = Instant::now();
    let again = insist(&engine, &lost, "after").await;
    let took = again.saturating_duration_since(promoted);
    println!("gifts again {took:?} after the promotion");
    let last = post(&engine, &lost, "last").await.unwrap();
    watchers[0].hears_of(&last.at).await;
    let (taken, refused, _) = producer.stop().await;
    assert!(refused.is_empty() && taken.len() > 50, "{} taken, {refused:?}", taken.len());
    let last = post(&engine, &other, "last").await.unwrap();
    watchers[1].hears_of(&last.at).await;
    assert_eq!(watchers.map(|it| it.snapshots), [0, 0], "nothing was lost, and nobody takes the list anew");
    has_shards(&engine, Shards { up: 3, down: 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_away_makes_its_own_feeds_unavailable_and_no_others() {
    for freeze in [false, true] {
        let mut cluster = Cluster::start(0);
        let engine = engine_on(cluster.url()).await;
        let (lost, other) = (feed_at(&cluster, 2), feed_at(&cluster, 0));
        for feed in [&lost, &other] {
            insist(&engine, feed, "before").await;
        }
        match freeze {
            true => cluster.nodes[2].freeze(),
            false => cluster.nodes[2].kill(),
        }
        let producer = Producer::start(&engine, &other);
        for n in 0..3 {
            let id = format!("n{n}");
            let refused = tokio::time::timeout(PATIENCE, post(&engine, &lost, &id)).await;
            let refused = refused.expect("no call hangs");
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        }
        let heads = engine.read_heads(&[other.clone(), lost.clone(), other.clone()]).await.unwrap();
        assert!(heads[0].is_ok() && heads[1].is_err() && heads[2].is_ok(), "{heads:?}");
        // What is for later on a healthy shard needs nothing of the other.
        let later = gift("later").with("delay_ms", serde_json::json!(50)).parse();
        engine.publish(&other, vec![later], Millis::now()).await.unwrap();
        let since = Instant::now();
        let mut over: Vec<DueDone> = vec![];
        loop {
            let turn = engine.claim_due(std::mem::take(&mut over), 8, Millis::now()).await.unwrap();
            for due in turn.feeds {
                let run = engine.run_due(&due.feed, Millis::now()).await;
                over.push(DueDone {
                    feed: due.feed,
                    token: due.token,
                    next: run.ok().and_then(|run| run.next),
                });
            }
            let list = engine.read_snapshot(&other, Millis::now()).await.unwrap();
            if list.rows.iter().any(|row| row.gift.contains("rose")) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "the scheduled gift is shown");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        has_shards(&engine, Shards { up: 2, down: 1 }).await;
        assert!(engine.probe_feed(&lost).await.is_err());
        assert_eq!(engine.probe_feed(&other).await, Ok(()));
        let (taken, refused, mut times) = producer.stop().await;
        assert!(refused.is_empty() && !taken.is_empty(), "{refused:?}");
        println!("p99 of the healthy shard: {:?}", p99(&mut times));
        match freeze {
            true => cluster.nodes[2].thaw(),
            false => cluster.nodes[2].start_again(),
        }
        insist(&engine, &lost, "back").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_shards_may_be_wanted_before_a_node_is_ready() {
    let mut cluster = Cluster::start(0);
    let options = StoreOptions { ready_when_all: true, ..StoreOptions::new(cluster.url()) };
    let engine = Store::redis(options).await.unwrap();
    has_shards(&engine, Shards { up: 3, down: 0 }).await;
    cluster.nodes[1].kill();
    let since = Instant::now();
    while engine.probe_store().await.is_ok() {
        assert!(since.elapsed() < PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over_by_hand_without_a_lost_gift() {
    let cluster = Cluster::start(1);
    let engine = engine_on(cluster.url()).await;
    let feed = feed_at(&cluster, 1);
    cluster.nodes.iter().for_each(has_run);
    insist(&engine, &feed, "before").await;
    let mut watcher = Follower::start(&engine, &feed).await;
    let producer = Producer::start(&engine, &feed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    cluster.hand_over(&format!("tc:{{{feed}}}:list"), 1, 4);
    let promoted = Instant::now();
    let again = insist(&engine, &feed, "after").await.saturating_duration_since(promoted);
    println!("gifts again {again:?} after the promotion");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (taken, refused, _) = producer.stop().await;
    println!("{} taken, {} refused: {refused:?}", taken.len(), refused.len());
    // A server that is too slow may refuse some; that it is no primary any more is nobody's trouble.
    assert!(
        refused.iter().all(|e| matches!(e, StoreError::Unavailable(why) if !why.contains("replica"))),
        "{refused:?}"
    );
    for id in &taken {
        is_known(&engine, &feed, id).await;
    }
    let last = post(&engine, &feed, "last").await.unwrap();
    watcher.hears_of(&last.at).await;
    assert_eq!(watcher.snapshots, 0, "nothing was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_name_the_new_primary() {
    let mut group = Sentinels::start();
    let engine = engine_on(group.url()).await;
    let feed: FeedId = "room".parse().unwrap();
    group.nodes.iter().for_each(has_run);
    insist(&engine, &feed, "before").await;
    let mut watcher = Follower::start(&engine, &feed).await;
    is_replicated(&group.nodes[0]);
    group.nodes[0].kill();
    group.wait_for_promotion();
    let promoted = Instant::now();
    let took = insist(&engine, &feed, "after").await.saturating_duration_since(promoted);
    println!("gifts again {took:?} after the promotion");
    let last = post(&engine, &feed, "last").await.unwrap();
    watcher.hears_of(&last.at).await;
    assert_eq!(watcher.snapshots, 0, "nothing was lost");
    has_shards(&engine, Shards::WHOLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_primary_that_wakes_up_gets_no_writes() {
    let group = Sentinels::start();
    let engine = engine_on(group.url()).await;
    let feed: FeedId = "room".parse().unwrap();
    insist(&engine, &feed, "before").await;
    group.nodes[0].freeze();
    group.wait_for_promotion();
    insist(&engine, &feed, "after").await;
    group.nodes[0].thaw();
    for n in 0..20 {
        insist(&engine, &feed, &format!("n{n}")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let list = format!("tc:{{{feed}}}:meta");
    assert!(
        group.nodes[1].run(&["GET", &list]).contains("\"seq\":22,"),
        "{}",
        group.nodes[1].run(&["GET", &list])
    );
}
