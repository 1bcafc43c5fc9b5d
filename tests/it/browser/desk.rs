//! The host's desk: by keyboard, by touch, with names that try to be more than names.

use serde_json::{Value, json};

use super::driver::{Driver, Page};
use super::{BROWSERS, Backing, Mode, Proxy, TestApp, gift, has_a_clean_console};
use crate::support::api::Api;
use crate::support::watcher::Watcher;

const KEY: &str = "tck_0123456789abcdefghijklmnopqrstuvwxyz";
const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\">";

const WAITING: &str = "[...document.querySelectorAll('#waiting li .name')].map(e => e.textContent)";
const LIVE: &str = "[...document.querySelectorAll('#live li .name')].map(e => e.textContent)";
const WATCHERS: &str = "document.getElementById('watchers').textContent";
const TOLD: &str = "document.getElementById('told').textContent";
const STATE: &str = "document.getElementById('state').dataset.state";

fn said(id: &str, name: &str, message: &str) -> Value {
    json!({"id": id, "user": {"id": format!("u-{id}"), "name": name}, "gift": {"id": "r", "name": HOSTILE},
        "message": message, "value": {"amount": 500, "currency": "EUR"}})
}

async fn review(base: &str, policy: Value) {
    let answer =
        super::http().patch(format!("{base}/v1/feeds/show/policy")).json(&policy).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// How often each path was asked with each method, as the page's own `fetch` saw it.
const COUNT_CALLS: &str = "window.calls = []; const real = window.fetch;
    window.fetch = (path, options = {}) => { const at = new URL(path, location); if ((options.method ?? 'GET') !== 'GET') calls.push(options.method + ' ' + at.pathname + at.search + ' ' + (options.body ?? '')); return real(path, options); };";

async fn opened<'a>(driver: &'a Driver, url: &str) -> Page<'a> {
    let page = driver.blank().await;
    page.before_all(COUNT_CALLS).await;
    page.go(url).await;
    page.until(STATE, json!("live")).await;
    page
}

