//! What endpoints answer, and what comes of it.

use std::sync::Mutex;

use super::*;
use crate::support::receiver::{Delivery as Came, OK, Reply};
use ring::signature::{ED25519, UnparsedPublicKey};

on_both![
    a_failed_delivery_is_repeated_unchanged,
    one_poisoned_entry_is_found_and_the_rest_arrives,
    a_batch_that_is_too_large_is_halved,
    gone_disables_until_it_is_set_again,
    a_time_that_was_asked_for_is_kept,
    dead_letters_can_be_sent_again,
    old_best_effort_entries_are_dropped_and_counted,
    private_addresses_are_not_reached_unless_allowed,
    a_webhook_that_always_fails_is_disabled,
    a_delivery_is_signed_by_the_installation_and_has_its_own_headers,
];

/// Answers the first deliveries with these, one each, and accepts all that follow.
fn first(replies: Vec<Reply>) -> impl FnMut(&Came) -> Reply + Send {
    let replies = Mutex::new(replies.into_iter());
    move |_| replies.lock().unwrap().next().unwrap_or(OK)
}

async fn a_failed_delivery_is_repeated_unchanged(store: Storage) {
    let replies = [
        Reply::Status(500, ""),
        Reply::Close,
        Reply::Garbage,
        Reply::Hang,
        Reply::Status(302, "location: /x"),
    ];
    let receivers =
        futures_util::future::join_all(replies.map(|reply| Receiver::that(first(vec![reply])))).await;
    let node = Node::with(&store, |options| options.timeout = Duration::from_millis(700)).await;
    for (n, receiver) in receivers.iter().enumerate() {
        let feed = format!("show{n}");
        roomy(&node.engine, &feed).await;
        set(&node.engine, &key(&feed, "game"), spec(receiver.url("game"))).await;
        node.give(&feed, &ids("g", 3)).await;
        receiver.wait_for("the first attempt", |got| got.len() == 1).await;
        // Does not join what is under way.
        node.give(&feed, &ids("later", 2)).await;
        let told = |hook: &Hook| hook.last_error.is_some();
        let failed = node.wait_for_hook(&key(&feed, "game"), "its trouble is told", told).await;
        assert!(failed.failing_since.is_some() && failed.state == HookState::Active);
    }
    for (n, receiver) in receivers.iter().enumerate() {
        let hook = key(&format!("show{n}"), "game");
        let all: Vec<_> = ids("g", 3).into_iter().chain(ids("later", 2)).collect();
        assert_eq!(receiver.wait_for_gifts(5).await, all);
        let got = receiver.got();
        assert_eq!((&got[0].id, &got[0].body), (&got[1].id, &got[1].body), "the same again");
        let pause = got[1].at - got[0].at;
        assert!(pause >= Duration::from_millis(3_990), "5 s less a fifth: {pause:?}");
        node.wait_for_hook(&hook, "nothing is told any more", is_fine).await;
    }
}

async fn one_poisoned_entry_is_found_and_the_rest_arrives(store: Storage) {
    let poison = |came: &Came| match came.gifts().iter().any(|id| id == "g2") {
        true => Reply::Status(422, ""),
        false => OK,
    };
    let receiver = Receiver::that(poison).await;
    let (node, hook) = one_hook(&store, &receiver, 4).await;
    node.give("show", &ids("g", 6)).await;
    let wanted: Vec<_> = ids("g", 6).into_iter().filter(|id| id != "g2").collect();
    assert_eq!(receiver.wait_for_gifts(5).await, wanted);
    let dead = node.wait_for_dead("show", &hook, 1).await;
    assert!(dead[0].entry.gift.contains("\"id\":\"g2\"") && dead[0].reason.contains("422"), "{dead:?}");
}

async fn a_batch_that_is_too_large_is_halved(store: Storage) {
    let small = |came: &Came| if came.gifts().len() > 3 { Reply::Status(413, "") } else { OK };
    let receiver = Receiver::that(small).await;
    let (node, _) = one_hook(&store, &receiver, 16).await;
    node.give("show", &ids("g", 40)).await;
    assert_eq!(receiver.wait_for_gifts(40).await, ids("g", 40));
}

