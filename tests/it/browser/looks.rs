//! Languages, colours, sizes and motion of the first page.

use serde_json::{Value, json};

use super::driver::{Driver, Page};
use super::{BROWSERS, TestApp, from, gift, has_a_clean_console, has_patient_combos, is_live, names, rows};

/// Names, gifts and messages that are wide, tall, long or backwards.
async fn hard_rows(base: &str, feed: &str) {
    let hard = [
        ("W".repeat(64), "M".repeat(64), "W".repeat(200)),
        ("ﷺ".repeat(64), "קהילה ".repeat(10), "ما شاء الله ".repeat(16)),
        ("👩‍👩‍👧‍👦".repeat(9), "礼物".repeat(32), "长长的留言".repeat(40)),
        ("Z̸̧̛̗̪a̵̢l̴̰g̷̝o̶".repeat(2), "&lt;&amp;".to_owned(), "a b ".repeat(50)),
    ];
    for (n, (name, kind, message)) in hard.iter().enumerate() {
        let value = json!({ "amount": 9_007_199_254_740_991_u64, "currency": "StarDiamonds" });
        let sent = json!({
            "user": { "id": format!("u{n}"), "name": name }, "gift": { "id": "x", "name": kind.trim() },
            "message": message, "count": 1_000_000, "value": value, "tier": 3 * n, "test": n == 3,
        });
        gift(base, feed, sent).await;
    }
}

const TOO_WIDE: &str = "(() => {
    const wide = [...document.querySelectorAll('body *'), ...document.querySelector('tipcast-ticker').shadowRoot.querySelectorAll('*')]
        .filter(e => e.checkVisibility() && !e.closest('pre, .summary, svg') && e.getBoundingClientRect().right > innerWidth + 0.5)
        .map(e => `${e.localName}.${e.className}`);
    return [document.documentElement.scrollWidth <= innerWidth, wide];
})()";

#[tokio::test]
async fn a_phone_of_360_pixels_scrolls_down_and_never_sideways() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    hard_rows(&app.url(), "phone").await;
    let driver = Driver::start();
    let page = driver.blank().await;
    page.is_a_phone(360, 740).await;
    for lang in ["en", "zh"] {
        page.go(&format!("{}/?feed=phone&lang={lang}", app.url())).await;
        is_live(&page).await;
        page.until(&rows("li").replace("li => li", "li => 1"), json!([1, 1, 1, 1])).await;
        page.until("innerWidth", json!(360)).await;
        page.until(TOO_WIDE, json!([true, []])).await;
    }
    has_a_clean_console(&page).await;
}

/// What is wider than the window, text that is scrolled in a box of its own left aside.
const WIDER_THAN_WINDOW: &str = "[...document.querySelectorAll('body *')]
    .filter(e => e.checkVisibility() && !e.closest('pre') && (e.getBoundingClientRect().right > innerWidth + 0.5
        || (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).overflowX !== 'visible')))
    .map(e => `${e.localName}.${e.className}`)";

#[tokio::test]
async fn tables_of_the_other_pages_fit_a_phone_too() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let long = "a-feed-with-a-name-that-is-as-long-as-it-may-be-0123456789-01234";
    gift(&app.url(), long, from("someone")).await;
    let claim = json!({"consumer": "c", "max": 1}).to_string();
    let group = format!("/v1/feeds/{long}/groups/a-group-with-a-long-name-0123456789-0123456789/claim");
    assert_eq!(app.call("POST", &group, Some(&claim)).await.status, 200);
    let driver = Driver::start();
    let page = driver.blank().await;
    page.is_a_phone(360, 740).await;
    for (path, ready) in [
        ("docs", "document.querySelectorAll('.fields').length > 20"),
        ("console#/readers", "document.querySelectorAll('#groups li').length > 0"),
        ("desk/show", "document.readyState === 'complete'"),
    ] {
        page.go(&format!("{}/{path}", app.url())).await;
        page.until(ready, json!(true)).await;
        page.until("innerWidth", json!(360)).await;
        page.until(WIDER_THAN_WINDOW, json!([])).await;
        has_a_clean_console(&page).await;
    }
}

