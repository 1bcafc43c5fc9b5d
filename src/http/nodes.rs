//! The nodes of the gateway and what they do: reported to the store by each, and read from there. Where the store does
//! not answer, a node shows what it knows of itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};

use super::answers::{self, NodeState, Series, Stats};
use super::problem::ApiError;
use super::{Gate, integer_within};
use crate::domain::Millis;
use crate::engine::nodes::{NodeReport, SERIES_KEPT_MS};
use crate::metrics::sample::Sample;
use crate::supervise::{Beat, faults};

/// From one sample to the next, in milliseconds.
const STEP_MS: i64 = 5_000;

/// Samples of an hour.
const SAMPLES_KEPT: usize = 720;

/// After this number of samples all of them are reported; until then those that are new come with the state.
const SAMPLES_PER_SERIES: usize = 12;

/// After this number of samples a node puts itself into the list of nodes again, which may have been lost.
const SAMPLES_PER_LISTING: u64 = 120;

/// The longest time of series that is answered, in minutes.
const MINUTES_MAX: usize = 60;

/// A sample as it is stored: its time, and in this order gifts, deliveries and errors in a second, watchers, bytes of memory,
/// and the percentiles of publishing, delivering and the store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point(i64, [f64; 8]);

impl Point {
    fn new(at: Millis, it: &Sample) -> Point {
        let rates = [it.gifts_per_second, it.deliveries_per_second, it.errors_per_second];
        let [gifts, deliveries, errors] = rates;
        let all = [
            gifts,
            deliveries,
            errors,
            it.watchers,
            it.rss_bytes,
            it.publish_p99_ms,
            it.delivery_p99_ms,
            it.store_p99_ms,
        ];
        Point(at.0, all.map(rounded))
    }
}

/// A node's state as it is stored, with its newest samples.
#[derive(Serialize, Deserialize)]
struct Stored {
    state: Box<serde_json::value::RawValue>,
    newest: Vec<Point>,
}

/// What this node reports.
pub struct NodeReports {
    /// Names this run of this node, so that two that have the same name are two.
    run: String,
    started_at: Millis,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The machine and the port.
    name: String,
    /// The newest sample, of which the state is made.
    sample: Sample,
    points: VecDeque<Point>,
    /// Samples so far.
    count: u64,
}

impl Default for NodeReports {
    fn default() -> Self {
        let run = uuid::Uuid::now_v7().simple().to_string();
        NodeReports { run, started_at: Millis::now(), known: Mutex::default() }
    }
}

impl NodeReports {
    /// Names the node by its machine and the port that it listens on.
    pub fn name(&self, port: u16) {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let machine = machine.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default();
        let machine = machine.trim();
        let machine = if machine.is_empty() { "node" } else { machine };
        self.locked().name = format!("{machine}:{port}");
    }

    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample in, and says what is to be reported.
    fn take(&self, state: &NodeState, sample: &Sample, now: Millis) -> serde_json::Result<NodeReport> {
        let state = serde_json::value::to_raw_value(state)?;
        let mut known = self.locked();
        known.sample = *sample;
        let is_new = known.count.is_multiple_of(SAMPLES_PER_LISTING);
        known.count += 1;
        known.points.push_back(Point::new(step_of(now), sample));
        if known.points.len() > SAMPLES_KEPT {
            known.points.pop_front();
        }
        let older = known.points.len().saturating_sub(SAMPLES_PER_SERIES);
        let newest: Vec<Point> = known.points.iter().skip(older).copied().collect();
        let is_whole = known.count.is_multiple_of(SAMPLES_PER_SERIES as u64);
        let series = is_whole.then(|| serde_json::to_string(&known.points)).transpose()?;
        let state = serde_json::to_string(&Stored { state, newest })?;
        Ok(NodeReport { run: self.run.clone(), state, series, is_new })
    }

    async fn report(&self, gate: &Gate, sample: &Sample) {
        let now = Millis::now();
        let Ok(report) = self.take(&self.state(gate, sample), sample, now) else { return };
        let mut done = gate.store.report_node(&report, now).await;
        if report.is_new && done.is_ok() {
            done = gate.store.forget_old_nodes(Millis(now.0 - SERIES_KEPT_MS as i64)).await;
        }
        if let Err(error) = done {
            // The light is red for that; other parts log it.
            tracing::debug!(%error, "this node could not report what it does");
        }
    }

