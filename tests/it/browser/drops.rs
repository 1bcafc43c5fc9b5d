//! The first page's drops: what is left counts down, buying and holding, and a gift for later.

use serde_json::json;

use super::driver::Driver;
use super::{BROWSERS, TestApp, has_a_clean_console, http, is_live, names};

const LEFT: &str = "[...document.querySelectorAll('.drop-left')].map(p => p.textContent)";
const ANSWER: &str = "document.getElementById('drop-answer').textContent";
const HOLDS: &str = "document.querySelectorAll('.hold-list li').length";

#[tokio::test]
async fn a_drop_is_started_bought_held_and_paid_for_on_the_first_page() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=drop", app.url())).await;
    let other = driver.open(&format!("{}/?feed=drop", app.url())).await;
    is_live(&page).await;
    is_live(&other).await;
    page.fill("#name", "Mia <b>").await;
    page.click(".drop-start").await;
    for page in [&page, &other] {
        page.until(LEFT, json!(["25 left"])).await;
    }
    page.click(".drop .buy").await;
    page.until(ANSWER, json!("It is yours.")).await;
    for page in [&page, &other] {
        page.until(&names(), json!(["Mia <b>"])).await;
        page.until(LEFT, json!(["24 left"])).await;
    }
    page.click(".drop .hold").await;
    page.until(ANSWER, json!("It is held for you.")).await;
    page.until(HOLDS, json!(1)).await;
    page.until(
        "/^held for [01]:[0-5][0-9]$/.test(document.querySelector('.hold-list .quiet').textContent)",
        json!(true),
    )
    .await;
    other.until(LEFT, json!(["23 left · 1 on hold"])).await;
    // It is not forgotten when the page is loaded again.
    page.eval("location.reload()").await;
    is_live(&page).await;
    page.until(HOLDS, json!(1)).await;
    page.click(".hold-list .pay").await;
    page.until(ANSWER, json!("It is yours.")).await;
    page.until(HOLDS, json!(0)).await;
    other.until(&names(), json!(["Mia <b>", "Mia <b>"])).await;
    page.click(".drop .buy").await;
    page.until(ANSWER, json!("You have as many as one may have.")).await;
    has_a_clean_console(&other).await;
}

#[tokio::test]
async fn a_drop_sells_out_on_screen_in_chinese() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let name = "<img src=x onerror=\"document.title='owned'\">";
    let base = format!("{}/v1/feeds/sells/drops/r", app.url());
    let drop = json!({ "gift": { "id": "rocket", "name": name }, "total": 2 });
    assert_eq!(http().put(&base).json(&drop).send().await.unwrap().status(), 201);
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=sells&lang=zh", app.url())).await;
    is_live(&page).await;
    page.until(LEFT, json!(["还剩 2 份"])).await;
    page.until("document.querySelector('.drop-name').textContent", json!(name)).await;
    page.until("document.querySelector('.drop-empty').hidden", json!(true)).await;
    for user in ["a", "b"] {
        let claim = json!({ "id": user, "user": { "id": user, "name": user }, "pay": "now" });
        let answer = http().post(format!("{base}/claims")).json(&claim).send().await.unwrap();
        assert_eq!(answer.status(), 201);
    }
    page.until(LEFT, json!(["已售罄"])).await;
    page.until("document.querySelector('.buy').disabled", json!(true)).await;
    page.until("document.querySelector('progress').value", json!(0)).await;
    page.until("document.querySelectorAll('.drop img').length", json!(0)).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_gift_sent_for_later_is_told_of_and_waits() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=later", app.url())).await;
    is_live(&page).await;
    page.fill("#name", "Mia").await;
    page.click("#later").await;
    page.click("#give").await;
    page.until("document.getElementById('answer').textContent", json!("Shows in 10 s.")).await;
    let waiting = http().get(format!("{}/v1/feeds/later/scheduled", app.url())).send().await.unwrap();
    let waiting: serde_json::Value = waiting.json().await.unwrap();
    assert!(waiting.to_string().contains("Mia"), "{waiting}");
    page.until(&names(), json!([])).await;
    page.until(&names(), json!(["Mia"])).await;
    has_a_clean_console(&page).await;
}
