//! What people see: a real Chromium on the first page, and the client library inside it.

mod driver;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use tipcast::tools::demo::Show;

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::process::Process;
use driver::{Driver, Page};

/// One at a time: browsers are big, and these tests do not look for what many of them do at once.
static BROWSERS: Mutex<()> = Mutex::const_new(());

const LIVE: &str = "document.getElementById('state').dataset.state";
const WHO: &str = "[...document.querySelectorAll('#ticker .who')].map(e => e.textContent)";
const COUNTS: &str = "[...document.querySelectorAll('#ticker .count')].map(e => e.textContent)";

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn gift(base: &str, feed: &str, gift: Value) -> Value {
    let answer = http().post(format!("{base}/v1/feeds/{feed}/gifts")).json(&gift).send().await.unwrap();
    assert!(answer.status().is_success(), "{gift}: {}", answer.status());
    answer.json().await.unwrap()
}

async fn is_live(page: &Page<'_>) {
    page.until(LIVE, json!("live")).await;
}

async fn has_a_clean_console(page: &Page<'_>) {
    let console = page.console().await;
    assert!(console.is_empty(), "{console:#?}");
}

#[tokio::test]
async fn two_pages_show_the_same_gift_as_text_until_it_is_taken_back() {
    let _alone = BROWSERS.lock().await;
    let app = TestApp::start().await;
    let base = app.url();
    let driver = Driver::start();
    let one = driver.open(&format!("{base}/?feed=show")).await;
    let two = driver.open(&format!("{base}/?feed=show")).await;
    is_live(&one).await;
    is_live(&two).await;

    let name = "<img src=x onerror=\"document.title='owned'\">";
    let message = "</p><script>document.title='owned'</script>";
    let sent = json!({
        "user": { "id": "u1", "name": name }, "message": message, "count": 3,
        "gift": { "id": "rose", "name": "<b>Rose</b>" }, "value": { "amount": 1250, "currency": "EUR" },
    });
    let answer = gift(&base, "show", sent).await;
    let hebrew = json!({ "user": { "id": "u2", "name": "שרה" }, "gift": { "id": "cake", "name": "Cake" } });
    gift(&base, "show", hebrew).await;

    for page in [&one, &two] {
        page.until(WHO, json!(["שרה", name])).await;
        page.until(COUNTS, json!(["×1", "×3"])).await;
        let row = "document.querySelectorAll('#ticker li')[1]";
        page.until(&format!("{row}.querySelector('.message').textContent"), json!(message)).await;
        page.until(&format!("{row}.querySelectorAll('img, b, script').length"), json!(0)).await;
        page.until(&format!("{row}.dataset.row"), answer["row"].clone()).await;
        page.until("getComputedStyle(document.querySelector('#ticker .who')).direction", json!("rtl")).await;
        page.until("document.title", json!("show · Tipcast")).await;
    }
    let html = "return document.getElementById('ticker').textContent";
    assert_eq!(one.eval(html).await, two.eval(html).await);

    let row = answer["row"].as_str().unwrap();
    let gone = http().delete(format!("{base}/v1/feeds/show/rows/{row}")).send().await.unwrap();
    assert_eq!(gone.status(), 200);
    for page in [&one, &two] {
        page.until(WHO, json!(["שרה"])).await;
        has_a_clean_console(page).await;
    }
}

#[tokio::test]
async fn a_gift_sent_by_the_form_shows_and_the_next_one_joins_it() {
    let _alone = BROWSERS.lock().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=form", app.url())).await;
    is_live(&page).await;
    page.until("document.getElementById('empty').hidden", json!(false)).await;

    page.fill("#name", "Zoë <i>").await;
    page.fill("#count", "2").await;
    page.fill("#message", "שלום & hello").await;
    page.click("#send button").await;
    page.until(WHO, json!(["Zoë <i>"])).await;
    page.until(COUNTS, json!(["×2"])).await;
    page.until("document.querySelector('#ticker .message').textContent", json!("שלום & hello")).await;
    page.until("document.getElementById('answer').textContent", json!("Sent.")).await;
    page.until("document.getElementById('empty').hidden", json!(true)).await;

    page.click("#send button").await;
    page.until(COUNTS, json!(["×4"])).await;
    page.until("document.querySelectorAll('#ticker li').length", json!(1)).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn after_a_whole_show_the_page_has_what_the_server_lists() {
    let _alone = BROWSERS.lock().await;
    let app = TestApp::start().await;
    let base = app.url();
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/?feed=stage")).await;
    is_live(&page).await;

    let mut show = Show::new(11);
    for _ in 0..8 {
        let gifts: Vec<Value> = show.by_ref().take(64).collect();
        let batch =
            http().post(format!("{base}/v1/feeds/stage/gifts/batch")).json(&json!({ "gifts": gifts }));
        let answer: Value = batch.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["rejected"], 0, "{answer:#}");
    }
    let list: Value =
        http().get(format!("{base}/v1/feeds/stage")).send().await.unwrap().json().await.unwrap();
    let rows = list["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    let of_each = |pointer: &str| rows.iter().map(|row| row.pointer(pointer).cloned()).collect::<Value>();

    let at = format!("position {}:{}", list["epoch"].as_str().unwrap(), list["seq"]);
    page.until("document.getElementById('position').textContent", json!(at)).await;
    let shown = |what: &str| format!("[...document.querySelectorAll('#ticker li')].map(li => {what})");
    page.until(&shown("li.dataset.row"), of_each("/row")).await;
    page.until(&shown("li.querySelector('.who').textContent"), of_each("/user/name")).await;
    page.until(&shown("li.querySelector('.what bdi').textContent"), of_each("/gift/name")).await;
    let count = "Number(li.querySelector('.count').textContent.replace(/[^0-9]/g, ''))";
    page.until(&shown(count), of_each("/count")).await;
    let message = "li.querySelector('.message')?.textContent ?? null";
    page.until(&shown(message), of_each("/message")).await;
    // The show has a few pictures that never load; nothing else may complain.
    let console = page.console().await;
    let complaints: Vec<_> =
        console.iter().filter(|l| !l.to_string().contains("//avatars.example/")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[tokio::test]
async fn an_open_page_comes_back_by_itself_after_the_gateway_was_killed() {
    let _alone = BROWSERS.lock().await;
    let backing = Backing::folder();
    let mut gateway = Process::serve(&backing.args());
    let base = gateway.base.clone();
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/?feed=crash")).await;
    is_live(&page).await;
    page.eval("window.sameDocument = true").await;
    let from = |user: &str| json!({ "user": { "id": user, "name": user }, "gift": { "id": "rose", "name": "Rose" } });
    gift(&base, "crash", from("before")).await;
    page.until(WHO, json!(["before"])).await;

    gateway.kill();
    page.until(&format!("{LIVE} !== 'live'"), json!(true)).await;
    let _again = Process::serve_at(base.trim_start_matches("http://"), &backing.args());
    is_live(&page).await;
    gift(&base, "crash", from("after")).await;
    page.until(WHO, json!(["after", "before"])).await;
    page.until("window.sameDocument", json!(true)).await;
}

#[tokio::test]
async fn the_client_library_folds_strictly_resumes_and_backs_off() {
    let _alone = BROWSERS.lock().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    // Any page of the gateway whose own script does not run beside the check.
    let page = driver.open(&format!("{}/healthz", app.url())).await;
    let said = page.eval_async(include_str!("browser/client_check.js")).await;
    assert_eq!(said, "ok", "{}", said.as_str().unwrap_or_default());
}
