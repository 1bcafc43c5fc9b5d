//! The first page: what comes appears, what is sent is sent, and strangers' text stays text.

use serde_json::{Value, json};
use tipcast::tools::demo::Show;

use super::driver::Driver;
use super::embedding::{page_with, site};
use super::{
    BROWSERS, Backing, TestApp, counts, from, gift, has_a_clean_console, has_patient_combos, http, is_live,
    names, retract, rows,
};

#[tokio::test]
async fn two_pages_show_the_same_gift_as_text_until_it_is_taken_back() {
    let _alone = BROWSERS.acquire().await;
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
        page.until(&names(), json!(["שרה", name])).await;
        page.until(&counts(), json!(["×1", "×3"])).await;
        let second = |what: &str| format!("{}[1]", rows(what));
        page.until(&second("li.querySelector('.message').textContent"), json!(message)).await;
        page.until(&second("li.querySelector('.gift').textContent"), json!("<b>Rose</b>")).await;
        page.until(&second("li.querySelector('.value').textContent"), json!("€12.50")).await;
        page.until(&second("li.querySelectorAll('img, b, script').length"), json!(0)).await;
        page.until(&second("li.dataset.row"), answer["row"].clone()).await;
        let direction = rows("getComputedStyle(li.querySelector('.name')).direction");
        page.until(&direction, json!(["rtl", "ltr"])).await;
        page.until("document.title", json!("show · Tipcast")).await;
    }

    retract(&base, "show", &answer).await;
    for page in [&one, &two] {
        page.until(&names(), json!(["שרה"])).await;
        has_a_clean_console(page).await;
    }
}

#[tokio::test]
async fn a_gift_sent_by_the_form_shows_and_a_combo_pops_in_place() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    has_patient_combos(&app.url(), "form").await;
    let page = driver.open(&format!("{}/?feed=form", app.url())).await;
    is_live(&page).await;
    let empty = "document.querySelector('tipcast-ticker').shadowRoot.querySelector('.empty').hidden";
    page.until(empty, json!(false)).await;

    page.fill("#name", "Zoë <i>").await;
    page.fill("#count", "2").await;
    page.fill("#message", "שלום & hello").await;
    page.click("#give").await;
    page.until(&names(), json!(["Zoë <i>"])).await;
    page.until(&counts(), json!(["×2"])).await;
    page.until(&rows("li.querySelector('.message').textContent"), json!(["שלום & hello"])).await;
    page.until("document.getElementById('answer').textContent", json!("Sent.")).await;
    page.until(empty, json!(true)).await;
    // How long it took from the POST until it was here, and where the feed stands.
    page.until("/^[0-9.]+ ms$/.test(document.getElementById('latency').textContent)", json!(true)).await;
    page.until("/^[\\w-]+:1$/.test(document.getElementById('position').textContent)", json!(true)).await;
    page.until("document.getElementById('watchers').textContent", json!("1")).await;

    page.eval(&format!("window.before = {}[0]", rows("li"))).await;
    let jumps = rows("li.querySelector('.count').getAnimations().length");
    page.until(&jumps, json!([0])).await;
    page.click("#give").await;
    page.until(&counts(), json!(["×4"])).await;
    page.until(&format!("{}.map(li => li === before)", rows("li")), json!([true])).await;
    page.until("document.getElementById('answer').textContent", json!("Sent, it joined your last one."))
        .await;

    // A test gift is marked as one.
    page.click("#gifts label:nth-child(2)").await;
    page.click("#test").await;
    page.click("#give").await;
    page.until(&rows("li.querySelector('.badge').textContent"), json!(["Test", ""])).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_picture_is_shown_once_it_is_loaded_and_initials_until_then() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.blank().await;
    // Pictures are of https hosts only; of one of them the browser is given ours instead.
    page.before_all(
        "const { get, set } = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, 'src');
         const ours = (url) => url.replace('https://loads.example/', '/static/icon.svg?');
         Object.defineProperty(HTMLImageElement.prototype, 'src', { get, set(url) { set.call(this, ours(url)); } });",
    )
    .await;
    page.go(&format!("{}/?feed=faces", app.url())).await;
    is_live(&page).await;
    // Takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let never = format!("https://{}/a.png", silent.local_addr().unwrap());
    for (user, picture) in [("zoë", "https://loads.example/a"), ("小明", &never)] {
        let mut sent = from(user);
        sent["user"]["avatar"] = json!(picture);
        sent["gift"]["icon"] = json!(picture);
        gift(&app.url(), "faces", sent).await;
    }
    let pictures = "['.avatar', '.icon'].map(part => li.querySelectorAll(`${part} img`).length)";
    page.until(&rows(pictures), json!([[0, 0], [1, 1]])).await;
    page.until(&rows("li.querySelector('.initial').textContent"), json!(["小", "Z"])).await;
    let drawn = "getComputedStyle(li.querySelector('.icon svg')).visibility";
    page.until(&rows(drawn), json!(["visible", "hidden"])).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_gateway_with_keys_has_its_page_ask_for_one() {
    let _alone = BROWSERS.acquire().await;
    let key = "tck_of_this_test_and_of_no_other_test_at_all_0123456789";
    let app = TestApp::with(&Backing::folder(), |config| {
        config.auth.producer_keys = vec![key.to_owned().into()];
    })
    .await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=locked", app.url())).await;
    is_live(&page).await;
    page.fill("#name", "Mia").await;
    page.click("#give").await;
    page.until("document.getElementById('answer').dataset.ok", json!("false")).await;
    page.until("document.getElementById('locked').hidden", json!(false)).await;
    page.fill("#key", key).await;
    page.click("#give").await;
    page.until(&names(), json!(["Mia"])).await;
    // The line to copy asks for it too.
    let curl = page.eval("return document.getElementById('curl').textContent").await;
    let ran = sh(curl.as_str().unwrap(), key);
    assert!(ran.contains("\"status\":\"accepted\""), "{ran}");
    page.until(&counts(), json!(["×3", "×1"])).await;
}

