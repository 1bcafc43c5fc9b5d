//! Fair turns among feeds and endpoints, and nodes that share the work.

use std::collections::HashMap;

use super::*;
use crate::support::receiver::{Delivery as Came, OK, Reply};

on_both![
    a_hot_feed_and_a_dead_endpoint_hold_up_nobody,
    deliveries_of_a_stopped_node_are_repeated_unchanged,
    a_store_that_is_opened_again_goes_on_where_it_was,
];

/// A thousand feeds with a webhook of all feeds and one dead endpoint in the same; one feed is hot.
async fn a_hot_feed_and_a_dead_endpoint_hold_up_nobody(store: Storage) {
    const FEEDS: usize = 1_000;
    let receiver = Receiver::that(|came: &Came| if came.path == "dead" { Reply::Hang } else { OK }).await;
    let node = Node::with(&store, |options| options.timeout = Duration::from_secs(4)).await;
    set(&node.engine, &key("*", "dead"), spec(receiver.url("dead"))).await;
    set(&node.engine, &key("*", "game"), spec(receiver.url("game"))).await;
    roomy(&node.engine, "hot").await;
    node.give("hot", &ids("hot", 5_000)).await;
    let all: Vec<String> = (0..FEEDS).map(|n| format!("feed{n}")).collect();
    for feed in &all {
        node.give(feed, &[format!("{feed}-gift")]).await;
    }
    let accepted =
        |got: &[Came]| got.iter().filter(|it| it.accepted).map(|it| it.gifts().len()).sum::<usize>();
    let got = receiver.wait_for("every feed's", |got| accepted(got) >= 5_000 + FEEDS).await;
    let mut per_feed: HashMap<&str, Vec<String>> = HashMap::new();
    got.iter()
        .filter(|it| it.accepted)
        .for_each(|it| per_feed.entry(it.feed()).or_default().extend(it.gifts()));
    assert_eq!(per_feed["hot"], ids("hot", 5_000), "in order, each once");
    assert!(all.iter().all(|feed| per_feed[feed.as_str()] == [format!("{feed}-gift")]));
}

async fn deliveries_of_a_stopped_node_are_repeated_unchanged(store: Storage) {
    let receiver = Receiver::that(|_| Reply::Hang).await;
    // A turn lasts as long as two attempts and 5 s more; nobody takes it over before.
    let node = Node::with(&store, |options| options.timeout = Duration::from_secs(1)).await;
    set_hook(&node, &receiver, 3).await;
    node.give("show", &ids("g", 5)).await;
    receiver.wait_for("the first attempt", |got| got.len() == 1).await;
    let engine = node.engine.clone();
    drop(node);
    engine.close().await;
    receiver.answers(|_| OK);
    let _node = Node::on(&store).await;
    assert_eq!(receiver.wait_for_gifts(5).await, ids("g", 5));
    let got = receiver.got();
    assert_eq!((&got[0].id, &got[0].body), (&got[1].id, &got[1].body));
}

async fn a_store_that_is_opened_again_goes_on_where_it_was(store: Storage) {
    let receiver = Receiver::start().await;
    let (node, _) = one_hook(&store, &receiver, 10).await;
    node.give("show", &ids("a", 25)).await;
    receiver.wait_for_gifts(25).await;
    let engine = node.engine.clone();
    drop(node);
    // Nobody delivers now.
    let gifts = ids("b", 5).iter().map(|id| gift(id).by(id).parse()).collect();
    engine.publish(&named("show"), gifts, Millis::now()).await.unwrap();
    engine.close().await;
    let _node = Node::on(&store).await;
    let all: Vec<_> = ids("a", 25).into_iter().chain(ids("b", 5)).collect();
    assert_eq!(receiver.wait_for_gifts(30).await, all);
}
