//! The console.

use serde_json::{Value, json};

use super::driver::{Driver, Page};
use super::{BROWSERS, Backing, TestApp, has_a_clean_console};
use crate::console::key;
use crate::support::api::{Api, Said};
use crate::support::cluster::Cluster;
use crate::support::receiver::{OK, Receiver, Reply, SECRET};

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

const NOTICE: &str = "document.getElementById('notice').textContent";

/// Whether the page is as wide as the phone, and what sticks out of it.
const WIDE: &str = "[document.documentElement.scrollWidth <= innerWidth, [...document.querySelectorAll('body *')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest('.window')).map(e => e.className)]";

/// Every screen, by what its address has behind #/.
const SCREENS: [&str; 8] = [
    "overview",
    "feeds",
    "feeds/show",
    "gift?feed=show&id=g1",
    "ledger/show",
    "readers",
    "sources/show",
    "access",
];

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
    page.click("#screens a[href='#/feeds']").await;
    page.until(&texts("#feeds td.name"), json!(["show"])).await;
    page.until(&texts("#feeds td.watchers"), json!(["1"])).await;
    page.until(&texts("#feeds td.rate"), json!(["0"])).await;
    page.click("#screens a[href='#/overview']").await;
    page.click("#troubles a").await;
    page.until("location.hash", json!("#/readers?show=dead")).await;
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
    page.until(NOTICE, json!("1 sent again.")).await;
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
    page.go(&format!("{}/console?lang=zh#/readers", app.url())).await;
    page.until(LETTERS, json!(2)).await;
    page.until(&texts("#dead .head button"), json!(["全部重新发送", "重新发送所选"])).await;
    for screen in SCREENS {
        page.eval(&format!("location.hash = '#/{screen}'")).await;
        page.until("document.getElementById('state').textContent", json!("已连接")).await;
        page.until("document.querySelectorAll('[data-screen]:not([hidden])').length", json!(1)).await;
        page.until(WIDE, json!([true, []])).await;
    }
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
    page.until("document.getElementById('first').hidden", json!(true)).await;
    page.click("#screens a[href='#/feeds']").await;
    page.until(&texts("#feeds td.name"), json!(["arena-1", "arena-2", "lobby"])).await;
    page.fill("#prefix", "arena-").await;
    page.until(&texts("#feeds td.name"), json!(["arena-1", "arena-2"])).await;
    page.until("location.hash", json!("#/feeds?prefix=arena-")).await;
    page.click("#screens a[href='#/gift']").await;
    page.fill("#find input[name=feed]", "arena-2").await;
    page.fill("#find input[name=id]", "g1").await;
    page.click("#find button").await;
    page.until(NOTICE, json!("g1: accepted")).await;
    page.until(
        &format!("{}.some(text => text.startsWith('webhook game: '))", texts("#story li")),
        json!(true),
    )
    .await;
    page.fill("#find input[name=id]", "nobody").await;
    page.click("#find button").await;
    page.until(NOTICE, json!("No gift of this id is known there.")).await;
    // The browser itself notes the 404.
    page.console().await;
    page.click("#screens a[href='#/readers']").await;
    page.click("#webhooks .acts button").await;
    page.until(&format!("{NOTICE}.includes('×9 · 204')"), json!(true)).await;
    page.click("#webhooks .acts button:nth-child(2)").await;
    page.until("document.querySelectorAll('#webhooks .attempts li').length", json!(2)).await;
    has_a_clean_console(&page).await;
}

async fn give(app: &TestApp, feed: &str, id: &str, user: &str, more: Value) -> Said {
    let mut gift = json!({"id": id, "user": {"id": user.to_lowercase(), "name": user}, "gift": {"id": "rose", "name": "Rose"}});
    gift.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    call(app, "POST", &format!("/v1/feeds/{feed}/gifts"), gift).await
}

/// A gateway with keys, and a page of its console at `screen`, whose key is `key`.
async fn opened<'a>(driver: &'a Driver, app: &TestApp, screen: &str, key: &str) -> Page<'a> {
    let page = driver.blank().await;
    page.is_a_desktop().await;
    page.go(&format!("{}/console?lang=en#/{screen}", app.url())).await;
    page.until("document.getElementById('unlock').hidden", json!(false)).await;
    page.fill("#key", key).await;
    page.click("#unlock button").await;
    page.until("document.getElementById('state').textContent", json!("live")).await;
    page
}

