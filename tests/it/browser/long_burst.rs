//! A page that is left open through a long burst.

use serde_json::{Value, json};
use tipcast::tools::demo::Show;

use super::driver::{Driver, Page};
use super::{BROWSERS, TICKER, TestApp, http, is_live};

/// Batches of 128 before the first look: what is made once (formats, compiled code) is made then.
const WARM_UP: usize = 12;
/// Batches of 128 between the two looks.
const BURST: usize = 60;

/// Bytes of JavaScript's heap, nodes and listeners that are still held after a collection.
async fn held(page: &Page<'_>) -> [f64; 3] {
    page.devtools("HeapProfiler.collectGarbage", json!({})).await;
    page.devtools("HeapProfiler.collectGarbage", json!({})).await;
    let told = page.devtools("Performance.getMetrics", json!({})).await;
    let metrics = told["metrics"].as_array().unwrap();
    ["JSHeapUsedSize", "Nodes", "JSEventListeners"].map(|name| {
        let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
        metric["value"].as_f64().unwrap()
    })
}

/// Sends this number of batches, and waits until the page is where the feed is.
async fn burst(app: &TestApp, page: &Page<'_>, show: &mut Show, batches: usize) {
    for _ in 0..batches {
        let gifts: Vec<Value> = show.by_ref().take(128).collect();
        let sent = http().post(format!("{}/v1/feeds/long/gifts/batch", app.url()));
        let answer = sent.json(&json!({ "gifts": gifts })).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    let list = app.get("/v1/feeds/long").await.json();
    let at = format!("{}:{}", list["epoch"].as_str().unwrap(), list["seq"]);
    page.until(&format!("{TICKER}.position"), json!(at)).await;
    // What leaves and what moves is done with.
    page.until(&format!("{TICKER}.shadowRoot.querySelectorAll('.row').length"), json!(10)).await;
    page.until(&format!("{TICKER}.shadowRoot.getAnimations().length"), json!(0)).await;
}

#[tokio::test]
async fn thousands_of_gifts_leave_a_page_no_heavier_than_hundreds() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let policy = json!({ "flush_ms": 5, "dedup_window_ms": 500 });
    assert_eq!(app.call("PATCH", "/v1/feeds/long/policy", Some(&policy.to_string())).await.status, 200);
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=long", app.url())).await;
    is_live(&page).await;
    page.devtools("Performance.enable", json!({})).await;
    let mut show = Show::new(23);

    burst(&app, &page, &mut show, WARM_UP).await;
    let [heap, nodes, listeners] = held(&page).await;
    burst(&app, &page, &mut show, BURST).await;
    let after = held(&page).await;
    println!("before {:?}, after {after:?}", [heap, nodes, listeners]);
    assert!(after[0] < heap + 1_000_000.0, "heap: {heap} -> {}", after[0]);
    // One that kept its rows would hold a hundred thousand.
    assert!(after[1] < nodes + 1_500.0, "nodes: {nodes} -> {}", after[1]);
    assert!(after[2] < listeners + 20.0, "listeners: {listeners} -> {}", after[2]);
}
