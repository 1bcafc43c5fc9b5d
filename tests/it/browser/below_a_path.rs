//! A gateway that a proxy shows below a path: every page finds its files, its feed and its API there.

use serde_json::json;

use super::driver::Driver;
use super::{BROWSERS, TICKER, TestApp, from, gift, has_a_clean_console, has_overlays, is_live, names};
use crate::support::nginx::Nginx;

const STATE: &str = "document.getElementById('state').dataset.state";

#[tokio::test]
async fn every_page_works_below_a_path_of_a_proxy() {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let nginx = Nginx::start(&format!(
        "map $http_upgrade $connection_header {{ default upgrade; '' ''; }}\n\
         server {{ listen LISTEN; location /tips/ {{ proxy_pass {}/; proxy_http_version 1.1;\n\
         proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection $connection_header; proxy_buffering off; }} }}",
        app.url()
    ))
    .await;
    let base = format!("{}/tips", nginx.api.base);
    let driver = Driver::start();

    let page = driver.open(&format!("{base}/?feed=show&lang=en")).await;
    is_live(&page).await;
    gift(&base, "show", from("Mia")).await;
    page.until(&names(), json!(["Mia"])).await;
    let curl = format!("document.getElementById('curl').textContent.includes('{base}/v1/feeds/show/gifts ')");
    page.until(&curl, json!(true)).await;
    page.fill("#name", "Zoë").await;
    page.click("#give").await;
    page.until(&format!("{TICKER}.shadowRoot.querySelectorAll('.row[data-row]').length"), json!(2)).await;
    has_a_clean_console(&page).await;

    page.click("#pages a[href='desk/show']").await;
    page.until(STATE, json!("live")).await;
    page.until("[...document.querySelectorAll('#live li .name')].length", json!(2)).await;
    page.click("#language").await;
    page.until("document.documentElement.lang", json!("zh")).await;
    page.until(STATE, json!("live")).await;
    has_a_clean_console(&page).await;

    page.go(&format!("{base}/console?lang=en")).await;
    page.until("document.getElementById('board').hidden", json!(false)).await;
    page.until(STATE, json!("live")).await;
    has_a_clean_console(&page).await;

    page.go(&format!("{base}/docs/protocol")).await;
    page.until("location.pathname", json!("/tips/docs")).await;
    page.until("document.querySelectorAll('#api .call').length > 20", json!(true)).await;
    let sample = format!("document.querySelector('.samples pre').textContent.includes('{base}/v1/')");
    page.until(&sample, json!(true)).await;
    has_a_clean_console(&page).await;

    for (feed, page_of) in [("one", "?layout=list"), ("two", "/leaders"), ("three", "/goal/tonight")] {
        page.go(&format!("{base}/overlay/{feed}{page_of}")).await;
        has_overlays(&base, feed, 1).await;
        // The style sheet is there.
        page.until("getComputedStyle(document.body).margin", json!("0px")).await;
        has_a_clean_console(&page).await;
    }
}