#[tokio::test]
async fn the_first_page_leads_to_the_others_and_the_api_stands_by_task_and_can_be_searched() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=show", app.url())).await;
    let links = "[...document.querySelectorAll('#pages a')].map(a => a.getAttribute('href'))";
    page.until(links, json!(["desk/show", "console", "docs", "docs#live-protocol"])).await;
    page.click("#pages a[href='docs']").await;
    let tasks = "[...document.querySelectorAll('#api section:not([hidden]) > h2')].map(h => h.textContent)";
    let all = [
        "Send gifts",
        "Watch a feed",
        "The live protocol",
        "Read a feed",
        "Sell drops",
        "Read the ledger",
        "Receive webhooks",
        "Moderate a show",
        "Operate the gateway",
        "Events",
        "Errors",
        "Shapes",
    ];
    let sections = "[...document.querySelectorAll('#api section > h2')].map(h => h.textContent)";
    page.until(sections, json!(all)).await;
    let contents = "[...document.querySelectorAll('#contents h2')].map(h => h.textContent)";
    page.until(contents, json!(all)).await;
    page.until(tasks, json!(["Send gifts"])).await;
    let first = "document.querySelector('#api article').id";
    page.until(first, json!("post-/v1/feeds/{feed}/gifts")).await;
    // Every operation of the document once.
    let counted = "fetch('/openapi.json').then(it => it.json()).then(api => {
        const items = [...Object.values(api.paths), ...Object.values(api.webhooks)];
        const wanted = items.flatMap(Object.keys).length + Object.keys(api.components.schemas).length
            + Object.keys(api.components.examples).length + api['x-problems'].length;
        const parts = document.querySelectorAll('#api .text article').length;
        const ids = [...document.querySelectorAll('#api [id]')].map(it => it.id);
        window.same = document.querySelectorAll('#api article').length === wanted + parts && parts > 5
            && new Set(ids).size === ids.length;
    })";
    page.eval(counted).await;
    page.until("window.same", json!(true)).await;
    page.fill("#search input", "sold-out").await;
    page.until(tasks, json!(["Sell drops", "Errors"])).await;
    let shown = "[...document.querySelectorAll('#contents .group > a')].filter(a => a.checkVisibility()).map(a => a.textContent)";
    let about = ["POST /v1/feeds/{feed}/drops/{drop}/claims", "409 sold-out"];
    page.until(shown, json!(about)).await;
    // What a watcher may be sent is found in the same place.
    page.fill("#search input", "permessage-deflate").await;
    page.until(tasks, json!(["The live protocol"])).await;
    page.fill("#search input", "no such thing anywhere").await;
    page.until("document.getElementById('found').textContent.split(' ')[0]", json!("0")).await;
    let clear = "const it = document.querySelector('#search input'); it.value = ''; it.dispatchEvent(new Event('input'))";
    page.eval(&format!("(() => {{ {clear} }})()")).await;
    // One choice of a language is for all samples.
    page.click("#api article .samples button[data-language=Go]").await;
    let languages = "[...new Set([...document.querySelectorAll('.samples > div:not([hidden]) > pre')]
        .filter(it => it.closest('.samples').querySelectorAll('pre').length > 1).map(it => it.dataset.language))]";
    page.until(languages, json!(["Go"])).await;
    // A call is made from the page about it.
    page.click("#api article .trying summary").await;
    page.click("#api article .try button").await;
    page.until("document.querySelector('.try pre').textContent.slice(0, 3)", json!("201")).await;
    assert_eq!(app.get_feed("show").await["rows"].as_array().unwrap().len(), 1);
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn the_page_speaks_chinese_when_asked_by_its_address_and_switches_back() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let sent = json!({
        "user": { "id": "u", "name": "小明" }, "gift": { "id": "rose", "name": "🌹 玫瑰" },
        "value": { "amount": 1250, "currency": "CNY" }, "test": true,
    });
    gift(&app.url(), "zh", sent).await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=zh&lang=zh", app.url())).await;
    is_live(&page).await;
    page.until("document.documentElement.lang", json!("zh")).await;
    page.until("document.getElementById('give').textContent", json!("送出")).await;
    page.until("document.getElementById('state').textContent", json!("已连接")).await;
    let parts = "['.verb', '.gift', '.value', '.badge'].map(part => li.querySelector(part).textContent)";
    page.until(&rows(parts), json!([["送出", "玫瑰", "¥12.50", "测试"]])).await;
    page.click("#language").await;
    page.until("document.documentElement.lang", json!("en")).await;
    is_live(&page).await;
    page.until(&rows(parts), json!([["sent", "玫瑰", "CN¥12.50", "Test"]])).await;
    page.until("document.getElementById('feed').value", json!("zh")).await;
    has_a_clean_console(&page).await;
}

