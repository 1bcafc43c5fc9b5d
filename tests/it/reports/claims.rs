//! Groups: claiming, waiting, acknowledging and giving back.

use std::time::Duration;

use serde_json::{Value, json};
use tipcast::auth::{KeyHash, fresh_key};
use tipcast::config::KeyTable;
use tipcast::domain::Millis;
use tokio::time::Instant;

use super::{all, cursors, kind, with};
use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::claims::{claim, rockets};
use crate::support::gifts::gift;

on_both_stores!(
    a_group_gets_every_gift_once_in_order_as_it_was_accepted,
    acknowledged_entries_are_done_and_returned_ones_come_again,
    an_entry_whose_lease_ran_out_goes_to_the_next_claimer,
    a_new_group_begins_at_the_start_or_now,
    groups_are_independent_listed_and_deleted,
    a_waiting_claim_is_answered_by_a_gift_by_a_nack_and_by_the_end_of_a_lease,
    a_client_that_went_away_is_handed_nothing,
    one_key_takes_its_share_of_the_waiting_claims_and_another_key_still_waits,
    a_waiting_claim_is_answered_empty_at_its_end_and_when_the_gateway_leaves,
    every_body_is_checked,
    a_feed_has_only_so_many_groups,
);

async fn a_group_gets_every_gift_once_in_order_as_it_was_accepted() {
    let app = TestApp::start().await;
    let whole =
        gift("g:1").count(3).value(499, "EUR").with("message", json!("hi")).with("meta", json!({"a": 1}));
    let first = app.give("show", &whole).await;
    app.give("show", &gift("g:2")).await;
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    let kept = app.give("show", &gift("g:3")).await;
    app.give("show", &gift("test").test()).await;
    app.call("PUT", "/v1/feeds/show/drops/r", Some(&rockets(2).to_string())).await;
    let sold = app.post("/v1/feeds/show/drops/r/claims", &claim("c1", "bob")).await.json();
    let entries = app.pull(json!({})).await;
    assert_eq!(all(&entries, "/gift/id"), ["g:1", "g:2", "g:3", "c1"], "a test is no entry");
    assert_eq!(all(&entries, "/type"), ["gift.accepted", "gift.merged", "gift.suppressed", "drop.sold"]);
    assert_eq!(all(&entries, "/attempt"), [json!(1), json!(1), json!(1), json!(1)]);
    assert_eq!((&entries[0]["seq"], &entries[0]["row"]), (&first["seq"], &first["row"]));
    assert_eq!((&entries[2].get("seq"), &entries[2]["row"]), (&None, &kept["row"]));
    assert_eq!((&entries[3]["seq"], &entries[3]["row"]), (&sold["seq"], &sold["row"]));
    assert_eq!(entries[0]["gift"], whole.json());
    let euros = json!({"count": 3, "value": {"amount": 499, "currency": "EUR"}});
    assert_eq!(
        all(&entries, "/delta"),
        [euros, json!({"count": 1}), json!({"count": 1}), json!({"count": 1})]
    );
    assert_eq!((&entries[3]["drop"], entries[3].get("hold")), (&json!("r"), None));
    for entry in &entries {
        assert_eq!(entry["event_id"], format!("show/{}", entry["cursor"].as_str().unwrap()));
        assert_eq!((&entry["feed"], entry.get("status")), (&json!("show"), None));
    }
    let numbers: Vec<u64> = entries.iter().map(|e| e["cursor"].as_str().unwrap().parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    assert!(entries.iter().all(|e| Millis::parse(e["at"].as_str().unwrap()).is_some()));
    assert_eq!(app.pull(json!({})).await, Vec::<Value>::new());
}

async fn acknowledged_entries_are_done_and_returned_ones_come_again() {
    let app = TestApp::start().await;
    app.roses(&["a", "b", "c", "d"]).await;
    let entries = app.pull(json!({"max": 3})).await;
    assert_eq!(entries.len(), 3);
    let view = app.group().await;
    assert_eq!([&view["lag"], &view["pending"], &view["dead"], &view["lost"]], [1, 3, 0, 0]);
    assert!(view["oldest_ms"].is_u64() && view["group"] == "g", "{view}");
    let (ack, nack) = ("/v1/feeds/show/groups/g/ack", "/v1/feeds/show/groups/g/nack");
    // Repeated and unknown cursors change nothing.
    let mut some = cursors(&entries[..1]);
    some["cursors"].as_array_mut().unwrap().extend([entries[0]["cursor"].clone(), json!("1")]);
    assert_eq!(app.post(ack, &some).await.json(), json!({"acked": 1, "unknown": 1}));
    assert_eq!(app.post(ack, &some).await.json(), json!({"acked": 0, "unknown": 2}));
    assert_eq!(app.post(nack, &cursors(&entries[..2])).await.json(), json!({"nacked": 1}));
    let mut again = app.pull(json!({})).await;
    assert_eq!(all(&again, "/gift/id"), ["d"], "what was given back comes after a pause");
    again.extend(app.pull(json!({"wait_ms": 20_000})).await);
    assert_eq!(all(&again, "/gift/id"), ["d", "b"]);
    assert_eq!(all(&again, "/attempt"), [json!(1), json!(2)]);
    assert_eq!(app.post(ack, &cursors(&again)).await.json(), json!({"acked": 2, "unknown": 0}));
    let said = app.post(ack, &cursors(&entries)).await.json();
    assert_eq!(said, json!({"acked": 1, "unknown": entries.len() - 1}), "c is still there");
    let view = app.group().await;
    assert_eq!([&view["lag"], &view["pending"], &view["oldest_ms"]], [0, 0, 0]);
}

async fn an_entry_whose_lease_ran_out_goes_to_the_next_claimer() {
    let app = TestApp::start().await;
    app.roses(&["a"]).await;
    let first = app.pull(json!({"lease_ms": 1_000})).await;
    let asked = Instant::now();
    let again = app.pull(json!({"wait_ms": 20_000})).await;
    assert_eq!((&again[0]["gift"]["id"], &again[0]["attempt"]), (&json!("a"), &json!(2)));
    assert!(asked.elapsed() < Duration::from_secs(19), "it waited for the lease only");
    let said = app.post("/v1/feeds/show/groups/g/ack", &cursors(&first)).await;
    assert_eq!(said.json(), json!({"acked": 1, "unknown": 0}), "also after the lease moved on");
}

async fn a_new_group_begins_at_the_start_or_now() {
    let app = TestApp::start().await;
    app.roses(&["old"]).await;
    for (group, from, wanted) in [("all", "start", vec!["old", "new"]), ("next", "now", vec!["new"])] {
        let path = format!("/v1/feeds/show/groups/{group}/claim");
        let body = json!({"consumer": "t", "from": from, "max": 1});
        let mut got = app.post(&path, &body).await.json()["entries"].as_array().unwrap().clone();
        if group == "all" {
            app.roses(&["new"]).await;
        } else {
            assert_eq!(got, Vec::<Value>::new());
            app.give("show", &gift("new").by("new")).await;
            app.roses(&["newer"]).await;
        }
        got.extend(app.post(&path, &body).await.json()["entries"].as_array().unwrap().clone());
        let wanted = if group == "next" { vec!["newer"] } else { wanted };
        assert_eq!(all(&got, "/gift/id"), wanted, "{group}");
    }
}

async fn groups_are_independent_listed_and_deleted() {
    let app = TestApp::start().await;
    app.roses(&["a", "b"]).await;
    assert_eq!(app.get("/v1/feeds/show/groups").await.json(), json!({"groups": []}));
    for group in ["g", "other"] {
        let path = format!("/v1/feeds/show/groups/{group}/claim");
        let said = app.post(&path, &json!({"consumer": "t"})).await.json();
        assert_eq!(all(said["entries"].as_array().unwrap(), "/gift/id"), ["a", "b"], "{group}");
    }
    let listed = app.get("/v1/feeds/show/groups").await.json();
    assert_eq!(all(listed["groups"].as_array().unwrap(), "/group"), ["g", "other"]);
    assert_eq!(all(listed["groups"].as_array().unwrap(), "/pending"), [json!(2), json!(2)]);
    assert_eq!(app.call("DELETE", "/v1/feeds/show/groups/other", None).await.status, 204);
    for (method, path, body) in [
        ("DELETE", "/v1/feeds/show/groups/other", None),
        ("GET", "/v1/feeds/show/groups/other", None),
        ("GET", "/v1/feeds/show/groups/other/dead", None),
        ("POST", "/v1/feeds/show/groups/other/ack", Some(r#"{"cursors":["1"]}"#)),
        ("POST", "/v1/feeds/show/groups/other/nack", Some(r#"{"cursors":["1"]}"#)),
        ("POST", "/v1/feeds/show/groups/other/dead/replay", Some("{}")),
    ] {
        let told = app.call(method, path, body).await.problem(404);
        assert!(told["detail"].as_str().unwrap().contains("group"), "{told}");
    }
    let listed = app.get("/v1/feeds/show/groups").await.json();
    assert_eq!(all(listed["groups"].as_array().unwrap(), "/group"), ["g"]);
}

/// Claims in the background, waiting long.
fn waits(app: &TestApp) -> tokio::task::JoinHandle<Vec<Value>> {
    let api: Api = (**app).clone();
    tokio::spawn(async move { api.pull(json!({"wait_ms": 30_000, "lease_ms": 1_000})).await })
}

/// Waits until a claim that makes the group has looked for the first time.
async fn has_looked(app: &TestApp) {
    while app.get("/v1/feeds/show/groups/g").await.status != 200 {}
}

async fn a_waiting_claim_is_answered_by_a_gift_by_a_nack_and_by_the_end_of_a_lease() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "drop", "dedup_window_ms": 600_000})).await;
    let begun = Instant::now();
    let waiting = waits(&app);
    has_looked(&app).await;
    app.give("show", &gift("a")).await;
    let entries = waiting.await.unwrap();
    assert_eq!(all(&entries, "/gift/id"), ["a"]);
    // What is not shown wakes too.
    let waiting = {
        let api: Api = (*app).clone();
        tokio::spawn(async move { api.pull(json!({"wait_ms": 30_000, "lease_ms": 600_000})).await })
    };
    app.post("/v1/feeds/show/groups/g/ack", &cursors(&entries)).await;
    app.give("show", &gift("b")).await;
    let suppressed = waiting.await.unwrap();
    assert_eq!(all(&suppressed, "/type"), ["gift.suppressed"]);
    let waiting = waits(&app);
    let said = app.post("/v1/feeds/show/groups/g/nack", &cursors(&suppressed)).await;
    assert_eq!(said.json(), json!({"nacked": 1}));
    let again = waiting.await.unwrap();
    assert_eq!((all(&again, "/gift/id"), all(&again, "/attempt")), (vec![json!("b")], vec![json!(2)]));
    // The lease of a second ends while the next one waits.
    let third = waits(&app).await.unwrap();
    assert_eq!(all(&third, "/attempt"), [json!(3)]);
    assert!(begun.elapsed() < Duration::from_secs(30), "none waited to its end");
}

async fn a_client_that_went_away_is_handed_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = TestApp::start().await;
    let mut gone = tokio::net::TcpStream::connect(app.authority()).await.unwrap();
    let body = json!({"consumer": "gone", "wait_ms": 30_000}).to_string();
    let head = format!(
        "POST /v1/feeds/show/groups/g/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    gone.write_all(head.as_bytes()).await.unwrap();
    has_looked(&app).await;
    // All that is seen of a process that ended.
    gone.shutdown().await.unwrap();
    let mut told = Vec::new();
    gone.read_to_end(&mut told).await.unwrap();
    assert_eq!(String::from_utf8(told).unwrap(), "", "the gateway hung up as well");
    app.roses(&["a"]).await;
    let view = app.group().await;
    assert_eq!([&view["lag"], &view["pending"]], [1, 0]);
}

async fn one_key_takes_its_share_of_the_waiting_claims_and_another_key_still_waits() {
    let keys = [fresh_key(), fresh_key()];
    let app = TestApp::with(&Backing::fresh(), |config| {
        // Of which five may be waiting claims, and two one key's.
        config.limits.connections = 40;
        config.auth.keys = keys
            .iter()
            .enumerate()
            .map(|(n, key)| KeyTable {
                name: format!("key-{n}"),
                hash: Some(KeyHash::of(key).to_string().into()),
                may: vec!["gifts".into(), "reports".into()],
                ..KeyTable::default()
            })
            .collect();
    })
    .await;
    let send = |key: usize, path: String, body: Value| {
        let request = app.request("POST", &path).header("content-type", "application/json");
        Api::send(request.bearer_auth(&keys[key]).body(body.to_string()))
    };
    let claim = |key: usize, feed: &str, group: &str, wait_ms: u64| {
        let path = format!("/v1/feeds/{feed}/groups/{group}/claim");
        send(key, path, json!({"consumer": "c", "wait_ms": wait_ms}))
    };
    let give = |feed: &str| send(0, format!("/v1/feeds/{feed}/gifts"), gift("g").json());
    assert_eq!(give("other").await.status, 201);
    // A claim's group is there when it has begun to wait.
    let is_there = async |group: &str| {
        let deadline = Instant::now() + PATIENCE;
        let path = format!("/v1/feeds/show/groups/{group}");
        while Api::send(app.request("GET", &path).bearer_auth(&keys[1])).await.status != 200 {
            assert!(Instant::now() < deadline, "no claim of group {group} waits");
        }
    };
    let waiting = ["a", "b"].map(|group| tokio::spawn(claim(0, "show", group, 20_000)));
    is_there("a").await;
    is_there("b").await;
    let refused = claim(0, "show", "c", 20_000).await;
    assert_eq!(kind(&refused, 429), "too-many-waiting-claims");
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() >= 1);
    let there = claim(0, "other", "c", 20_000).await;
    assert_eq!(there.json()["entries"][0]["gift"]["id"], "g", "what is there is handed out at once");
    let another = tokio::spawn(claim(1, "show", "d", 20_000));
    is_there("d").await;
    assert_eq!(give("show").await.status, 201);
    for claim in waiting.into_iter().chain([another]) {
        let said = claim.await.unwrap();
        assert_eq!(said.json()["entries"][0]["gift"]["id"], "g", "{said:?}");
    }
}

