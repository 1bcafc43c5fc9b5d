//! Dead letters: what was handed out or sent often enough.

use serde_json::{Value, json};
use tipcast::domain::{Delivery, Hook, HookKey, HookScope, HookSpec, Job, Millis, json::syntax};
use tipcast::domain::{FeedId, Gift};
use tipcast::engine::{Death, Save, Swapped, Want};

use super::{NOWHERE, SECRET, all, cursors, engine_on};
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores!(
    an_entry_given_back_too_often_is_a_dead_letter_until_it_is_sent_again,
    dead_letters_are_sent_again_by_id_by_gift_and_by_range,
    dead_letters_of_a_webhook_are_listed_and_sent_again,
    dead_letters_of_a_webhook_of_all_feeds_carry_their_feed,
);

const DEAD: &str = "/v1/feeds/show/groups/g/dead";
const REPLAY: &str = "/v1/feeds/show/groups/g/dead/replay";

/// A gateway that gives up after one attempt, and whose group `g` has these dead letters.
async fn with_dead(ids: &[&str]) -> TestApp {
    let app = TestApp::with(&Backing::fresh(), |config| config.reports.max_attempts = 1).await;
    app.roses(ids).await;
    let entries = app.pull(json!({})).await;
    assert_eq!(all(&entries, "/gift/id"), ids);
    let said = app.call("POST", "/v1/feeds/show/groups/g/nack", Some(&cursors(&entries).to_string())).await;
    assert_eq!(said.json(), json!({"nacked": ids.len()}));
    assert_eq!(app.pull(json!({})).await, Vec::<Value>::new(), "each was handed out often enough");
    app
}

async fn an_entry_given_back_too_often_is_a_dead_letter_until_it_is_sent_again() {
    let app = with_dead(&["a", "b"]).await;
    let view = app.group().await;
    assert_eq!([&view["dead"], &view["pending"], &view["lag"]], [2, 0, 0]);
    let listed = app.get(DEAD).await.json();
    assert_eq!(listed["more"], false);
    let dead = listed["dead"].as_array().unwrap();
    assert_eq!(all(dead, "/entry/gift/id"), ["a", "b"]);
    assert_eq!(all(dead, "/id"), all(dead, "/entry/cursor"));
    assert_eq!((&dead[0]["feed"], &dead[0]["attempts"]), (&json!("show"), &json!(1)));
    assert!(!dead[0]["reason"].as_str().unwrap().is_empty());
    assert!(Millis::parse(dead[0]["died_at"].as_str().unwrap()).is_some());
    assert_eq!(app.post(REPLAY, &json!({})).await.json(), json!({"replayed": 2}));
    assert_eq!(app.get(DEAD).await.json(), json!({"dead": [], "more": false}));
    assert_eq!(all(&app.pull(json!({})).await, "/gift/id"), ["a", "b"]);
    assert_eq!(app.post(REPLAY, &json!({})).await.json(), json!({"replayed": 0}));
}

async fn dead_letters_are_sent_again_by_id_by_gift_and_by_range() {
    let app = with_dead(&["a", "b", "c", "d", "e"]).await;
    let dead = app.get(DEAD).await.json()["dead"].as_array().unwrap().clone();
    let id = |n: usize| dead[n]["id"].clone();
    assert_eq!(app.post(REPLAY, &json!({"ids": [id(0), "7"]})).await.json(), json!({"replayed": 1}));
    assert_eq!(app.post(REPLAY, &json!({"ids": ["c", "nobody's"]})).await.json(), json!({"replayed": 1}));
    assert_eq!(all(&app.pull(json!({})).await, "/gift/id"), ["a", "c"]);
    let range = json!({"from": id(0), "to": id(3)});
    assert_eq!(app.post(REPLAY, &range).await.json(), json!({"replayed": 2}));
    assert_eq!(all(&app.pull(json!({})).await, "/gift/id"), ["b", "d"]);
    let left = app.get(DEAD).await.json();
    assert_eq!(all(left["dead"].as_array().unwrap(), "/entry/gift/id"), ["e"]);
    for (body, pointer) in [
        (json!({"ids": [1]}), "/ids/0"),
        (json!({"ids": ["1"], "to": "2"}), "/ids"),
        (json!({"from": "2", "to": "1"}), "/to"),
        (json!({"from": 2}), "/from"),
        (json!({"all": true}), "/all"),
    ] {
        assert_eq!(app.post(REPLAY, &body).await.pointers(), [pointer], "{body}");
    }
    app.call("POST", REPLAY, Some("{")).await.problem(400);
    app.call("POST", DEAD, Some("{}")).await.problem(405);
}

