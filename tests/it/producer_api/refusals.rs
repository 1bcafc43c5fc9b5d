//! Bad input: each a problem that says where and what, nothing written, never a 500.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores![
    each_wrong_field_is_422_and_named_by_its_pointer,
    several_wrong_fields_are_all_named,
    a_time_and_a_delay_together_are_422,
    only_a_body_that_is_no_json_is_400,
    odd_json_is_never_a_500,
    half_a_surrogate_refuses_no_gift_and_a_name_without_a_glyph_shows_the_id,
    a_malformed_feed_name_is_422_everywhere,
    a_body_may_have_eight_kib_and_not_a_byte_more,
];

/// A gift with one thing wrong, and the pointer that must be named.
fn wrong() -> Vec<(Value, &'static str)> {
    let set = |field: &str, value: Value| gift("g1").with(field, value).json();
    let long_url = format!("https://example.com/{}", "a".repeat(493));
    let mut all = vec![
        (set("id", json!("")), "/id"),
        (set("id", json!("i".repeat(65))), "/id"),
        (set("id", json!("a b")), "/id"),
        (set("id", json!("é")), "/id"),
        (set("id", json!("a/b")), "/id"),
        (set("id", json!(7)), "/id"),
        (set("id", json!(null)), "/id"),
        (gift("g1").without("user").json(), "/user"),
        (gift("g1").without("gift").json(), "/gift"),
        (set("user", json!("ann")), "/user"),
        (set("user", json!(null)), "/user"),
        (set("gift", json!([])), "/gift"),
        (set("count", json!(0)), "/count"),
        (set("count", json!(1_000_001)), "/count"),
        (set("count", json!(-1)), "/count"),
        (set("count", json!(1.5)), "/count"),
        (set("count", json!("1")), "/count"),
        (set("count", json!(null)), "/count"),
        (set("count", json!(1e300)), "/count"),
        (set("value", json!(5)), "/value"),
        (set("value", json!({"amount": 5})), "/value/currency"),
        (set("value", json!({"currency": "EUR"})), "/value/amount"),
        (set("value", json!({"amount": -1, "currency": "EUR"})), "/value/amount"),
        (set("value", json!({"amount": 1.5, "currency": "EUR"})), "/value/amount"),
        (set("value", json!({"amount": "5", "currency": "EUR"})), "/value/amount"),
        (set("value", json!({"amount": 9_007_199_254_740_992u64, "currency": "EUR"})), "/value/amount"),
        (set("value", json!({"amount": 5, "currency": "EU"})), "/value/currency"),
        (set("value", json!({"amount": 5, "currency": "abcdefghijklm"})), "/value/currency"),
        (set("value", json!({"amount": 5, "currency": "EU1"})), "/value/currency"),
        (set("value", json!({"amount": 5, "currency": "€€€"})), "/value/currency"),
        (set("value", json!({"amount": 5, "currency": "EUR", "x": 1})), "/value/x"),
        (set("combo", json!("c")), "/combo"),
        (set("combo", json!({"id": "c"})), "/combo/count"),
        (set("combo", json!({"count": 1})), "/combo/id"),
        (set("combo", json!({"id": "", "count": 1})), "/combo/id"),
        (set("combo", json!({"id": "c".repeat(129), "count": 1})), "/combo/id"),
        (set("combo", json!({"id": "é".repeat(65), "count": 1})), "/combo/id"),
        (set("combo", json!({"id": "c", "count": 4_294_967_296u64})), "/combo/count"),
        (set("combo", json!({"id": "c", "count": -1})), "/combo/count"),
        (set("combo", json!({"id": "c", "count": 1, "end": "yes"})), "/combo/end"),
        (set("combo", json!({"id": "c", "count": 1, "x": 1})), "/combo/x"),
        (set("message", json!("m".repeat(201))), "/message"),
        (set("message", json!(["m"])), "/message"),
        (set("tier", json!(10)), "/tier"),
        (set("tier", json!(-1)), "/tier"),
        (set("tier", json!("1")), "/tier"),
        (set("occurred_at", json!("yesterday")), "/occurred_at"),
        (set("occurred_at", json!("2026-01-31")), "/occurred_at"),
        (set("occurred_at", json!("2026-01-31T12:00:00")), "/occurred_at"),
        (set("occurred_at", json!("2026-02-30T12:00:00Z")), "/occurred_at"),
        (set("occurred_at", json!(1_700_000_000)), "/occurred_at"),
        (set("deliver_at", json!("soon")), "/deliver_at"),
        (set("delay_ms", json!(604_800_001)), "/delay_ms"),
        (set("delay_ms", json!(-1)), "/delay_ms"),
        (set("test", json!("true")), "/test"),
        (set("test", json!(1)), "/test"),
        (set("meta", json!([])), "/meta"),
        (set("meta", json!("{}")), "/meta"),
        (set("meta", json!({"k": "v".repeat(1024 - 7)})), "/meta"),
        (set("colour", json!("red")), "/colour"),
        (set("a/b~c", json!(1)), "/a~1b~0c"),
        (set("Count", json!(1)), "/Count"),
        (set("drop", json!("d")), "/drop"),
    ];
    for (part, picture, pointers) in [
        ("user", "avatar", ["/user/id", "/user/name", "/user/avatar", "/user/extra"]),
        ("gift", "icon", ["/gift/id", "/gift/name", "/gift/icon", "/gift/extra"]),
    ] {
        let [id, name, picture_at, extra] = pointers;
        for (it, pointer) in [
            (json!({"name": "n"}), id),
            (json!({"id": "i"}), name),
            (json!({"id": "", "name": "n"}), id),
            (json!({"id": "i".repeat(65), "name": "n"}), id),
            (json!({"id": "é".repeat(33), "name": "n"}), id),
            (json!({"id": 5, "name": "n"}), id),
            (json!({"id": "i", "name": "n".repeat(65)}), name),
            (json!({"id": "i", "name": ""}), name),
            (json!({"id": "i", "name": {}}), name),
            (json!({"id": "i", "name": "n", "extra": 1}), extra),
            (json!({"id": "i", "name": "n", picture: "http://example.com/a.png"}), picture_at),
            (json!({"id": "i", "name": "n", picture: "javascript:alert(1)"}), picture_at),
            (json!({"id": "i", "name": "n", picture: "//example.com/a.png"}), picture_at),
            (json!({"id": "i", "name": "n", picture: "https://"}), picture_at),
            (json!({"id": "i", "name": "n", picture: "example.com"}), picture_at),
            (json!({"id": "i", "name": "n", picture: ""}), picture_at),
            (json!({"id": "i", "name": "n", picture: 5}), picture_at),
            (json!({"id": "i", "name": "n", picture: long_url}), picture_at),
        ] {
            all.push((set(part, it), pointer));
        }
    }
    all
}

