//! Every type that can be triggered, and what is left behind.

use serde_json::{Value, json};

use super::{command, entries};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::process::{Process, signal};

const TYPES: [&str; 8] = [
    "gift.accepted",
    "gift.merged",
    "gift.suppressed",
    "gift.denied",
    "gift.retracted",
    "gift.refunded",
    "drop.sold",
    "goal.reached",
];

on_both_stores!(
    every_type_happens_and_nothing_is_left_but_its_entries,
    a_feed_that_counts_goes_on_counting,
    held_gifts_are_approved_by_a_host,
    one_that_is_interrupted_takes_away_what_it_made
);

async fn run(words: &[&str], url: &str) -> (Option<i32>, String) {
    let args = command(words, url);
    let (status, said) = tokio::task::spawn_blocking(move || Process::run(&args)).await.unwrap();
    (status.code(), said)
}

async fn every_type_happens_and_nothing_is_left_but_its_entries() {
    let app = TestApp::start().await;
    let before = app.get_policy("show").await;
    // A second time as well: what the first made is in nobody's way.
    for kind in TYPES.iter().chain(&TYPES) {
        let (code, said) = run(&["trigger", kind], &app.url()).await;
        assert_eq!(code, Some(0), "{kind}: {said}");
        let printed = entries(&said);
        assert_eq!((printed.len(), &printed[0]["type"]), (1, &json!(kind)), "{said}");
    }
    let ledger = app.get("/v1/feeds/show/ledger?limit=1000").await.json();
    let happened = ledger["entries"].as_array().unwrap();
    for kind in TYPES {
        assert!(happened.iter().filter(|entry| entry["type"] == kind).count() >= 2, "{kind}");
    }
    assert_eq!(app.get_policy("show").await, before);
    for (path, wanted) in [
        ("groups", json!({"groups": []})),
        ("blocks", json!({"blocks": []})),
        ("review", json!({"review": []})),
        ("goals", json!({"feed": "show", "goals": []})),
    ] {
        assert_eq!(app.get(&format!("/v1/feeds/show/{path}")).await.json(), wanted, "{path}");
    }
    let drop = app.get("/v1/feeds/show/drops/trigger").await.json();
    assert_eq!((&drop["state"], &drop["sold"]), (&json!("closed"), &json!(2)));
}

async fn held_gifts_are_approved_by_a_host() {
    let app = TestApp::start().await;
    for review in ["all", "messages"] {
        app.patch_policy("show", json!({"review": review, "totals": ["session"]})).await;
        let before = app.get_policy("show").await;
        for kind in TYPES {
            let (code, said) = run(&["trigger", kind], &app.url()).await;
            assert_eq!(code, Some(0), "{review} {kind}: {said}");
            assert_eq!(entries(&said)[0]["type"], json!(kind), "{said}");
        }
        assert_eq!(app.get_policy("show").await, before);
        assert_eq!(app.get("/v1/feeds/show/review").await.json(), json!({"review": []}));
    }
}

async fn a_feed_that_counts_goes_on_counting() {
    let app = TestApp::start().await;
    app.put_policy("show", json!({"totals": ["day"], "dedup": "off", "delay_ms": 60_000})).await;
    app.post_json("show", &json!({
        "id": "a", "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"}, "count": 7, "delay_ms": 0
    })).await;
    for kind in TYPES {
        let (code, said) = run(&["trigger", kind], &app.url()).await;
        assert_eq!((code, entries(&said).len()), (Some(0), 1), "{kind}: {said}");
    }
    assert_eq!(app.get_policy("show").await["totals"], json!(["day"]));
    let totals = app.get("/v1/feeds/show/totals").await.json();
    assert!(totals["totals"]["day"]["units"].as_u64().unwrap() >= 7, "{totals}");
}

#[tokio::test]
async fn an_impossible_trigger_says_why() {
    let app = TestApp::start().await;
    for (kind, word) in
        [("ledger.lost", "cut from the ledger"), ("person.erased", "erase"), ("gift", "gift.accepted")]
    {
        let (code, said) = run(&["trigger", kind], &app.url()).await;
        assert!(code == Some(2) && said.contains(word), "{kind}: {code:?} {said}");
    }
    assert_eq!(app.get("/v1/feeds/show/ledger").await.json(), json!({"entries": []}));
    let (code, said) = run(&["trigger", "gift.accepted"], "http://127.0.0.1:1").await;
    assert!(code == Some(1) && said.contains("does not answer"), "{said}");
}

#[tokio::test]
async fn a_desk_that_needs_a_key_asks_for_one() {
    let key = "a-key-of-the-tests-own";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![key.to_owned().into()];
    })
    .await;
    let (code, said) = run(&["trigger", "gift.accepted"], &app.url()).await;
    assert!(code == Some(1) && said.contains("--key"), "{said}");
    let (code, said) = run(&["trigger", "gift.accepted", "--key", key], &app.url()).await;
    let printed: Vec<Value> = entries(&said);
    assert_eq!((code, printed.len()), (Some(0), 1), "{said}");
}

async fn one_that_is_interrupted_takes_away_what_it_made() {
    let app = TestApp::start().await;
    let before = app.get_policy("show").await;
    for kind in ["gift.denied", "gift.suppressed", "goal.reached", "gift.denied", "goal.reached"] {
        let mut trigger = Process::spawned(&command(&["trigger", kind], &app.url()));
        // Its group is the first that it makes.
        let deadline = std::time::Instant::now() + PATIENCE;
        // Or it is done already, on a machine with other things to do.
        while app.get("/v1/feeds/show/groups").await.json()["groups"] == json!([])
            && !trigger.said().contains("event_id")
        {
            assert!(std::time::Instant::now() < deadline, "{}", trigger.said());
        }
        signal("INT", trigger.id());
        let ended = tokio::task::spawn_blocking(move || (trigger.wait(), trigger.said())).await.unwrap();
        assert!(ended.0.success(), "{kind}: {ended:?}");
        assert_eq!(app.get_policy("show").await, before, "{kind}");
        assert_eq!(app.get("/v1/feeds/show/blocks").await.json(), json!({"blocks": []}), "{kind}");
        assert_eq!(app.get("/v1/feeds/show/groups").await.json(), json!({"groups": []}), "{kind}");
        assert_eq!(app.get("/v1/feeds/show/goals").await.json()["goals"], json!([]), "{kind}");
    }
}
