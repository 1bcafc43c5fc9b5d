//! `wait_replicas`: what is answered, replicas have.

use super::*;
use crate::support::cluster::Sentinels;
use crate::support::redis_server::RedisServer;

async fn waiting_for(url: String, replicas: usize) -> Store {
    let options = StoreOptions { wait_replicas: replicas, ..StoreOptions::new(url) };
    Store::redis(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_replicas_nothing_is_answered_and_a_retry_is_safe() {
    let primary = RedisServer::start();
    let engine = waiting_for(primary.url(), 1).await;
    let feed: FeedId = "room".parse().unwrap();
    for _ in 0..2 {
        let refused = post(&engine, &feed, "a").await;
        assert!(matches!(refused, Err(StoreError::NotReplicated(_))), "{refused:?}");
    }
    assert!(engine.probe_store().await.is_err(), "red while too few replicas are there");
    let _replica = RedisServer::replica_of(&primary);
    let since = Instant::now();
    let answer = loop {
        match post(&engine, &feed, "a").await {
            Ok(answer) => break answer,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(answer.at.seq, 1, "the retries were one gift");
    has_shards(&engine, Shards::WHOLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answered_gift_is_known_after_a_failover() {
    let mut cluster = Cluster::start(1);
    let engine = waiting_for(cluster.url(), 1).await;
    let feed = feed_at(&cluster, 0);
    insist(&engine, &feed, "before").await;
    let producers = until_refused(&engine, &feed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.nodes[0].kill();
    let taken = all_taken(producers).await;
    cluster.wait_for_promotion(&format!("tc:{{{feed}}}:list"), 0);
    let plain = engine_on(cluster.url()).await;
    insist(&plain, &feed, "after").await;
    for id in &taken {
        is_known(&plain, &feed, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answered_gift_is_known_after_sentinels_chose_another() {
    let mut group = Sentinels::start();
    let engine = waiting_for(group.url(), 1).await;
    let feed: FeedId = "room".parse().unwrap();
    insist(&engine, &feed, "before").await;
    let producers = until_refused(&engine, &feed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    group.nodes[0].kill();
    let taken = all_taken(producers).await;
    group.wait_for_promotion();
    let plain = engine_on(group.url()).await;
    insist(&plain, &feed, "after").await;
    for id in &taken {
        is_known(&plain, &feed, id).await;
    }
}

/// Four who post until they are refused.
fn until_refused(engine: &Store, feed: &FeedId) -> Vec<JoinHandle<Vec<String>>> {
    let post_all = |n: usize| {
        let (engine, feed) = (engine.clone(), feed.clone());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for round in 0.. {
                let id = format!("w{n}-{round}");
                match post(&engine, &feed, &id).await {
                    Ok(_) => taken.push(id),
                    Err(_) => break,
                }
            }
            taken
        })
    };
    (0..4).map(post_all).collect()
}

/// What was taken of all of them.
async fn all_taken(producers: Vec<JoinHandle<Vec<String>>>) -> Vec<String> {
    let mut taken = Vec::new();
    for producer in producers {
        taken.extend(producer.await.unwrap());
    }
    println!("{} taken", taken.len());
    assert!(!taken.is_empty());
    taken
}