#[tokio::test]
async fn a_host_decides_by_keyboard_undoes_and_never_acts_twice() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    review(&base, json!({"review": "all", "review_timeout_ms": 600_000, "dedup": "off"})).await;
    for (id, name) in [("a", HOSTILE), ("b", "Bea"), ("c", "Cem"), ("d", "Dee")] {
        gift(&base, "show", said(id, name, "<b>hello</b>")).await;
    }
    let driver = Driver::start();
    let page = opened(&driver, &format!("{base}/desk/show?lang=en")).await;
    page.until(WAITING, json!([HOSTILE, "Bea", "Cem", "Dee"])).await;
    let overlays = [
        Watcher::open_with(&app, "show", "?as=overlay", None).await,
        Watcher::open_with(&app, "show", "?as=overlay", None).await,
    ];
    page.until(WATCHERS, json!("3 watch · 2 overlays")).await;
    drop(overlays);
    page.until(WATCHERS, json!("1 watches · no overlay is connected")).await;
    page.until("document.querySelectorAll('#board img, #board b').length", json!(0)).await;
    page.until("document.querySelector('#waiting .words').textContent", json!("<b>hello</b>")).await;

    // Held down and pressed twice is once; what is undone is not sent.
    page.keys("a").await;
    page.until(TOLD, json!(format!("Approve: {HOSTILE}"))).await;
    page.keys("z").await;
    page.until("document.querySelectorAll('#waiting li[data-sent=\"true\"]').length", json!(0)).await;
    page.keys("aa").await;
    page.until(LIVE, json!([HOSTILE])).await;
    page.until(WAITING, json!(["Bea", "Cem", "Dee"])).await;
    page.keys("a").await;
    page.until(LIVE, json!(["Bea", HOSTILE])).await;
    page.until(WAITING, json!(["Cem", "Dee"])).await;
    page.until(
        "calls.filter(it => it.includes('/review?id=')).sort()",
        json!([
            "POST /v1/feeds/show/review?id=a {\"action\":\"approve\"}",
            "POST /v1/feeds/show/review?id=b {\"action\":\"approve\"}"
        ]),
    )
    .await;
    // The second one is chosen, masked and denied by key.
    page.keys("j").await;
    page.until("document.querySelector('[aria-current=\"true\"] .name').textContent", json!("Dee")).await;
    page.keys("m").await;
    page.until(LIVE, json!(["•••", "Bea", HOSTILE])).await;
    page.keys("d").await;
    page.until(WAITING, json!([])).await;
    page.until("document.getElementById('waiting-none').hidden", json!(false)).await;

    page.keys("p").await;
    page.until("document.getElementById('pause').getAttribute('aria-pressed')", json!("true")).await;
    assert_eq!(app.get_feed("show").await["control"], json!({"paused": true, "muted": false}));
    // Its answer may be later than what it did.
    page.until("document.getElementById('pause').dataset.busy ?? 'free'", json!("free")).await;
    page.keys("pu").await;
    page.until("document.getElementById('mute').getAttribute('aria-pressed')", json!("true")).await;
    page.until("document.getElementById('pause').getAttribute('aria-pressed')", json!("false")).await;
    page.until("document.title", json!("show · Tipcast")).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn on_a_phone_in_the_dark_a_host_takes_back_blocks_and_reads_chinese() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    review(&base, json!({"dedup": "off"})).await;
    for (id, name) in [("a", "Ann"), ("b", "Bea"), ("c", HOSTILE)] {
        gift(&base, "show", said(id, name, &"很长的留言".repeat(20))).await;
    }
    let driver = Driver::start();
    let page = driver.blank().await;
    page.is_a_phone(360, 740).await;
    page.prefers(&[("prefers-color-scheme", "dark")]).await;
    page.before_all(COUNT_CALLS).await;
    page.go(&format!("{base}/desk/show?lang=zh")).await;
    page.until("document.getElementById('state').textContent", json!("已连接")).await;
    page.until(LIVE, json!([HOSTILE, "Bea", "Ann"])).await;
    let wide = "[document.documentElement.scrollWidth <= innerWidth, [...document.querySelectorAll('body *')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.className)]";
    page.until(wide, json!([true, []])).await;
    let small = "[...document.querySelectorAll('#board button')].filter(e => e.checkVisibility() && e.offsetHeight < 44).length";
    page.until(small, json!(0)).await;
    // Twice in a row, as fingers do.
    page.tap("#live li:nth-child(2) .actions button:nth-child(2)", 2).await;
    page.until(LIVE, json!([HOSTILE, "Ann"])).await;
    page.tap("#live li:first-child .actions button:nth-child(3)", 1).await;
    page.until(LIVE, json!(["Ann"])).await;
    page.until("[...document.querySelectorAll('#blocked .name')].map(e => e.textContent)", json!(["u-c"]))
        .await;
    gift(
        &base,
        "show",
        said("d", "again", "x")
            .as_object()
            .map(|gift| {
                let mut gift = gift.clone();
                gift["user"]["id"] = json!("u-c");
                Value::Object(gift)
            })
            .unwrap(),
    )
    .await;
    page.tap("#undo", 1).await;
    page.until("document.getElementById('blocked').hidden", json!(true)).await;
    page.until(LIVE, json!(["Ann"])).await;
    let deleted = "calls.filter(it => it.startsWith('DELETE') && it.includes('/rows/')).length";
    page.until(deleted, json!(1)).await;
    let policy = app.get("/desk/show").await;
    let policy = policy.header("content-security-policy").to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_key_is_asked_for_kept_in_the_tab_and_a_decision_survives_a_connection_that_comes_and_goes() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.admin_keys = vec![KEY.to_owned().into()];
    })
    .await;
    let line = Proxy::before(app.authority().parse().unwrap()).await;
    let call = |method: &'static str, path: &'static str, body: Value| {
        let request = app.request(method, path).header("authorization", format!("Bearer {KEY}"));
        Api::send(request.json(&body))
    };
    assert_eq!(call("PATCH", "/v1/feeds/show/policy", json!({"review": "all"})).await.status, 200);
    assert_eq!(call("POST", "/v1/feeds/show/gifts", said("a", "Ann", "hi")).await.status, 202);
    let driver = Driver::start();
    let page = driver.open(&format!("http://{}/desk/show?lang=en", line.address)).await;
    page.until("document.getElementById('unlock').hidden", json!(false)).await;
    page.fill("#key", "tck_not-the-key-0123456789012345678901").await;
    page.click("#unlock button").await;
    page.until(
        "document.getElementById('refused').textContent",
        json!("This key may not moderate this feed."),
    )
    .await;
    page.fill("#key", KEY).await;
    page.click("#unlock button").await;
    page.until(WAITING, json!(["Ann"])).await;
    page.until(
        "location.href.includes('tck_') || document.documentElement.innerHTML.includes('tck_')",
        json!(false),
    )
    .await;
    page.keys("a").await;
    line.set(Mode::Cut);
    page.until(STATE, json!("away")).await;
    assert_eq!(app.get_feed("show").await["rows"], json!([]), "it has not been told yet");
    line.set(Mode::Open);
    page.until(LIVE, json!(["Ann"])).await;
    page.until(STATE, json!("live")).await;
    page.eval("location.reload()").await;
    page.until(LIVE, json!(["Ann"])).await;
    page.click("#forget").await;
    page.until("sessionStorage.length", json!(0)).await;
}