async fn each_wrong_field_is_422_and_named_by_its_pointer() {
    let app = TestApp::start().await;
    for (body, pointer) in wrong() {
        let said = app.post_json("show", &body).await;
        assert_eq!(said.pointers(), [pointer], "{body}\n{said:?}");
    }
    let feed = app.get_feed("show").await;
    assert_eq!((&feed["epoch"], &feed["seq"]), (&json!("0"), &json!(0)), "nothing is written");
}

async fn several_wrong_fields_are_all_named() {
    let app = TestApp::start().await;
    let body = json!({"id": "a b", "user": {"id": "u", "x": 1}, "count": 0, "y": 2});
    let mut pointers = app.post_json("show", &body).await.pointers();
    pointers.sort();
    assert_eq!(pointers, ["/count", "/gift", "/id", "/user/name", "/user/x", "/y"]);
}

async fn a_time_and_a_delay_together_are_422() {
    let app = TestApp::start().await;
    let both = gift("g1").with("deliver_at", json!("2020-01-01T00:00:00Z")).with("delay_ms", json!(0));
    app.post_gift("show", &both).await.problem(422);
}

async fn only_a_body_that_is_no_json_is_400() {
    let app = TestApp::start().await;
    let path = "/v1/feeds/show/gifts";
    let good = gift("g1").json().to_string();
    let nested = format!("{}{}", "[".repeat(3_000), "]".repeat(2_999));
    for bad in [
        "",
        " ",
        "{",
        "}",
        "nonsense",
        "{'id':1}",
        "{\"id\":}",
        "{\"id\":01}",
        "{\"id\":NaN}",
        "{\"count\":1,}",
        "{\"id\":\"\u{1}\"}",
        "{\"id\":\"\\x\"}",
        "tru",
        &nested,
        &format!("{good} x"),
        &format!("{good}{good}"),
        &good[..good.len() - 1],
    ] {
        let said = app.call("POST", path, Some(bad)).await;
        let problem = said.problem(400);
        assert!(problem.get("errors").is_none(), "{said:?}");
    }
    for raw in [&b"{\"id\":\"\xff\"}"[..], &b"\xff\xfe{\x00}\x00"[..], &b"\x00"[..]] {
        let request = app.request("POST", path).header("content-type", "application/json").body(raw.to_vec());
        crate::support::api::Api::send(request).await.problem(400);
    }
    for wrong_type in ["[]", "null", "true", "5", "\"{}\"", "[{}]"] {
        app.call("POST", path, Some(wrong_type)).await.problem(422);
    }
    assert_eq!(app.get_feed("show").await["epoch"], "0");
}

