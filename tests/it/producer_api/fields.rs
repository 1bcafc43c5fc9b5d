//! Every field of a gift at both ends of its limits, and as a row shows it.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::fold::Fold;
use crate::support::gifts::{GiftSpec, gift};

on_both_stores![
    every_value_within_its_limits_is_taken,
    a_row_carries_everything_that_was_sent_and_nothing_else,
    a_combo_row_carries_its_combo,
    money_is_exact_to_the_last_unit,
    meta_passes_through_untouched,
];

fn named(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name})
}

fn url(length: usize) -> String {
    let start = "https://example.com/";
    format!("{start}{}", "a".repeat(length - start.len()))
}

/// Values that each stand at an end of what is allowed.
fn legal() -> Vec<GiftSpec> {
    let g = || gift("x").without("id");
    let mut all = vec![
        gift("a"),
        gift("AZaz09_-.:"),
        gift(&"i".repeat(64)),
        g().with("count", json!(1)),
        g().with("count", json!(1_000_000)),
        g().value(0, "EUR"),
        g().value(9_007_199_254_740_991, "abcdefghijkl"),
        g().value(1, "eUr"),
        g().combo("c", 0),
        g().combo(&"c".repeat(128), u32::MAX),
        g().combo(&"é".repeat(64), 1),
        g().combo("c", 1).end(),
        g().with("combo", json!({"id": "c", "count": 1, "end": false})),
        g().with("message", json!("")),
        g().with("message", json!("m")),
        g().with("message", json!("m".repeat(200))),
        g().with("message", json!("\u{1F339}".repeat(200))),
        g().with("tier", json!(0)),
        g().with("tier", json!(9)),
        g().with("occurred_at", json!("2026-01-31T12:00:00Z")),
        g().with("occurred_at", json!("1970-01-01T00:00:00.000Z")),
        g().with("occurred_at", json!("2026-01-31T12:00:00.123456+09:30")),
        g().with("delay_ms", json!(0)),
        g().with("deliver_at", json!("2026-01-31T12:00:00Z")),
        g().test(),
        g().with("test", json!(false)),
        g().with("meta", json!({})),
        g().with("meta", json!({"k": "v".repeat(1024 - 8)})),
        g().with("meta", json!({"deep": [[[[[[[[{"a": null}]]]]]]]], "big": 1e300, "neg": -0.5})),
    ];
    for part in ["user", "gift"] {
        let picture = if part == "user" { "avatar" } else { "icon" };
        for it in [
            named("i", "n"),
            named(&"i".repeat(64), &"n".repeat(64)),
            named(&"é".repeat(32), &"é".repeat(64)),
            named("\u{1F339}", &"\u{1F339}".repeat(64)),
            named(" \u{0}:\"\\/", "n"),
            json!({"id": "i", "name": "n", picture: "https://e.co"}),
            json!({"id": "i", "name": "n", picture: url(512)}),
        ] {
            all.push(g().with(part, it));
        }
    }
    all
}

async fn every_value_within_its_limits_is_taken() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off", "capacity": 100})).await;
    for spec in legal() {
        let said = app.post_gift("show", &spec).await;
        assert!(matches!(said.status, 200 | 201), "{}\n{said:?}", spec.json());
    }
    let feed = app.get_feed("show").await;
    feed["rows"].as_array().unwrap().iter().for_each(|row| Fold::new("show").check_row(row));
}

async fn a_row_carries_everything_that_was_sent_and_nothing_else() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"row_ttl_ms": 60_000})).await;
    let full = json!({
        "id": "g1",
        "user": {"id": "u:1", "name": "Zoë", "avatar": "https://example.com/a.png?x=1&y=<2>"},
        "gift": {"id": "rose", "name": "Rose", "icon": "https://example.com/r.svg"},
        "count": 7, "value": {"amount": 1250, "currency": "EUR"}, "message": "for you", "tier": 3,
        "occurred_at": "2026-01-31T12:00:00Z", "test": true, "meta": {"b": 1, "a": [null, true]},
    });
    let answer = app.post_json("show", &full).await.json();
    let feed = app.get_feed("show").await;
    let row = &feed["rows"][0];
    for field in ["user", "gift", "count", "value", "message", "tier", "test", "meta"] {
        assert_eq!(row[field], full[field], "{field}");
    }
    assert_eq!((&row["row"], &row["rev"], &row["seq"]), (&answer["row"], &json!(1), &json!(1)));
    assert_eq!(row["at"], row["updated_at"]);
    let mut names: Vec<_> = row.as_object().unwrap().keys().cloned().collect();
    names.sort();
    let expected = [
        "at",
        "count",
        "expires_at",
        "gift",
        "message",
        "meta",
        "rev",
        "row",
        "seq",
        "test",
        "tier",
        "updated_at",
        "user",
        "value",
    ];
    assert_eq!(names, expected);

    app.give("bare", &gift("g1")).await;
    let feed = app.get_feed("bare").await;
    let mut names: Vec<_> = feed["rows"][0].as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["at", "count", "gift", "rev", "row", "seq", "updated_at", "user"]);
}

async fn a_combo_row_carries_its_combo() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1").combo("c", 2)).await;
    app.give("show", &gift("g2").combo("c", 5).end()).await;
    let row = app.get_feed("show").await["rows"][0].clone();
    assert_eq!((&row["count"], &row["rev"]), (&json!(5), &json!(2)));
    assert_eq!(
        (&row["combo"]["id"], &row["combo"]["count"], &row["combo"]["end"]),
        (&json!("c"), &json!(5), &json!(true))
    );
}

async fn money_is_exact_to_the_last_unit() {
    let app = TestApp::start().await;
    for (n, amount) in
        [9_007_199_254_740_991u64, 9_007_199_254_740_989, 100_000_000_000_001].into_iter().enumerate()
    {
        app.give(&format!("f{n}"), &gift("g1").value(amount, "EUR")).await;
        let text = app.get(&format!("/v1/feeds/f{n}")).await.text;
        assert!(text.contains(&format!("\"amount\":{amount}")), "{text}");
    }
    app.give("sum", &gift("g1").value(9_007_199_254_740_990, "EUR")).await;
    for id in ["g2", "g3"] {
        app.give("sum", &gift(id).value(1, "EUR")).await;
        assert_eq!(app.get_feed("sum").await["rows"][0]["value"]["amount"], 9_007_199_254_740_991u64);
    }
}

async fn meta_passes_through_untouched() {
    let app = TestApp::start().await;
    let meta =
        r#"{"z":1,"a":1.50,"big":12345678901234567890,"e":1e2,"s":"<\u00e9\n\">","n":null,"o":{"":[]}}"#;
    let body = format!(r#"{{"user":{{"id":"u","name":"U"}},"gift":{{"id":"g","name":"G"}},"meta":{meta}}}"#);
    assert_eq!(app.call("POST", "/v1/feeds/show/gifts", Some(&body)).await.status, 201);
    let text = app.get("/v1/feeds/show").await.text;
    assert!(text.contains(&format!("\"meta\":{meta}")), "{text}");
}
