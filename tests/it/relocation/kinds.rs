//! Every kind of state, on both sides of a move.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Target, folder_of, stop};
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::{GiftSpec, gift};
use crate::support::process::Process;
use crate::support::receiver::{Delivery, OK, Receiver, Reply, SECRET};
use crate::support::stores::Storage;
use crate::support::watcher::Watcher;

/// Gifts that come before the move, and once more behind it.
fn gifts() -> Vec<GiftSpec> {
    let mut all: Vec<_> = (0..40)
        .map(|n| {
            gift(&format!("g{n}"))
                .by(&format!("u{}", n % 9))
                .value(100 + n, if n % 3 == 0 { "EUR" } else { "coins" })
        })
        .collect();
    all.extend(
        (1..5).map(|n| gift(&format!("frame{n}")).by("u1").combo("run", n).value(u64::from(n) * 10, "EUR")),
    );
    all.push(gift("blocked").by("out").value(7, "EUR"));
    all
}

async fn call(api: &Api, method: &str, path: &str, body: Value) -> Value {
    let said = api.call(method, path, Some(&body.to_string())).await;
    assert!((200..300).contains(&said.status), "{method} {path}: {said:?}");
    if said.text.is_empty() { Value::Null } else { said.json() }
}

/// What can be seen of the feed, but for what a move or the time of day changes.
async fn seen(api: &Api) -> Vec<(String, Value)> {
    let paths = [
        "",
        "/policy",
        "/scheduled",
        "/drops/rocket",
        "/users/u5/holds",
        "/review",
        "/blocks",
        "/groups/game",
        "/groups/game/dead",
        "/sources/shop",
        "/totals",
        "/leaders?period=session&by=points",
        "/goals",
        "/goals/mic",
        "/ledger?limit=1000",
        "/ledger/summary",
        "/gifts/g3",
        "/gifts/g7",
        "/gifts/waits",
    ];
    let mut all = Vec::new();
    for path in paths
        .map(|path| format!("/v1/feeds/show{path}"))
        .into_iter()
        .chain(["/v1/feeds/*/blocks", "/.well-known/jwks.json"].map(String::from))
    {
        let said = api.get(&path).await;
        let mut value = if said.text.starts_with('{') { said.json() } else { json!(said.text) };
        // Webhooks try again and again.
        for passes in ["epoch", "server_time", "oldest_ms", "to", "readers"] {
            if let Some(object) = value.as_object_mut() {
                object.remove(passes);
            }
        }
        all.push((format!("{path} {}", said.status), value));
    }
    all
}