async fn odd_json_is_never_a_500() {
    let app = TestApp::start().await;
    let with = |meta: &str| {
        format!(r#"{{"user":{{"id":"u","name":"U"}},"gift":{{"id":"g","name":"G"}},"meta":{meta}}}"#)
    };
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for body in [
        with(r#"{"a":1e999}"#),
        with(r#"{"a":1,"a":2}"#),
        with(&deep),
        with("{}").replacen("\"user\"", "\"us\\u0065r\"", 1),
        with("{}").replacen("\"user\"", "\"user\":{\"id\":\"v\",\"name\":\"V\"},\"user\"", 1),
        with("{}").replacen("\"user\"", "\"count\":1E0,\"user\"", 1),
        with("{}").replacen("\"user\"", "\"count\":-0,\"user\"", 1),
        with("{}").replacen("\"user\"", "\"count\":1.0,\"user\"", 1),
        with("{}").replacen("\"user\"", "\"count\":999999999999999999999999999999,\"user\"", 1),
        with("{}").replacen("\"user\"", "\"\":1,\"user\"", 1),
        with("{}").replacen("\"user\"", "\"\\u0000\":1,\"user\"", 1),
    ] {
        let said = app.call("POST", "/v1/feeds/show/gifts", Some(&body)).await;
        match said.status {
            200 | 201 => drop(said.json()),
            status => drop((said.problem(status), assert!((400..500).contains(&status), "{body}\n{said:?}"))),
        }
    }
    app.get_feed("show").await;
}

async fn half_a_surrogate_refuses_no_gift_and_a_name_without_a_glyph_shows_the_id() {
    let app = TestApp::start().await;
    let body = r#"{"id":"cut","user":{"id":"u\ud83d","name":"Mia \ud83d"},"gift":{"id":"g","name":"\udc00"},
        "message":"\udc00\ud800!","meta":{"\ud800":"\ud83d","b":"\\ud800"}}"#;
    assert_eq!(app.call("POST", "/v1/feeds/show/gifts", Some(body)).await.status, 201);
    assert_eq!(app.call("POST", "/v1/feeds/show/gifts", Some(body)).await.json()["duplicate"], true);
    let row = app.get_feed("show").await["rows"][0].clone();
    assert_eq!(row["user"], json!({"id": "u\u{FFFD}", "name": "Mia \u{FFFD}"}));
    assert_eq!((&row["gift"]["name"], &row["message"]), (&json!("\u{FFFD}"), &json!("\u{FFFD}\u{FFFD}!")));
    assert_eq!(row["meta"], json!({"\u{FFFD}": "\u{FFFD}", "b": "\\ud800"}));
    let claim = r#"{"id":"c","user":{"id":"u","name":"\ud83d"},"pay":"now","message":"\ud83d"}"#;
    let drop = r#"{"gift":{"id":"g","name":"G\ud83d"},"total":1}"#;
    assert_eq!(app.call("PUT", "/v1/feeds/show/drops/d", Some(drop)).await.status, 201);
    assert_eq!(app.call("POST", "/v1/feeds/show/drops/d/claims", Some(claim)).await.status, 201);
    for blank in ["\u{2800}", "\u{3164} \u{115f}", "\u{200b}", "\u{1D159}", "\u{e0041}"] {
        let given = gift(&format!("blank-{:x}", u32::from(blank.chars().next().unwrap()))).by("zoe");
        let mut body = given.json();
        body["user"]["name"] = json!(blank);
        assert_eq!(app.post_json("blank", &body).await.status / 100, 2);
        assert_eq!(app.get_feed("blank").await["rows"][0]["user"]["name"], "zoe", "{blank:?}");
        app.patch_policy("blank", json!({"dedup": "off"})).await;
    }
}

async fn a_malformed_feed_name_is_422_everywhere() {
    let app = TestApp::start().await;
    let body = gift("g1").json().to_string();
    for name in ["a%20b", "%C3%BC", "a%3Ab", "a%2Fb", "a@b", "%00", "a%25", "*", &"f".repeat(65)] {
        app.call("POST", &format!("/v1/feeds/{name}/gifts"), Some(&body)).await.problem(422);
        app.call("POST", &format!("/v1/feeds/{name}/gifts/batch"), Some("{\"gifts\":[]}")).await.problem(422);
        for path in ["", "/policy"] {
            app.get(&format!("/v1/feeds/{name}{path}")).await.problem(422);
        }
        app.call("PATCH", &format!("/v1/feeds/{name}/policy"), Some("{}")).await.problem(422);
        app.call("DELETE", &format!("/v1/feeds/{name}/rows/r-1"), None).await.problem(422);
        app.get(&format!("/v1/feeds/{name}/sse")).await.problem(422);
    }
    for name in ["a", "AZaz09_-.", &"f".repeat(64)] {
        assert_eq!(app.post_gift(name, &gift("g1")).await.status, 201, "{name}");
    }
}

async fn a_body_may_have_eight_kib_and_not_a_byte_more() {
    let app = TestApp::start().await;
    let good = gift("g1").json().to_string();
    let padded = |size: usize| format!("{good}{}", " ".repeat(size - good.len()));
    let said = app.call("POST", "/v1/feeds/show/gifts", Some(&padded(8192))).await;
    assert_eq!(said.status, 201, "{said:?}");
    for size in [8193, 100_000, 3_000_000] {
        app.call("POST", "/v1/feeds/show/gifts", Some(&padded(size))).await.problem(413);
    }
    let policy = format!("{{\"capacity\":3{}}}", " ".repeat(8192));
    app.call("PUT", "/v1/feeds/show/policy", Some(&policy)).await.problem(413);
    assert_eq!(app.get_feed("show").await["seq"], 1);
}

#[tokio::test]
async fn an_unknown_field_is_answered_with_the_one_that_was_probably_meant() {
    let app = TestApp::start().await;
    let mut body = gift("g1").json();
    body["cuont"] = json!(3);
    body["user"]["avatr"] = json!("https://e.co/a.png");
    body["colour"] = json!("red");
    let problem = app.post_json("show", &body).await.problem(422);
    let details: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| &e["detail"]).collect();
    let all = format!("{details:?}");
    assert!(all.contains("did you mean") && all.contains("count") && all.contains("avatar"), "{all}");
    assert!(all.contains("remove it"), "{all}");
}
