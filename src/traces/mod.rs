//! Traces for an OpenTelemetry collector: a post of gifts and what webhooks are sent of them are steps (spans) of one trace.
//!
//! A post follows the `traceparent` that it brings. Its span travels with the gift through the ledger, and a delivery follows it.
//! Ended spans wait in a bounded queue for a loop that sends them (`export`); a full queue drops the newest, counted. Nothing
//! here makes a request wait, and without `[log] otlp_url` nothing of it runs.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reqwest::Url;
use serde_json::Value;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::domain::{Trace, TraceParent, TraceState};
use crate::metrics::Metrics;
use crate::metrics::labels::SpanFate;
use crate::random;
use crate::supervise::Parts;

mod export;
mod otlp;

pub use export::Export;
use otlp::{Record, SpanKind};

/// Spans that may wait for the collector: a few megabytes, and seconds of very many posts.
const MAX_QUEUED_SPANS: usize = 4_096;

/// Other traces that a delivery names at most. A batch may hold a thousand gifts.
const MAX_LINKS: usize = 32;

/// The collector's address of `[log] otlp_url`: with `/v1/traces` where it has no path. The error says what is
/// wrong without the URL, which may hold a password.
pub fn endpoint(text: &str) -> Result<Url, String> {
    let advice = "give the address of an OpenTelemetry collector, such as http://127.0.0.1:4318";
    let mut url = Url::parse(text).map_err(|why| format!("it is no URL ({why}); {advice}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("it is no address of http or https; {advice}"));
    }
    if url.path() == "/" {
        url.set_path("/v1/traces");
    }
    Ok(url)
}

/// Begins spans. The default records nothing.
#[derive(Debug, Default)]
pub struct Tracer {
    on: Option<Arc<Recorder>>,
}

/// What every span of a gateway ends in.
#[derive(Debug)]
struct Recorder {
    queue: mpsc::Sender<Record>,
    sample_percent: u64,
    metrics: Arc<Metrics>,
}

impl Tracer {
    /// Records, and sends to the collector at `to`. Of a hundred traces that begin here `sample_percent` are recorded.
    pub fn start(
        to: Url,
        sample_percent: u64,
        metrics: &Arc<Metrics>,
        parts: &Arc<Parts>,
    ) -> Result<(Tracer, Export), String> {
        let (queue, waiting) = mpsc::channel(MAX_QUEUED_SPANS);
        let export = Export::start(to, waiting, metrics.clone(), parts.clone())?;
        let recorder = Recorder { queue, sample_percent, metrics: metrics.clone() };
        Ok((Tracer { on: Some(Arc::new(recorder)) }, export))
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// The span of a request that brought these `traceparent` and `tracestate` headers. `None` without a recorder: then
    /// it is passed on to nobody either. What is no traceparent, or comes twice, counts as none, and so does a
    /// tracestate that breaks its rules or has no traceparent.
    pub fn request<'a>(
        &self,
        name: &'static str,
        mut headers: impl Iterator<Item = &'a str>,
        notes: impl Iterator<Item = &'a str>,
    ) -> Option<Span> {
        let on = self.on.as_ref()?;
        let parent =
            headers.next().filter(|_| headers.next().is_none()).and_then(|it| it.trim().parse().ok());
        match parent {
            Some(step) => {
                Some(Span::follow(on, name, SpanKind::Server, Trace { step, state: TraceState::read(notes) }))
            }
            None => {
                let [dice, trace @ ..] = random::bytes::<17>();
                let chosen = u64::from(dice) * 100 < 256 * on.sample_percent;
                chosen.then(|| {
                    Span::record(
                        on,
                        name,
                        SpanKind::Server,
                        TraceParent::root(trace, random::bytes()).into(),
                        None,
                    )
                })
            }
        }
    }

    /// The span of a delivery of gifts that came with these traces. It follows theirs where that is one, else it begins a
    /// trace that names theirs. `None` without a recorder, or if no gift was traced.
    pub fn delivery(&self, name: &'static str, gifts: impl Iterator<Item = Option<Trace>>) -> Option<Span> {
        let on = self.on.as_ref()?;
        let mut first: Option<Trace> = None;
        let mut others: Vec<TraceParent> = vec![];
        for it in gifts.flatten() {
            match &first {
                None => first = Some(it),
                Some(first) if first.step.trace == it.step.trace => {}
                Some(_)
                    if others.len() + 1 < MAX_LINKS
                        && others.iter().all(|known| known.trace != it.step.trace) =>
                {
                    others.push(it.step);
                }
                Some(_) => {}
            }
        }
        let first = first?;
        if others.is_empty() {
            return Some(Span::follow(on, name, SpanKind::Client, first));
        }
        others.insert(0, first.step);
        others.retain(TraceParent::is_sampled);
        if others.is_empty() {
            return None;
        }
        let mut span = Span::record(
            on,
            name,
            SpanKind::Client,
            TraceParent::root(random::bytes(), random::bytes()).into(),
            None,
        );
        if let Some(recording) = &mut span.recording {
            recording.record.links = others;
        }
        Some(span)
    }
}

/// A step of a trace that is under way. Dropped without [`Span::end`] it is as if it had never begun.
#[derive(Debug)]
pub struct Span {
    trace: Trace,
    /// `None` if an earlier step decided not to record.
    recording: Option<Box<Recording>>,
}

#[derive(Debug)]
struct Recording {
    to: Arc<Recorder>,
    begun: Instant,
    record: Record,
}

impl Span {
    /// A step behind `parent`: recorded if that is, else the same step, which only travels.
    fn follow(on: &Arc<Recorder>, name: &'static str, kind: SpanKind, before: Trace) -> Span {
        let Trace { step, state } = before;
        match step.is_sampled() {
            true => Span::record(
                on,
                name,
                kind,
                Trace { step: step.child(random::bytes()), state },
                Some(step.span),
            ),
            false => Span { trace: Trace { step, state }, recording: None },
        }
    }

    fn record(
        on: &Arc<Recorder>,
        name: &'static str,
        kind: SpanKind,
        trace: Trace,
        parent: Option<[u8; 8]>,
    ) -> Span {
        let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = Record {
            trace: trace.clone(),
            parent,
            name,
            kind,
            begun: begun_ns,
            took: Duration::ZERO,
            attributes: vec![],
            links: vec![],
            failure: None,
        };
        let recording = Recording { to: on.clone(), begun: Instant::now(), record };
        Span { trace, recording: Some(Box::new(recording)) }
    }

    /// What those who come after follow.
    pub fn trace(&self) -> Trace {
        self.trace.clone()
    }

    /// Says something about it: text, an integer or a boolean.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(recording) = &mut self.recording {
            recording.record.attributes.push((name, value.into()));
        }
    }

    /// It did not work.
    pub fn fail(&mut self, why: &str) {
        if let Some(recording) = &mut self.recording {
            recording.record.failure = Some(why.to_owned());
        }
    }

    /// Ends it. It goes to the collector, or is dropped if too many wait.
    pub fn end(self) {
        let Some(recording) = self.recording else { return };
        let Recording { to, begun, mut record } = *recording;
        record.took = begun.elapsed();
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = to.queue.try_send(record) {
            to.metrics.trace_spans[SpanFate::QueueFull].inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(sample_percent: u64, room: usize) -> (Tracer, mpsc::Receiver<Record>) {
        let (queue, waiting) = mpsc::channel(room);
        let recorder = Recorder { queue, sample_percent, metrics: Arc::default() };
        (Tracer { on: Some(Arc::new(recorder)) }, waiting)
    }

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const QUIET: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    fn parsed(text: &str) -> Option<TraceParent> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_post_follows_its_producer_and_a_delivery_the_post() {
        let (tracer, mut sent) = tracer(100, 8);
        let mut post = tracer.request("post", [SAMPLED].into_iter(), ["a=1", "b=2"].into_iter()).unwrap();
        post.set("feed", "show");
        let trace = post.trace();
        post.end();
        let record = sent.try_recv().unwrap();
        assert_eq!(record.parent, Some(parsed(SAMPLED).unwrap().span));
        assert_eq!(record.trace.step.trace, parsed(SAMPLED).unwrap().trace);
        let mut delivery =
            tracer.delivery("deliver", [None, Some(trace.clone()), Some(trace.clone())].into_iter()).unwrap();
        delivery.fail("503");
        delivery.end();
        let record = sent.try_recv().unwrap();
        assert_eq!((record.parent, record.failure.as_deref()), (Some(trace.step.span), Some("503")));
        assert!(record.links.is_empty());
        assert_eq!(record.trace.state.unwrap().as_str(), "a=1,b=2", "what others noted goes with it");
    }

    #[test]
    fn a_batch_of_many_traces_is_a_trace_that_names_them() {
        let (tracer, mut sent) = tracer(100, 8);
        let of = |n: u8| Some(Trace::from(TraceParent::root([n; 16], [n; 8])));
        tracer.delivery("deliver", (1..=200).map(of)).unwrap().end();
        let record = sent.try_recv().unwrap();
        assert_eq!((record.parent, record.links.len()), (None, MAX_LINKS));
        assert!((1..=200).all(|n| record.trace.step.trace != [n; 16]));
        let mixed = [parsed(QUIET).map(Trace::from), of(3)];
        tracer.delivery("deliver", mixed.into_iter()).unwrap().end();
        assert_eq!(sent.try_recv().unwrap().links, [of(3).unwrap().step]);
        assert!(tracer.delivery("deliver", [None].into_iter()).is_none());
    }

    #[test]
    fn an_unsampled_trace_travels_and_nonsense_is_none() {
        let (tracer, mut sent) = tracer(0, 8);
        let post = tracer.request("post", [QUIET].into_iter(), [].into_iter()).unwrap();
        assert_eq!(post.trace(), parsed(QUIET).unwrap().into());
        post.end();
        let delivery = tracer.delivery("deliver", [parsed(QUIET).map(Trace::from)].into_iter()).unwrap();
        assert_eq!(delivery.trace(), parsed(QUIET).unwrap().into());
        delivery.end();
        for none in [vec![], vec!["nonsense"], vec![SAMPLED, SAMPLED]] {
            assert!(
                tracer.request("post", none.into_iter(), ["a=1"].into_iter()).is_none(),
                "none of a hundred begin here"
            );
        }
        assert!(sent.try_recv().is_err());
        assert!(Tracer::default().request("post", [SAMPLED].into_iter(), [].into_iter()).is_none());
        assert!(
            Tracer::default().delivery("deliver", [parsed(SAMPLED).map(Trace::from)].into_iter()).is_none()
        );
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (tracer, mut sent) = tracer(100, 2);
        for _ in 0..5 {
            tracer.request("post", [].into_iter(), [].into_iter()).unwrap().end();
        }
        let recorder = tracer.on.as_ref().unwrap();
        assert_eq!(recorder.metrics.trace_spans[SpanFate::QueueFull].get(), 3);
        assert!(sent.try_recv().is_ok() && sent.try_recv().is_ok() && sent.try_recv().is_err());
    }

    #[test]
    fn an_address_gets_the_path_that_collectors_have() {
        for (given, used) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/", "https://otel.example/v1/traces"),
            ("http://otel.example/custom", "http://otel.example/custom"),
        ] {
            assert_eq!(endpoint(given).unwrap().as_str(), used);
        }
        for bad in ["", "127.0.0.1:4318", "grpc://a:4317", "/v1/traces"] {
            assert!(endpoint(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }
}
