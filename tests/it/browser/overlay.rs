//! The overlay: what becomes an alert, for how long, and how it looks after itself.

use std::net::TcpListener;

use serde_json::json;
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;

use super::driver::{Driver, Page};
use super::{
    BROWSERS, Backing, Mode, Process, Proxy, TestApp, from, gift, has_a_clean_console, has_patient_combos,
    http, retract,
};

const LIVE: &str = "document.body.dataset.state";
const NAMES: &str = "[...document.querySelectorAll('.row[data-row] .name')].map(e => e.textContent)";
const COUNTS: &str = "[...document.querySelectorAll('.row[data-row] .count')].map(e => e.textContent)";

async fn is_on(page: &Page<'_>) {
    page.until(LIVE, json!("live")).await;
}

#[tokio::test]
async fn an_alert_is_a_gift_newer_than_the_page_pops_in_place_and_leaves_in_time() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    has_patient_combos(&base, "obs").await;
    gift(&base, "obs", from("older than the page")).await;
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/overlay/obs?hide_after=3&lang=zh")).await;
    is_on(&page).await;
    super::has_overlays(&base, "obs", 1).await;
    page.until(NAMES, json!([])).await;
    // Nothing but rows is painted over the video.
    page.until("getComputedStyle(document.body).backgroundColor", json!("rgba(0, 0, 0, 0)")).await;
    page.until("getComputedStyle(document.documentElement).backgroundColor", json!("rgba(0, 0, 0, 0)")).await;

    let name = "<img src=x onerror=alert(1)>";
    gift(&base, "obs", from(name)).await;
    page.until(NAMES, json!([name])).await;
    page.until("document.querySelector('.verb').textContent", json!("送出")).await;
    page.eval("window.before = document.querySelector('.row')").await;
    gift(&base, "obs", from(name)).await;
    page.until(COUNTS, json!(["×2"])).await;
    page.until("document.querySelector('.row[data-row]') === before", json!(true)).await;

    let taken_back = gift(&base, "obs", from("taken back")).await;
    page.until(NAMES, json!(["taken back", name])).await;
    retract(&base, "obs", &taken_back).await;
    page.until(NAMES, json!([name])).await;
    // And by itself, after its three seconds.
    page.until("document.querySelectorAll('.row').length", json!(0)).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn an_alerts_money_comes_first_and_largest_then_the_gift_and_a_count_only_above_one() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    has_patient_combos(&base, "obs").await;
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/overlay/obs?hide_after=0&lang=en")).await;
    is_on(&page).await;
    // What can be seen of the newest row, largest first.
    let sizes = "(() => {
        const row = document.querySelector('.row[data-row]');
        if (!row) return [];
        const parts = ['value', 'gift', 'count', 'verb'].map((part) => row.querySelector('.' + part));
        const size = (node) => parseFloat(getComputedStyle(node).fontSize);
        return parts.filter((node) => node.textContent && node.getClientRects().length)
            .sort((a, b) => size(b) - size(a)).map((node) => node.textContent);
    })()";
    let mut paid = from("payer");
    paid["value"] = json!({"amount": 500, "currency": "EUR"});
    gift(&base, "obs", paid.clone()).await;
    page.until(sizes, json!(["€5.00", "Rose"])).await;
    gift(&base, "obs", paid).await;
    page.until(sizes, json!(["€10.00", "×2", "Rose"])).await;
    let left =
        |part: &str| format!("document.querySelector('.row[data-row] .{part}').getBoundingClientRect().left");
    page.until(&format!("{} < {}", left("value"), left("gift")), json!(true)).await;
    // Without money the gift is what there is.
    gift(&base, "obs", from("giver")).await;
    page.until(COUNTS, json!(["", "×2"])).await;
    page.until("document.querySelector('.row[data-row] .deed').innerText.trim()", json!("sent\nRose")).await;
    has_a_clean_console(&page).await;
}

