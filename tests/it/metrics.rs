//! `/metrics` counts what happened, over real sockets.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::ACCEPT;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::support::TestApp;
use crate::support::api::{Api, Said};
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::sse::SseWatcher;
use crate::support::stores::Corner;
use crate::support::watcher::Watcher;

mod dashboard;

/// One scrape: each series as it is written, with its value.
struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    async fn of(api: &Api) -> Scrape {
        let said = api.get("/metrics").await;
        assert_eq!(said.status, 200, "{said:?}");
        Scrape::read(&said)
    }

    fn read(said: &Said) -> Scrape {
        let series = said.text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(series.starts_with("tipcast_"), "{line}");
            (series.to_owned(), value.parse().unwrap_or_else(|e| panic!("{e}: {line}")))
        });
        Scrape(series.collect())
    }

    fn value(&self, series: &str) -> f64 {
        // Labels have no order of their own.
        *self.0.get(series).unwrap_or_else(|| panic!("{series} is not in {:#?}", self.0))
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(|series| series.split('{').next().unwrap()).collect()
    }
}

/// Scrapes until every series has its value.
async fn wait_for(api: &Api, wanted: &[(&str, f64)]) -> Scrape {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let scrape = Scrape::of(api).await;
        let missing: Vec<_> =
            wanted.iter().filter(|(series, value)| scrape.value(series) != *value).collect();
        if missing.is_empty() {
            return scrape;
        }
        assert!(Instant::now() < deadline, "never {missing:?} in {:#?}", scrape.0);
        sleep(Duration::from_millis(20)).await;
    }
}

on_both_stores![
    gifts_and_rows_are_counted_by_what_became_of_them,
    waiting_gifts_are_listed_and_decisions_counted_once,
    watchers_and_what_they_are_sent_are_counted_by_transport,
    odd_input_makes_no_new_series,
];

async fn gifts_and_rows_are_counted_by_what_became_of_them() {
    let app = TestApp::start().await;
    let row = app.give("show", &gift("a")).await["row"].as_str().unwrap().to_owned();
    app.give("show", &gift("b")).await;
    app.give("show", &gift("a")).await;
    assert_eq!(app.post_gift("show", &gift("a").count(7)).await.status, 422);
    assert_eq!(app.post_gift("show", &gift("c").without("user")).await.status, 422);
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    app.give("show", &gift("d")).await;
    let batch = [gift("a").json(), gift("e").kind("tea").json(), json!(7)];
    assert_eq!(app.post_batch("show", &batch).await.status, 200);
    assert_eq!(app.retract("show", &row).await.status, 200);
    assert_eq!(app.retract("show", &row).await.status, 404);
    // The loops of the gateway call the store too.
    let scrape = wait_for(&app, &[("tipcast_engine_calls_in_flight", 0.0)]).await;
    for (status, count) in
        [("accepted", 2.0), ("merged", 1.0), ("suppressed", 1.0), ("duplicate", 2.0), ("rejected", 3.0)]
    {
        assert_eq!(scrape.value(&format!("tipcast_gifts_total{{status=\"{status}\"}}")), count, "{status}");
    }
    assert_eq!(scrape.value("tipcast_rows_retracted_total"), 1.0);
    assert_eq!(scrape.value("tipcast_http_requests_total{route=\"gifts\",class=\"2xx\"}"), 4.0);
    assert_eq!(scrape.value("tipcast_http_requests_total{route=\"gifts\",class=\"4xx\"}"), 2.0);
    assert_eq!(scrape.value("tipcast_http_requests_total{route=\"batch\",class=\"2xx\"}"), 1.0);
    assert_eq!(scrape.value("tipcast_problems_total{problem=\"id-reused\"}"), 1.0);
    assert_eq!(scrape.value("tipcast_problems_total{problem=\"invalid\"}"), 1.0);
    assert_eq!(scrape.value("tipcast_problems_total{problem=\"not-found\"}"), 1.0);
    // A gift whose body was refused never reached the store.
    assert_eq!(scrape.value("tipcast_engine_call_seconds_count{operation=\"publish\"}"), 6.0);
    assert_eq!(scrape.value("tipcast_engine_call_seconds_count{operation=\"retract\"}"), 2.0);
}

async fn waiting_gifts_are_listed_and_decisions_counted_once() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"review": "all", "review_timeout_ms": 3_600_000, "dedup": "off"})).await;
    for id in ["a", "b", "c"] {
        assert_eq!(app.post_gift("show", &gift(id)).await.status, 202);
    }
    let in_review = "tipcast_gifts_total{status=\"in_review\"}";
    wait_for(&app, &[("tipcast_reviews_waiting", 3.0), (in_review, 3.0)]).await;
    for (id, action) in [("a", "approve"), ("a", "approve"), ("b", "deny"), ("b", "deny")] {
        let path = format!("/v1/feeds/show/review/{id}");
        let body = json!({"action": action}).to_string();
        assert_eq!(app.call("POST", &path, Some(&body)).await.status, 200);
    }
    let decided = [
        ("tipcast_gifts_total{status=\"accepted\"}", 1.0),
        ("tipcast_gifts_total{status=\"denied\"}", 1.0),
        // Found out by a look at what waits, which a scrape takes every few seconds.
        ("tipcast_reviews_waiting", 1.0),
    ];
    wait_for(&app, &decided).await;
}

