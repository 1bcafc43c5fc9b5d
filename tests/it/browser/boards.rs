//! Leaders, goals and totals on screen: the overlays, the elements on the first page, and what the host asks overlays to do.

use serde_json::{Value, json};

use super::driver::{Driver, Page};
use super::{BROWSERS, Mode, Proxy, TestApp, from, gift, has_a_clean_console, http, is_live, names, retract};

const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\">";
const ARABIC: &str = "محمد علي (١٢٣)";
const FAMILY: &str = "👩‍👩‍👧‍👦🏳️‍🌈";

/// What is in the elements of this class, in the shadow of the page's first element of this name.
fn texts(element: &str, class: &str) -> String {
    format!(
        "[...document.querySelector('{element}').shadowRoot.querySelectorAll('.{class}')].map(e => e.textContent)"
    )
}

/// Whether everything in the element's shadow stays within the window, sideways.
fn fits(element: &str) -> String {
    format!(
        "[document.documentElement.scrollWidth <= innerWidth,
          [...document.querySelector('{element}').shadowRoot.querySelectorAll('*')]
            .every(e => e.getBoundingClientRect().right <= innerWidth + 0.5 && e.getBoundingClientRect().left >= -0.5)]"
    )
}

async fn call(base: &str, method: reqwest::Method, path: &str, body: Value) -> u16 {
    let request = http().request(method, format!("{base}/v1/feeds/show{path}")).json(&body);
    request.send().await.unwrap().status().as_u16()
}

async fn counts(base: &str) {
    let policy = json!({"totals": ["session"], "points": {"EUR": 1}, "dedup": "off"});
    assert_eq!(call(base, reqwest::Method::PATCH, "/policy", policy).await, 200);
}

/// A gift of this amount in cents.
async fn gives(base: &str, user: &str, name: &str, cents: u64) -> Value {
    let mut given = from(user);
    given["user"]["name"] = json!(name);
    given["value"] = json!({"amount": cents, "currency": "EUR"});
    gift(base, "show", given).await
}

/// Nothing but the element is painted over the video.
async fn is_transparent(page: &Page<'_>) {
    for element in ["document.body", "document.documentElement"] {
        let painted = format!("getComputedStyle({element}).backgroundColor");
        page.until(&painted, json!("rgba(0, 0, 0, 0)")).await;
    }
}