async fn with_key() -> TestApp {
    TestApp::with(&Backing::folder(), |config| {
        config.auth.admin_keys = vec![KEY.to_owned().into()];
        config.webhooks.allow_private = true;
    })
    .await
}

#[tokio::test]
async fn one_feed_is_live_and_each_change_shows_before_and_after() {
    let _alone = BROWSERS.acquire().await;
    let app = with_key().await;
    give(&app, "show", "g1", HOSTILE, json!({"value": {"amount": 500, "currency": "EUR"}})).await;
    give(&app, "show", "later", "Ada", json!({"delay_ms": 3_600_000})).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "feeds", KEY).await;
    page.click("#feeds td.name a").await;
    page.until("location.hash", json!("#/feeds/show")).await;
    page.until(&texts("#feed-rows .name"), json!([HOSTILE])).await;
    give(&app, "show", "g2", "Mia", Value::Null).await;
    page.until(&texts("#feed-rows .name"), json!(["Mia", HOSTILE])).await;
    page.until(&texts("#feed-scheduled .name"), json!(["Ada"])).await;
    // A row that stays grows older on screen.
    let age = "document.querySelector('#feed-rows li:last-child time').textContent";
    let young = page.eval(&format!("return {age}")).await;
    page.until(&format!("{age} !== {young}"), json!(true)).await;

    // The policy: a field of each of the API's, what changes and what it means, then it is saved.
    page.click("section[aria-labelledby=policy-title] button").await;
    page.until("document.querySelector('#field-capacity')?.value", json!("10")).await;
    page.fill("#field-capacity", "25").await;
    page.click("dialog .acts button").await;
    page.until(
        &texts("dialog .review li"),
        json!(["capacity 10 → 25", "Lists have this many rows after the next change."]),
    )
    .await;
    let policy = call(&app, "GET", "/v1/feeds/show/policy", Value::Null).await.json();
    assert_eq!(policy["capacity"], 10, "nothing is sent before it was reviewed");
    page.click("dialog .acts button").await;
    page.until(NOTICE, json!("Policy is saved.")).await;
    page.until(&format!("{}[0]", texts("#feed-policy dd")), json!("25")).await;

    // What the gateway refuses is said in the dialog, which stays.
    page.click("section[aria-labelledby=goals-title] > button").await;
    page.fill("dialog input[name=name]", "mic").await;
    page.fill("#field-title", "New mic").await;
    page.fill("#field-by", "EUR").await;
    page.fill("#field-target", "1000").await;
    page.eval("document.querySelector('#field-period').value = 'day'").await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog .review').hidden", json!(false)).await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog [role=alert]').textContent !== ''", json!(true)).await;
    page.click("dialog .acts button:nth-child(2)").await;
    // The browser itself notes the 422.
    page.console().await;

    // A block and its end.
    page.click("section[aria-labelledby=blocks-title] > button").await;
    page.fill("dialog input[name=name]", "troll").await;
    page.click("dialog .acts button").await;
    page.click("dialog .acts button").await;
    page.until(&texts("#feed-blocks .name"), json!(["troll"])).await;
    page.click("#feed-blocks summary").await;
    page.click("#feed-blocks button").await;
    page.until(
        &format!("{}[0]", texts("dialog p")),
        json!("Gifts of troll are shown again from now on. Rows that were taken back stay away."),
    )
    .await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog')", Value::Null).await;
    let blocks = call(&app, "GET", "/v1/feeds/show/blocks", Value::Null).await.json();
    assert_eq!(blocks["blocks"], json!([]));

    // What was changed is in the audit, with who did it.
    page.click("#screens a[href='#/access']").await;
    page.until(
        &format!("{}.filter(it => it === 'admin_keys[1]').length > 2", texts("#audit td.key")),
        json!(true),
    )
    .await;
    page.fill("#audit-search", "PATCH policy").await;
    page.until("document.querySelectorAll('#audit tbody tr').length", json!(1)).await;
    page.until("document.title", json!("Console · Tipcast")).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_gift_is_found_by_id_in_all_feeds_by_its_giver_and_as_a_sale_and_is_taken_back() {
    let _alone = BROWSERS.acquire().await;
    let app = with_key().await;
    for n in 0..20 {
        give(&app, &format!("room-{n}"), "other", "Sam", Value::Null).await;
    }
    give(&app, "show", "g1", "Mia Müller", json!({"value": {"amount": 500, "currency": "EUR"}})).await;
    let drop = json!({"total": 2, "gift": {"id": "crown", "name": "Crown"}, "value": {"amount": 900, "currency": "EUR"}});
    call(&app, "PUT", "/v1/feeds/show/drops/crown", drop).await;
    let claim = json!({"id": "order-1", "user": {"id": "mia", "name": "Mia"}, "pay": "now"});
    call(&app, "POST", "/v1/feeds/show/drops/crown/claims", claim).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "gift", KEY).await;
    page.fill("#find input[name=id]", "g1").await;
    page.click("#find button").await;
    page.until(NOTICE, json!("g1: accepted")).await;
    page.until(&texts("#found h3"), json!(["show · g1"])).await;
    page.until(&texts("#story a"), json!([format!("{}", first_cursor(&app, "show").await)])).await;
    page.console().await;

    page.fill("#find input[name=id]", "order-1").await;
    page.click("#find button").await;
    page.until(NOTICE, json!("order-1: sold")).await;
    page.until(&texts("#found h3"), json!(["show · A sale of crown · order-1"])).await;
    // The browser itself notes the feeds that do not know it.
    page.console().await;

    page.fill("#find input[name=id]", "").await;
    page.fill("#find input[name=feed]", "show").await;
    page.fill("#find input[name=giver]", "müLL").await;
    page.click("#find button").await;
    page.until(NOTICE, json!("1 of today's gifts:")).await;
    page.click("#story a").await;
    page.until(NOTICE, json!("g1: accepted")).await;
    page.click("#found .acts button:nth-child(1)").await;
    page.fill("dialog input[name=refunded]", "200").await;
    page.click("dialog .acts button").await;
    page.until(&format!("{}.some(text => text.includes('gift.refunded'))", texts("#story li")), json!(true))
        .await;
    page.click("#found .acts button:nth-child(2)").await;
    page.until(&format!("{}.length", texts("dialog p")), json!(2)).await;
    page.click("dialog .acts button").await;
    page.until(NOTICE, json!("g1 is taken back.")).await;
    // From the story to the ledger.
    page.click("#story a").await;
    page.until("location.hash.startsWith('#/ledger/show?after=')", json!(true)).await;
    page.until(
        &texts("#ledger td.type"),
        json!(["gift.accepted", "drop.sold", "gift.refunded", "gift.retracted"]),
    )
    .await;
    has_a_clean_console(&page).await;
}