async fn a_waiting_claim_is_answered_empty_at_its_end_and_when_the_gateway_leaves() {
    let app = TestApp::start().await;
    let begun = Instant::now();
    assert_eq!(app.pull(json!({"wait_ms": 300})).await, Vec::<Value>::new());
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(app.call("DELETE", "/v1/feeds/show/groups/g", None).await.status, 204);
    let waiting = waits(&app);
    has_looked(&app).await;
    app.stop().await;
    assert_eq!(waiting.await.unwrap(), Vec::<Value>::new());
}

async fn every_body_is_checked() {
    let app = TestApp::start().await;
    let claim = json!({"consumer": "t"});
    for (body, pointer) in [
        (json!({}), "/consumer"),
        (with(claim.clone(), "consumer", json!("")), "/consumer"),
        (with(claim.clone(), "consumer", json!("é".repeat(33))), "/consumer"),
        (with(claim.clone(), "max", json!(0)), "/max"),
        (with(claim.clone(), "max", json!(1_001)), "/max"),
        (with(claim.clone(), "wait_ms", json!(30_001)), "/wait_ms"),
        (with(claim.clone(), "lease_ms", json!(999)), "/lease_ms"),
        (with(claim.clone(), "lease_ms", json!(600_001)), "/lease_ms"),
        (with(claim.clone(), "from", json!("middle")), "/from"),
        (with(claim.clone(), "cursor", json!("1")), "/cursor"),
    ] {
        let said = app.post("/v1/feeds/show/groups/g/claim", &body).await;
        assert_eq!(said.pointers(), [pointer], "{body}");
    }
    app.get("/v1/feeds/show/groups/g").await.problem(404);
    app.pull(json!({})).await;
    let many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    for (body, pointer) in [
        (json!({}), "/cursors"),
        (json!({"cursors": [17]}), "/cursors/0"),
        (json!({"cursors": many}), "/cursors"),
        (json!({"cursors": ["1"], "all": true}), "/all"),
    ] {
        for verb in ["ack", "nack"] {
            let said = app.post(&format!("/v1/feeds/show/groups/g/{verb}"), &body).await;
            assert_eq!(said.pointers(), [pointer], "{body}");
        }
    }
    for (verb, done) in [("ack", "acked"), ("nack", "nacked")] {
        for nobodys in [json!({"cursors": []}), json!({"cursors": ["x", "", "-1", "99999999999999999999"]})] {
            let said = app.post(&format!("/v1/feeds/show/groups/g/{verb}"), &nobodys).await.json();
            assert_eq!(said[done], 0, "{said}");
            let unknown = nobodys["cursors"].as_array().unwrap().len();
            assert!(verb == "nack" || said["unknown"] == unknown, "{said}");
        }
    }
    // A thousand long ones are larger than a gift may be.
    let most = json!({"cursors": (0..1_000).map(|n| (9_007_199_254_739_000_u64 + n).to_string()).collect::<Vec<_>>()});
    assert_eq!(app.post("/v1/feeds/show/groups/g/ack", &most).await.json()["acked"], 0);
    for name in ["a b", "a~b", "*", "", &"x".repeat(65)] {
        app.post(&format!("/v1/feeds/show/groups/{name}/claim"), &claim).await.problem(422);
        app.post(&format!("/v1/feeds/{name}/groups/g/claim"), &claim).await.problem(422);
    }
    for verb in ["claim", "ack", "nack"] {
        let path = format!("/v1/feeds/show/groups/g/{verb}");
        app.call("POST", &path, Some("{")).await.problem(400);
        app.call("POST", &path, Some("[]")).await.problem(422);
        app.call("GET", &path, None).await.problem(405);
        let untyped = app.request("POST", &path).body("{}");
        Api::send(untyped).await.problem(415);
    }
    app.call("POST", "/v1/feeds/show/groups/g/claim", Some(&" ".repeat(9_000))).await.problem(413);
}

async fn a_feed_has_only_so_many_groups() {
    let app = TestApp::on(&Backing::fresh()).await;
    let path = |n: usize| format!("/v1/feeds/show/groups/g{n}/claim");
    for n in 0..64 {
        assert_eq!(app.post(&path(n), &json!({"consumer": "t"})).await.status, 200, "{n}");
    }
    for wait_ms in [0, 1_000] {
        let said = app.post(&path(64), &json!({"consumer": "t", "wait_ms": wait_ms})).await;
        assert_eq!(kind(&said, 409), "too-many-readers");
    }
    assert_eq!(app.get("/v1/feeds/show/groups").await.json()["groups"].as_array().unwrap().len(), 64);
}
