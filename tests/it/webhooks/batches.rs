//! What is in a delivery, and in which order deliveries come.

use super::*;
use crate::support::receiver::{OK, signature};
use tipcast::engine::{Publish, ReadWebhook, SetPolicy, SwapWebhook};

on_both![
    everything_arrives_once_in_order_and_signed,
    a_webhook_starts_with_what_comes_after_it,
    a_webhook_of_all_feeds_gets_each_feed_by_itself,
    a_secret_that_was_replaced_still_signs,
    entries_are_gathered_up_to_batch_max_and_no_longer_than_batch_ms,
    a_webhook_that_is_deleted_gets_nothing_more,
    suppressed_gifts_are_delivered_and_tests_are_not,
];

async fn everything_arrives_once_in_order_and_signed(store: Store) {
    let receiver = Receiver::start().await;
    let (node, _) = one_hook(&store, &receiver, 50).await;
    let wanted = ids("g", 505);
    node.give("show", &wanted).await;
    assert_eq!(receiver.wait_for_gifts(505).await, wanted);
    let got = receiver.got();
    assert_eq!(got.iter().map(|it| it.gifts().len()).sum::<usize>(), 505, "each once");
    assert!(got.iter().all(|it| it.gifts().len() <= 50 && it.feed() == "show"));
    let entry = &got[0].json["entries"][0];
    assert_eq!((entry["type"].as_str(), entry["seq"].as_u64()), (Some("gift.accepted"), Some(1)));
    assert_eq!((entry["attempt"].as_u64(), entry["gift"]["user"]["id"].as_str()), (Some(1), Some("g0")));
    assert!(entry["cursor"].is_string() && entry["row"].is_string() && entry["at"].is_string());
    assert!(node.metric("tipcast_webhook_entries_total") >= 455.0);
}

async fn a_webhook_starts_with_what_comes_after_it(store: Store) {
    let receiver = Receiver::start().await;
    let node = Node::on(&store).await;
    node.give("show", &ids("before", 3)).await;
    set(&node.engine, &key("show", "game"), spec(receiver.url("game"))).await;
    node.give("show", &ids("after", 2)).await;
    assert_eq!(receiver.wait_for_gifts(2).await, ids("after", 2));
}

async fn a_webhook_of_all_feeds_gets_each_feed_by_itself(store: Store) {
    let receiver = Receiver::start().await;
    let node = Node::on(&store).await;
    node.give("old", &ids("before", 1)).await;
    set(&node.engine, &key("*", "game"), spec(receiver.url("game"))).await;
    for feed in ["a", "b", "old"] {
        node.give(feed, &ids(&format!("{feed}-"), 3)).await;
    }
    let mut all = receiver.wait_for_gifts(9).await;
    all.sort();
    assert!(!all.contains(&"before0".to_owned()));
    for delivery in receiver.got() {
        let prefix = format!("{}-", delivery.feed());
        assert!(delivery.gifts().iter().all(|id| id.starts_with(&prefix)), "{delivery:?}");
    }
}

async fn a_secret_that_was_replaced_still_signs(store: Store) {
    const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    let receiver = Receiver::start().await;
    let (node, key) = one_hook(&store, &receiver, 10).await;
    let to = HookSpec { secret: OTHER.into(), ..spec(receiver.url("game")) };
    set(&node.engine, &key, to).await;
    node.give("show", &ids("g", 1)).await;
    receiver.wait_for_gifts(1).await;
    let delivery = &receiver.got()[0];
    // The receiver itself looks for the old one.
    assert_eq!(delivery.signatures.len(), 2);
    assert_eq!(delivery.signatures[0], signature(OTHER, &delivery.id, &delivery.timestamp, &delivery.body));
}

async fn entries_are_gathered_up_to_batch_max_and_no_longer_than_batch_ms(store: Store) {
    let receiver = Receiver::start().await;
    let (node, key) = one_hook(&store, &receiver, 10).await;
    set(&node.engine, &key, HookSpec { batch_ms: 300, batch_max: 10, ..spec(receiver.url("game")) }).await;
    let since = Instant::now();
    node.give("show", &ids("g", 3)).await;
    let got = receiver.wait_for("the batch", |got| !got.is_empty()).await;
    assert!(got[0].at - since >= Duration::from_millis(299), "{:?}", got[0].at - since);
    assert_eq!(got[0].gifts().len(), 3);
}

async fn a_webhook_that_is_deleted_gets_nothing_more(store: Store) {
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let (node, gone) = one_hook(&store, &receiver, 10).await;
    set(&node.engine, &key("show", "other"), spec(other.url("other"))).await;
    node.give("show", &ids("a", 1)).await;
    receiver.wait_for_gifts(1).await;
    let version = node.hook(&gone).await.version;
    let swapped = node
        .engine
        .run(SwapWebhook { key: gone.clone(), was: Some(version), to: None, now: Millis::now() })
        .await
        .unwrap();
    assert_eq!(swapped, Swapped::Done);
    node.give("show", &ids("b", 1)).await;
    other.wait_for_gifts(2).await;
    assert_eq!(receiver.gifts(), ids("a", 1));
    assert_eq!(node.engine.run(ReadWebhook { key: gone.clone() }).await.unwrap(), None);
}

async fn suppressed_gifts_are_delivered_and_tests_are_not(store: Store) {
    let receiver = Receiver::that(|_| OK).await;
    let node = Node::on(&store).await;
    let patch = serde_json::value::to_raw_value(&json!({"dedup": "drop"})).unwrap();
    let patch = PolicyChange::Merge(PolicyPatch::parse(&patch).unwrap());
    node.engine.run(SetPolicy { feed: named("show"), change: patch, now: Millis::now() }).await.unwrap();
    set(&node.engine, &key("show", "game"), spec(receiver.url("game"))).await;
    let gifts = vec![gift("a").parse(), gift("t").test().parse(), gift("b").parse()];
    node.engine.run(Publish { feed: named("show"), gifts, now: Millis::now() }).await.unwrap();
    assert_eq!(receiver.wait_for_gifts(2).await, ["a", "b"]);
    let types: Vec<_> = receiver
        .got()
        .iter()
        .flat_map(|it| it.json["entries"].as_array().unwrap().clone())
        .map(|it| it["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["gift.accepted", "gift.suppressed"]);
}
