//! Reading the ledger, adding it up, and moving a group in it.

use serde_json::{Value, json};

use super::all;
use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores!(
    the_ledger_is_read_page_by_page_and_filtered,
    the_ledger_is_added_up,
    earlier_sums_are_not_read_again_and_stay_right,
    a_group_is_moved,
    every_question_is_checked,
);

const LEDGER: &str = "/v1/feeds/show/ledger";

async fn page(app: &TestApp, query: &str) -> (Vec<Value>, Option<String>) {
    let said = app.get(&format!("{LEDGER}?{query}")).await;
    assert_eq!(said.status, 200, "{query}: {said:?}");
    let json = said.json();
    (
        json["entries"].as_array().unwrap().clone(),
        json.get("next").map(|next| next.as_str().unwrap().to_owned()),
    )
}

async fn the_ledger_is_read_page_by_page_and_filtered() {
    let app = TestApp::start().await;
    assert_eq!(app.get(LEDGER).await.json(), json!({"entries": []}), "of a feed that nobody knows");
    for n in 0..5 {
        app.give("show", &gift(&format!("g{n}")).by(if n % 2 == 0 { "a&b" } else { "bob" })).await;
    }
    app.call("POST", "/v1/feeds/show/gifts/g1/retract", None).await;
    let (whole, next) = page(&app, "").await;
    assert_eq!(
        (all(&whole, "/gift/id"), next),
        (["g0", "g1", "g2", "g3", "g4", "g1"].map(Value::from).to_vec(), None)
    );
    assert!(whole.iter().all(|entry| entry.get("attempt").is_none() && entry["feed"] == "show"));
    let mut seen = vec![];
    let mut after = String::new();
    for wanted in [4, 2] {
        let (entries, next) = page(&app, &format!("limit=4{after}")).await;
        assert_eq!((entries.len(), next.is_some()), (wanted, wanted == 4));
        after = format!("&after={}", next.unwrap_or_default());
        seen.extend(entries);
    }
    assert_eq!(seen, whole);
    let ids = async |query: &str| all(&page(&app, query).await.0, "/gift/id");
    assert_eq!(ids("type=gift.retracted").await, ["g1"]);
    assert_eq!(ids("type=ledger.lost").await, Vec::<Value>::new());
    assert_eq!(ids("user=a%26b").await, ["g0", "g2", "g4"]);
    assert_eq!(ids("user=bob&type=gift.merged").await, ["g3"]);
    let at = |n: usize| whole[n]["at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&format!("from={}&limit=1000", at(0))).await.len(), 6);
    assert_eq!(ids(&format!("to={}", at(0))).await, Vec::<Value>::new());
    assert_eq!(ids("from=2100-01-01T00:00:00Z").await, Vec::<Value>::new());
    assert_eq!(app.get("/v1/feeds/show/groups").await.json(), json!({"groups": []}), "nothing was made");
}

async fn the_ledger_is_added_up() {
    let app = TestApp::start().await;
    let sum = async |query: &str| {
        let said = app.get(&format!("{LEDGER}/summary?{query}")).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    };
    let empty = sum("").await;
    assert_eq!((&empty["entries"], &empty["count"], &empty["values"]), (&json!(0), &json!(0), &json!([])));
    assert!(empty.get("first").is_none() && empty["from"] == empty["to"]);
    app.give("show", &gift("a").count(3).value(500, "EUR")).await;
    app.give("show", &gift("b").by("bob").combo("c", 2).value(20, "coins")).await;
    app.give("show", &gift("c").by("bob").combo("c", 5).value(50, "coins")).await;
    app.give("show", &gift("d").by("cid").value(1, "EUR")).await;
    app.call("POST", "/v1/feeds/show/gifts/d/retract", None).await;
    let (entries, _) = page(&app, "").await;
    let got = sum("").await;
    let values = json!([{"currency": "EUR", "amount": 500}, {"currency": "coins", "amount": 50}]);
    let types = json!({"gift.accepted": 3, "gift.merged": 1, "gift.retracted": 1});
    assert_eq!(
        (&got["entries"], &got["types"], &got["count"], &got["values"]),
        (&json!(5), &types, &json!(8), &values)
    );
    assert_eq!((&got["first"], &got["last"]), (&entries[0]["cursor"], &entries[4]["cursor"]));
    let (from, to) = ("2100-01-01T00:00:00.000Z", "2100-01-02T00:00:00.000Z");
    let later = sum(&format!("from={from}&to={to}")).await;
    assert_eq!((&later["entries"], &later["from"], &later["to"]), (&json!(0), &json!(from), &json!(to)));
}

/// 2 500 gifts of 1 to 9 cents in batches, some of them taken back.
async fn earlier_sums_are_not_read_again_and_stay_right() {
    let app = TestApp::start().await;
    let reads = async || {
        let text = app.get("/metrics").await.text;
        let name = "tipcast_engine_call_seconds_count{operation=\"readers\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap()
    };
    let sum = async |query: &str| app.get(&format!("{LEDGER}/summary?{query}")).await.json();
    let mut given = 0;
    for batch in 0..25 {
        let one = |n: u64| gift(&format!("b{batch}-{n}")).by(&format!("u{n}")).value(1 + n % 9, "EUR").json();
        let gifts: Vec<Value> = (0..100).map(one).collect();
        given += (0..100).map(|n| 1 + n % 9).sum::<u64>();
        let said =
            app.call("POST", "/v1/feeds/show/gifts/batch", Some(&json!({"gifts": gifts}).to_string())).await;
        assert!(said.status < 300, "{said:?}");
        let whole = sum("").await;
        assert_eq!(
            (&whole["entries"], &whole["values"][0]["amount"]),
            (&json!((batch + 1) * 100), &json!(given))
        );
    }
    let before = reads().await;
    let whole = sum("").await;
    assert!(reads().await - before <= 3, "its first entry, the last step's last, and what is behind that");
    let last = whole["last"].as_str().unwrap().to_owned();
    let (entries, _) = page(&app, "limit=1000").await;
    let at = |n: usize| entries[n]["at"].as_str().unwrap().to_owned();
    // Bounds in the middle of steps, and steps that are not asked for.
    let by_hand = async |from: &str, to: &str| {
        let (mut amount, mut after) = (0, String::new());
        loop {
            let (entries, next) = page(&app, &format!("limit=1000&from={from}&to={to}{after}")).await;
            amount += entries.iter().map(|it| it["delta"]["value"]["amount"].as_i64().unwrap()).sum::<i64>();
            match next {
                Some(next) => after = format!("&after={next}"),
                None => return amount,
            }
        }
    };
    for (from, to) in [(at(0), at(999)), (at(300), "2100-01-01T00:00:00Z".into()), (at(999), at(0))] {
        let got = sum(&format!("from={from}&to={to}")).await;
        let amount = got["values"][0]["amount"].as_i64().unwrap_or(0);
        assert_eq!(amount, by_hand(&from, &to).await, "{from} to {to}");
    }
    assert_eq!(page(&app, "type=gift.retracted").await, (vec![], None));
    app.call("POST", "/v1/feeds/show/gifts/b0-0/retract", None).await;
    let after = sum("").await;
    assert_eq!((&after["entries"], &after["values"][0]["amount"]), (&json!(2_501), &json!(given - 1)));
    assert_ne!(after["last"], json!(last));
    assert_eq!(page(&app, "type=gift.retracted&limit=1").await.0.len(), 1);
}

async fn a_group_is_moved() {
    let app = TestApp::start().await;
    let seek = async |body: Value| app.post("/v1/feeds/show/groups/g/seek", &body).await;
    let none = seek(json!({"to": "start"})).await;
    assert_eq!((none.status, &none.json()["type"]), (404, &json!("/problems/not-found")));
    app.roses(&["a", "b", "c"]).await;
    let first = app.pull(json!({})).await;
    let moved = seek(json!({"cursor": first[1]["cursor"]})).await;
    assert_eq!((moved.status, moved.json()), (200, json!({"cursor": first[1]["cursor"]})));
    assert_eq!(all(&app.pull(json!({})).await, "/gift/id"), ["b", "c"]);
    assert_eq!(seek(json!({"at": first[0]["at"]})).await.json()["cursor"], first[0]["cursor"]);
    assert_eq!(app.pull(json!({})).await.len(), 3);
    assert_eq!(seek(json!({"to": "now"})).await.status, 200);
    assert_eq!(app.group().await["pending"], 0);
    // A claim that waits gets the entry.
    let waiting = async { app.pull(json!({"wait_ms": 20_000})).await };
    let back = async { seek(json!({"to": "start"})).await };
    let (entries, _) = futures_util::join!(waiting, back);
    assert_eq!(entries.len(), 3);
    for bad in [
        json!({}),
        json!({"to": "end"}),
        json!({"to": "start", "cursor": "1"}),
        json!({"cursor": "x"}),
        json!({"cursor": 1}),
        json!({"at": "yesterday"}),
        json!({"to": "start", "more": 1}),
    ] {
        let said = seek(bad.clone()).await;
        assert_eq!(said.status, 422, "{bad}: {said:?}");
    }
}

async fn every_question_is_checked() {
    let app = TestApp::start().await;
    for bad in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "after=-1",
        "after=a",
        "from=now",
        "to=",
        "type=gift",
        "type=accepted",
    ] {
        let said = app.get(&format!("{LEDGER}?{bad}")).await;
        assert_eq!((said.status, &said.json()["type"]), (422, &json!("/problems/invalid")), "{bad}");
    }
    for bad in ["from=now", "to=1"] {
        assert_eq!(app.get(&format!("{LEDGER}/summary?{bad}")).await.status, 422, "{bad}");
    }
}