    fn state(&self, gate: &Gate, sample: &Sample) -> NodeState {
        let parts = gate.live.parts().working(Instant::now());
        let (ready, detail) = match parts.and_then(|()| gate.ready.newest()) {
            Err(why) => (false, Some(why)),
            Ok(shards) if shards.down > 0 => {
                let all = shards.up + shards.down;
                (
                    true,
                    Some(format!(
                        "{} of {all} shards of the store do not answer: their feeds answer 503",
                        shards.down
                    )),
                )
            }
            Ok(_) => (true, gate.store.warning()),
        };
        NodeState {
            node: self.locked().name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at,
            watchers: sample.watchers as u64,
            feeds: sample.feeds as u64,
            gifts_per_second: rounded(sample.gifts_per_second),
            deliveries_per_second: rounded(sample.deliveries_per_second),
            p99_ms: rounded(sample.publish_p99_ms),
            rss_bytes: sample.rss_bytes as u64,
            cpu: rounded(sample.cpu),
            ready,
            detail,
        }
    }
}

/// Reports what this node does every five seconds, for as long as it is awaited.
pub async fn keep_reporting(gate: web::Data<Gate>, beat: Beat) {
    let mut before = gate.live.metrics().look();
    gate.nodes.report(&gate, &before.since(&before)).await;
    loop {
        beat.rests();
        tokio::time::sleep(until_next_step(Millis::now())).await;
        beat.works();
        faults::pass("nodes").await;
        let look = gate.live.metrics().look();
        gate.nodes.report(&gate, &look.since(&before)).await;
        before = look;
    }
}

/// Takes this node out of the list, because it leaves.
pub async fn leave(gate: &Gate) {
    if let Err(error) = gate.store.forget_node(&gate.nodes.run).await {
        tracing::debug!(%error, "this node stays in the list of nodes for some seconds");
    }
}

/// Nodes report at about the same moments, so that what they did can be added up.
fn until_next_step(now: Millis) -> Duration {
    Duration::from_millis((STEP_MS - now.0.rem_euclid(STEP_MS)) as u64)
}

fn step_of(now: Millis) -> Millis {
    Millis((now.0 + STEP_MS / 2).div_euclid(STEP_MS) * STEP_MS)
}

/// With three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// `GET /v1/nodes`
pub(super) async fn nodes(gate: web::Data<Gate>) -> HttpResponse {
    // The others probed the store when they needed it; this node is asked now.
    gate.ready.refresh(&gate.store).await;
    let sample = gate.nodes.locked().sample;
    let own = serde_json::to_string(&gate.nodes.state(&gate, &sample)).ok();
    let others = gate.read(gate.store.read_nodes(false)).await.unwrap_or_default();
    let others = others.into_iter().filter(|it| it.run != gate.nodes.run);
    let states = others.filter_map(|it| {
        let Stored { state, .. } = serde_json::from_str(&it.state?).ok()?;
        Some(state.get().to_owned())
    });
    let mut all: Vec<String> = states.chain(own).collect();
    all.sort();
    answers::fresh_text(StatusCode::OK, format!("{{\"nodes\":[{}]}}", all.join(",")))
}

/// `GET /v1/stats?minutes=60`
pub(super) async fn stats(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let mut minutes = MINUTES_MAX;
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        if name == "minutes" {
            minutes = integer_within(&name, &value, 1..=MINUTES_MAX)?;
        }
    }
    let others = gate.read(gate.store.read_nodes(true)).await.unwrap_or_default();
    let others = others.into_iter().filter(|it| it.run != gate.nodes.run);
    let points = others.map(|it| {
        let mut points: Vec<Point> =
            it.series.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let stored: Option<Stored> = it.state.and_then(|text| serde_json::from_str(&text).ok());
        points.extend(stored.into_iter().flat_map(|stored| stored.newest));
        points
    });
    let mut all: Vec<Vec<Point>> = points.collect();
    all.push(gate.nodes.locked().points.iter().copied().collect());
    Ok(answers::fresh(StatusCode::OK, &sum(&all, minutes)))
}