/// As OBS applies its "Custom CSS": a script that it runs in the page makes a style element.
const INJECT: &str = "const style = document.createElement('style');
    style.textContent = 'body { background-color: rgb(1, 2, 3) !important; }';
    document.head.append(style);";

#[tokio::test]
async fn custom_css_of_obs_works_on_overlays_and_a_style_element_on_no_other_page() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    let driver = Driver::start();
    let page = driver.blank().await;
    let painted = "getComputedStyle(document.body).backgroundColor === 'rgb(1, 2, 3)'";
    for path in ["overlay/obs", "overlay/obs/leaders", "overlay/obs/goal/mic"] {
        page.go(&format!("{base}/{path}")).await;
        page.eval(INJECT).await;
        page.until(painted, json!(true)).await;
        has_a_clean_console(&page).await;
    }
    for path in ["?feed=obs", "desk/obs", "console", "docs"] {
        page.go(&format!("{base}/{path}")).await;
        page.eval(INJECT).await;
        page.until(painted, json!(false)).await;
        let refused = page.console().await;
        assert!(
            refused.iter().any(|line| line.to_string().contains("Content Security Policy")),
            "{path}: {refused:#?}"
        );
    }
}

#[tokio::test]
async fn after_a_reconnect_nothing_is_shown_twice_and_what_was_missed_once() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let line = Proxy::before(app.authority().parse().unwrap()).await;
    let driver = Driver::start();
    let page = driver.open(&format!("http://{}/overlay/line?hide_after=1&max=2", line.address)).await;
    is_on(&page).await;
    let watch = "window.shown = [];
        new MutationObserver((all) => {
            for (const row of all.flatMap((one) => [...one.addedNodes])) {
                // What leaves is put at the end once more.
                if (row.dataset.row) shown.push(row.querySelector('.name').textContent);
            }
        }).observe(document.getElementById('rows'), { childList: true });";
    page.eval(watch).await;
    gift(&app.url(), "line", from("one")).await;
    page.until("shown", json!(["one"])).await;
    page.until("document.querySelectorAll('.row').length", json!(0)).await;

    line.set(Mode::Cut);
    page.until(&format!("{LIVE} !== 'live'"), json!(true)).await;
    for user in ["two", "three", "four"] {
        gift(&app.url(), "line", from(user)).await;
    }
    line.set(Mode::Open);
    // Two may be on screen at a time: of three that were missed, at least the newest two get there.
    page.until("['three', 'four'].every((user) => shown.includes(user))", json!(true)).await;
    page.until("document.querySelectorAll('.row').length", json!(0)).await;
    gift(&app.url(), "line", from("five")).await;
    page.until("shown[shown.length - 1]", json!("five")).await;
    page.until("shown.length - new Set(shown).size", json!(0)).await;
    page.until("shown[0]", json!("one")).await;
}

#[tokio::test]
async fn layouts_themes_and_limits_come_from_the_address() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    for user in ["a", "b", "c"] {
        gift(&base, "wish", from(user)).await;
    }
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/overlay/wish?layout=list&max=2&theme=light")).await;
    page.until(NAMES, json!(["c", "b"])).await;
    let dark_text = "getComputedStyle(document.querySelector('.row')).color";
    page.until(dark_text, json!("rgb(27, 24, 48)")).await;
    has_a_clean_console(&page).await;

    page.go(&format!("{base}/overlay/wish?layout=bar&theme=dark&max=3")).await;
    is_on(&page).await;
    let count = "window.most = 0;
        new MutationObserver(() => { most = Math.max(most, document.querySelectorAll('.row').length); })
            .observe(document.getElementById('rows'), { childList: true });";
    page.eval(count).await;
    let flood: Vec<_> = (0..128).map(|n| from(&n.to_string())).collect();
    let batch = json!({ "gifts": flood });
    let answer = http().post(format!("{base}/v1/feeds/wish/gifts/batch")).json(&batch).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    for user in ["d", "e", "f", "g"] {
        gift(&base, "wish", from(user)).await;
    }
    page.until(NAMES, json!(["g", "f", "e"])).await;
    // Three, and as many on their way out.
    page.until("most <= 6", json!(true)).await;
    page.until(dark_text, json!("rgb(255, 255, 255)")).await;
    let tops = "new Set([...document.querySelectorAll('.row[data-row]')].map(li => li.offsetTop)).size";
    page.until(tops, json!(1)).await;
    has_a_clean_console(&page).await;

    // A wish that makes no sense is logged to the console, and the stream goes on without it.
    page.go(&format!("{base}/overlay/wish?layout=spiral&max=-1&hide_after=soon&lang=%3Cb%3E")).await;
    is_on(&page).await;
    page.until("document.body.dataset.layout", json!("alerts")).await;
    let warnings = page.console().await;
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
}