#[tokio::test]
async fn leaders_are_strangers_whose_names_stay_text_and_within_the_screen() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    counts(&base).await;
    let long = "Ｗ".repeat(64);
    gives(&base, "u1", HOSTILE, 50_000).await;
    gives(&base, "u2", ARABIC, 40_000).await;
    gives(&base, "u3", &long, 30_000).await;
    gives(&base, "u4", FAMILY, 20_050).await;
    let mut shy = from("u5");
    shy["user"]["anonymous"] = json!(true);
    shy["value"] = json!({"amount": 90_000, "currency": "EUR"});
    gift(&base, "show", shy).await;

    let driver = Driver::start();
    let page = driver.open(&format!("{base}/overlay/show/leaders?by=EUR&lang=en&heading=%3Cb%3ETop")).await;
    let (shown, scores) = (texts("tipcast-leaders", "name"), texts("tipcast-leaders", "score"));
    page.until(&shown, json!([HOSTILE, ARABIC, long, FAMILY])).await;
    super::has_overlays(&base, "show", 1).await;
    page.until(&scores, json!(["€500.00", "€400.00", "€300.00", "€200.50"])).await;
    page.until(&texts("tipcast-leaders", "rank"), json!(["1", "2", "3", "4"])).await;
    page.until(&texts("tipcast-leaders", "title"), json!(["<b>Top"])).await;
    let made =
        "document.querySelector('tipcast-leaders').shadowRoot.querySelectorAll('img, b, script').length";
    page.until(made, json!(0)).await;
    let ways = "[...document.querySelector('tipcast-leaders').shadowRoot.querySelectorAll('.name')]
        .map(e => getComputedStyle(e).direction)";
    page.until(ways, json!(["ltr", "rtl", "ltr", "ltr"])).await;
    // A name in another direction stands where the others do, beside its rank.
    let beside = "(() => {
        const name = document.querySelector('tipcast-leaders').shadowRoot.querySelectorAll('.name')[1];
        return name.getBoundingClientRect().right < name.closest('li').getBoundingClientRect().right / 2;
    })()";
    page.until(beside, json!(true)).await;
    page.until("document.title", json!("show · Tipcast")).await;
    page.until(&fits("tipcast-leaders"), json!([true, true])).await;
    is_transparent(&page).await;

    // Who comes to the front does so while it is watched, and the newest name shows.
    gives(&base, "u4", "Dee", 90_000).await;
    page.until(&shown, json!(["Dee", HOSTILE, ARABIC, long])).await;
    page.until(&scores, json!(["€1,100.50", "€500.00", "€400.00", "€300.00"])).await;
    has_a_clean_console(&page).await;

    // As narrow as a phone.
    page.is_a_phone(320, 568).await;
    page.go(&format!("{base}/overlay/show/leaders?by=EUR&lang=zh&max=3&theme=light")).await;
    page.until(&shown, json!(["Dee", HOSTILE, ARABIC])).await;
    page.until(&fits("tipcast-leaders"), json!([true, true])).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_goal_fills_is_reached_stays_so_and_goes_with_its_feed_s_word() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let line = Proxy::before(app.authority().parse().unwrap()).await;
    let base = app.url();
    counts(&base).await;
    let title = "מיקרופון <i>new</i> 🎙️";
    let goal = json!({"title": title, "period": "session", "by": "EUR", "target": 1_000});
    assert_eq!(call(&base, reqwest::Method::PUT, "/goals/mic", goal.clone()).await, 201);
    let driver = Driver::start();
    let page = driver.open(&format!("http://{}/overlay/show/goal/mic?lang=en", line.address)).await;
    let inside = |css: &str, what: &str| {
        format!("document.querySelector('tipcast-goal').shadowRoot.querySelector('{css}')?.{what}")
    };
    page.until(&inside(".title", "textContent"), json!(title)).await;
    page.until(&inside(".foot", "textContent"), json!("€0.00€10.00")).await;
    page.until(&inside("i, b", "nodeName"), Value::Null).await;
    page.until(&inside(".track", "ariaValueNow"), json!("0")).await;
    is_transparent(&page).await;

    gives(&base, "u1", "Ann", 570).await;
    page.until(&inside(".foot", "textContent"), json!("€5.70€10.00")).await;
    page.until(&inside(".track", "ariaValueNow"), json!("57")).await;
    page.until(&inside(".bar", "style.width"), json!("57%")).await;
    let reached = inside(".panel", "hasAttribute('data-reached')");
    page.until(&reached, json!(false)).await;
    // What it missed while its line was gone is there when it is back.
    line.set(Mode::Cut);
    let more = gives(&base, "u2", "Bea", 1_000).await;
    line.set(Mode::Open);
    page.until(&inside(".foot", "textContent"), json!("€15.70€10.00")).await;
    page.until(&reached, json!(true)).await;
    page.until(&inside(".bar", "style.width"), json!("100%")).await;
    retract(&base, "show", &more).await;
    page.until(&inside(".foot", "textContent"), json!("€5.70€10.00")).await;
    page.until(&reached, json!(true)).await;
    page.until(&fits("tipcast-goal"), json!([true, true])).await;

    assert_eq!(call(&base, reqwest::Method::DELETE, "/goals/mic", Value::Null).await, 200);
    page.until("document.querySelector('tipcast-goal').hidden", json!(true)).await;
    assert_eq!(call(&base, reqwest::Method::PUT, "/goals/mic", goal).await, 201);
    page.until("document.querySelector('tipcast-goal').hidden", json!(false)).await;
    page.until(&reached, json!(false)).await;
}