async fn first_cursor(app: &TestApp, feed: &str) -> String {
    let ledger = call(app, "GET", &format!("/v1/feeds/{feed}/ledger?limit=1"), Value::Null).await.json();
    ledger["entries"][0]["cursor"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ledger_is_filtered_summed_up_and_exported() {
    let _alone = BROWSERS.acquire().await;
    let app = with_key().await;
    for n in 0..1_100 {
        give(
            &app,
            "show",
            &format!("g{n}"),
            if n == 7 { "=cmd()" } else { "Mia" },
            json!({"value": {"amount": n + 1, "currency": "EUR"}}),
        )
        .await;
    }
    call(&app, "POST", "/v1/feeds/show/gifts/g7/retract", Value::Null).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "ledger", KEY).await;
    page.fill("#filter input[name=feed]", "show").await;
    page.click("#filter button").await;
    page.until("document.querySelector('#summary b')?.textContent", json!("€6,055.42")).await;
    // A thousand rows, of which those in view are elements.
    page.until("document.querySelector('#ledger table').ariaRowCount", json!("1001")).await;
    page.until("document.querySelectorAll('#ledger tbody tr').length < 80", json!(true)).await;
    page.click("#ledger-more button").await;
    page.until("document.querySelector('#ledger table').ariaRowCount", json!("1102")).await;
    page.fill("#filter input[name=type]", "gift.retracted").await;
    page.click("#filter button").await;
    page.until(&texts("#ledger td.value"), json!(["-€0.08"])).await;
    page.until("location.hash", json!("#/ledger/show?type=gift.retracted")).await;

    // What the browser would save is looked at instead.
    page.eval("window.saved = []; const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return make(blob); }; HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }").await;
    page.click("#exports button").await;
    page.until(NOTICE, json!("1 entries were exported.")).await;
    page.until("saved.toSorted()[1]", json!("show-ledger.csv")).await;
    page.until("saved.find(it => it.startsWith('cursor')).split('\\r\\n').length", json!(3)).await;
    page.until("saved.find(it => it.startsWith('cursor')).includes(\",'=cmd(),\")", json!(true)).await;
    page.eval("saved.length = 0").await;
    page.fill("#filter input[name=type]", "").await;
    page.click("#filter button").await;
    page.click("#exports button:nth-child(2)").await;
    page.until(NOTICE, json!("1,101 entries were exported.")).await;
    page.until("saved.find(it => it.startsWith('{')).trim().split('\\n').map(it => JSON.parse(it).delta.value.amount).reduce((a, b) => a + b)", json!(605_542)).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn webhooks_groups_and_sources_are_made_moved_and_deleted_with_care() {
    let _alone = BROWSERS.acquire().await;
    let app = with_key().await;
    give(&app, "show", "g1", "Mia", Value::Null).await;
    call(&app, "POST", "/v1/feeds/show/groups/game/claim", json!({"consumer": "t"})).await;
    let receiver = Receiver::start().await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "readers", KEY).await;
    page.click("#new-webhook button").await;
    page.fill("dialog input[name=feed]", "show").await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('#field-url')?.type", json!("text")).await;
    page.fill("dialog input[name=name]", "game").await;
    page.fill("#field-url", &receiver.url("/hook")).await;
    page.fill("#field-secret", SECRET).await;
    page.click("dialog .acts button").await;
    page.until(&format!("{}.includes('secret – → •••')", texts("dialog .review li")), json!(true)).await;
    page.click("dialog .acts button").await;
    page.until(NOTICE, json!("game is saved.")).await;
    page.until(&texts("#webhooks .name"), json!(["show / game active"])).await;
    page.until(&texts("#groups .facts span:nth-child(2)"), json!(["pending 1"])).await;

    page.click("#groups summary").await;
    page.click("#groups .menu button").await;
    page.click("dialog .acts button").await;
    page.until(&format!("{NOTICE}.startsWith('show / game: the next entry is ')"), json!(true)).await;
    page.until(&texts("#groups .facts span:nth-child(1)"), json!(["lag 1"])).await;
    // What waits for its next try is sent when somebody asks for it.
    receiver.answers(|_| Reply::Status(410, ""));
    give(&app, "show", "g2", "Mia", Value::Null).await;
    page.until(&texts("#webhooks .name"), json!(["show / game disabled"])).await;
    receiver.answers(|_| OK);
    page.click("#webhooks .acts > button:nth-child(3)").await;
    page.until(NOTICE, json!("show / game sends now.")).await;
    receiver
        .wait_for("the gift that had waited", |got| {
            got.last().is_some_and(|it| it.accepted && it.gifts() == ["g2"])
        })
        .await;
    page.until(&texts("#webhooks .name"), json!(["show / game active"])).await;
    page.click("#webhooks summary").await;
    page.click("#webhooks .menu button:nth-child(2)").await;
    page.until(
        &texts("dialog p:not([role])"),
        json!(["Webhook show / game is deleted; 0 dead letters go with it. Entries stay in the ledger."]),
    )
    .await;
    page.click("dialog .acts button:nth-child(2)").await;
    page.until(&texts("#webhooks .name"), json!(["show / game active"])).await;
    page.click("#webhooks .menu button:nth-child(2)").await;
    page.click("dialog .acts button").await;
    page.until(&texts("#webhooks .name"), json!([])).await;

    page.eval("location.hash = '#/sources/show'").await;
    page.click("#new-source button").await;
    page.until("document.querySelector('#field-preset')?.tagName", json!("SELECT")).await;
    page.fill("dialog input[name=name]", "tips").await;
    page.eval("document.querySelector('#field-preset').value = 'kofi'").await;
    page.fill("#field-token", "token-0123456789").await;
    page.fill("#field-default_gift-id", "coffee").await;
    page.fill("#field-default_gift-name", "Coffee").await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog .review').hidden", json!(false)).await;
    page.click("dialog .acts button").await;
    page.until(&texts("#source-list .name"), json!(["tips kofi"])).await;
    // A delivery with another token is refused, and the screen says why.
    let path = call(&app, "GET", "/v1/feeds/show/sources/tips", Value::Null).await.json();
    let refused = Api::send(
        app.request("POST", path["path"].as_str().unwrap())
            .header("content-type", "application/x-www-form-urlencoded")
            .body("data=%7B%22verification_token%22%3A%22other%22%7D"),
    )
    .await;
    assert!(refused.status >= 400, "{refused:?}");
    page.until(
        "document.querySelector('#source-list .note.bad')?.textContent.startsWith('refused')",
        json!(true),
    )
    .await;
    page.click("#source-list .acts > button").await;
    page.fill("dialog textarea", "data=nothing").await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog [role=status]').textContent !== ''", json!(true)).await;
    page.click("dialog .acts button:nth-child(2)").await;
    page.console().await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_key_that_observes_sees_every_screen_and_changes_nothing() {
    let _alone = BROWSERS.acquire().await;
    let (observer, observes) = key("eyes", &["*"], &["observe"]);
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.admin_keys = vec![KEY.to_owned().into()];
        config.auth.keys = vec![observes];
    })
    .await;
    give(&app, "show", "g1", "Mia", Value::Null).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "overview", &observer).await;
    for screen in &SCREENS[1..] {
        page.eval(&format!("location.hash = '#/{screen}'")).await;
        page.until("document.getElementById('state').textContent", json!("live")).await;
        page.until(&format!("{NOTICE}.includes('right')"), json!(false)).await;
    }
    has_a_clean_console(&page).await;
    page.eval("location.hash = '#/feeds/show'").await;
    page.until(&texts("#feed-rows .name"), json!(["Mia"])).await;
    page.click("section[aria-labelledby=policy-title] button").await;
    page.until("document.querySelector('#field-capacity')?.value", json!("10")).await;
    page.fill("#field-capacity", "25").await;
    page.click("dialog .acts button").await;
    page.click("dialog .acts button").await;
    page.until("document.querySelector('dialog [role=alert]').textContent !== ''", json!(true)).await;
    let policy = call(&app, "GET", "/v1/feeds/show/policy", Value::Null).await.json();
    assert_eq!(policy["capacity"], 10);
}

