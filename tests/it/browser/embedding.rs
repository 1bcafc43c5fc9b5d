//! The ticker on a page of somebody else: another origin, a strict policy, no help.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;

use super::driver::Driver;
use super::{
    BROWSERS, TICKER, TestApp, counts, from, gift, has_a_clean_console, has_patient_combos, is_live, names,
    retract, rows,
};

/// A site of its own: answers everything with this page. Gives its address; ends with the test.
pub fn site(html: String, policy: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 8192]);
            let policy = if policy.is_empty() {
                String::new()
            } else {
                format!("Content-Security-Policy: {policy}\r\n")
            };
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{policy}Content-Length: {}\r\n\
                 Connection: close\r\n\r\n{html}",
                html.len()
            );
        }
    });
    address
}

/// A whole page: two lines of it are ours, the icon spares a request.
pub fn page_with(lines: &str) -> String {
    format!("<!doctype html><title>My page</title><link rel=icon href=data:,><h1>My page</h1>\n{lines}\n")
}

#[tokio::test]
async fn two_lines_put_the_ticker_on_a_page_of_another_origin() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    has_patient_combos(&base, "away").await;
    let html = page_with(&format!(
        "<script type=\"module\" src=\"{base}/static/tipcast.js\"></script>\n\
         <tipcast-ticker feed=\"away\"></tipcast-ticker>"
    ));
    let driver = Driver::start();
    let page = driver.open(&site(html, String::new())).await;
    is_live(&page).await;
    let name = "<script>document.title='owned'</script>";
    let first = gift(&base, "away", from(name)).await;
    page.until(&names(), json!([name])).await;
    gift(&base, "away", from(name)).await;
    page.until(&counts(), json!(["×2"])).await;
    gift(&base, "away", from("other")).await;
    page.until(&names(), json!(["other", name])).await;
    retract(&base, "away", &first).await;
    page.until(&names(), json!(["other"])).await;
    page.until("document.title", json!("My page")).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_strict_policy_of_the_host_page_is_kept_and_the_page_decides_how_it_looks() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    let policy = format!(
        "default-src 'none'; script-src {base}; connect-src {}; img-src data:; require-trusted-types-for 'script'",
        base.replace("http", "ws")
    );
    let html = page_with(&format!(
        "<script type=module src={base}/static/tipcast.js></script>\
         <tipcast-ticker feed=strict lang=zh max=2 theme=dark><b slot=title>My gifts</b></tipcast-ticker>"
    ));
    let driver = Driver::start();
    let page = driver.open(&site(html, policy)).await;
    is_live(&page).await;
    for user in ["a", "b", "c"] {
        gift(&base, "strict", from(user)).await;
    }
    page.until(&names(), json!(["c", "b"])).await;
    page.until(&rows("li.querySelector('.verb').textContent"), json!(["送出", "送出"])).await;
    // The constructed stylesheet is in force, in spite of `default-src 'none'`.
    page.until(&rows("getComputedStyle(li).display"), json!(["grid", "grid"])).await;
    let paint = format!(
        "{TICKER}.style.setProperty('--tipcast-row', 'rgb(1, 2, 3)'); {TICKER}.setAttribute('max', '1');"
    );
    page.eval(&paint).await;
    page.until(&rows("getComputedStyle(li).backgroundColor"), json!(["rgb(1, 2, 3)"])).await;
    page.until(&rows("[...li.part].join()"), json!(["row"])).await;
    page.eval(&format!("{TICKER}.setAttribute('lang', 'en')")).await;
    page.until(&rows("li.querySelector('.verb').textContent"), json!(["sent"])).await;
    page.eval(&format!("{TICKER}.setAttribute('feed', 'elsewhere')")).await;
    page.until(&names(), json!([])).await;
    gift(&base, "elsewhere", from("moved")).await;
    page.until(&names(), json!(["moved"])).await;
    has_a_clean_console(&page).await;
}

#[tokio::test]
async fn a_paused_ticker_stands_still_and_a_listener_gets_summaries() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let base = app.url();
    gift(&base, "quiet", from("before")).await;
    let driver = Driver::start();
    let page = driver.open(&format!("{base}/?feed=quiet")).await;
    is_live(&page).await;
    page.until(&names(), json!(["before"])).await;
    let part = |what: &str| format!("{TICKER}.shadowRoot.querySelector('{what}')");
    let summary = format!("{}.textContent", part(".summary[aria-live=polite]"));
    page.until(&summary, json!("")).await;
    gift(&base, "quiet", from("heard")).await;
    page.until(&summary, json!("heard sent Rose ×1")).await;

    page.eval(&format!("{}.click()", part(".pause"))).await;
    gift(&base, "quiet", from("held")).await;
    page.until(&format!("{}.textContent", part(".pause")), json!("Resume · 1 new")).await;
    page.until(&names(), json!(["heard", "before"])).await;
    page.eval(&format!("{}.click()", part(".pause"))).await;
    page.until(&names(), json!(["held", "heard", "before"])).await;
    page.until(&format!("{}.getAttribute('aria-pressed')", part(".pause")), json!("false")).await;
    has_a_clean_console(&page).await;
}
