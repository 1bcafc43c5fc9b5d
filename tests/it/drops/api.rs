//! Section 5 over HTTP, as a producer and a watcher meet it.

use serde_json::{Value, json};
use tipcast::domain::Millis;

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::claims::{claim, hold, rockets, with};

on_both_stores!(
    a_drop_is_defined_changed_and_read,
    a_claim_is_sold_or_held_and_repeats_its_answer,
    a_sale_costs_its_units_by_the_price_of_its_time_wherever_it_is_seen,
    a_sale_is_looked_up_refunded_and_taken_back_to_the_cent,
    the_units_of_a_sale_are_free_again_once_if_that_is_said,
    refusals_are_problems_of_their_kind,
    holds_are_confirmed_cancelled_and_listed,
    bodies_and_names_are_checked,
    watchers_see_drops_in_snapshots_and_as_ops,
    every_hold_of_a_unit_ends_by_itself,
);

impl Api {
    async fn put_drop(&self, drop: &str, body: &Value) -> Said {
        self.call("PUT", &format!("/v1/feeds/show/drops/{drop}"), Some(&body.to_string())).await
    }

    async fn get_drop(&self, drop: &str) -> Value {
        let said = self.get(&format!("/v1/feeds/show/drops/{drop}")).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    async fn post_claim(&self, drop: &str, body: &Value) -> Said {
        self.call("POST", &format!("/v1/feeds/show/drops/{drop}/claims"), Some(&body.to_string())).await
    }

    async fn post_confirm(&self, hold: &str) -> Said {
        self.call("POST", &format!("/v1/feeds/show/holds/{hold}/confirm"), None).await
    }

    async fn delete_hold(&self, hold: &str) -> Said {
        self.call("DELETE", &format!("/v1/feeds/show/holds/{hold}"), None).await
    }

    async fn units(&self, drop: &str) -> [u64; 3] {
        let drop = self.get_drop(drop).await;
        let units = ["free", "held", "sold"].map(|units| drop[units].as_u64().unwrap());
        assert_eq!(Some(units.iter().sum()), drop["total"].as_u64(), "{drop}");
        units
    }
}

fn kind(said: &Said, status: u16) -> String {
    said.problem(status)["type"].as_str().unwrap().trim_start_matches("/problems/").to_owned()
}

async fn a_drop_is_defined_changed_and_read() {
    let app = TestApp::start().await;
    let whole = json!({
        "gift": {"id": "rocket", "name": "Rocket", "icon": "https://example.com/r.png"}, "total": 100, "per_user": 2,
        "hold_ttl_ms": 60_000, "max_holds_per_user": 5, "opens_at": "2026-01-01T00:00:00Z",
        "closes_at": "2999-01-01T02:00:00+02:00",
    });
    let said = app.put_drop("r", &whole).await;
    let mut wanted = whole.clone();
    let more = json!({"drop": "r", "state": "open", "free": 100, "held": 0, "sold": 0});
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    wanted["opens_at"] = json!("2026-01-01T00:00:00.000Z");
    wanted["closes_at"] = json!("2999-01-01T00:00:00.000Z");
    assert_eq!((said.status, said.json()), (201, wanted.clone()));
    assert_eq!(app.get_drop("r").await, wanted);
    let said = app.put_drop("r", &rockets(7)).await;
    let told = json!({"drop": "r", "state": "open", "total": 7, "free": 7, "held": 0, "sold": 0,
        "gift": {"id": "rocket", "name": "Rocket"}, "per_user": 1, "hold_ttl_ms": 1_800_000, "max_holds_per_user": 3});
    assert_eq!((said.status, said.json()), (200, told.clone()), "what is left out is the default again");
    app.put_drop("a", &with(rockets(1), "opens_at", json!("2999-01-01T00:00:00Z"))).await;
    let list = app.get("/v1/feeds/show/drops").await.json();
    assert_eq!(list["drops"].as_array().unwrap().iter().map(|d| &d["drop"]).collect::<Vec<_>>(), ["a", "r"]);
    assert_eq!((&list["drops"][0]["state"], &list["drops"][1]), (&json!("pending"), &told));
    assert_eq!(app.get("/v1/feeds/none/drops").await.json(), json!({"feed": "none", "drops": []}));
    app.get("/v1/feeds/show/drops/none").await.problem(404);
}

async fn a_claim_is_sold_or_held_and_repeats_its_answer() {
    let app = TestApp::start().await;
    app.put_drop("r", &rockets(2)).await;
    let sold = app.post_claim("r", &with(claim("c1", "ann"), "message", json!("mine"))).await;
    let feed = app.get_feed("show").await;
    let row = &feed["rows"][0];
    let wanted = json!({"status": "sold", "id": "c1", "drop": "r", "count": 1, "epoch": feed["epoch"],
        "seq": row["seq"], "row": row["row"]});
    assert_eq!((sold.status, sold.json()), (201, wanted));
    assert_eq!(row["drop"], json!({"drop": "r", "left": 1}));
    assert_eq!(
        (&row["message"], &row["gift"]["id"], &row["count"]),
        (&json!("mine"), &json!("rocket"), &json!(1))
    );
    let before = Millis::now();
    let kept = app.post_claim("r", &hold("c:2", "bob")).await;
    let told = kept.json();
    assert_eq!((kept.status, &told["status"], &told["id"]), (201, &json!("held"), &json!("c:2")));
    let expires = Millis::parse(told["expires_at"].as_str().unwrap()).unwrap();
    assert!(expires.since(before) >= 1_800_000 && expires.since(Millis::now()) <= 1_800_000, "{told}");
    // Sold out now; what was answered is answered again.
    assert_eq!(app.get_drop("r").await["state"], "sold_out");
    let again = app.post_claim("r", &with(claim("c1", "ann"), "message", json!("mine"))).await;
    assert_eq!((again.status, again.text), (201, sold.text));
    let again = app.post_claim("r", &hold("c:2", "bob")).await;
    assert_eq!((again.status, again.text), (201, kept.text));
    assert_eq!(app.post_claim("r", &claim("c1", "bob")).await.pointers(), ["/id"]);
    assert_eq!(app.units("r").await, [0, 1, 1]);
    // The id as a header is the same thing.
    let mut body = claim("c1", "ann");
    body.as_object_mut().unwrap().remove("id");
    let request =
        app.request("POST", "/v1/feeds/show/drops/r/claims").header("idempotency-key", "c9").json(&body);
    assert_eq!(kind(&Api::send(request).await, 409), "already-claimed");
}

fn eur(amount: u64) -> Value {
    json!({"amount": amount, "currency": "EUR"})
}

async fn a_sale_costs_its_units_by_the_price_of_its_time_wherever_it_is_seen() {
    let app = TestApp::start().await;
    app.put_policy("show", json!({"totals": ["all"], "points": {"EUR": 2}})).await;
    let goal = json!({"title": "A new lamp", "period": "all", "by": "EUR", "target": 3_000});
    app.call("PUT", "/v1/feeds/show/goals/lamp", Some(&goal.to_string())).await;
    let priced =
        with(with(rockets(9), "per_user", json!(3)), "value", json!({"amount": 499, "currency": "eur"}));
    let defined = app.put_drop("r", &priced).await.json();
    assert_eq!((&defined["value"], &app.get_drop("r").await["value"]), (&eur(499), &eur(499)));

    let sold = app.post_claim("r", &with(claim("now", "ann"), "count", json!(3))).await.json();
    let held = app.post_claim("r", &with(hold("later", "bob"), "count", json!(2))).await.json();
    assert_eq!((&sold["value"], &held["value"]), (&eur(1_497), &eur(998)));
    // The price of a hold is that of its time.
    app.put_drop("r", &with(priced, "value", eur(700))).await;
    let confirmed = app.post_confirm("r~later").await.json();
    assert_eq!(confirmed["value"], eur(998));
    let dearer = app.post_claim("r", &claim("dearer", "cid")).await.json();
    assert_eq!(dearer["value"], eur(700));

    let rows = app.get_feed("show").await["rows"].clone();
    assert_eq!(
        [&rows[0]["value"], &rows[1]["value"], &rows[2]["value"]],
        [&eur(700), &eur(998), &eur(1_497)]
    );
    let ledger = app.get("/v1/feeds/show/ledger").await.json();
    let entries = ledger["entries"].as_array().unwrap();
    let sales: Vec<_> = entries.iter().filter(|entry| entry["type"] == "drop.sold").collect();
    for (entry, (count, amount)) in sales.iter().zip([(3, 1_497), (2, 998), (1, 700)]) {
        assert_eq!(entry["delta"], json!({"count": count, "value": eur(amount)}));
        assert_eq!((&entry["gift"]["count"], &entry["gift"]["value"]), (&json!(count), &eur(amount)));
    }
    assert_eq!(sales.len(), 3);
    assert!(entries.iter().any(|entry| entry["type"] == "goal.reached"), "{ledger}");
    let all = &app.get("/v1/feeds/show/totals").await.json()["totals"]["all"];
    assert_eq!((&all["units"], &all["points"]), (&json!(6), &json!(2 * 3_195)));
    assert_eq!(all["values"], json!([{"currency": "EUR", "amount": 3_195}]));
    let leaders = app.get("/v1/feeds/show/leaders?period=all&by=EUR").await.json();
    assert_eq!(
        (&leaders["leaders"][0]["user"]["id"], &leaders["leaders"][0]["score"]),
        (&json!("ann"), &json!(1_497))
    );
    // Without a price nothing has a value.
    app.put_drop("free", &rockets(1)).await;
    assert!(app.post_claim("free", &claim("gratis", "ann")).await.json().get("value").is_none());
    assert!(app.get_feed("show").await["rows"][0].get("value").is_none());
}

impl Api {
    async fn reverse(&self, claim: &str, how: &str, body: Value) -> Said {
        let path = format!("/v1/feeds/show/drops/r/claims/{claim}/{how}");
        self.call("POST", &path, (!body.is_null()).then(|| body.to_string()).as_deref()).await
    }