async fn everything_goes_on(store: Storage) {
    let (backing, receiver) = (Backing::folder(), Receiver::start().await);
    // It takes nothing before the move.
    // It comes again soon, however slow the move is.
    receiver.answers(|_| Reply::Status(503, "Retry-After: 1"));
    let env = vec![("TIPCAST_WEBHOOKS__ALLOW_PRIVATE".to_owned(), "true".to_owned())];
    let gateway = Process::start("127.0.0.1:0", backing.args(), env.clone());
    let feed = "/v1/feeds/show";
    gateway
        .patch_policy(
            "show",
            json!({"totals": ["session", "day", "all"], "points": {"EUR": 1}, "capacity": 7}),
        )
        .await;
    let goal = json!({"title": "Mic", "period": "session", "by": "points", "target": 100_000});
    call(&gateway, "PUT", &format!("{feed}/goals/mic"), goal).await;
    call(
        &gateway,
        "PUT",
        &format!("{feed}/drops/rocket"),
        json!({"gift": {"id": "r", "name": "R"}, "total": 5}),
    )
    .await;
    for (id, user, pay) in [("c1", "u5", "later"), ("c2", "u6", "now")] {
        let claim = json!({"id": id, "user": {"id": user, "name": user}, "pay": pay});
        call(&gateway, "POST", &format!("{feed}/drops/rocket/claims"), claim).await;
    }
    call(&gateway, "PUT", &format!("{feed}/blocks/out"), json!({})).await;
    call(&gateway, "PUT", "/v1/feeds/*/blocks/everywhere", json!({})).await;
    for (path, types) in [
        (format!("{feed}/webhooks/crm"), json!(null)),
        ("/v1/feeds/*/webhooks/all".into(), json!(["gift.retracted"])),
    ] {
        let name = path.rsplit_once('/').unwrap().1;
        let mut hook = json!({"url": receiver.url(name), "secret": SECRET});
        if !types.is_null() {
            hook["types"] = types;
        }
        call(&gateway, "PUT", &path, hook).await;
    }
    let source = json!({"preset": "kofi", "token": "ko-token", "default_gift": {"id": "tip", "name": "Tip"}});
    call(&gateway, "PUT", &format!("{feed}/sources/shop"), source).await;
    call(&gateway, "POST", &format!("{feed}/groups/game/claim"), json!({"consumer": "a", "max": 1})).await;
    for one in gifts() {
        let said = gateway.post_gift("show", &one).await;
        assert!(said.status < 300, "{said:?}");
    }
    call(&gateway, "POST", &format!("{feed}/gifts/g7/refund"), json!({"refunded": 30})).await;
    call(&gateway, "POST", &format!("{feed}/gifts/g3/retract"), json!({})).await;
    gateway.post_gift("other", &gift("soon").by("u2").with("delay_ms", json!(2_000))).await;
    gateway.post_gift("show", &gift("later").by("u2").with("delay_ms", json!(3_600_000))).await;
    gateway.patch_policy("show", json!({"review": "all"})).await;
    gateway.post_gift("show", &gift("waits").by("u8").value(5, "EUR")).await;
    gateway.patch_policy("show", json!({"review": "off"})).await;
    let claim = json!({"consumer": "a", "max": 10, "lease_ms": 600_000});
    let handed = call(&gateway, "POST", &format!("{feed}/groups/game/claim"), claim).await["entries"].clone();
    let handed = handed.as_array().unwrap().clone();
    assert_eq!(handed.len(), 10);
    call(&gateway, "POST", &format!("{feed}/groups/game/ack"), json!({"cursors": [handed[0]["cursor"]]}))
        .await;
    receiver.wait_for("a delivery", |all| !all.is_empty()).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_for_the_list().await;
    // Watchers hear of totals a moment after they count.
    let since = Instant::now();
    loop {
        let (list, goal) =
            (gateway.get_feed("show").await, gateway.get(&format!("{feed}/goals/mic")).await.json());
        if list["goals"][0]["value"] == goal["value"] {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{list} {goal}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (before, position) = (seen(&gateway).await, gateway.get_feed("show").await["epoch"].clone());
    stop(gateway);

    let target = Target::of(store);
    let (code, said) = target.take(folder_of(&backing), &[]);
    assert!(code == Some(0) && said.contains("moved 2 feeds"), "{said}");
    let (args, more) = target.settings();
    let gateway = Process::start("127.0.0.1:0", args, [env, more].concat());
    let after = seen(&gateway).await;
    for (before, after) in before.iter().zip(&after) {
        let lines = |it: &(String, Value)| format!("{}\n{:#}", it.0, it.1);
        let (before, after) = (lines(before), lines(after));
        let differs = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        assert_eq!(differs, None, "{before} {after}");
        assert_eq!(before.lines().count(), after.lines().count(), "{before}\n{after}");
    }
    let list = gateway.get_feed("show").await;
    assert_ne!(list["epoch"], position);
    // Every gift is known, and gets the first answer.
    for one in gifts() {
        let again = gateway.post_gift("show", &one).await;
        assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)), "{again:?}");
    }
    // What was due meanwhile is shown, and what is not is not.
    until("the scheduled gift", async || {
        gateway.get("/v1/feeds/other/gifts/soon").await.json()["status"] != "scheduled"
    })
    .await;
    assert_eq!(gateway.get(&format!("{feed}/gifts/later")).await.json()["status"], "scheduled");
    // The reader goes on where it was: what it had is its own, what comes next is the next.
    let rest: Vec<Value> = handed[1..].iter().map(|entry| entry["cursor"].clone()).collect();
    let acked = call(&gateway, "POST", &format!("{feed}/groups/game/ack"), json!({"cursors": rest})).await;
    assert_eq!(acked["acked"], 9);
    let next =
        call(&gateway, "POST", &format!("{feed}/groups/game/claim"), json!({"consumer": "a", "max": 1000}))
            .await;
    let next = next["entries"].as_array().unwrap().clone();
    let number = |entry: &Value| entry["cursor"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&next[0]), number(&handed[9]) + 1);
    // Stock goes on: one is sold, one is held and can be paid.
    let hold = gateway.get(&format!("{feed}/users/u5/holds")).await.json()["holds"][0]["hold"].clone();
    let said = gateway.call("POST", &format!("{feed}/holds/{}/confirm", hold.as_str().unwrap()), None).await;
    assert_eq!(said.status, 200, "{said:?}");
    let drop = gateway.get(&format!("{feed}/drops/rocket")).await.json();
    assert_eq!((&drop["free"], &drop["held"], &drop["sold"]), (&json!(3), &json!(0), &json!(2)));
    // Review, blocks and sums go on.
    call(&gateway, "POST", &format!("{feed}/review/waits"), json!({"action": "approve"})).await;
    let blocked = gateway.give("show", &gift("b2").by("everywhere")).await;
    assert_eq!(blocked["status"], "suppressed");
    let totals = gateway.get(&format!("{feed}/totals")).await.json()["totals"]["session"]["points"].clone();
    let points: i64 = (0..40).filter(|n| n % 3 == 0 && *n != 3).map(|n| 100 + n).sum::<i64>() + 40 + 7 + 5;
    assert_eq!(totals, points);
    // The webhooks deliver what waited for them, to the end.
    receiver.answers(|_| OK);
    receiver
        .wait_for("everything", |all| {
            // That of all feeds wants retractions alone, and had none yet.
            let retracted =
                |delivery: &&Delivery| delivery.path.ends_with("all") && delivery.gifts() == ["g3"];
            let text: Vec<_> = all.iter().flat_map(|delivery| delivery.gifts()).collect();
            (0..40).all(|n| text.contains(&format!("g{n}")))
                && text.contains(&"waits".to_owned())
                && all.iter().any(|delivery| retracted(&delivery))
        })
        .await;
    // A watcher sees the list and goes on.
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_for_the_list().await;
    gateway.give("show", &gift("new").by("u3")).await;
    watcher.wait_for_the_list().await;
}

async fn until(what: &str, done: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done().await {
        assert!(std::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_folder_has_goes_on_in_redis() {
    everything_goes_on(Storage::redis()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_folder_has_goes_on_in_a_cluster() {
    everything_goes_on(Storage::cluster()).await;
}