#[tokio::test]
async fn an_overlay_sounds_once_for_each_alert_and_not_while_it_is_muted() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    review(&base, json!({"dedup": "off"})).await;
    let driver = Driver::start();
    let silent = driver.open(&format!("{base}/overlay/show?hide_after=60")).await;
    silent.until("document.body.dataset.state", json!("live")).await;
    gift(&base, "show", said("a", "Ann", "hi")).await;
    silent.until("document.querySelectorAll('.row[data-row]').length", json!(1)).await;
    silent.until("document.body.dataset.sounds ?? 'none'", json!("none")).await;
    let page = driver.open(&format!("{base}/overlay/show?hide_after=60&sound=chime")).await;
    page.until("document.body.dataset.state", json!("live")).await;
    gift(&base, "show", said("b", "Bea", "hi")).await;
    page.until("document.body.dataset.sounds", json!("1")).await;
    app.call("POST", "/v1/feeds/show/control", Some(r#"{"action":"mute"}"#)).await;
    gift(&base, "show", said("c", "Cem", "hi")).await;
    page.until("document.querySelectorAll('.row[data-row]').length", json!(2)).await;
    page.until("document.body.dataset.sounds", json!("1")).await;
    app.call("POST", "/v1/feeds/show/control", Some(r#"{"action":"unmute"}"#)).await;
    let row = app.get_feed("show").await["rows"][0]["row"].as_str().unwrap().to_owned();
    let replay = json!({"action": "replay", "row": row}).to_string();
    app.call("POST", "/v1/feeds/show/control", Some(&replay)).await;
    page.until("document.body.dataset.sounds", json!("2")).await;
}

#[tokio::test]
async fn rows_on_air_are_one_line_each_searched_and_filtered_by_amount() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    review(&base, json!({"review": "off", "dedup": "off"})).await;
    for (id, name, amount) in [("a", "Ann", 500), ("b", "Bea", 5_000), ("c", "Cem", 2_500)] {
        let mut one = said(id, name, "");
        one["value"] = json!({"amount": amount, "currency": "EUR"});
        one["gift"]["name"] = json!("Rose");
        one.as_object_mut().unwrap().remove("message");
        gift(&base, "show", one).await;
    }
    let driver = Driver::start();
    let page = driver.blank().await;
    page.is_a_desktop().await;
    page.go(&format!("{base}/desk/show?lang=en")).await;
    page.until(LIVE, json!(["Cem", "Bea", "Ann"])).await;
    let heights = "[...document.querySelectorAll('#live li')].every(li => li.offsetHeight < 60)";
    page.until(heights, json!(true)).await;
    page.until("document.querySelector('#live time').dateTime.endsWith('Z')", json!(true)).await;
    page.fill("#row-search", "be").await;
    page.until(LIVE, json!(["Bea"])).await;
    page.fill("#row-search", "nobody").await;
    page.until(LIVE, json!([])).await;
    page.eval("document.getElementById('row-search').value = ''").await;
    page.fill("#row-least", "25").await;
    page.until(LIVE, json!(["Cem", "Bea"])).await;
    // What comes later is filtered too, and a row that is let through is acted on.
    gift(&base, "show", said("d", "Dee", "")).await;
    page.click("#live li:nth-child(2)").await;
    page.click("#live li:nth-child(2) .actions button:nth-child(2)").await;
    page.until(LIVE, json!(["Cem"])).await;
    assert_eq!(app.get_feed("show").await["rows"].as_array().unwrap().len(), 3);
    has_a_clean_console(&page).await;
}
