//! The console.

use serde_json::{Value, json};

use super::driver::Driver;
use super::{BROWSERS, Backing, TestApp, has_a_clean_console};
use crate::support::api::{Api, Said};
use crate::support::receiver::{Receiver, SECRET};

const KEY: &str = "admin-0123456789";
const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\">";

async fn call(app: &TestApp, method: &str, path: &str, body: Value) -> Said {
    let request = app.request(method, path).header("authorization", format!("Bearer {KEY}"));
    let said = Api::send(if body.is_null() { request } else { request.json(&body) }).await;
    assert!(said.status < 300, "{method} {path}: {said:?}");
    said
}

/// A gateway whose group `game` gave up two gifts with hostile names.
async fn with_dead(keys: bool) -> TestApp {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.reports.max_attempts = 1;
        if keys {
            config.auth.admin_keys = vec![KEY.to_owned().into()];
        }
    })
    .await;
    for id in ["g1", "g2"] {
        let (user, gift) = (json!({"id": id, "name": HOSTILE}), json!({"id": "r", "name": HOSTILE}));
        call(&app, "POST", "/v1/feeds/show/gifts", json!({"id": id, "user": user, "gift": gift})).await;
    }
    let group = "/v1/feeds/show/groups/game";
    let claim = json!({"consumer": "t"});
    let entries = call(&app, "POST", &format!("{group}/claim"), claim.clone()).await.json();
    let cursors: Vec<Value> =
        entries["entries"].as_array().unwrap().iter().map(|entry| entry["cursor"].clone()).collect();
    call(&app, "POST", &format!("{group}/nack"), json!({"cursors": cursors})).await;
    call(&app, "POST", &format!("{group}/claim"), claim).await;
    let hook = json!({"url": "https://nobody.invalid/?a=%3Cimg%3E", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    call(&app, "PUT", "/v1/feeds/*/webhooks/all", hook).await;
    app
}

fn texts(css: &str) -> String {
    format!("[...document.querySelectorAll('{css}')].map(e => e.textContent)")
}

const LETTERS: &str = "document.querySelectorAll('#dead .letter').length";

#[tokio::test]
async fn it_asks_for_the_key_shows_everything_and_sends_dead_letters_again() {
    let _alone = BROWSERS.acquire().await;
    let app = with_dead(true).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("the list", |fold| fold.snapshots == 1).await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/console", app.url())).await;
    page.until("document.getElementById('unlock').hidden", json!(false)).await;
    page.until("document.getElementById('board').hidden", json!(true)).await;
    page.fill("#key", "not-the-key-0123456789").await;
    page.click("#unlock button").await;
    page.until(
        "document.getElementById('refused').textContent",
        json!("This key may not observe, or is none."),
    )
    .await;
    // The browser itself notes the refusal.
    page.console().await;
    page.fill("#key", KEY).await;
    page.click("#unlock button").await;
    page.until("document.getElementById('state').textContent", json!("live")).await;
    page.until("document.querySelectorAll('#nodes tbody tr').length", json!(1)).await;
    page.until("document.getElementById('verdict').textContent", json!("1 thing needs you.")).await;
    page.until(&texts("#feeds .name"), json!(["show"])).await;
    page.until(&texts("#feeds .facts span:first-child"), json!(["watchers 1"])).await;
    page.until(&texts("#feeds .rate"), json!(["0/s"])).await;
    page.until(&texts("#groups .name"), json!(["show / game"])).await;
    page.until(&texts("#groups .bad"), json!(["dead 2"])).await;
    page.until(&texts("#webhooks .name"), json!(["* / all active"])).await;
    page.until(&texts("#webhooks .note.quiet"), json!(["https://nobody.invalid/?a=%3Cimg%3E"])).await;
    let told = format!("{HOSTILE} → {HOSTILE} ×1");
    page.until(&texts("#dead .name"), json!([told, told])).await;
    page.until("document.querySelectorAll('#board img').length", json!(0)).await;
    page.until("document.title", json!("Console · Tipcast")).await;
    page.until("document.documentElement.innerHTML.includes('whsec')", json!(false)).await;

    page.click("#dead .letter button").await;
    page.until("document.getElementById('answer').textContent", json!("1 sent again.")).await;
    page.until(LETTERS, json!(1)).await;
    page.until(&texts("#groups .bad"), json!(["dead 1"])).await;
    // This tab keeps the key.
    page.eval("location.reload()").await;
    page.until(LETTERS, json!(1)).await;
    page.click("#dead .head button").await;
    page.until(LETTERS, json!(0)).await;
    page.until(&texts("#dead li"), json!(["none"])).await;
    page.click("#forget").await;
    page.until("document.getElementById('unlock').hidden", json!(false)).await;
    page.until("sessionStorage.length", json!(0)).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn on_a_machine_without_keys_it_needs_none_and_speaks_chinese_on_a_phone() {
    let _alone = BROWSERS.acquire().await;
    let app = with_dead(false).await;
    let driver = Driver::start();
    let page = driver.blank().await;
    page.is_a_phone(360, 740).await;
    page.prefers(&[("prefers-color-scheme", "dark")]).await;
    page.go(&format!("{}/console?lang=zh", app.url())).await;
    page.until("document.getElementById('state').textContent", json!("已连接")).await;
    page.until(LETTERS, json!(2)).await;
    page.until(&texts("#dead .head button"), json!(["全部重新发送"])).await;
    let wide = "[document.documentElement.scrollWidth <= innerWidth, [...document.querySelectorAll('body *')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.className)]";
    page.until(wide, json!([true, []])).await;
    let policy = app.get("/console").await;
    let policy = policy.header("content-security-policy").to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn an_empty_gateway_shows_how_to_begin_and_feeds_gifts_and_webhooks_are_found() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::with(&Backing::folder(), |config| config.webhooks.allow_private = true).await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/console?lang=en", app.url())).await;
    page.until("document.getElementById('verdict').textContent", json!("Everything is well.")).await;
    page.until("document.getElementById('first').hidden", json!(false)).await;
    page.until(
        "document.querySelector('#first code').textContent.includes('/v1/feeds/show/gifts')",
        json!(true),
    )
    .await;
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url("/hook"), "secret": SECRET, "batch_ms": 0});
    call(&app, "PUT", "/v1/feeds/arena-2/webhooks/game", hook).await;
    for feed in ["arena-1", "arena-2", "lobby"] {
        let (user, gift) = (json!({"id": "u", "name": HOSTILE}), json!({"id": "r", "name": "Rose"}));
        let path = format!("/v1/feeds/{feed}/gifts");
        call(&app, "POST", &path, json!({"id": "g1", "user": user, "gift": gift})).await;
    }
    page.until(&texts("#feeds .name"), json!(["arena-1", "arena-2", "lobby"])).await;
    page.until("document.getElementById('first').hidden", json!(true)).await;
    page.fill("#prefix", "arena-").await;
    page.until(&texts("#feeds .name"), json!(["arena-1", "arena-2"])).await;
    page.fill("#find input[name=feed]", "arena-2").await;
    page.fill("#find input[name=id]", "g1").await;
    page.click("#find button").await;
    page.until("document.getElementById('found').textContent", json!("g1: accepted")).await;
    page.until(
        &format!("{}.some(text => text.startsWith('webhook game: '))", texts("#story li")),
        json!(true),
    )
    .await;
    page.fill("#find input[name=id]", "nobody").await;
    page.click("#find button").await;
    page.until("document.getElementById('found').textContent", json!("No gift of this id is known there."))
        .await;
    // The browser itself notes the 404.
    page.console().await;
    page.click("#webhooks .acts button").await;
    page.until("document.getElementById('tried').textContent.includes('×9 · 204')", json!(true)).await;
    page.click("#webhooks .acts button:nth-child(2)").await;
    page.until("document.getElementById('tried').textContent.split('\\n').length", json!(2)).await;
    has_a_clean_console(&page).await;
}