/// What axe finds wrong with the page as it stands: the rules' names, and the elements.
async fn faults(page: &Page<'_>, axe: &str) -> Value {
    page.eval_async(&format!(
        "{axe}; const done = arguments[arguments.length - 1];
         axe.run({{ resultTypes: ['violations'] }}).then(({{ violations }}) => done(violations.map(it => [it.id, it.nodes.map(node => node.target.join(' ')).slice(0, 5)])));"
    ))
    .await
}

#[tokio::test]
async fn every_screen_can_be_used_without_seeing_it_in_light_and_dark() {
    let _alone = BROWSERS.acquire().await;
    let axe = concat!(env!("CARGO_MANIFEST_DIR"), "/target/node/node_modules/axe-core/axe.min.js");
    let Ok(axe) = std::fs::read_to_string(axe) else {
        eprintln!("skipped: axe-core is not installed (.ci/need-node)");
        return;
    };
    let app = with_dead(true).await;
    give(&app, "show", "later", "Ada", json!({"delay_ms": 3_600_000})).await;
    let source =
        json!({"preset": "kofi", "token": "token-0123456789", "default_gift": {"id": "c", "name": "Coffee"}});
    call(&app, "PUT", "/v1/feeds/show/sources/tips", source).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "overview", KEY).await;
    for scheme in ["light", "dark"] {
        page.prefers(&[("prefers-color-scheme", scheme)]).await;
        for screen in SCREENS {
            page.eval(&format!("location.hash = '#/{screen}'")).await;
            page.until("document.getElementById('state').textContent", json!("live")).await;
            page.until("[...document.querySelectorAll('[data-screen]:not([hidden])')].map(it => it.textContent.length > 60)", json!([true])).await;
            assert_eq!(faults(&page, &axe).await, json!([]), "{screen}, {scheme}");
        }
        page.eval("location.hash = '#/feeds/show'").await;
        page.click("section[aria-labelledby=policy-title] button").await;
        page.until("document.querySelector('#field-capacity')?.value", json!("10")).await;
        assert_eq!(faults(&page, &axe).await, json!([]), "a dialog, {scheme}");
        page.click("dialog .acts button:nth-child(2)").await;
    }
}