/// How bright the page, the ticker's rows and the text in them are, 0 to 255.
async fn brightness(page: &Page<'_>) -> Vec<f64> {
    let script = "
        const bright = (colour) => {
            const [r, g, b] = colour.match(/[0-9.]+/g).map(Number);
            return (r * 3 + g * 6 + b) / 10;
        };
        const row = document.querySelector('tipcast-ticker').shadowRoot.querySelector('.row');
        return [
            bright(getComputedStyle(document.documentElement).backgroundColor),
            bright(getComputedStyle(row).backgroundColor),
            bright(getComputedStyle(row).color),
        ];";
    let Value::Array(found) = page.eval(script).await else { panic!("no colours") };
    found.iter().map(|value| value.as_f64().unwrap()).collect()
}

#[tokio::test]
async fn the_page_is_dark_or_light_as_the_person_prefers_and_by_the_button() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    gift(&app.url(), "night", from("owl")).await;
    let driver = Driver::start();
    let page = driver.blank().await;
    let is_dark = |b: Vec<f64>| b[0] < 60.0 && b[1] < 60.0 && b[2] > 180.0;
    let is_light = |b: Vec<f64>| b[0] > 200.0 && b[1] > 200.0 && b[2] < 80.0;
    page.prefers(&[("prefers-color-scheme", "dark")]).await;
    page.go(&format!("{}/?feed=night", app.url())).await;
    is_live(&page).await;
    page.until(&names(), json!(["owl"])).await;
    assert!(is_dark(brightness(&page).await), "{:?}", brightness(&page).await);
    page.prefers(&[("prefers-color-scheme", "light")]).await;
    assert!(is_light(brightness(&page).await), "{:?}", brightness(&page).await);
    page.click("#theme").await;
    assert!(is_dark(brightness(&page).await), "{:?}", brightness(&page).await);
    page.go(&format!("{}/?feed=night&theme=light", app.url())).await;
    page.until(&names(), json!(["owl"])).await;
    page.prefers(&[("prefers-color-scheme", "dark")]).await;
    assert!(is_light(brightness(&page).await), "{:?}", brightness(&page).await);
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn nothing_moves_for_people_who_asked_for_that() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.blank().await;
    page.before_all(
        "window.moved = 0;
         const animate = Element.prototype.animate;
         Element.prototype.animate = function (...how) { window.moved += 1; return animate.apply(this, how); };
         addEventListener('animationstart', () => { window.moved += 1; }, true);",
    )
    .await;
    for (motion, feed) in [("reduce", "calm"), ("no-preference", "lively")] {
        page.prefers(&[("prefers-reduced-motion", motion)]).await;
        has_patient_combos(&app.url(), feed).await;
        page.go(&format!("{}/?feed={feed}", app.url())).await;
        is_live(&page).await;
        let mut big = from("first");
        big["tier"] = json!(9);
        // The first gift of a feed comes as a list; those after it come one by one.
        gift(&app.url(), feed, big).await;
        let second = gift(&app.url(), feed, from("second")).await;
        gift(&app.url(), feed, from("second")).await;
        page.until(&rows("li.querySelector('.count').textContent"), json!(["×2", "×1"])).await;
        super::retract(&app.url(), feed, &second).await;
        page.until(&names(), json!(["first"])).await;
        page.until("moved > 0", json!(motion == "no-preference")).await;
    }
}

#[tokio::test]
async fn the_documentation_shows_a_task_at_a_time_finds_phrases_and_its_samples_fit() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/docs", app.url())).await;
    let shown =
        "[...document.querySelectorAll('#api > section:not([hidden]) > h2')].map(it => it.textContent)";
    page.until(shown, json!(["Send gifts"])).await;
    page.until("document.documentElement.scrollHeight < 30000", json!(true)).await;
    let wide = "[...document.querySelectorAll('.samples pre')].filter(it => it.checkVisibility() && it.scrollWidth > it.clientWidth).length";
    page.until(wide, json!(0)).await;
    page.click("#contents a[href='#task-sell-drops']").await;
    page.until(shown, json!(["Sell drops"])).await;
    // A link into another task opens it.
    page.eval("location.hash = '#schema-Gift'").await;
    page.until(shown, json!(["Shapes"])).await;
    page.until("document.getElementById('schema-Gift').checkVisibility()", json!(true)).await;
    let found = "document.getElementById('found').textContent.split(' ')[0]";
    page.fill("#search input", "payload another").await;
    page.until(&format!("Number({found}) > 0"), json!(true)).await;
    page.fill("#search input", "\"payload another\"").await;
    page.until(found, json!("0")).await;
    page.fill("#search input", "\"id with another payload\"").await;
    page.until(&format!("Number({found}) > 0"), json!(true)).await;
    page.until("document.getElementById('post-/v1/feeds/{feed}/gifts').checkVisibility()", json!(true)).await;
    page.until("document.querySelector('.copied > button').textContent", json!("Copy")).await;
    has_a_clean_console(&page).await;
}
