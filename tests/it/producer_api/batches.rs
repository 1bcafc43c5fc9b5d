//! Many gifts in one request.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::gift;

on_both_stores![
    a_batch_answers_each_gift_in_order_and_counts,
    suppressed_and_scheduled_gifts_are_counted_as_what_they_are,
    a_batch_holds_one_to_one_hundred_and_twenty_eight_gifts,
    a_batch_that_is_no_batch_is_refused_whole,
    a_batch_may_have_one_mib_and_not_a_byte_more,
    a_batch_of_nothing_but_bad_gifts_writes_nothing,
];

fn tally(answer: &Value) -> [u64; 6] {
    ["accepted", "merged", "suppressed", "duplicate", "scheduled", "rejected"]
        .map(|n| answer[n].as_u64().unwrap())
}

async fn a_batch_answers_each_gift_in_order_and_counts() {
    let app = TestApp::start().await;
    app.give("show", &gift("old")).await;
    let gifts = [
        gift("g1").by("bob").json(),
        gift("g2").by("bob").count(4).json(),
        gift("old").json(),
        gift("g1").by("bob").json(),
        gift("g5").with("count", json!(0)).json(),
        json!("no object"),
        json!(null),
        gift("old").count(2).json(),
        gift("g8").by("eve").json(),
        gift("g9").without("user").with("x", json!(1)).json(),
    ];
    let said = app.post_batch("show", &gifts).await;
    assert_eq!(said.status, 200, "{said:?}");
    let answer = said.json();
    assert_eq!(tally(&answer), [2, 1, 0, 2, 0, 5], "{answer:#}");
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 10);
    for (n, result) in results.iter().enumerate() {
        assert_eq!(result["index"], n, "{result}");
        let wrong = [4, 5, 6, 7, 9].contains(&n);
        assert_eq!(result.get("error").is_some(), wrong, "{result}");
        if wrong {
            let error = &result["error"];
            assert_eq!((&error["status"], error["type"].is_string()), (&json!(422), true), "{result}");
            assert!(error["title"].is_string() && error["detail"].is_string(), "{result}");
        }
    }
    let status = |n: usize| results[n]["status"].as_str().unwrap();
    assert_eq!(
        [status(0), status(1), status(2), status(3), status(8)],
        ["accepted", "merged", "accepted", "accepted", "accepted"]
    );
    assert_eq!((&results[1]["count"], &results[1]["row"]), (&json!(5), &results[0]["row"]));
    assert_eq!((&results[2]["duplicate"], &results[3]["duplicate"]), (&json!(true), &json!(true)));
    assert_eq!((&results[3]["row"], &results[3]["seq"]), (&results[0]["row"], &results[0]["seq"]));
    let pointer =
        |n: usize, k: usize| results[n]["error"]["errors"][k]["pointer"].as_str().unwrap().to_owned();
    assert!(pointer(4, 0).ends_with("/count"), "{:#}", results[4]);
    assert_eq!(results[9]["error"]["errors"].as_array().unwrap().len(), 2);
    let feed = app.get_feed("show").await;
    assert_eq!((&feed["seq"], feed["rows"].as_array().unwrap().len()), (&json!(4), 3));
}

async fn suppressed_and_scheduled_gifts_are_counted_as_what_they_are() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    let gifts = [gift("g1").json(), gift("g2").json(), gift("g3").with("delay_ms", json!(5)).json()];
    let answer = app.post_batch("show", &gifts).await.json();
    assert_eq!(tally(&answer), [1, 0, 1, 0, 1, 0]);
    assert_eq!(answer["results"][1]["status"], "suppressed");
    assert_eq!(answer["results"][2]["status"], "scheduled", "{answer:#}");
}

async fn a_batch_holds_one_to_one_hundred_and_twenty_eight_gifts() {
    let app = TestApp::start().await;
    let gifts =
        |n: u32| (0..n).map(|k| gift(&format!("g{k}")).by(&format!("u{k}")).json()).collect::<Vec<_>>();
    app.post_batch("show", &gifts(129)).await.problem(422);
    app.post_batch("show", &[]).await.problem(422);
    assert_eq!(app.get_feed("show").await["epoch"], "0", "a refused batch writes nothing");
    let answer = app.post_batch("show", &gifts(128)).await.json();
    assert_eq!(tally(&answer), [128, 0, 0, 0, 0, 0]);
    let seqs: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=128).collect::<Vec<_>>());
    let again = app.post_batch("show", &gifts(128)).await.json();
    assert_eq!(tally(&again), [0, 0, 0, 128, 0, 0]);
    assert_eq!(app.post_batch("show", &gifts(1)).await.status, 200);
}

async fn a_batch_that_is_no_batch_is_refused_whole() {
    let app = TestApp::start().await;
    let path = "/v1/feeds/show/gifts/batch";
    for (body, status) in [
        ("", 400),
        ("{\"gifts\":[", 400),
        ("[]", 422),
        ("{}", 422),
        ("{\"gifts\":{}}", 422),
        ("{\"gifts\":null}", 422),
        ("{\"gifts\":\"[]\"}", 422),
        ("null", 422),
    ] {
        app.call("POST", path, Some(body)).await.problem(status);
    }
    let extra = json!({"gifts": [gift("g1").json()], "dry_run": true}).to_string();
    let said = app.call("POST", path, Some(&extra)).await;
    assert_eq!(said.pointers(), ["/dry_run"]);
    assert_eq!(app.get_feed("show").await["epoch"], "0");
}

async fn a_batch_may_have_one_mib_and_not_a_byte_more() {
    let app = TestApp::start().await;
    let good = json!({"gifts": [gift("g1").json()]}).to_string();
    let padded = |size: usize| format!("{good}{}", " ".repeat(size - good.len()));
    let path = "/v1/feeds/show/gifts/batch";
    app.call("POST", path, Some(&padded((1 << 20) + 1))).await.problem(413);
    assert_eq!(app.get_feed("show").await["epoch"], "0");
    assert_eq!(app.call("POST", path, Some(&padded(1 << 20))).await.status, 200);
}

async fn a_batch_of_nothing_but_bad_gifts_writes_nothing() {
    let app = TestApp::start().await;
    let answer = app.post_batch("show", &[json!({}), json!([]), json!(5)]).await.json();
    assert_eq!(tally(&answer), [0, 0, 0, 0, 0, 3]);
    assert_eq!(app.get_feed("show").await["epoch"], "0");
}