/// What a line says that somebody pasted into a shell.
fn sh(line: &str, key: &str) -> String {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line]).env("no_proxy", "*").env("TIPCAST_KEY", key);
    let ran = command.output().expect("sh runs");
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

#[tokio::test]
async fn a_burst_fills_the_list_and_nothing_more() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=burst", app.url())).await;
    is_live(&page).await;
    page.click("#burst").await;
    page.until("document.getElementById('answer').textContent", json!("64 gifts sent.")).await;
    let list: Value =
        http().get(format!("{}/v1/feeds/burst", app.url())).send().await.unwrap().json().await.unwrap();
    let listed: Value = list["rows"].as_array().unwrap().iter().map(|row| row["row"].clone()).collect();
    page.until(&rows("li.dataset.row"), listed).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn after_a_whole_show_the_page_has_what_the_server_lists() {
    let _alone = BROWSERS.acquire().await;
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
    let listed = list["rows"].as_array().unwrap();
    assert_eq!(listed.len(), 10);
    let of_each = |pointer: &str| listed.iter().map(|row| row.pointer(pointer).cloned()).collect::<Value>();

    let at = format!("{}:{}", list["epoch"].as_str().unwrap(), list["seq"]);
    page.until("document.getElementById('position').textContent", json!(at)).await;
    page.until(&rows("li.dataset.row"), of_each("/row")).await;
    page.until(&names(), of_each("/user/name")).await;
    page.until(&rows("li.querySelector('.gift').title"), of_each("/gift/name")).await;
    let count = "Number(li.querySelector('.count').title.replace(/[^0-9]/g, ''))";
    page.until(&rows(count), of_each("/count")).await;
    // Of messages that nobody could see (zero-width spaces) no line is shown.
    let visible = |text: &Value| {
        text.as_str().is_some_and(|text| text.chars().any(|c| !c.is_whitespace() && c != '\u{200B}'))
    };
    let messages = of_each("/message")
        .as_array()
        .unwrap()
        .iter()
        .map(|m| if visible(m) { m.clone() } else { Value::Null })
        .collect();
    let message = "li.querySelector('.message').textContent || null";
    page.until(&rows(message), messages).await;
    // The show has a few pictures that never load; nothing else may complain.
    let console = page.console().await;
    let complaints: Vec<_> =
        console.iter().filter(|line| !line.to_string().contains("//avatars.example/")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[tokio::test]
async fn the_lines_to_copy_work_as_they_stand() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    let page = driver.open(&format!("{}/?feed=copy-me", app.url())).await;
    is_live(&page).await;
    let curl = page.eval("return document.getElementById('curl').textContent").await;
    let ran = sh(curl.as_str().unwrap(), "");
    assert!(ran.contains("\"status\":\"accepted\""), "{ran}");
    page.until(&counts(), json!(["×3"])).await;

    let obs = page.eval("return document.getElementById('obs').textContent").await;
    let embed = page.eval("return document.getElementById('embed').textContent").await;
    assert_eq!(embed.as_str().unwrap().lines().count(), 2);
    page.go(&site(page_with(embed.as_str().unwrap()), String::new())).await;
    is_live(&page).await;
    page.until(&counts(), json!(["×3"])).await;
    page.go(obs.as_str().unwrap()).await;
    page.until("document.body.dataset.state", json!("live")).await;
    has_a_clean_console(&page).await;
}
