//! Spans as OTLP spells them in JSON (OpenTelemetry protocol 1.x): ids in hexadecimal, 64-bit numbers as text.

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::{Trace, TraceParent};

/// What a span is to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// It answers a request.
    Server = 2,
    /// It makes one.
    Client = 3,
}

/// A span that has ended.
#[derive(Debug)]
pub struct Record {
    pub trace: Trace,
    /// The step that it follows.
    pub parent: Option<[u8; 8]>,
    pub name: &'static str,
    pub kind: SpanKind,
    /// Since 1970.
    pub begun: Duration,
    pub took: Duration,
    pub attributes: Vec<(&'static str, Value)>,
    /// Steps of other traces that it has to do with.
    pub links: Vec<TraceParent>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// The body of one export. `instance` is another for each gateway.
pub fn body(spans: &[Record], instance: &str) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            attribute("service.name", &"tipcast".into()),
            attribute("service.version", &version.into()),
            attribute("service.instance.id", &instance.into()),
        ] },
        "scopeSpans": [{ "scope": { "name": "tipcast", "version": version }, "spans": spans }],
    }] })
}

fn span(record: &Record) -> Value {
    let attributes: Vec<Value> =
        record.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let link =
        |to: &TraceParent| json!({ "traceId": to.trace_hex(), "spanId": to.span_hex(), "flags": to.flags });
    let mut span = json!({
        "traceId": record.trace.step.trace_hex(),
        "spanId": record.trace.step.span_hex(),
        "flags": record.trace.step.flags,
        "name": record.name,
        "kind": record.kind as u8,
        "startTimeUnixNano": record.begun.as_nanos().to_string(),
        "endTimeUnixNano": (record.begun + record.took).as_nanos().to_string(),
        "attributes": attributes,
        "links": record.links.iter().map(link).collect::<Vec<_>>(),
        "status": {},
    });
    if let Some(state) = &record.trace.state {
        span["traceState"] = state.as_str().into();
    }
    if let Some(parent) = record.parent {
        span["parentSpanId"] = data_encoding::HEXLOWER.encode(&parent).into();
    }
    if let Some(why) = &record.failure {
        span["status"] = json!({ "code": 2, "message": why });
    }
    span
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(it) => json!({ "boolValue": it }),
        Value::Number(it) => json!({ "intValue": it.to_string() }),
        Value::String(it) => json!({ "stringValue": it }),
        it => json!({ "stringValue": it.to_string() }),
    };
    json!({ "key": name, "value": value })
}

/// How many of the spans a collector refused, though it took the request.
pub fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::TraceState;

    #[test]
    fn a_span_is_spelled_as_collectors_read_it() {
        let context = TraceParent::root([0x1a; 16], [0x2b; 8]);
        let record = Record {
            trace: Trace { step: context, state: TraceState::read(["a=1"].into_iter()) },
            parent: Some([0x3c; 8]),
            name: "deliver",
            kind: SpanKind::Client,
            begun: Duration::from_nanos(1_700_000_000_000_000_001),
            took: Duration::from_nanos(9),
            attributes: vec![("a", "b".into()), ("n", 503.into()), ("t", true.into())],
            links: vec![TraceParent::root([0x4d; 16], [0x5e; 8])],
            failure: Some("the endpoint answered 503".into()),
        };
        let body = body(&[record], "me");
        let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let wanted = json!({
            "traceId": "1a".repeat(16), "spanId": "2b".repeat(8), "traceState": "a=1", "parentSpanId": "3c".repeat(8), "flags": 3,
            "name": "deliver", "kind": 3,
            "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000010",
            "attributes": [
                { "key": "a", "value": { "stringValue": "b" } },
                { "key": "n", "value": { "intValue": "503" } },
                { "key": "t", "value": { "boolValue": true } },
            ],
            "links": [{ "traceId": "4d".repeat(16), "spanId": "5e".repeat(8), "flags": 3 }],
            "status": { "code": 2, "message": "the endpoint answered 503" },
        });
        assert_eq!(*span, wanted);
        assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][2]["value"]["stringValue"], "me");
    }

    #[test]
    fn spans_that_a_collector_refuses_are_counted() {
        for (answer, count) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
            ("<html>", 0),
        ] {
            assert_eq!(rejected(answer.as_bytes()), count, "{answer}");
        }
    }
}
