//! Traces: from a producer's post through the ledger to what a webhook is sent, and what a collector in trouble costs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tipcast::domain::TraceParent;
use tipcast::metrics::Metrics;
use tipcast::metrics::labels::SpanFate;
use tipcast::traces::{self, Tracer};
use tokio::time::{Instant, sleep};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::collector::{Collector, attribute};
use crate::support::gifts::gift;
use crate::support::receiver::{Delivery, Receiver, Reply, SECRET};

on_both_stores!(
    a_post_is_traced_through_the_ledger_to_the_webhook,
    a_gift_that_waits_keeps_its_trace,
    a_sale_is_a_step_of_the_trace_that_paid_for_it,
    trace_state_is_passed_on_whole_or_not,
    unrecorded_traces_are_only_passed_on,
    without_a_collector_nothing_of_it_is_looked_at,
);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn gateway(collector: Option<&Collector>) -> TestApp {
    TestApp::with(&Backing::fresh(), |config| {
        config.webhooks.allow_private = true;
        config.log.otlp_url = collector.map(Collector::url).unwrap_or_default();
        config.log.otlp_sample_percent = 0;
    })
    .await
}

/// Sends entries of the feed to `receiver`, each post in a batch of its own.
async fn report(app: &TestApp, receiver: &Receiver) {
    let hook = json!({"url": receiver.url("w"), "secret": SECRET, "batch_max": 1, "batch_ms": 0});
    let said = app.call("PUT", "/v1/feeds/show/webhooks/w", Some(&hook.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
}

/// Waits until this number of spans ended so.
async fn spans(app: &TestApp, outcome: &str, enough: impl Fn(u64) -> bool) -> u64 {
    let (name, since) = (format!("tipcast_trace_spans_total{{outcome=\"{outcome}\"}} "), Instant::now());
    loop {
        let text = app.get("/metrics").await.text;
        let count = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap();
        if enough(count) {
            return count;
        }
        assert!(since.elapsed() < 3 * PATIENCE, "{outcome}: {count}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Posts it as a step of the trace.
async fn post(app: &TestApp, path: &str, body: &Value, flags: &str) -> u16 {
    let request = app.request("POST", path).header("content-type", "application/json");
    let request = request.header("traceparent", format!("00-{TRACE}-{PARENT}-{flags}"));
    Api::send(request.body(body.to_string())).await.status
}

/// Posts it as a step of the trace, with these `tracestate` headers.
async fn post_noted(app: &TestApp, path: &str, body: &Value, notes: &[&str]) -> u16 {
    let mut request = app.request("POST", path).header("content-type", "application/json");
    request = request.header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    for note in notes {
        request = request.header("tracestate", *note);
    }
    Api::send(request.body(body.to_string())).await.status
}

async fn a_post_is_traced_through_the_ledger_to_the_webhook() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let app = gateway(Some(&collector)).await;
    report(&app, &receiver).await;
    assert_eq!(post(&app, "/v1/feeds/show/gifts", &gift("g").json(), "01").await, 201);
    let served = collector.wait_for("the post", |span| span["kind"] == 2).await;
    assert_eq!((served["traceId"].as_str(), served["parentSpanId"].as_str()), (Some(TRACE), Some(PARENT)));
    assert_eq!(attribute(&served, "http.route"), "/v1/feeds/{feed}/gifts");
    assert_eq!(attribute(&served, "http.response.status_code"), "201");
    let sent = collector.wait_for("the delivery", |span| span["kind"] == 3).await;
    assert_eq!((&sent["traceId"], &sent["parentSpanId"]), (&served["traceId"], &served["spanId"]));
    assert_eq!((attribute(&sent, "tipcast.feed"), attribute(&sent, "tipcast.outcome")), ("show", "accepted"));
    let came = receiver.wait_for("the delivery", |got| !got.is_empty()).await.remove(0);
    assert_eq!(attribute(&sent, "messaging.message.id"), came.id);
    let header: TraceParent = came.headers["traceparent"].parse().unwrap();
    assert_eq!((&*header.trace_hex(), &*header.span_hex()), (TRACE, sent["spanId"].as_str().unwrap()));
    let told = came.json["entries"][0]["traceparent"].as_str().unwrap();
    assert_eq!(told, format!("00-{TRACE}-{}-01", served["spanId"].as_str().unwrap()));
    // Sent again by a producer who did not hear the answer: the same gift, whatever the trace.
    let again = gift("g").json();
    assert_eq!(post(&app, "/v1/feeds/show/gifts", &again, "00").await, 200);

    // Many gifts, one post: one trace. A failed delivery says why.
    receiver.answers(|_| Reply::Status(503, "retry-after: 3600"));
    let many = json!({"gifts": [gift("h").by("h").json(), gift("i").by("i").json()]});
    assert_eq!(post(&app, "/v1/feeds/show/gifts/batch", &many, "01").await, 200);
    let failed =
        collector.wait_for("the failure", |span| span["kind"] == 3 && span["status"]["code"] == 2).await;
    assert_eq!((&*failed["traceId"].to_string(), &failed["links"]), (&*format!("{TRACE:?}"), &json!([])));
    assert!(failed["status"]["message"].as_str().unwrap().contains("503"), "{failed}");
}

async fn a_gift_that_waits_keeps_its_trace() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let app = gateway(Some(&collector)).await;
    report(&app, &receiver).await;
    let mut later = gift("later").json();
    later["delay_ms"] = 300.into();
    assert_eq!(post(&app, "/v1/feeds/show/gifts", &later, "01").await, 202);
    let came = receiver.wait_for("the gift", |got| !got.is_empty()).await.remove(0);
    assert_eq!(came.headers["traceparent"].parse::<TraceParent>().unwrap().trace_hex(), TRACE);
}

async fn a_sale_is_a_step_of_the_trace_that_paid_for_it() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let app = gateway(Some(&collector)).await;
    report(&app, &receiver).await;
    let drop = json!({"gift": {"id": "rocket", "name": "Rocket"}, "total": 10});
    assert_eq!(app.call("PUT", "/v1/feeds/show/drops/rocket", Some(&drop.to_string())).await.status, 201);
    let claim = |id: &str, pay: &str| json!({"id": id, "user": {"id": id, "name": "U"}, "pay": pay});
    let claims = "/v1/feeds/show/drops/rocket/claims";
    let notes = &["a=1", "b=x y"][..];
    assert_eq!(post_noted(&app, claims, &claim("paid", "now"), notes).await, 201);
    let served = collector.wait_for("the claim", |span| span["kind"] == 2).await;
    assert_eq!(
        (&*served["traceId"].to_string(), attribute(&served, "http.response.status_code")),
        (&*format!("{TRACE:?}"), "201")
    );
    assert_eq!(attribute(&served, "http.route"), "/v1/feeds/{feed}/drops/{drop}/claims");
    let sold = receiver.wait_for("the sale", |got| !got.is_empty()).await.remove(0);
    let entry = &sold.json["entries"][0];
    assert_eq!((&entry["type"], &entry["gift"]["id"]), (&json!("drop.sold"), &json!("paid")));
    assert_eq!(entry["traceparent"], format!("00-{TRACE}-{}-01", served["spanId"].as_str().unwrap()));
    assert_eq!(
        (&entry["tracestate"], sold.headers.get("tracestate").map(String::as_str)),
        (&json!("a=1,b=x y"), Some("a=1,b=x y"))
    );

    // A client that confirms a hold has paid for it: the claim's own trace ended with the hold.
    assert_eq!(app.call("POST", claims, Some(&claim("held", "later").to_string())).await.status, 201);
    let confirm = "/v1/feeds/show/holds/rocket~held/confirm";
    assert_eq!(post_noted(&app, confirm, &json!({}), &[]).await, 200);
    let confirmed = |span: &Value| span["kind"] == 2 && attribute(span, "http.route").ends_with("/confirm");
    let served = collector.wait_for("the confirmation", confirmed).await;
    let sold = receiver.wait_for("both sales", |got| got.len() >= 2).await.remove(1);
    let entry = &sold.json["entries"][0];
    assert_eq!((&entry["type"], &entry["gift"]["id"]), (&json!("drop.sold"), &json!("held")));
    assert_eq!(entry["traceparent"], format!("00-{TRACE}-{}-01", served["spanId"].as_str().unwrap()));
    assert_eq!((&entry["tracestate"], sold.headers.get("tracestate")), (&Value::Null, None));
}

async fn trace_state_is_passed_on_whole_or_not() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let app = gateway(Some(&collector)).await;
    report(&app, &receiver).await;
    let waits = json!({"delay_ms": 200});
    for (id, notes, kept, more) in [
        (
            "two",
            &["rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"][..],
            Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            &waits,
        ),
        ("quoted", &["a=\"{1 2}\\\""][..], Some("a=\"{1 2}\\\""), &json!({})),
        ("upper", &["a=1", "Rojo=1"][..], None, &waits),
        ("twice", &["a=1,a=2"][..], None, &json!({})),
    ] {
        let mut body = gift(id).by(id).json();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let status = post_noted(&app, "/v1/feeds/show/gifts", &body, notes).await;
        assert!(matches!(status, 201 | 202), "{id}: {status}");
        let has = |got: &Delivery| got.json["entries"][0]["gift"]["id"] == id;
        let came = receiver.wait_for(id, |got| got.iter().any(has)).await;
        let came = came.iter().find(|got| has(got)).unwrap();
        assert_eq!(
            (
                came.headers.get("tracestate").map(String::as_str),
                came.json["entries"][0]["tracestate"].as_str()
            ),
            (kept, kept),
            "{id}"
        );
        assert!(came.headers["traceparent"].contains(TRACE), "{id}: the trace itself goes on");
        let claim = json!({"consumer": "t", "from": "start", "max": 100});
        let path = format!("/v1/feeds/show/groups/{id}/claim");
        let read = app.call("POST", &path, Some(&claim.to_string())).await;
        assert_eq!(read.status, 200, "{read:?}");
        let last = read.json()["entries"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["gift"]["id"], last["tracestate"].as_str()), (&json!(id), kept), "{last}");
    }
    let noted = |span: &Value| span["kind"] == 2 && span["traceState"] == "a=\"{1 2}\\\"";
    collector.wait_for("the collector was told", noted).await;
}