async fn watchers_and_what_they_are_sent_are_counted_by_transport() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"row_ttl_ms": 1000})).await;
    app.give("show", &gift("first")).await;
    let mut ws = app.watch("show").await;
    ws.wait_for_seq(1).await;
    let mut sse = SseWatcher::open(&app, "show").await;
    sse.wait_for_seq(1).await;
    let mut many = Many::open(&app).await;
    many.subscribe("show").await;
    many.subscribe("other").await;
    many.wait_until("both lists", |many| many.folds.values().all(|fold| fold.snapshots == 1)).await;
    let scrape = wait_for(
        &app,
        &[
            ("tipcast_feeds_watched", 2.0),
            ("tipcast_watchers{transport=\"ws\"}", 1.0),
            ("tipcast_watchers{transport=\"sse\"}", 1.0),
            ("tipcast_watchers{transport=\"many\"}", 1.0),
            ("tipcast_frames_sent_total{transport=\"ws\"}", 1.0),
            ("tipcast_frames_sent_total{transport=\"sse\"}", 1.0),
            ("tipcast_frames_sent_total{transport=\"many\"}", 2.0),
            ("tipcast_snapshots_total{cause=\"start\"}", 4.0),
            ("tipcast_snapshots_total{cause=\"fold\"}", 0.0),
            ("tipcast_publish_to_watch_seconds_count", 0.0),
            ("tipcast_http_requests_total{route=\"ws\",class=\"1xx\"}", 1.0),
            ("tipcast_http_requests_total{route=\"sse\",class=\"2xx\"}", 1.0),
        ],
    )
    .await;
    let bytes = scrape.value("tipcast_sent_bytes_total{transport=\"ws\"}");
    assert!((100.0..10_000.0).contains(&bytes), "{bytes}");

    let second = app.give("show", &gift("second").kind("tea")).await["seq"].as_u64().unwrap();
    ws.wait_until("the second gift", |fold| fold.seq() >= second).await;
    let resumed = format!("?since={}", ws.fold.position().unwrap());
    drop(Watcher::open_with(&app, "show", &resumed, None).await);
    wait_for(
        &app,
        &[
            ("tipcast_publish_to_watch_seconds_count", 1.0),
            ("tipcast_resumes_total{from=\"ring\"}", 1.0),
            ("tipcast_rows_expired_total", 2.0),
        ],
    )
    .await;

    // The capacity's change is a new list for everybody, and no gap.
    app.patch_policy("show", json!({"capacity": 3})).await;
    wait_for(&app, &[("tipcast_snapshots_total{cause=\"replace\"}", 3.0)]).await;
    drop((ws, sse, many));
    let gone = [("tipcast_watchers{transport=\"ws\"}", 0.0), ("tipcast_watchers{transport=\"many\"}", 0.0)];
    let mut scrape = wait_for(&app, &gone).await;
    // Nothing is read from an event stream: that its client left shows when it is written to.
    let deadline = Instant::now() + PATIENCE;
    for n in 0.. {
        if scrape.value("tipcast_watchers{transport=\"sse\"}") == 0.0 {
            break;
        }
        assert!(Instant::now() < deadline, "the stream stays");
        app.give("show", &gift(&format!("more-{n}"))).await;
        scrape = Scrape::of(&app).await;
    }
    assert_eq!(scrape.value("tipcast_gaps_repaired_total{by=\"snapshot\"}"), 0.0);
    assert_eq!(scrape.value("tipcast_gaps_repaired_total{by=\"history\"}"), 0.0);
}

