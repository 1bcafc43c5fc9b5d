//! A primary that is cut off from the rest of its cluster while clients still reach it: the minority.

use super::*;
use crate::support::severed::Severed;

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_in_the_minority_loses_its_place_and_nothing_that_was_answered() {
    let severed = Severed::start().await;
    let cluster = &severed.cluster;
    let options =
        StoreOptions { wait_replicas: 1, addresses: severed.addresses(), ..StoreOptions::new(severed.url()) };
    // Who took the place has no replica of its own until the old primary is one.
    let plain = Store::redis(StoreOptions { wait_replicas: 0, ..options.clone() }).await.unwrap();
    let engine = Store::redis(options).await.unwrap();
    let feeds = [feed_at(cluster, 0), feed_at(cluster, 1)];
    for feed in &feeds {
        insist(&engine, feed, "before").await;
    }
    let mut watchers = [Follower::start(&engine, &feeds[0]).await, Follower::start(&engine, &feeds[1]).await];
    let producers = feeds.each_ref().map(|feed| Producer::start(&engine, feed));
    tokio::time::sleep(Duration::from_millis(300)).await;
    severed.cut_off(0);
    let promoted = cluster.wait_for_promotion(&format!("tc:{{{}}}:list", feeds[0]), 0);
    insist(&plain, &feeds[0], "after").await;
    severed.join();
    cluster.nodes[0].wait("it follows who took its place", |node| {
        node.run(&["INFO", "replication"]).contains("role:slave")
    });
    cluster.nodes[promoted]
        .wait("it has a replica", |node| node.run(&["INFO", "replication"]).contains("state=online"));
    for (feed, watcher) in feeds.iter().zip(&mut watchers) {
        insist(&engine, feed, "last").await;
        let last = post(&engine, feed, "last").await.unwrap();
        watcher.hears_of(&last.at).await;
    }
    let [minority, majority] = producers;
    let (taken, refused, _) = minority.stop().await;
    println!("{} taken and {} refused in the minority's feed", taken.len(), refused.len());
    for id in &taken {
        is_known(&engine, &feeds[0], id).await;
    }
    let (taken, refused, _) = majority.stop().await;
    assert!(refused.is_empty() && !taken.is_empty(), "other shards notice nothing: {refused:?}");
}