/// A store in which this webhook could not send the gifts `FEED-1` and `FEED-2` of each feed.
pub(super) async fn with_dead_of(scope: HookScope, feeds: &[&str]) -> Backing {
    let backing = Backing::fresh();
    let engine = engine_on(&backing).await;
    let key = HookKey { scope, name: "w".parse().unwrap() };
    let (delivery, max_age_ms) = (Delivery::AtLeastOnce, 0);
    let (url, secret) = (NOWHERE.to_owned(), SECRET.to_owned());
    let spec = HookSpec {
        url,
        secret,
        batch_max: 1,
        batch_ms: 0,
        max_age_ms,
        delivery,
        types: vec![],
        headers: [].into(),
    };
    let hook = Hook::new(spec, Millis::now());
    assert_eq!(engine.swap_webhook(&key, None, Some(hook), Millis::now()).await, Ok(Swapped::Done));
    for feed in feeds {
        let name: FeedId = feed.parse().unwrap();
        for n in 1..=2 {
            let body = gift(&format!("{feed}-{n}")).json().to_string();
            let gift = Gift::parse(syntax(body.as_bytes()).unwrap(), None).unwrap();
            engine.publish(&name, vec![gift], Millis::now()).await.unwrap();
        }
        let job = Job { feed: name, reader: key.reader() };
        let want = Want { most: 10, batch_ms: 0 };
        let work = engine.open_job(&job, want, Millis::now()).await.unwrap().unwrap();
        assert_eq!(work.entries.len(), 2, "{work:?}");
        let dead = work.entries.iter().map(|entry| {
            let reason = "404 <b>Not Found</b>".to_owned();
            Death { cursor: entry.cursor, attempts: 2, reason }
        });
        let save = Save {
            was: work.progress.clone(),
            through: work.entries.last().map(|entry| entry.cursor),
            dead: dead.collect(),
            ..Save::default()
        };
        assert!(engine.save_job(&job, save, want, Millis::now()).await.unwrap().is_some());
    }
    engine.close().await;
    backing
}

async fn dead_letters_of_a_webhook_are_listed_and_sent_again() {
    let backing = with_dead_of(HookScope::Feed("show".parse().unwrap()), &["show"]).await;
    let app = TestApp::on(&backing).await;
    let (dead, replay) = ("/v1/feeds/show/webhooks/w/dead", "/v1/feeds/show/webhooks/w/dead/replay");
    let listed = app.get(dead).await.json()["dead"].as_array().unwrap().clone();
    assert_eq!(all(&listed, "/entry/gift/id"), ["show-1", "show-2"]);
    assert_eq!(all(&listed, "/reason"), ["404 <b>Not Found</b>", "404 <b>Not Found</b>"]);
    assert_eq!(all(&listed, "/id"), all(&listed, "/entry/cursor"));
    assert_eq!((&listed[0]["attempts"], listed[0]["entry"].get("attempt")), (&json!(2), None));
    assert_eq!(app.post(replay, &json!({"ids": [listed[1]["id"]]})).await.json(), json!({"replayed": 1}));
    let left = app.get(dead).await.json();
    assert_eq!(all(left["dead"].as_array().unwrap(), "/id"), [listed[0]["id"].clone()]);
    assert_eq!(app.post(replay, &json!({})).await.json(), json!({"replayed": 1}));
    for path in ["/v1/feeds/show/webhooks/none/dead", "/v1/feeds/*/webhooks/w/dead"] {
        app.get(path).await.problem(404);
        app.call("POST", &format!("{path}/replay"), Some("{}")).await.problem(404);
    }
}

async fn dead_letters_of_a_webhook_of_all_feeds_carry_their_feed() {
    let backing = with_dead_of(HookScope::All, &["one", "two"]).await;
    let app = TestApp::on(&backing).await;
    let (dead, replay) = ("/v1/feeds/*/webhooks/w/dead", "/v1/feeds/%2A/webhooks/w/dead/replay");
    let listed = app.get(dead).await.json()["dead"].as_array().unwrap().clone();
    let mut gifts: Vec<String> =
        all(&listed, "/entry/gift/id").iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    gifts.sort();
    assert_eq!(gifts, ["one-1", "one-2", "two-1", "two-2"]);
    for letter in &listed {
        let wanted =
            format!("{}/{}", letter["feed"].as_str().unwrap(), letter["entry"]["cursor"].as_str().unwrap());
        assert_eq!(letter["id"], wanted);
    }
    assert_eq!(app.post(replay, &json!({"from": "1"})).await.pointers(), ["/from"]);
    let first = listed.iter().find(|letter| letter["feed"] == "two").unwrap();
    assert_eq!(app.post(replay, &json!({"ids": [first["id"]]})).await.json(), json!({"replayed": 1}));
    // Without its feed a cursor says nothing here; a gift's id does.
    let bare = json!({"ids": [first["entry"]["cursor"], "one-2"]});
    assert_eq!(app.post(replay, &bare).await.json(), json!({"replayed": 1}));
    assert_eq!(app.post(replay, &json!({})).await.json(), json!({"replayed": 2}));
    assert_eq!(app.get(dead).await.json()["dead"], json!([]));
}