async fn odd_input_makes_no_new_series() {
    let app = TestApp::start().await;
    wait_for(&app, &[("tipcast_ready", 1.0)]).await;
    let before = Scrape::of(&app).await;
    for n in 0..20 {
        app.give(&format!("feed-{n}"), &gift("g").by(&format!("user-{n}"))).await;
        app.get(&format!("/v1/feeds/feed-{n}")).await;
        app.get(&format!("/nowhere/{n}")).await;
        app.get(&format!("/v1/feeds/%22%0A{n}/nothing")).await;
        app.call("BREW", &format!("/v1/feeds/{n}/gifts"), None).await;
        app.call("POST", &format!("/v1/feeds/{n}/gifts"), Some("{\"status\":\"x\"}")).await;
        app.get(&format!("/problems/p{n}")).await;
    }
    let after = Scrape::of(&app).await;
    let new: Vec<_> = after.0.keys().filter(|series| !before.0.contains_key(*series)).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(after.value("tipcast_http_requests_total{route=\"other\",class=\"4xx\"}") >= 40.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_watcher_is_counted_as_folded() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off", "flush_ms": 0})).await;
    app.give("show", &gift("first")).await;
    let mut slow = Watcher::open_with(&app, "show", "", Some(4_096)).await;
    slow.wait_for_seq(1).await;
    for batch in 0..30 {
        let one = |n| gift(&format!("b{batch}-{n}")).with("meta", json!({"pad": "x".repeat(900)})).json();
        assert_eq!(app.post_batch("show", &(0..128).map(one).collect::<Vec<_>>()).await.status, 200);
    }
    slow.wait_for_the_list().await;
    let scrape = Scrape::of(&app).await;
    assert!(scrape.value("tipcast_snapshots_total{cause=\"fold\"}") >= 1.0);
    assert!(scrape.value("tipcast_commit_size_count") >= 31.0);
    assert!(scrape.value("tipcast_commit_seconds_sum") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_goes_away_shows_in_readiness_failures_and_reconnects() {
    let (app, mut server) = on_a_redis_of_its_own().await;
    let build = format!("tipcast_build_info{{version=\"{}\",engine=\"redis\"}}", env!("CARGO_PKG_VERSION"));
    wait_for(&app, &[("tipcast_ready", 1.0), (&build, 1.0)]).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_the_list().await;
    server.kill();
    wait_for(&app, &[("tipcast_ready", 0.0)]).await;
    assert_eq!(app.post_gift("show", &gift("lost")).await.status, 503);
    let scrape = Scrape::of(&app).await;
    let failures = "tipcast_engine_failures_total{operation=\"publish\",reason=\"unavailable\"}";
    assert_eq!(scrape.value(failures), 1.0);
    assert_eq!(scrape.value("tipcast_problems_total{problem=\"unavailable\"}"), 1.0);
    assert_eq!(scrape.value("tipcast_gifts_total{status=\"rejected\"}"), 0.0, "a retry will do");
    server.start_again();
    wait_for(&app, &[("tipcast_ready", 1.0), ("tipcast_redis_reconnects_total{connection=\"pubsub\"}", 1.0)])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_feeds_on_redis_are_counted_until_they_are_whole_again() {
    let (app, server) = on_a_redis_of_its_own().await;
    for feed in ["hurt", "well"] {
        app.give(feed, &gift("a")).await;
    }
    let keys = server.run(&["KEYS", "*{hurt}:meta"]);
    let before = server.run(&["GET", &keys]);
    assert_eq!(server.run(&["SET", &keys, "nonsense"]), "OK");
    assert_eq!(app.post_gift("hurt", &gift("b")).await.status, 503);
    assert_eq!(app.post_gift("hurt", &gift("b")).await.status, 503);
    assert_eq!(app.post_gift("well", &gift("b")).await.status, 200);
    wait_for(&app, &[("tipcast_feeds_damaged", 1.0)]).await;
    assert_eq!(server.run(&["SET", &keys, &before]), "OK");
    assert_eq!(app.get_feed("hurt").await["seq"], 1);
    wait_for(&app, &[("tipcast_feeds_damaged", 0.0)]).await;
}

/// Nothing but totals reads these keys, so only who asks for totals meets the damage.
#[tokio::test(flavor = "multi_thread")]
async fn damage_that_only_totals_and_leaders_meet_is_counted_as_well() {
    let (app, server) = on_a_redis_of_its_own().await;
    for feed in ["sums", "ranks"] {
        app.put_policy(feed, json!({"totals": ["all"]})).await;
        app.give(feed, &gift("a")).await;
    }
    for (feed, part, path, damaged) in [
        ("sums", "sums", "sums/totals", 1.0),
        ("ranks", "unranked", "ranks/leaders?period=all&by=units", 2.0),
    ] {
        // By the key of another part: users who were ranked meanwhile leave none.
        let meta = server.run(&["KEYS", &format!("*{{{feed}}}:meta")]);
        let key = format!("{}{part}", meta.strip_suffix("meta").unwrap());
        server.run(&["DEL", &key]);
        server.run(&["SET", &key, "nonsense"]);
        let answer = app.get(&format!("/v1/feeds/{path}")).await;
        assert_eq!(answer.problem(503)["type"], "/problems/feed-damaged", "{path}");
        wait_for(&app, &[("tipcast_feeds_damaged", damaged)]).await;
    }
}

async fn on_a_redis_of_its_own() -> (TestApp, crate::support::redis_server::RedisServer) {
    let server = crate::support::redis_server::RedisServer::durable();
    let url = server.url();
    (TestApp::on(&Backing::Redis(Corner::new(), url)).await, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_text_formats_are_spoken_and_told_apart() {
    let app = TestApp::start().await;
    let plain = app.get("/metrics").await;
    assert_eq!(plain.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(!plain.text.contains("# EOF") && plain.text.contains("# TYPE tipcast_gifts_total counter\n"));
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let open = Api::send(app.request("GET", "/metrics").header(ACCEPT, accept)).await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.text.ends_with("# EOF\n") && open.text.contains("# TYPE tipcast_gifts counter\n"));
    assert_eq!(Scrape::read(&plain).names(), Scrape::read(&open).names());
    assert_eq!(app.call("POST", "/metrics", None).await.status, 405);
}