#[tokio::test]
async fn an_overlay_that_hears_nothing_for_long_begins_anew() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.blank().await;
    page.before_all("window.WebSocket = class { close() {} };").await;
    page.go(&format!("{}/overlay/mute?reload_after=1", app.url())).await;
    page.until("performance.getEntriesByType('navigation')[0].type", json!("reload")).await;
}

#[tokio::test]
async fn a_saved_loader_waits_for_the_gateway_and_shows_the_overlay() {
    let _alone = BROWSERS.acquire().await;
    let folder = tempfile::tempdir().unwrap();
    let loader = folder.path().join("loader.html");
    std::fs::write(&loader, include_str!("../../../static/loader.html")).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let overlay = format!("http://{address}/overlay/late?max=3");

    let driver = Driver::start();
    let page = driver.open(&format!("file://{}#{overlay}", loader.display())).await;
    page.until("document.title", json!("Waiting for the gateway")).await;
    let backing = Backing::folder();
    let gateway = Process::serve_at(&address, &backing.args());
    page.until("location.href", json!(overlay)).await;
    is_on(&page).await;
    gift(&gateway.base, "late", from("first")).await;
    page.until(NAMES, json!(["first"])).await;
}

#[tokio::test]
async fn a_private_feed_says_on_every_page_what_is_wrong_with_the_link() {
    let _alone = BROWSERS.acquire().await;
    const SECRET: &str = "a secret of the tests, longer than it must be";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.feeds.visibility = "private".into();
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
    })
    .await;
    let now = Millis::now().0 / 1_000;
    let token = |feed: &str| {
        let claims = json!({"sub": "ann", "feeds": [feed], "iat": now - 60, "exp": now + 600});
        Minter::secret(SECRET).sign(&claims, None).unwrap()
    };
    let private = "Private: its link needs a token";
    let elsewhere = "This link is for another feed";
    let driver = Driver::start();
    for (path, said) in [
        ("/overlay/show", "document.getElementById('problem').textContent"),
        (
            "/?feed=show",
            "document.querySelector('tipcast-ticker').shadowRoot.querySelector('.empty').textContent.trim()",
        ),
    ] {
        let page = driver.open(&format!("{}{path}", app.url())).await;
        page.until(said, json!(private)).await;
        let page = driver.open(&format!("{}{path}#token={}", app.url(), token("other"))).await;
        page.until(said, json!(elsewhere)).await;
    }
    let page = driver.open(&format!("{}/overlay/show", app.url())).await;
    page.is_a_phone(390, 844).await;
    let whole = "(b => b.left >= 0 && b.right <= innerWidth && b.height > 20)(document.getElementById('problem').getBoundingClientRect())";
    page.until(whole, json!(true)).await;
    let page = driver.open(&format!("{}/overlay/show#token={}", app.url(), token("show"))).await;
    is_on(&page).await;
    page.until("document.getElementById('problem').hidden", json!(true)).await;
}