async fn gone_disables_until_it_is_set_again(store: Storage) {
    let receiver = Receiver::that(first(vec![Reply::Status(410, "")])).await;
    let (node, hook) = one_hook(&store, &receiver, 10).await;
    node.give("show", &ids("g", 2)).await;
    let disabled = node.wait_for_hook(&hook, "it is disabled", |it| it.state == HookState::Disabled).await;
    assert!(disabled.last_error.unwrap().text.contains("410"));
    node.give("show", &ids("more", 1)).await;
    assert_eq!(receiver.got().len(), 1);
    set(&node.engine, &hook, spec(receiver.url("game"))).await;
    let all: Vec<_> = ids("g", 2).into_iter().chain(ids("more", 1)).collect();
    assert_eq!(receiver.wait_for_gifts(3).await, all, "what waited is sent");
    assert_eq!(node.metric("tipcast_webhook_disabled_total"), 1.0);
}

async fn a_time_that_was_asked_for_is_kept(store: Storage) {
    let receiver = Receiver::that(first(vec![Reply::Status(429, "retry-after: 2")])).await;
    let (node, _) = one_hook(&store, &receiver, 10).await;
    node.give("show", &ids("g", 2)).await;
    let got = receiver.wait_for("the second attempt", |got| got.len() == 2).await;
    let pause = got[1].at - got[0].at;
    assert!(pause >= Duration::from_millis(1_990), "{pause:?}");
    assert_eq!(got[0].id, got[1].id);
}

async fn dead_letters_can_be_sent_again(store: Storage) {
    let receiver = Receiver::that(|_| Reply::Status(503, "retry-after: 1")).await;
    let (node, hook) = (Node::with(&store, |options| options.give_up_ms = 1_000).await, key("show", "game"));
    roomy(&node.engine, "show").await;
    set(&node.engine, &hook, spec(receiver.url("game"))).await;
    node.give("show", &ids("g", 2)).await;
    let dead = node.wait_for_dead("show", &hook, 2).await;
    assert!(dead[0].reason.contains("503") && dead[0].attempts >= 2, "{dead:?}");
    receiver.answers(|_| OK);
    node.give("show", &ids("next", 1)).await;
    receiver.wait_for_gifts(1).await;
    let which = tipcast::domain::Replay::Only(vec![dead[1].entry.cursor]);
    let replayed =
        node.engine.replay_dead_letters(&named("show"), &hook.reader(), &which, Millis::now()).await.unwrap();
    assert_eq!(replayed, 1);
    assert_eq!(receiver.wait_for_gifts(2).await, ["next0", "g1"]);
    node.wait_for_dead("show", &hook, 1).await;
    let replayed = node
        .engine
        .replay_dead_letters(&named("show"), &hook.reader(), &tipcast::domain::Replay::All, Millis::now())
        .await;
    assert_eq!(replayed.unwrap(), 1);
    assert_eq!(receiver.wait_for_gifts(3).await, ["next0", "g1", "g0"]);
    node.wait_for_dead("show", &hook, 0).await;
    assert_eq!(node.metric("tipcast_webhook_dead_total"), 2.0);
}

async fn old_best_effort_entries_are_dropped_and_counted(store: Storage) {
    let receiver = Receiver::that(first(vec![Reply::Status(500, "")])).await;
    let (node, hook) = (Node::on(&store).await, key("show", "game"));
    roomy(&node.engine, "show").await;
    let delivery = Delivery::BestEffort;
    set(&node.engine, &hook, HookSpec { delivery, max_age_ms: 1_000, ..spec(receiver.url("game")) }).await;
    node.give("show", &ids("old", 3)).await;
    receiver.wait_for("the first attempt", |got| got.len() == 1).await;
    node.wait_for_hook(&hook, "its trouble is told", |hook| hook.last_error.is_some()).await;
    // The second attempt is due some seconds later: by then they are too old.
    let since = Instant::now();
    while node.metric("tipcast_webhook_dropped_total") < 3.0 {
        assert!(since.elapsed() < 3 * PATIENCE, "they are dropped");
        sleep(Duration::from_millis(20)).await;
    }
    node.give("show", &ids("new", 1)).await;
    assert_eq!(receiver.wait_for_gifts(1).await, ids("new", 1));
    node.wait_for_dead("show", &hook, 0).await;
}

