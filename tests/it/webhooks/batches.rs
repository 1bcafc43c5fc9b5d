//! What is in a delivery, and in which order deliveries come.

use super::*;
use crate::support::receiver::{OK, signature};
use tipcast::domain::{HookSpec, Job};
use tipcast::engine::Want;

on_both![
    everything_arrives_once_in_order_and_signed,
    a_webhook_starts_with_what_comes_after_it,
    a_webhook_of_all_feeds_gets_each_feed_by_itself,
    a_secret_that_was_replaced_still_signs,
    entries_are_gathered_up_to_batch_max_and_no_longer_than_batch_ms,
    a_webhook_that_is_deleted_gets_nothing_more,
    suppressed_gifts_are_delivered_and_tests_are_not,
    a_webhook_is_sent_only_the_types_that_it_wants,
];

async fn everything_arrives_once_in_order_and_signed(store: Storage) {
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

async fn a_webhook_starts_with_what_comes_after_it(store: Storage) {
    let receiver = Receiver::start().await;
    let node = Node::on(&store).await;
    node.give("show", &ids("before", 3)).await;
    set(&node.engine, &key("show", "game"), spec(receiver.url("game"))).await;
    node.give("show", &ids("after", 2)).await;
    assert_eq!(receiver.wait_for_gifts(2).await, ids("after", 2));
}

async fn a_webhook_of_all_feeds_gets_each_feed_by_itself(store: Storage) {
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

async fn a_secret_that_was_replaced_still_signs(store: Storage) {
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

async fn entries_are_gathered_up_to_batch_max_and_no_longer_than_batch_ms(store: Storage) {
    let receiver = Receiver::start().await;
    let (node, key) = one_hook(&store, &receiver, 10).await;
    set(&node.engine, &key, HookSpec { batch_ms: 300, batch_max: 10, ..spec(receiver.url("game")) }).await;
    let since = Instant::now();
    node.give("show", &ids("g", 3)).await;
    let got = receiver.wait_for("the batch", |got| !got.is_empty()).await;
    assert!(got[0].at - since >= Duration::from_millis(299), "{:?}", got[0].at - since);
    assert_eq!(got[0].gifts().len(), 3);
}

async fn a_webhook_that_is_deleted_gets_nothing_more(store: Storage) {
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let (node, gone) = one_hook(&store, &receiver, 10).await;
    set(&node.engine, &key("show", "other"), spec(other.url("other"))).await;
    node.give("show", &ids("a", 1)).await;
    receiver.wait_for_gifts(1).await;
    let version = node.hook(&gone).await.version;
    let swapped = node.engine.swap_webhook(&gone, Some(version), None, Millis::now()).await.unwrap();
    assert_eq!(swapped, Swapped::Done);
    node.give("show", &ids("b", 1)).await;
    other.wait_for_gifts(2).await;
    assert_eq!(receiver.gifts(), ids("a", 1));
    assert_eq!(node.engine.read_webhook(&gone).await.unwrap(), None);
}

async fn suppressed_gifts_are_delivered_and_tests_are_not(store: Storage) {
    let receiver = Receiver::that(|_| OK).await;
    let node = Node::on(&store).await;
    let patch = serde_json::value::to_raw_value(&json!({"dedup": "drop"})).unwrap();
    let patch = PolicyChange::Merge(PolicyPatch::parse(&patch).unwrap());
    node.engine.set_policy(&named("show"), &patch, Millis::now()).await.unwrap();
    set(&node.engine, &key("show", "game"), spec(receiver.url("game"))).await;
    let gifts = vec![gift("a").parse(), gift("t").test().parse(), gift("b").parse()];
    node.engine.publish(&named("show"), gifts, Millis::now()).await.unwrap();
    assert_eq!(receiver.wait_for_gifts(2).await, ["a", "b"]);
    let types: Vec<_> = receiver
        .got()
        .iter()
        .flat_map(|it| it.json["entries"].as_array().unwrap().clone())
        .map(|it| it["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["gift.accepted", "gift.suppressed"]);
}

async fn a_webhook_is_sent_only_the_types_that_it_wants(store: Storage) {
    let (all, some, back) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let node = Node::on(&store).await;
    for (receiver, name, types) in [
        (&all, "all", vec![]),
        (&some, "some", vec!["gift.accepted", "drop.*"]),
        (&back, "back", vec!["gift.retracted"]),
    ] {
        let types = types.into_iter().map(str::to_owned).collect();
        let spec = HookSpec { types, batch_max: 4, ..spec(receiver.url(name)) };
        set(&node.engine, &key("show", name), spec).await;
    }
    // Of one giver each, so that every second joins the one before.
    for n in 0..10 {
        let twice = (0..2).map(|m| gift(&format!("g{n}-{m}")).by(&n.to_string()).parse()).collect();
        node.engine.publish(&named("show"), twice, Millis::now()).await.unwrap();
    }
    let (feed, id, now) = (named("show"), "g3-1".parse().unwrap(), Millis::now());
    node.engine.retract_gift(&feed, &id, None, now).await.unwrap();
    node.give("show", &["last".to_owned()]).await;
    assert_eq!(all.wait_for_gifts(21).await.len(), 21);
    let mut wanted: Vec<_> = (0..10).map(|n| format!("g{n}-0")).collect();
    wanted.push("last".to_owned());
    assert_eq!(some.wait_for_gifts(11).await, wanted);
    assert_eq!(back.wait_for_gifts(1).await, ["g3-1"]);
    // What is passed over is done with.
    for name in ["some", "back"] {
        let since = Instant::now();
        loop {
            let job = Job { feed: named("show"), reader: key("show", name).reader() };
            let want = Want { most: 100, batch_ms: 0 };
            let work = node.engine.open_job(&job, want, Millis::now()).await.unwrap().unwrap();
            if work.backlog == 0 {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{name} is not through");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert!(some.got().iter().all(|it| (1..=4).contains(&it.gifts().len())));
    assert_eq!(node.metric("tipcast_webhook_dropped_total"), 0.0);
}