#[tokio::test]
async fn thousands_of_feeds_are_sorted_and_only_those_in_view_are_elements() {
    let _alone = BROWSERS.acquire().await;
    let app = with_key().await;
    for n in 0..2_100 {
        give(&app, &format!("room-{n:04}"), "g1", "Mia", Value::Null).await;
    }
    give(&app, "room-1234", "g2", "Ada", Value::Null).await;
    let driver = Driver::start();
    let page = opened(&driver, &app, "feeds", KEY).await;
    let table = "document.querySelector('#feeds table')";
    page.until(&format!("{table}.ariaRowCount"), json!("2101")).await;
    page.until(&format!("{table}.querySelectorAll('tbody tr').length < 80"), json!(true)).await;
    page.until(&format!("{}[0]", texts("#feeds td.name")), json!("room-0000")).await;
    // The last row is where the scrolling ends.
    page.eval("document.querySelector('#feeds .window').scrollTop = 1e9").await;
    page.until(&format!("{}.at(-1)", texts("#feeds td.name")), json!("room-2099")).await;
    page.until(&format!("{table}.querySelector('tbody tr:last-child').ariaRowIndex"), json!("2101")).await;
    page.eval("document.querySelector('#feeds .window').scrollTop = 0").await;
    // By rows, the most first; and back by name.
    page.click("#feeds th.number.extra button").await;
    page.until(&format!("{}[0]", texts("#feeds td.name")), json!("room-1234")).await;
    page.until("document.activeElement.closest('th').ariaSort", json!("descending")).await;
    page.click("#feeds th:first-child button").await;
    page.until(&format!("{}[0]", texts("#feeds td.name")), json!("room-0000")).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_damaged_feed_is_named_and_stops_no_other_screen() {
    let _alone = BROWSERS.acquire().await;
    let backing = Backing::redis();
    let Backing::Redis(corner, _) = &backing else { unreachable!() };
    let app = TestApp::on(&backing).await;
    for feed in ["hurt", "well"] {
        give(&app, feed, "g1", HOSTILE, Value::Null).await;
    }
    let meta = format!("{}{{hurt}}:meta", corner.prefix);
    let _: () = redis::cmd("SET").arg(meta).arg("{garbage").query(&mut corner.server.connect()).unwrap();
    let driver = Driver::start();
    let page = driver.open(&format!("{}/console?lang=en#/feeds", app.url())).await;
    page.until(&texts("#feeds tr.bad td.name"), json!(["hurt"])).await;
    page.until(&texts("#feeds tr:not(.bad) td.name"), json!(["well"])).await;
    page.eval("location.hash = '#/feeds/hurt'").await;
    page.until("document.getElementById('state').dataset.state", json!("away")).await;
    page.until("document.getElementById('state').textContent.includes('damaged')", json!(true)).await;
    page.eval("location.hash = '#/feeds/well'").await;
    page.until(&texts("#feed-rows .name"), json!([HOSTILE])).await;
    page.until("document.getElementById('state').textContent", json!("live")).await;
    // An id that is looked for everywhere passes over the feed that does not answer.
    page.eval("location.hash = '#/gift?id=g1'").await;
    page.until(&texts("#found h3"), json!(["well · g1"])).await;
}

#[tokio::test]
async fn a_dead_shard_is_said_on_the_first_screen_and_the_feeds_of_others_are_there() {
    let _alone = BROWSERS.acquire().await;
    let mut cluster = Cluster::start(0);
    let app = TestApp::with(&Backing::folder(), |config| config.redis.url = cluster.url()).await;
    let feeds: Vec<String> = (0..3).map(|shard| cluster.name_at(shard, "show-")).collect();
    for feed in &feeds {
        give(&app, feed, "g1", "Mia", Value::Null).await;
    }
    let driver = Driver::start();
    let page = driver.open(&format!("{}/console?lang=en#/feeds", app.url())).await;
    page.until(&format!("{}.length", texts("#feeds td.name")), json!(3)).await;
    cluster.nodes[0].kill();
    page.until(&format!("{}.length", texts("#feeds td.name")), json!(2)).await;
    page.click("#screens a[href='#/overview']").await;
    page.until(&format!("{}.some(text => text.includes('shards'))", texts("#troubles li")), json!(true))
        .await;
    page.until("document.getElementById('verdict').className", json!("bad")).await;
    page.eval(&format!("location.hash = '#/feeds/{}'", feeds[1])).await;
    page.until(&texts("#feed-rows .name"), json!(["Mia"])).await;
}