async fn private_addresses_are_not_reached_unless_allowed(store: Storage) {
    let receiver = Receiver::start().await;
    let node = Node::with(&store, |options| options.allow_private = false).await;
    let by_name = receiver.url("game").replace("127.0.0.1", "localhost");
    set(&node.engine, &key("a", "number"), spec(receiver.url("game"))).await;
    set(&node.engine, &key("b", "name"), spec(by_name)).await;
    for (feed, name) in [("a", "number"), ("b", "name")] {
        node.give(feed, &ids("g", 1)).await;
        let hook = node.wait_for_hook(&key(feed, name), "it is told", |hook| hook.last_error.is_some()).await;
        let told = hook.last_error.unwrap().text;
        assert!(told.contains("no public address") && told.contains("allow_private"), "{told}");
    }
    assert!(receiver.got().is_empty());
}

async fn a_webhook_that_always_fails_is_disabled(store: Storage) {
    let receiver = Receiver::that(|_| Reply::Status(503, "retry-after: 1")).await;
    let (node, hook) =
        (Node::with(&store, |options| options.disable_after_ms = 1_500).await, key("show", "game"));
    set(&node.engine, &hook, spec(receiver.url("game"))).await;
    node.give("show", &ids("g", 1)).await;
    let told = node.wait_for_hook(&hook, "it is disabled", |it| it.state == HookState::Disabled).await;
    let text = told.last_error.unwrap().text;
    assert!(text.contains("nothing has worked") && text.contains("503"), "{text}");
    receiver.answers(|_| OK);
    set(&node.engine, &hook, spec(receiver.url("game"))).await;
    receiver.wait_for_gifts(1).await;
}

/// Whether `webhook-signature` has one of the only key of this set. Read here on its own.
fn is_signed_by(key_set: &str, came: &Came) -> bool {
    let key_set: Value = serde_json::from_str(key_set).unwrap();
    let public =
        data_encoding::BASE64URL_NOPAD.decode(key_set["keys"][0]["x"].as_str().unwrap().as_bytes()).unwrap();
    let signed = [&came.id, ".", &came.timestamp, ".", &came.body].concat();
    let signatures = came.headers["webhook-signature"].split(' ').filter_map(|it| it.strip_prefix("v1a,"));
    let signatures: Vec<_> =
        signatures.map(|it| data_encoding::BASE64.decode(it.as_bytes()).unwrap()).collect();
    assert_eq!(signatures.len(), 1);
    UnparsedPublicKey::new(&ED25519, public).verify(signed.as_bytes(), &signatures[0]).is_ok()
}

async fn a_delivery_is_signed_by_the_installation_and_has_its_own_headers(store: Storage) {
    let (receiver, node) = (Receiver::start().await, Node::on(&store).await);
    let headers = [("Authorization", "Bearer a b"), ("x-room", "7")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let hook = key("show", "game");
    set(&node.engine, &hook, HookSpec { headers, ..spec(receiver.url("game")) }).await;
    node.give("show", &ids("a", 1)).await;
    receiver.wait_for_gifts(1).await;
    let first = node.engine.read_signing_key().await.unwrap().key_set();
    node.engine.close().await;
    drop(node);

    // Another node, later, has the same key.
    let node = Node::on(&store).await;
    node.give("show", &ids("b", 1)).await;
    receiver.wait_for_gifts(2).await;
    assert_eq!(node.engine.read_signing_key().await.unwrap().key_set(), first);
    for came in receiver.got() {
        assert_eq!((&*came.headers["authorization"], &*came.headers["x-room"]), ("Bearer a b", "7"));
        assert!(is_signed_by(&first, &came));
        let spoiled = Came { body: came.body.replace("show", "shew"), ..came };
        assert!(!is_signed_by(&first, &spoiled));
    }
}