async fn unrecorded_traces_are_only_passed_on() {
    let (collector, receiver) = (Collector::start().await, Receiver::start().await);
    let app = gateway(Some(&collector)).await;
    report(&app, &receiver).await;
    assert_eq!(post(&app, "/v1/feeds/show/gifts", &gift("g").json(), "00").await, 201);
    // None of a hundred begin here.
    app.give("show", &gift("h").by("h")).await;
    let came = receiver.wait_for("both", |got| got.len() >= 2).await;
    assert_eq!(came[0].headers["traceparent"], format!("00-{TRACE}-{PARENT}-00"));
    assert_eq!(
        (came[1].headers.get("traceparent"), &came[1].json["entries"][0]["traceparent"]),
        (None, &Value::Null)
    );
    // It would have been sent by now if the marker, which is recorded after it, is.
    assert_eq!(post(&app, "/v1/feeds/other/gifts", &gift("m").json(), "01").await, 201);
    collector.wait_for("the marker", |span| span["kind"] == 2).await;
    assert_eq!(spans(&app, "sent", |count| count > 0).await, 1);
}

async fn without_a_collector_nothing_of_it_is_looked_at() {
    let receiver = Receiver::start().await;
    let app = gateway(None).await;
    report(&app, &receiver).await;
    assert_eq!(post(&app, "/v1/feeds/show/gifts", &gift("g").json(), "01").await, 201);
    let came = receiver.wait_for("the delivery", |got| !got.is_empty()).await.remove(0);
    assert_eq!(
        (came.headers.get("traceparent"), &came.json["entries"][0]["traceparent"]),
        (None, &Value::Null)
    );
}

