//! The client library and the overlay's rules, checked inside a page without the network.

use super::driver::Driver;
use super::{BROWSERS, TestApp};

async fn checks(script: &str) {
    let _alone = BROWSERS.acquire().await;
    let app = TestApp::start().await;
    let driver = Driver::start();
    // Any page of the gateway whose own script does not run beside the check.
    let page = driver.open(&format!("{}/healthz", app.url())).await;
    let said = page.eval_async(script).await;
    assert_eq!(said, "ok", "{}", said.as_str().unwrap_or_default());
}

#[tokio::test]
async fn the_client_library_folds_strictly_resumes_and_backs_off() {
    checks(include_str!("client_check.js")).await;
}

#[tokio::test]
async fn the_client_library_folds_every_shared_vector_in_a_browser() {
    let run = include_str!("../vectors/run.js").replace("export ", "");
    let vectors = crate::vectors::all();
    let then = "import(new URL('/static/fold.js', location))
        .then(({ Fold }) => done(runVectors(Fold, vectors).join('\\n') || 'ok'), (e) => done(String(e)));";
    let vectors = serde_json::Value::from(vectors);
    checks(&format!("const done = arguments[0];\n{run}\nconst vectors = {vectors};\n{then}")).await;
}

#[tokio::test]
async fn an_alert_is_new_and_young_shown_once_and_measured_by_the_clock() {
    checks(include_str!("alerts_check.js")).await;
}
