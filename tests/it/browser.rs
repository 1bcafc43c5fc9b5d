//! What people see, in a real Chromium: the first page, the overlay, the ticker on other people's pages.

mod below_a_path;
mod boards;
mod client;
mod console;
mod demo_page;
mod desk;
mod driver;
mod drops;
mod embedding;
mod long_burst;
mod looks;
mod overlay;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::process::Process;
use crate::support::proxy::{Mode, Proxy};
use driver::{Driver, Page};

/// Two tests at a time: browsers are big, but mostly wait.
static BROWSERS: Semaphore = Semaphore::const_new(2);

const TICKER: &str = "document.querySelector('tipcast-ticker')";

/// The rows of the first ticker, each through `what`, which knows it as `li`.
fn rows(what: &str) -> String {
    format!("[...{TICKER}.shadowRoot.querySelectorAll('.row[data-row]')].map(li => {what})")
}

fn names() -> String {
    rows("li.querySelector('.name').textContent")
}

fn counts() -> String {
    rows("li.querySelector('.count').textContent")
}

fn http() -> reqwest::Client {
    crate::support::api::http().build().unwrap()
}

async fn gift(base: &str, feed: &str, gift: Value) -> Value {
    let answer = http().post(format!("{base}/v1/feeds/{feed}/gifts")).json(&gift).send().await.unwrap();
    assert!(answer.status().is_success(), "{gift}: {}", answer.status());
    answer.json().await.unwrap()
}

/// However slow the machine: what is sent twice is a combo.
async fn has_patient_combos(base: &str, feed: &str) {
    let policy = json!({ "dedup_window_ms": 600_000 });
    let answer = http().patch(format!("{base}/v1/feeds/{feed}/policy")).json(&policy).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// Waits until this number of overlays of the feed are connected.
async fn has_overlays(base: &str, feed: &str, overlays: u64) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let told = http().get(format!("{base}/v1/feeds/{feed}/presence")).send().await.unwrap();
        let told: Value = told.json().await.unwrap();
        if told["overlays"] == overlays {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{told}, not {overlays} overlays");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn retract(base: &str, feed: &str, row: &Value) {
    let path = format!("{base}/v1/feeds/{feed}/rows/{}", row["row"].as_str().unwrap());
    assert_eq!(http().delete(path).send().await.unwrap().status(), 200);
}

/// A rose from this viewer.
fn from(user: &str) -> Value {
    json!({ "user": { "id": user, "name": user }, "gift": { "id": "rose", "name": "Rose" } })
}

async fn is_live(page: &Page<'_>) {
    page.until(&format!("{TICKER}?.state"), json!("live")).await;
}

async fn has_a_clean_console(page: &Page<'_>) {
    let console = page.console().await;
    assert!(console.is_empty(), "{console:#?}");
}

#[tokio::test]
async fn an_open_page_comes_back_by_itself_after_the_gateway_was_killed() {
    let _alone = BROWSERS.acquire().await;
    let backing = Backing::folder();
    let mut gateway = Process::serve(&backing.args());
    let base = gateway.base.clone();
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/?feed=crash")).await;
    is_live(&page).await;
    page.eval("window.sameDocument = true").await;
    gift(&base, "crash", from("before")).await;
    page.until(&names(), json!(["before"])).await;

    gateway.kill();
    page.until(&format!("{TICKER}.state !== 'live'"), json!(true)).await;
    let _again = Process::serve_at(base.trim_start_matches("http://"), &backing.args());
    is_live(&page).await;
    gift(&base, "crash", from("after")).await;
    page.until(&names(), json!(["after", "before"])).await;
    page.until("window.sameDocument", json!(true)).await;
}

#[tokio::test]
async fn a_reconnect_repeats_nothing_and_keeps_every_row_where_it_is() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let line = Proxy::before(app.authority().parse().unwrap()).await;
    let driver = Driver::start();
    let page = driver.open(&format!("http://{}/?feed=line", line.address)).await;
    is_live(&page).await;
    gift(&app.url(), "line", from("one")).await;
    gift(&app.url(), "line", from("two")).await;
    page.until(&names(), json!(["two", "one"])).await;
    page.eval(&format!("window.before = {}; window.changes = []", rows("li"))).await;
    let note = "e => changes.push(e.detail.change.kind, ...(e.detail.change.ops ?? []).map(op => op.op))";
    page.eval(&format!("{TICKER}.addEventListener('tipcast-change', {note})")).await;

    line.set(Mode::Cut);
    page.until(&format!("{TICKER}.state !== 'live'"), json!(true)).await;
    gift(&app.url(), "line", from("three")).await;
    line.set(Mode::Open);
    page.until(&names(), json!(["three", "two", "one"])).await;
    // It resumed: what was there is not even sent again, and is in the same elements.
    page.until("changes", json!(["delta", "add"])).await;
    let same = format!("{}.slice(1).map((li, n) => li === before[n])", rows("li"));
    page.until(&same, json!([true, true])).await;
}

#[tokio::test]
async fn a_page_without_sockets_uses_an_event_stream() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.blank().await;
    // As behind a proxy that knows no WebSocket.
    let blocked = "window.WebSocket = class {
        constructor() { setTimeout(() => this.onclose({ code: 1006, reason: '' })); }
        close() {}
    };";
    page.before_all(blocked).await;
    page.go(&format!("{}/?feed=stream", app.url())).await;
    is_live(&page).await;
    gift(&app.url(), "stream", from("one")).await;
    gift(&app.url(), "stream", from("two")).await;
    page.until(&names(), json!(["two", "one"])).await;
    page.until("document.getElementById('watchers').textContent", json!("1")).await;
    has_a_clean_console(&page).await;
}