#[tokio::test]
async fn a_collector_in_trouble_costs_spans_and_nothing_else() {
    let collector = Collector::start().await;
    let app = TestApp::with(&Backing::folder(), |config| config.log.otlp_url = collector.url()).await;
    let feeds: Vec<String> = (0..3).map(|n| format!("show{n}")).collect();
    for (feed, trouble) in feeds.iter().zip([Reply::Status(400, "x: y"), Reply::Garbage, Reply::Close]) {
        collector.answers(trouble.clone());
        let lost = spans(&app, "lost", |_| true).await;
        let asked = collector.requests();
        assert_eq!(app.post_gift(feed, &gift("g")).await.status, 201, "{trouble:?}");
        spans(&app, "lost", |count| count > lost).await;
        assert!(collector.requests() > asked, "{trouble:?}");
    }
    collector.answers(Reply::Status(200, "x: y"));
    app.give("well", &gift("g")).await;
    let span =
        collector.wait_for("what came after", |span| attribute(span, "url.path").contains("well")).await;
    assert_eq!(span.get("parentSpanId"), None, "it began here");

    // One that hangs: nobody waits for it, also not the way down.
    collector.answers(Reply::Hang);
    let asked = collector.requests();
    app.give("hangs", &gift("g")).await;
    let since = Instant::now();
    while collector.requests() == asked {
        assert!(since.elapsed() < 3 * PATIENCE, "it is not asked");
        sleep(Duration::from_millis(5)).await;
    }
    app.give("hangs", &gift("h").by("h")).await;
    for path in ["/readyz", "/healthz"] {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn spans_that_wait_are_sent_on_the_way_down() {
    let collector = Collector::start().await;
    let metrics = Arc::new(Metrics::default());
    let to = traces::endpoint(&collector.url()).unwrap();
    let (tracer, export) = Tracer::start(to, 100, &metrics, &Arc::default()).unwrap();
    for _ in 0..600 {
        tracer.request("post", [].into_iter(), [].into_iter()).unwrap().end();
    }
    export.stop(3 * PATIENCE).await;
    assert_eq!(metrics.trace_spans[SpanFate::Sent].get(), 600);
}