#[tokio::test]
async fn an_overlay_does_what_the_host_says() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    counts(&base).await;
    let shown = "[...document.querySelectorAll('.row[data-row] .name')].map(e => e.textContent)";
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/overlay/show?hide_after=600&max_age=600")).await;
    page.until("document.body.dataset.state", json!("live")).await;
    let says = |action: &'static str, row: Value| {
        let body =
            if row.is_null() { json!({"action": action}) } else { json!({"action": action, "row": row}) };
        call(&base, reqwest::Method::POST, "/control", body)
    };
    let first = gives(&base, "u1", "Ann", 100).await;
    page.until(shown, json!(["Ann"])).await;
    assert_eq!(says("pause", Value::Null).await, 200);
    // The desk's skip still works while alerts wait, and shows when the pause has come.
    assert_eq!(says("skip", Value::Null).await, 200);
    page.until(shown, json!([])).await;
    gives(&base, "u2", "Bea", 100).await;
    gives(&base, "u3", "Cem", 100).await;
    // One that was opened meanwhile waits too.
    let other = driver.open(&format!("{base}/overlay/show?hide_after=600&max_age=600")).await;
    other.until("document.body.dataset.state", json!("live")).await;
    let taken = gives(&base, "u4", "Dee", 100).await;
    retract(&base, "show", &taken).await;
    other.until(shown, json!([])).await;
    page.until(shown, json!([])).await;
    assert_eq!(says("resume", Value::Null).await, 200);
    page.until(shown, json!(["Cem", "Bea"])).await;
    other.until(shown, json!([])).await;
    assert_eq!(says("replay", first["row"].clone()).await, 200);
    page.until(shown, json!(["Ann", "Cem", "Bea"])).await;
    other.until(shown, json!(["Ann"])).await;
    assert_eq!(says("skip", first["row"].clone()).await, 200);
    page.until(shown, json!(["Cem", "Bea"])).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn the_first_page_begins_a_goal_has_messages_wait_and_refunds() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/?feed=show&lang=en")).await;
    is_live(&page).await;
    let told = "document.getElementById('show-answer').textContent";
    page.click(".show-start").await;
    page.until(told, json!("Give, and it fills.")).await;
    page.until(&texts("#show tipcast-goal", "title"), json!(["Tonight"])).await;
    page.until("document.querySelector('.show-empty').hidden", json!(true)).await;
    page.fill("#name", HOSTILE).await;
    page.click("#gifts label:nth-child(4)").await;
    page.click("#give").await;
    page.until(&names(), json!([HOSTILE])).await;
    page.until(&texts("#show tipcast-goal", "foot"), json!(["502,000"])).await;
    page.until(&texts("#show tipcast-leaders", "name"), json!([HOSTILE])).await;
    page.until(&texts("#show tipcast-total", "value"), json!(["50"])).await;
    page.click("#refund").await;
    page.until(told, json!("Taken back.")).await;
    page.until(&names(), json!([])).await;
    page.until(&texts("#show tipcast-goal", "foot"), json!(["02,000"])).await;
    page.until("document.getElementById('refund').disabled", json!(true)).await;

    page.click("#review").await;
    page.until(told, json!("Messages wait at the desk now.")).await;
    page.fill("#message", "hello").await;
    page.click("#give").await;
    page.until("document.getElementById('answer').textContent", json!("It waits for the host.")).await;
    let waiting = app.get("/v1/feeds/show/review").await.json();
    assert_eq!(waiting["review"][0]["gift"]["message"], "hello", "{waiting}");
    page.eval("location.reload()").await;
    page.until("document.getElementById('review')?.checked", json!(true)).await;
    page.until(&fits("#show tipcast-leaders"), json!([true, true])).await;
    has_a_clean_console(&page).await;
}
