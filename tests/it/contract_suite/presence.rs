//! How many watch, over all nodes.

use tipcast::domain::FeedId;
use tipcast::engine::{Count, Presence};

use crate::support::case::{Case, fresh_feed};

on_every_engine![
    nobody_watches_what_nobody_told_of,
    counts_of_nodes_add_up_and_the_newest_count_holds,
    a_node_without_watchers_is_none,
    overlays_are_counted_beside_all_who_watch_and_go_with_their_node,
    feeds_are_answered_in_the_order_asked_however_many,
    a_new_nodes_count_stays_whoever_reads_while_it_comes,
];

async fn seen(t: &Case, feeds: &[FeedId]) -> Vec<(u64, u64)> {
    let all = t.engine.read_presence(feeds).await.unwrap();
    all.into_iter().map(|Presence { watchers, nodes, .. }| (watchers, nodes)).collect()
}

fn of(watchers: u64) -> Count {
    Count { watchers, overlays: 0 }
}

async fn overlays_are_counted_beside_all_who_watch_and_go_with_their_node(t: Case) {
    let (one, other) = (t.feed.clone(), fresh_feed());
    let told = async |t: &Case| {
        let all = t.engine.read_presence(&[one.clone(), other.clone()]).await.unwrap();
        all.iter().map(|it| (it.watchers, it.overlays, it.nodes)).collect::<Vec<_>>()
    };
    t.engine
        .report_presence("a", &[(one.clone(), Count { watchers: 3, overlays: 2 }), (other.clone(), of(1))])
        .await
        .unwrap();
    t.engine.report_presence("b", &[(one.clone(), Count { watchers: 1, overlays: 1 })]).await.unwrap();
    assert_eq!(told(&t).await, [(4, 3, 2), (1, 0, 1)]);
    t.engine.report_presence("a", &[(one.clone(), of(3))]).await.unwrap();
    assert_eq!(told(&t).await, [(4, 1, 2), (1, 0, 1)], "they are other watchers now");
    t.engine.report_presence("b", &[(one.clone(), of(0))]).await.unwrap();
    assert_eq!(told(&t).await, [(3, 0, 1), (1, 0, 1)]);
}

async fn nobody_watches_what_nobody_told_of(t: Case) {
    assert_eq!(seen(&t, &[]).await, []);
    assert_eq!(seen(&t, &[t.feed.clone(), fresh_feed()]).await, [(0, 0), (0, 0)]);
    t.engine.report_presence("a", &[]).await.unwrap();
    assert_eq!(seen(&t, std::slice::from_ref(&t.feed)).await, [(0, 0)]);
}

async fn counts_of_nodes_add_up_and_the_newest_count_holds(t: Case) {
    let (one, other) = (t.feed.clone(), fresh_feed());
    t.engine.report_presence("a", &[(one.clone(), of(3)), (other.clone(), of(1))]).await.unwrap();
    t.engine.report_presence("b", &[(one.clone(), of(4))]).await.unwrap();
    assert_eq!(seen(&t, &[one.clone(), other.clone()]).await, [(7, 2), (1, 1)]);
    assert!(t.engine.report_presence("a", &[(one.clone(), of(5))]).await.unwrap(), "it is known to live");
    assert_eq!(seen(&t, &[one, other]).await, [(9, 2), (1, 1)]);
}

async fn a_node_without_watchers_is_none(t: Case) {
    let feed = t.feed.clone();
    t.engine.report_presence("a", &[(feed.clone(), of(3))]).await.unwrap();
    t.engine.report_presence("b", &[(feed.clone(), of(2))]).await.unwrap();
    t.engine.report_presence("a", &[(feed.clone(), of(0))]).await.unwrap();
    assert_eq!(seen(&t, std::slice::from_ref(&feed)).await, [(2, 1)]);
    t.engine.report_presence("b", &[(feed.clone(), of(0))]).await.unwrap();
    t.engine.report_presence("b", &[(feed.clone(), of(0))]).await.unwrap();
    assert_eq!(seen(&t, &[feed]).await, [(0, 0)]);
}

async fn feeds_are_answered_in_the_order_asked_however_many(t: Case) {
    let feeds: Vec<FeedId> = (0..700).map(|n| format!("{}-{n}", t.feed).parse().unwrap()).collect();
    let counts: Vec<_> = feeds.iter().cloned().zip((1..).map(of)).collect();
    t.engine.report_presence("a", &counts).await.unwrap();
    let wanted: Vec<_> = (1..=700).map(|n| (n, 1)).rev().collect();
    let asked: Vec<FeedId> = feeds.into_iter().rev().collect();
    assert_eq!(seen(&t, &asked).await, wanted);
}

async fn a_new_nodes_count_stays_whoever_reads_while_it_comes(t: Case) {
    for n in 0..100 {
        let feed: [FeedId; 1] = [format!("{}-{n}", t.feed).parse().unwrap()];
        let (node, counts) = (format!("node-{n}"), [(feed[0].clone(), of(1))]);
        let mut report = std::pin::pin!(t.engine.report_presence(&node, &counts));
        loop {
            tokio::select! {
                done = &mut report => {
                    done.unwrap();
                    break;
                }
                _ = seen(&t, &feed) => {}
            }
        }
        assert_eq!(seen(&t, &feed).await, [(1, 1)], "{n}");
    }
}