    async fn found(&self, claim: &str) -> Value {
        let said = self.get(&format!("/v1/feeds/show/drops/r/claims/{claim}")).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    }

    /// Type, gift id, reason, count and amount of each entry.
    async fn money(&self) -> Vec<Value> {
        let ledger = self.get("/v1/feeds/show/ledger").await.json();
        let entry = |it: &Value| {
            assert_eq!(it["drop"], "r", "{it}");
            json!([
                it["type"],
                it["gift"]["id"],
                it["reason"],
                it["delta"]["count"],
                it["delta"]["value"]["amount"]
            ])
        };
        ledger["entries"].as_array().unwrap().iter().map(entry).collect()
    }
}

async fn a_sale_is_looked_up_refunded_and_taken_back_to_the_cent() {
    let app = TestApp::start().await;
    app.put_policy("show", json!({"totals": ["all"]})).await;
    let priced = with(with(rockets(9), "per_user", json!(3)), "value", eur(499));
    app.put_drop("r", &priced).await;
    let sold = app.post_claim("r", &with(claim("c1", "ann"), "count", json!(2))).await.json();
    let found = app.found("c1").await;
    let wanted = json!({"id": "c1", "status": "sold", "user": {"id": "ann", "name": "user ann"}, "count": 2,
        "value": eur(998), "row": sold["row"], "at": found["at"]});
    assert_eq!(found, wanted);

    let part = app.reverse("c1", "refund", json!({"refunded": 300, "reason": "late"})).await;
    assert_eq!(part.json(), json!({"status": "refunded", "refunded": 300, "row": sold["row"]}));
    for again in [300, 200, 0] {
        let same = app.reverse("c1", "refund", json!({"refunded": again})).await;
        assert_eq!(same.text, part.text, "a repeat and a lower amount change nothing");
    }
    assert_eq!(app.get_feed("show").await["rows"][0]["value"], eur(698));
    assert_eq!(app.found("c1").await["refunded"], 300);
    assert_eq!(app.reverse("c1", "refund", json!({"refunded": 999})).await.pointers(), ["/refunded"]);
    let whole = app.reverse("c1", "refund", json!({"refunded": 998})).await;
    assert_eq!(whole.json(), json!({"status": "retracted", "refunded": 998, "row": sold["row"]}));
    assert_eq!(app.get_feed("show").await["rows"], json!([]));
    assert_eq!((&app.found("c1").await["status"], app.units("r").await), (&json!("retracted"), [7, 0, 2]));
    assert_eq!(app.reverse("c1", "retract", json!(null)).await.json(), json!({"status": "retracted"}));
    // The claim's id still has its first answer.
    let again = app.post_claim("r", &with(claim("c1", "ann"), "count", json!(2))).await;
    assert_eq!((again.status, again.json()), (201, sold));

    let wanted = json!([
        ["drop.sold", "c1", null, 2, 998],
        ["gift.refunded", "c1", "late", 0, -300],
        ["gift.retracted", "c1", null, -2, -698],
    ]);
    assert_eq!(json!(app.money().await), wanted);
    let all = &app.get("/v1/feeds/show/totals").await.json()["totals"]["all"];
    assert_eq!(
        (&all["gifts"], &all["units"], &all["values"]),
        (&json!(0), &json!(0), &json!([{"currency": "EUR", "amount": 0}]))
    );
    let leaders = app.get("/v1/feeds/show/leaders?period=all&by=EUR").await.json();
    assert_eq!(leaders["leaders"], json!([]));
}

async fn the_units_of_a_sale_are_free_again_once_if_that_is_said() {
    let app = TestApp::start().await;
    app.put_drop("r", &rockets(2)).await;
    app.post_claim("r", &claim("c1", "ann")).await;
    app.post_claim("r", &hold("c2", "bob")).await;
    assert_eq!(app.get_drop("r").await["state"], "sold_out");
    assert_eq!(
        app.reverse("c1", "refund", json!({"refunded": 0})).await.problem(409)["type"],
        "/problems/nothing-to-refund"
    );
    assert_eq!(
        app.reverse("c2", "refund", json!({"refunded": 1})).await.problem(409)["type"],
        "/problems/nothing-to-refund"
    );
    assert_eq!(app.reverse("c1", "retract", json!({"restock": 1})).await.pointers(), ["/restock"]);
    assert_eq!(app.reverse("c1", "retract", json!({"refunded": 1})).await.pointers(), ["/refunded"]);
    for nothing in ["c9", "a%20b"] {
        app.reverse(nothing, "retract", json!(null)).await.problem(404);
        app.get(&format!("/v1/feeds/show/drops/r/claims/{nothing}")).await.problem(404);
    }
    app.get("/v1/feeds/show/drops/none/claims/c1").await.problem(404);
    assert_eq!(app.units("r").await, [0, 1, 1], "refusals change nothing");

    // Taken back with its row: the units stay sold until somebody says otherwise.
    let row = app.get_feed("show").await["rows"][0]["row"].as_str().unwrap().to_owned();
    app.call("DELETE", &format!("/v1/feeds/show/rows/{row}"), None).await;
    assert_eq!((&app.found("c1").await["status"], app.units("r").await), (&json!("retracted"), [0, 1, 1]));
    for _ in 0..2 {
        let said = app.reverse("c1", "retract", json!({"restock": true, "reason": "chargeback"})).await;
        assert_eq!(said.json(), json!({"status": "retracted"}));
        assert_eq!(app.units("r").await, [1, 1, 0]);
    }
    assert_eq!(app.post_claim("r", &claim("c3", "ann")).await.status, 201, "ann has none any more");

    // A hold that is not paid is cancelled.
    assert_eq!(app.found("c2").await["status"], "held");
    assert_eq!(app.reverse("c2", "retract", json!(null)).await.json(), json!({"status": "retracted"}));
    let found = app.found("c2").await;
    assert_eq!((&found["status"], &found["hold"]), (&json!("cancelled"), &json!("r~c2")));
    assert_eq!(kind(&app.post_confirm("r~c2").await, 409), "hold-ended");
    assert_eq!(app.units("r").await, [1, 0, 1]);
    let wanted = json!([
        ["drop.sold", "c1", null, 1, null],
        ["gift.retracted", "c1", null, -1, null],
        ["drop.sold", "c3", null, 1, null],
    ]);
    assert_eq!(json!(app.money().await), wanted);

    app.put_drop("r", &with(rockets(2), "hold_ttl_ms", json!(1))).await;
    app.post_claim("r", &hold("c4", "cid")).await;
    app.until_found("c4", "expired").await;
}

impl Api {
    async fn until_found(&self, claim: &str, status: &str) {
        while self.found(claim).await["status"] != status {
            tokio::task::yield_now().await;
        }
    }
}

async fn refusals_are_problems_of_their_kind() {
    let app = TestApp::start().await;
    app.put_drop("r", &with(rockets(3), "per_user", json!(2))).await;
    app.post_claim("none", &claim("c", "ann")).await.problem(404);
    let first = app.post_claim("r", &with(claim("c1", "ann"), "count", json!(2))).await.json();
    let refused = app.post_claim("r", &claim("c2", "ann")).await;
    assert_eq!(kind(&refused, 409), "already-claimed");
    assert_eq!(refused.json()["claim"], first, "it carries the first claim");
    assert_eq!(
        app.post_claim("r", &with(claim("c3", "bob"), "count", json!(3))).await.pointers(),
        ["/count"]
    );
    assert_eq!(
        kind(&app.post_claim("r", &with(claim("c3", "bob"), "count", json!(2))).await, 409),
        "sold-out"
    );
    assert_eq!(kind(&app.put_drop("r", &rockets(1)).await, 409), "drop-total");
    assert_eq!(app.units("r").await, [1, 0, 2], "refusals change nothing");

    app.put_drop("later", &with(rockets(3), "opens_at", json!("2999-01-01T00:00:00Z"))).await;
    app.put_drop("over", &with(rockets(3), "closes_at", json!("2020-01-01T00:00:00Z"))).await;
    for drop in ["later", "over"] {
        assert_eq!(kind(&app.post_claim(drop, &claim("c", "ann")).await, 409), "drop-not-open");
    }

    let many = with(with(rockets(9), "per_user", json!(9)), "hold_ttl_ms", json!(90_500));
    app.put_drop("many", &with(many, "max_holds_per_user", json!(2))).await;
    for id in ["h1", "h2"] {
        assert_eq!(app.post_claim("many", &hold(id, "ann")).await.status, 201);
    }
    let refused = app.post_claim("many", &hold("h3", "ann")).await;
    assert_eq!(kind(&refused, 409), "too-many-holds");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((85..=91).contains(&seconds), "{seconds}");
    assert_eq!(
        app.post_claim("many", &claim("h3", "ann")).await.status,
        201,
        "paying now is not limited by it"
    );
}

async fn holds_are_confirmed_cancelled_and_listed() {
    let app = TestApp::start().await;
    app.put_drop("r", &with(rockets(9), "per_user", json!(3))).await;
    let user = "a/b %+~é?#";
    let mut holds = vec![];
    for id in ["h1", "h2", "h3"] {
        let said = app.post_claim("r", &hold(id, user)).await.json();
        holds.push((said["hold"].as_str().unwrap().to_owned(), said["expires_at"].clone()));
    }
    let encoded: String = user.bytes().map(|b| format!("%{b:02X}")).collect();
    let path = format!("/v1/feeds/show/users/{encoded}/holds");
    let listed = app.get(&path).await.json();
    let wanted: Vec<Value> = (1..=3)
        .map(|n| {
            let (hold, expires) = &holds[n - 1];
            json!({"hold": hold, "drop": "r", "claim": format!("h{n}"), "count": 1, "expires_at": expires})
        })
        .collect();
    assert_eq!(listed, json!({"holds": wanted}));
    let sold = app.post_confirm(&holds[0].0).await;
    assert_eq!((sold.status, &sold.json()["status"]), (200, &json!("sold")));
    let feed = app.get_feed("show").await;
    assert_eq!(
        (&feed["rows"][0]["row"], &feed["rows"][0]["user"]["id"]),
        (&sold.json()["row"], &json!(user))
    );
    let again = app.post_confirm(&holds[0].0).await;
    assert_eq!((again.status, again.text), (200, sold.text));
    assert_eq!(kind(&app.delete_hold(&holds[0].0).await, 409), "hold-ended");
    assert_eq!(app.delete_hold(&holds[1].0).await.status, 200);
    assert_eq!(kind(&app.delete_hold(&holds[1].0).await, 409), "hold-ended");
    assert_eq!(kind(&app.post_confirm(&holds[1].0).await, 409), "hold-ended");
    for unknown in ["r~none", "none~h1", "none", "~", "a%2Fb"] {
        app.post_confirm(unknown).await.problem(404);
        app.delete_hold(unknown).await.problem(404);
    }
    assert_eq!(app.get(&path).await.json()["holds"].as_array().unwrap().len(), 1);
    assert_eq!(app.get("/v1/feeds/show/users/nobody/holds").await.json(), json!({"holds": []}));
    let long = "x".repeat(65);
    app.get(&format!("/v1/feeds/show/users/{long}/holds")).await.problem(422);
    assert_eq!(app.units("r").await, [7, 1, 1]);
}

async fn bodies_and_names_are_checked() {
    let app = TestApp::start().await;
    app.put_drop("r", &rockets(5)).await;
    for (body, pointer) in [
        (with(rockets(5), "color", json!("red")), "/color"),
        (rockets(0), "/total"),
        (rockets(1_000_000_001), "/total"),
        (with(rockets(5), "per_user", json!(0)), "/per_user"),
        (with(rockets(5), "hold_ttl_ms", json!(0)), "/hold_ttl_ms"),
        (with(rockets(5), "opens_at", json!("tomorrow")), "/opens_at"),
        (with(rockets(5), "gift", json!({"id": "r", "name": "R", "price": 1})), "/gift/price"),
        (json!({"gift": {"id": "r", "name": "R"}}), "/total"),
        (with(rockets(5), "value", json!({"amount": 1.5, "currency": "EUR"})), "/value/amount"),
        (with(rockets(5), "value", json!({"amount": 1, "currency": "€"})), "/value/currency"),
        (
            with(
                with(rockets(5), "per_user", json!(9)),
                "value",
                json!({"amount": (1_u64 << 53) / 5 + 1, "currency": "EUR"}),
            ),
            "/value",
        ),
    ] {
        assert_eq!(app.put_drop("r", &body).await.pointers(), [pointer], "{body}");
    }
    for (body, pointer) in [
        (with(claim("c", "ann"), "value", json!({"amount": 1, "currency": "EUR"})), "/value"),
        (with(claim("c", "ann"), "count", json!(0)), "/count"),
        (with(claim("c", "ann"), "pay", json!("soon")), "/pay"),
        (with(claim("c", "ann"), "message", json!("x".repeat(201))), "/message"),
        (with(claim("c", "ann"), "user", json!({"id": "ann"})), "/user/name"),
        (claim("c d", "ann"), "/id"),
    ] {
        assert_eq!(app.post_claim("r", &body).await.pointers(), [pointer], "{body}");
    }
    for name in ["a b", "a~b", "", &"x".repeat(65)] {
        app.put_drop(name, &rockets(1)).await.problem(422);
        app.post_claim(name, &claim("c", "ann")).await.problem(422);
    }
    app.call("PUT", "/v1/feeds/show/drops/r", Some("{")).await.problem(400);
    app.call("PUT", "/v1/feeds/show/drops/r", Some(&" ".repeat(9_000))).await.problem(413);
    app.call("DELETE", "/v1/feeds/show/drops/r", None).await.problem(405);
    app.call("GET", "/v1/feeds/show/drops/r/claims", None).await.problem(405);
    assert_eq!(app.get_drop("r").await["total"], 5);
}

async fn watchers_see_drops_in_snapshots_and_as_ops() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    app.put_drop("r", &with(rockets(2), "per_user", json!(2))).await;
    watcher
        .wait_until("the new drop", |fold| fold.drops.get("r").is_some_and(|d| d["state"] == "open"))
        .await;
    app.post_claim("r", &claim("c1", "ann")).await;
    watcher.wait_until("one left", |fold| fold.drops["r"]["free"] == 1).await;
    app.post_claim("r", &hold("c2", "bob")).await;
    watcher.wait_until("sold out", |fold| fold.drops["r"]["state"] == "sold_out").await;
    assert_eq!(watcher.fold.rows.len(), 1, "a hold is not shown");
    app.delete_hold("r~c2").await;
    watcher.wait_until("it is back", |fold| fold.drops["r"]["state"] == "open").await;
    watcher.wait_for_the_list().await;
    let mut newcomer = app.watch("show").await;
    newcomer.wait_until("the list", |fold| fold.snapshots == 1).await;
    assert_eq!(newcomer.fold.drops, watcher.fold.drops);
    let feed = app.get_feed("show").await;
    assert_eq!(feed["drops"], json!([app.get_drop("r").await]));
}

/// Nobody asks: the gateway itself ends the hold, and publishes it.
async fn every_hold_of_a_unit_ends_by_itself() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    let opens = Millis::now().plus(700);
    let body = with(with(rockets(1), "hold_ttl_ms", json!(700)), "opens_at", json!(opens.to_string()));
    app.put_drop("r", &body).await;
    watcher.wait_until("the drop", |fold| fold.drops.contains_key("r")).await;
    assert_eq!(watcher.fold.drops["r"]["state"], "pending");
    watcher.wait_until("it opens", |fold| fold.drops["r"]["state"] == "open").await;
    let late = Millis::now().since(opens);
    assert!(late < 1_000, "told {late} ms late");
    let told = app.post_claim("r", &hold("c1", "ann")).await.json();
    watcher.wait_until("sold out", |fold| fold.drops["r"]["state"] == "sold_out").await;
    watcher.wait_until("the unit is back", |fold| fold.drops["r"]["free"] == 1).await;
    let expires = Millis::parse(told["expires_at"].as_str().unwrap()).unwrap();
    let late = Millis::now().since(expires);
    assert!(Millis::now() >= expires && late < 1_000, "told {late} ms late");
    assert_eq!(app.units("r").await, [1, 0, 0]);
}
