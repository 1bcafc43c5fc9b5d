//! `[limits] requests_per_second`.

use serde_json::{Value, json};

use super::ask;
use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::app::Backing;
use crate::support::gifts::gift;

const KEYS: [&str; 2] = ["the-first-key-of-the-tests", "the-second-key-of-the-tests"];

async fn limited(keys: &[&str]) -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = keys.iter().map(|key| key.to_string().into()).collect();
        config.limits.requests_per_second = 1;
        config.limits.request_burst = 130;
    })
    .await
}

async fn batch(app: &TestApp, key: &str, first: usize, count: usize) -> Said {
    let gifts: Vec<Value> = (first..first + count).map(|n| gift(&format!("g{n}")).json()).collect();
    let body = json!({"gifts": gifts}).to_string();
    let bearer = format!("Bearer {key}");
    ask(app, "POST /v1/feeds/show/gifts/batch", &[("authorization", &bearer)], Some(&body)).await
}

/// `r` of the RateLimit header.
fn remaining(said: &Said) -> u64 {
    let (_, rest) = said.header("ratelimit").split_once("r=").unwrap_or_else(|| panic!("{said:?}"));
    rest.split(';').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn nothing_is_limited_until_it_is_set() {
    let app = TestApp::start().await;
    let said = app.post_gift("show", &gift("g1")).await;
    assert_eq!((said.status, said.header("ratelimit"), said.header("ratelimit-policy")), (201, "", ""));
}

#[tokio::test]
async fn a_batch_counts_its_gifts_and_a_refused_one_leaves_nothing_behind() {
    let app = limited(&KEYS).await;
    let first = batch(&app, KEYS[0], 0, 100).await;
    assert_eq!(first.status, 200);
    assert_eq!(first.header("ratelimit-policy"), "\"requests\";q=130;w=130");
    let left = remaining(&first);
    assert!((30..40).contains(&left), "{left}");
    let seq = app.get_feed("show").await["seq"].clone();

    let refused = batch(&app, KEYS[0], 1_000, 128).await;
    assert_eq!(refused.problem(429)["type"], "/problems/rate-limited");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 50, "{refused:?}");
    assert_eq!(app.get_feed("show").await["seq"], seq);

    let other = batch(&app, KEYS[1], 0, 128).await;
    assert_eq!(other.status, 200, "another key has a bucket of its own");
    assert_eq!(other.json()["duplicate"], 100);

    let bearer = format!("Bearer {}", KEYS[0]);
    let mut answers = vec![];
    while answers.last() != Some(&429) {
        let body = gift("single").json().to_string();
        let said = ask(&app, "POST /v1/feeds/show/gifts", &[("authorization", &bearer)], Some(&body)).await;
        answers.push(said.status);
        assert!(answers.len() < 60, "{answers:?}");
    }
    assert!(answers.len() > 20, "what a refused batch did not take is still there: {answers:?}");
    assert_eq!(app.get("/v1/feeds/show").await.status, 200, "reading is free");
}

#[tokio::test]
async fn without_keys_an_address_is_limited() {
    let app = limited(&[]).await;
    assert_eq!(batch(&app, "", 0, 128).await.status, 200);
    batch(&app, "", 0, 128).await.problem(429);
    let client = crate::support::api::http().local_address(Some("127.0.0.7".parse().unwrap())).build();
    let body = gift("g1").json().to_string();
    let request = client.unwrap().post(format!("{}/v1/feeds/show/gifts", app.url()));
    let said = request.header("content-type", "application/json").body(body).send().await.unwrap();
    assert_eq!(said.status(), 200);
}