/// Adds the samples of nodes up, of the last minutes.
fn sum(nodes: &[Vec<Point>], minutes: usize) -> Stats {
    let newest = nodes.iter().flatten().map(|point| point.0).max().unwrap_or_default();
    let begin = newest - minutes as i64 * 60_000;
    let mut sums: BTreeMap<i64, [f64; 8]> = BTreeMap::new();
    for points in nodes {
        // The sample of a start may be in the step of the next one, which has what happened since.
        let mut samples: BTreeMap<i64, [f64; 8]> = points.iter().map(|point| (point.0, point.1)).collect();
        // A report that came a little late is in the step behind its own: between two others, it goes on as before.
        let is_late =
            |at: &i64| !samples.contains_key(&(at + STEP_MS)) && samples.contains_key(&(at + 2 * STEP_MS));
        let late: Vec<_> = samples
            .iter()
            .filter(|(at, _)| is_late(at))
            .map(|(at, values)| (at + STEP_MS, *values))
            .collect();
        samples.extend(late);
        for (at, values) in samples.split_off(&(begin + 1)) {
            let sum = sums.entry(at).or_default();
            for (n, value) in values.into_iter().enumerate() {
                // Behind what is added up come percentiles.
                sum[n] = if n < 5 { sum[n] + value } else { sum[n].max(value) };
            }
        }
    }
    let (mut at, mut series) = (Vec::with_capacity(sums.len()), Series::default());
    for (time, values) in sums {
        at.push(Millis(time));
        let all = [
            &mut series.gifts_per_second,
            &mut series.deliveries_per_second,
            &mut series.errors_per_second,
            &mut series.watchers,
            &mut series.rss_bytes,
            &mut series.publish_p99_ms,
            &mut series.delivery_p99_ms,
            &mut series.store_p99_ms,
        ];
        all.into_iter().zip(values).for_each(|(series, value)| series.push(rounded(value)));
    }
    Stats { step_ms: STEP_MS as u64, at, series }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(all: &[(i64, f64)]) -> Vec<Point> {
        let sample = |gifts| Sample { gifts_per_second: gifts, publish_p99_ms: gifts, ..Sample::default() };
        all.iter().map(|(at, gifts)| Point::new(Millis(*at), &sample(*gifts))).collect()
    }

    #[test]
    fn samples_of_nodes_are_added_up_and_percentiles_are_those_of_the_slowest() {
        let one = points(&[(0, 1.0), (5_000, 2.0), (10_000, 3.0)]);
        let two = points(&[(0, 10.0), (10_000, 30.0)]);
        let stats = sum(&[one, two], 60);
        assert_eq!(stats.at, [Millis(0), Millis(5_000), Millis(10_000)]);
        assert_eq!(stats.series.gifts_per_second, [11.0, 12.0, 33.0], "a late report is no dip");
        assert_eq!(stats.series.publish_p99_ms, [10.0, 10.0, 30.0]);
        let long = points(&(0..720).map(|n| (n * 5_000, 1.0)).collect::<Vec<_>>());
        assert_eq!((sum(std::slice::from_ref(&long), 1).at.len(), sum(&[long], 60).at.len()), (12, 720));
        assert_eq!(sum(&[vec![]], 60).at.len(), 0);
        assert_eq!(until_next_step(Millis(4_990)), Duration::from_millis(10));
        assert_eq!((step_of(Millis(4_990)), step_of(Millis(5_010))), (Millis(5_000), Millis(5_000)));
    }

    #[test]
    fn samples_come_with_the_state_and_all_of_them_once_a_minute() {
        let reports = NodeReports::default();
        let state = || NodeState {
            node: "a:1".into(),
            version: "1",
            started_at: Millis(0),
            watchers: 0,
            feeds: 0,
            gifts_per_second: 0.0,
            deliveries_per_second: 0.0,
            p99_ms: 0.0,
            rss_bytes: 0,
            cpu: 0.0,
            ready: true,
            detail: None,
        };
        let take = |n: i64| reports.take(&state(), &Sample::default(), Millis(n * STEP_MS)).unwrap();
        let all: Vec<NodeReport> = (0..800).map(take).collect();
        let with_series = all.iter().filter(|report| report.series.is_some()).count();
        assert_eq!((with_series, all.iter().filter(|report| report.is_new).count()), (66, 7));
        assert!(all.iter().all(|report| report.state.len() < 1_500), "a small write");
        let last: Vec<Point> = serde_json::from_str(all[791].series.as_ref().unwrap()).unwrap();
        assert_eq!((last.len(), last[719].0), (SAMPLES_KEPT, 791 * STEP_MS));
    }
}
