//! GET of a feed.

use serde_json::json;
use tipcast::domain::Millis;

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::gifts::gift;

on_both_stores![
    a_feed_that_nobody_wrote_to_is_an_empty_feed,
    rows_are_newest_first_and_never_more_than_the_capacity,
    the_tag_is_the_position_and_spares_what_did_not_change,
    an_empty_feed_is_spared_too,
];

async fn get_if_not(app: &TestApp, tag: &str) -> Said {
    Api::send(app.request("GET", "/v1/feeds/show").header("if-none-match", tag)).await
}

async fn a_feed_that_nobody_wrote_to_is_an_empty_feed() {
    let app = TestApp::start().await;
    let said = app.get("/v1/feeds/show").await;
    assert_eq!((said.status, said.header("etag")), (200, "\"0:0\""));
    let mut feed = said.json();
    let time = feed.as_object_mut().unwrap().remove("server_time").unwrap();
    let age = Millis::now().since(Millis::parse(time.as_str().unwrap()).unwrap());
    assert!(age < 60_000 && time.as_str().unwrap().len() == 24, "{time}");
    assert_eq!(feed, json!({"feed": "show", "epoch": "0", "seq": 0, "capacity": 10, "rows": []}));
}

async fn rows_are_newest_first_and_never_more_than_the_capacity() {
    let app = TestApp::start().await;
    for n in 0..13 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let feed = app.get_feed("show").await;
    let users: Vec<_> =
        feed["rows"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_str().unwrap()).collect();
    assert_eq!(users, ["u12", "u11", "u10", "u9", "u8", "u7", "u6", "u5", "u4", "u3"]);
    assert_eq!((&feed["seq"], &feed["capacity"], &feed["feed"]), (&json!(13), &json!(10), &json!("show")));
}

async fn the_tag_is_the_position_and_spares_what_did_not_change() {
    let app = TestApp::start().await;
    let answer = app.give("show", &gift("g1")).await;
    let said = app.get("/v1/feeds/show").await;
    let tag = said.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}:1\"", answer["epoch"].as_str().unwrap()));
    for known in [
        tag.clone(),
        format!("W/{tag}"),
        format!("\"x:1\", {tag}"),
        format!("\"x\",{tag} , \"y\""),
        "*".into(),
    ] {
        let spared = get_if_not(&app, &known).await;
        assert_eq!((spared.status, &*spared.text), (304, ""), "{known}");
        assert_eq!(spared.header("etag"), tag);
    }
    for other in ["\"0:0\"", "nonsense", "", "\"", &tag[1..tag.len() - 1]] {
        assert_eq!(get_if_not(&app, other).await.status, 200, "{other}");
    }
    app.give("show", &gift("g2")).await;
    assert_eq!(get_if_not(&app, &tag).await.status, 200);
}

async fn an_empty_feed_is_spared_too() {
    let app = TestApp::start().await;
    assert_eq!(get_if_not(&app, "\"0:0\"").await.status, 304);
}
