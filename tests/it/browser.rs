//! What people see: a real Chromium on the first page, and the client library inside it.

mod driver;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::TestApp;
use driver::{Driver, Page};

/// One at a time: browsers are big, and these tests do not look for what many of them do at once.
static BROWSERS: Mutex<()> = Mutex::const_new(());

const LIVE: &str = "document.getElementById('state').dataset.state";
const WHO: &str = "[...document.querySelectorAll('#ticker .who')].map(e => e.textContent)";
const COUNTS: &str = "[...document.querySelectorAll('#ticker .count')].map(e => e.textContent)";

async fn gift(base: &str, feed: &str, gift: Value) -> Value {
    let answer = reqwest::Client::new()
        .post(format!("{base}/v1/feeds/{feed}/gifts"))
        .json(&gift)
        .send()
        .await
        .unwrap();
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
    let gone =
        reqwest::Client::new().delete(format!("{base}/v1/feeds/show/rows/{row}")).send().await.unwrap();
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
async fn the_client_library_folds_strictly_resumes_and_backs_off() {
    let _alone = BROWSERS.lock().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    // Any page of the gateway whose own script does not run beside the check.
    let page = driver.open(&format!("{}/healthz", app.url())).await;
    let said = page.eval_async(include_str!("browser/client_check.js")).await;
    assert_eq!(said, "ok", "{}", said.as_str().unwrap_or_default());
}
