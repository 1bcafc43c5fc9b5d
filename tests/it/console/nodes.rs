//! `GET /v1/nodes` and `GET /v1/stats`.

use super::*;
use crate::support::process::Process;
use crate::support::proxy::{Mode, Proxy};
use crate::support::stores::Corner;

on_both_stores![a_node_says_what_it_is_and_what_it_does];

fn names(page: &Value) -> Vec<&str> {
    page["nodes"].as_array().unwrap().iter().map(|it| it["node"].as_str().unwrap()).collect()
}

async fn a_node_says_what_it_is_and_what_it_does() {
    let app = TestApp::start().await;
    let port = app.authority().rsplit_once(':').unwrap().1.to_owned();
    let nodes = until(&app, "/v1/nodes", |page| !names(page).is_empty()).await;
    let it = &nodes["nodes"][0];
    assert!(names(&nodes)[0].ends_with(&format!(":{port}")), "{it}");
    assert_eq!((&it["ready"], &it["version"]), (&json!(true), &json!(env!("CARGO_PKG_VERSION"))), "{it}");
    let _watcher = app.watch("show").await;
    for n in 0..10 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let busy = |page: &Value| {
        let it = &page["nodes"][0];
        it["gifts_per_second"].as_f64() > Some(0.0) && it["deliveries_per_second"].as_f64() > Some(0.0)
    };
    let nodes = until(&app, "/v1/nodes", busy).await;
    let it = &nodes["nodes"][0];
    assert_eq!((&it["watchers"], &it["feeds"]), (&json!(1), &json!(1)), "{it}");
    assert!(it["p99_ms"].as_f64() > Some(0.0) && it["rss_bytes"].as_u64() > Some(1 << 20), "{it}");
    let stats = app.get("/v1/stats?minutes=1").await.json();
    assert_eq!(stats["step_ms"], 5_000);
    let at = stats["at"].as_array().unwrap();
    let series = stats["series"].as_object().unwrap();
    assert_eq!(series.len(), 8);
    for (name, values) in series {
        assert_eq!(values.as_array().unwrap().len(), at.len(), "{name}");
    }
    let most = |name: &str| {
        let values = series[name].as_array().unwrap().iter().filter_map(Value::as_f64);
        values.fold(0.0, f64::max)
    };
    assert!(
        most("gifts_per_second") > 0.0 && most("watchers") == 1.0 && most("publish_p99_ms") > 0.0,
        "{stats}"
    );
    for wrong in ["0", "61", "x"] {
        app.get(&format!("/v1/stats?minutes={wrong}")).await.problem(422);
    }
}

#[tokio::test]
async fn each_node_lists_all_and_one_that_dies_or_leaves_is_gone_soon() {
    let backing = Backing::redis();
    let app = TestApp::on(&backing).await;
    let (mut dies, mut leaves) = (Process::on(&backing), Process::on(&backing));
    until(&app, "/v1/nodes", |page| names(page).len() == 3).await;
    assert_eq!(names(&dies.get("/v1/nodes").await.json()).len(), 3);
    dies.give("show", &gift("g1")).await;
    until(&app, "/v1/stats", |page| {
        page["series"]["gifts_per_second"].as_array().unwrap().iter().any(|it| it.as_f64() > Some(0.0))
    })
    .await;
    leaves.terminate();
    assert!(leaves.wait().success());
    until(&app, "/v1/nodes", |page| names(page).len() == 2).await;
    dies.kill();
    // Its lease is twelve seconds, and so longer than what tests wait for.
    let deadline = Instant::now() + 2 * PATIENCE;
    while names(&app.get("/v1/nodes").await.json()).len() > 1 {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_node_without_its_store_says_why_it_is_not_ready() {
    let corner = Corner::new();
    let proxy = Proxy::before(format!("127.0.0.1:{}", corner.server.port).parse().unwrap()).await;
    let url = format!("redis://{}{}/", corner.server.user, proxy.address);
    let app = TestApp::on(&Backing::Redis(corner, url)).await;
    until(&app, "/v1/nodes", |page| page["nodes"][0]["ready"] == true).await;
    proxy.set(Mode::Cut);
    let nodes = until(&app, "/v1/nodes", |page| page["nodes"][0]["ready"] == false).await;
    assert!(!nodes["nodes"][0]["detail"].as_str().unwrap().is_empty(), "{nodes}");
    assert!(!app.get("/v1/stats").await.json()["at"].as_array().unwrap().is_empty());
}
