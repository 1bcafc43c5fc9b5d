//! What the gateway counts, for `GET /metrics`. docs/METRICS.md says what each one means.
//!
//! One [`Metrics`] per gateway, made by `app` and handed down. Every label has a fixed set of values
//! ([`labels`]), never a feed's name or a user's id; all series are there from the start, so the first
//! event is a rise and not a new line, and counting is an index and an atomic add ([`table`]).
//! Histograms take a short lock: they are observed per call and per change, never per watcher.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

mod drops;
pub mod labels;
mod process;
mod reviews;
pub mod sample;
pub mod table;

pub use drops::DropUnits;
use labels::{
    Bound, ClaimFate, Cut, DeliveryFate, Failure, GiftStatus, Handshake, HoldFate, Label, Operation, Part,
    RedisLink, RepairedBy, ResumedFrom, Route, ShardState, SnapshotCause, SourceFate, SpanFate, StatusClass,
    Transport, Turned,
};
pub use reviews::ReviewsWaiting;
use table::{Per, PerPair};

/// From a tenth of a millisecond to ten seconds.
const CALL_BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// From what an embedded store takes to what a broken connection to the store takes.
const WATCH_BUCKETS: [f64; 13] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

const GROUP_BUCKETS: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// Log lines that were lost. One count for the process, because logging starts before any gateway does.
pub static LOG_DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    /// Gifts by what became of them.
    pub gifts: Per<GiftStatus, Counter>,
    /// Claims of drops by what became of them.
    pub claims: Per<ClaimFate, Counter>,
    /// Holds that somebody confirmed or cancelled, or tried to.
    pub holds: Per<HoldFate, Counter>,
    /// Units of the drops that this node saw last.
    pub drops: DropUnits,
    /// Gifts that wait for a host. Looked at anew when somebody asks.
    pub reviews_waiting: ReviewsWaiting,
    /// From when something was due to when it was done, here.
    pub due_lag: Histogram,
    /// Turns of feeds with something due that this node took.
    pub due_claimed: Counter,
    /// Those among them that another's turn had run out on.
    pub due_reclaimed: Counter,
    /// Entries that could not be handled and are tried again.
    pub due_set_aside: Counter,
    /// Entries that were given up.
    pub due_dead: Counter,
    /// Feeds in which something waits for its time, as of the last look.
    pub due_feeds: Gauge,
    /// Feeds whose stored records cannot be read.
    pub feeds_damaged: Gauge,
    /// Entries cut from ledgers before every reader had acknowledged them.
    pub report_lost: Counter,
    /// Rows taken back through this node.
    pub rows_retracted: Counter,
    /// Rows of watched feeds that expired, as this node saw it.
    pub rows_expired: Counter,
    /// Feeds that this node follows.
    pub feeds_watched: Gauge,
    /// Open connections of watchers.
    pub watchers: Per<Transport, Gauge>,
    /// Frames handed to sockets, control frames included.
    pub frames_sent: Per<Transport, Counter>,
    /// Changes handed to sockets.
    pub deliveries: Counter,
    /// Bytes of these frames.
    pub bytes_sent: Per<Transport, Counter>,
    /// Snapshots that watchers were given.
    pub snapshots: Per<SnapshotCause, Counter>,
    /// Watchers that resumed.
    pub resumes: Per<ResumedFrom, Counter>,
    /// Bytes of missed changes that were read from the store for watchers.
    pub history_bytes: Counter,
    /// Holes between the store and this node that were found and closed.
    pub gaps_repaired: Per<RepairedBy, Counter>,
    /// From the store's change of a row to its frame on the board.
    pub publish_to_watch: Histogram,
    /// Rounds of writing to sockets that were so long that their thread rested: with the rest.
    pub fanout_stretch: Histogram,
    /// How long store calls took, failed ones too.
    pub engine_calls: Per<Operation, Histogram>,
    /// Store calls that failed.
    pub engine_failures: PerPair<Operation, Failure, Counter>,
    /// Store calls under way: waiting for the embedded store, or for Redis.
    pub engine_calls_in_flight: Gauge,
    /// Bytes of memory that the data of the embedded store takes.
    pub store_bytes: Gauge,
    /// Gifts and other calls in one commit of the embedded store.
    pub commit_size: Histogram,
    /// How long a commit of the embedded store took, the disk included.
    pub commit_time: Histogram,
    /// Attempts to deliver to webhooks.
    pub webhook_deliveries: Per<DeliveryFate, Counter>,
    /// How long endpoints took to answer, or not to.
    pub webhook_time: Histogram,
    /// From when the oldest entry of a batch came to when an endpoint accepted it.
    pub webhook_lag: Histogram,
    /// Entries that endpoints accepted.
    pub webhook_entries: Counter,
    /// Entries that were too old for a webhook that does its best.
    pub webhook_dropped: Counter,
    /// Entries that became dead letters of webhooks.
    pub webhook_dead: Counter,
    /// Webhooks that were disabled, by 410 or because nothing worked for long.
    pub webhook_disabled: Counter,
    /// Deliveries under way.
    pub webhook_in_flight: Gauge,
    /// Webhooks' jobs, one for each feed that has something for one.
    pub webhook_jobs: Gauge,
    /// Deliveries to sources.
    pub source_deliveries: Per<SourceFate, Counter>,
    /// Connections to Redis that were made anew after one was lost.
    pub redis_reconnects: Per<RedisLink, Counter>,
    /// Primaries of Redis.
    pub redis_shards: Per<ShardState, Gauge>,
    /// Slots of the cluster that no primary has; 16384 while nobody was found.
    pub redis_uncovered_slots: Gauge,
    /// Servers of Redis that let go of keys when their memory is full.
    pub redis_may_evict: Gauge,
    /// Answers by class of path and of status code.
    pub http_requests: PerPair<Route, StatusClass, Counter>,
    /// Bounds of `[limits]` that somebody met.
    pub bounds_met: Per<Bound, Counter>,
    /// Bytes of bodies whose signature is not checked yet.
    pub unverified_body_bytes: Gauge,
    /// Connections on their way to the thread that serves them.
    pub handovers_waiting: Gauge,
    /// Open connections of clients, watchers included.
    pub connections: Gauge,
    /// Connections that were cut.
    pub connections_cut: Per<Cut, Counter>,
    /// Connections that were refused before any request.
    pub connections_refused: Per<Turned, Counter>,
    /// TLS handshakes, by what became of them.
    pub tls_handshakes: Per<Handshake, Counter>,
    /// Lines of the audit log that were lost.
    pub audit_dropped: Counter,
    /// Spans of traces, by what became of them.
    pub trace_spans: Per<SpanFate, Counter>,
    /// Threads and tasks that had to be started again.
    pub part_restarts: Per<Part, Counter>,
    /// 1 while `/readyz` says yes. Set when somebody asks.
    pub ready: Gauge,
    problems: Family<[(&'static str, &'static str); 1], Counter>,
    build: Family<[(&'static str, &'static str); 2], Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Registry::default();
        let to = &mut all;
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = ConstGauge::new(started.as_secs_f64());
        to.register(
            "tipcast_process_start_time_seconds",
            "When the gateway started, in seconds since 1970",
            start,
        );
        to.register_collector(Box::new(process::Process));
        let drops = DropUnits::default();
        to.register_collector(Box::new(drops.clone()));
        to.register(
            "tipcast_log_dropped",
            "Log lines that were lost because standard error did not take them in time, or refused them",
            LOG_DROPPED.clone(),
        );
        let reviews_waiting = ReviewsWaiting::default();
        to.register(
            "tipcast_reviews_waiting",
            "Gifts that wait for a host, in the feeds in which this node lately saw some",
            reviews_waiting.gauge(),
        );
        Metrics {
            build: add(to, "tipcast_build_info", "1; the labels say what runs here"),
            ready: add(to, "tipcast_ready", "1 while /readyz says yes"),
            gifts: counters(to, "tipcast_gifts", "Gifts by what became of them"),
            claims: counters(to, "tipcast_claims", "Claims of drops by what became of them"),
            holds: counters(
                to,
                "tipcast_holds",
                "Holds that were confirmed or cancelled, or too late for that",
            ),
            drops,
            reviews_waiting,
            due_lag: histogram(
                to,
                "tipcast_due_lag_seconds",
                "From when something was due to when this node did it",
                &WATCH_BUCKETS,
            ),
            due_claimed: add(
                to,
                "tipcast_due_claimed",
                "Turns of feeds with something due taken by this node",
            ),
            due_reclaimed: add(
                to,
                "tipcast_due_reclaimed",
                "Turns taken because another's had run out: it died, or was too slow",
            ),
            due_set_aside: add(
                to,
                "tipcast_due_set_aside",
                "Due entries that could not be handled and are tried again",
            ),
            due_dead: add(to, "tipcast_due_dead", "Due entries that were given up"),
            due_feeds: add(
                to,
                "tipcast_due_feeds",
                "Feeds in which something waits for its time, as of this node's last look",
            ),
            feeds_damaged: add(
                to,
                "tipcast_feeds_damaged",
                "Feeds whose stored records cannot be read; they answer 503, all others work",
            ),
            source_deliveries: counters(
                to,
                "tipcast_source_deliveries",
                "Deliveries of platforms to sources by what became of them",
            ),
            webhook_deliveries: counters(
                to,
                "tipcast_webhook_deliveries",
                "Attempts to deliver to webhooks by what became of them",
            ),
            webhook_time: histogram(
                to,
                "tipcast_webhook_seconds",
                "How long endpoints of webhooks took to answer, or not to",
                &CALL_BUCKETS,
            ),
            webhook_lag: histogram(
                to,
                "tipcast_webhook_lag_seconds",
                "From when the oldest entry of a batch came to when an endpoint accepted it",
                &WATCH_BUCKETS,
            ),
            webhook_entries: add(
                to,
                "tipcast_webhook_entries",
                "Entries that endpoints of webhooks accepted",
            ),
            webhook_dropped: add(
                to,
                "tipcast_webhook_dropped",
                "Entries that were too old for a best_effort webhook and were not sent",
            ),
            webhook_dead: add(to, "tipcast_webhook_dead", "Entries that became dead letters of webhooks"),
            webhook_disabled: add(
                to,
                "tipcast_webhook_disabled",
                "Webhooks that this node disabled, after a 410 or because nothing worked for long",
            ),
            webhook_in_flight: add(
                to,
                "tipcast_webhook_in_flight",
                "Deliveries to webhooks under way from this node",
            ),
            webhook_jobs: add(
                to,
                "tipcast_webhook_jobs",
                "Feeds that have something for a webhook, each webhook counted, as of this node's last look",
            ),
            report_lost: add(
                to,
                "tipcast_report_lost",
                "Entries cut from ledgers before every reader had acknowledged them",
            ),
            rows_retracted: add(to, "tipcast_rows_retracted", "Rows taken back through this node"),
            rows_expired: add(
                to,
                "tipcast_rows_expired",
                "Rows of feeds watched here that left because their time was over",
            ),
            feeds_watched: add(
                to,
                "tipcast_feeds_watched",
                "Feeds that this node follows, up to ten seconds after the last watcher left",
            ),
            watchers: Per::new(
                to,
                "tipcast_watchers",
                "Open connections of watchers",
                Gauge::default as fn() -> _,
            ),
            frames_sent: counters(
                to,
                "tipcast_frames_sent",
                "Frames handed to sockets, control frames included",
            ),
            deliveries: add(
                to,
                "tipcast_deliveries",
                "Changes handed to sockets, each counted for each watcher",
            ),
            bytes_sent: counters(to, "tipcast_sent_bytes", "Bytes of frames handed to sockets"),
            snapshots: counters(to, "tipcast_snapshots", "Snapshots given to watchers, by cause"),
            resumes: counters(
                to,
                "tipcast_resumes",
                "Watchers that resumed, by where what they missed came from",
            ),
            history_bytes: add(
                to,
                "tipcast_history_bytes",
                "Bytes of missed changes that were read from the store for watchers who resumed",
            ),
            gaps_repaired: counters(
                to,
                "tipcast_gaps_repaired",
                "Holes between the store and this node that were found and closed",
            ),
            publish_to_watch: histogram(
                to,
                "tipcast_publish_to_watch_seconds",
                "From the change of a row in the store to its frame on the board that watchers read",
                &WATCH_BUCKETS,
            ),
            fanout_stretch: histogram(
                to,
                "tipcast_fanout_stretch_seconds",
                "Rounds of writing to sockets that were long enough to be followed by a rest, with the rest",
                &CALL_BUCKETS,
            ),
            engine_calls: Per::new(
                to,
                "tipcast_engine_call_seconds",
                "How long calls of the store took, failed ones included",
                call_times as fn() -> _,
            ),
            engine_failures: PerPair::new(to, "tipcast_engine_failures", "Calls of the store that failed"),
            engine_calls_in_flight: add(
                to,
                "tipcast_engine_calls_in_flight",
                "Calls of the store under way: waiting for the embedded store, or for Redis",
            ),
            store_bytes: add(
                to,
                "tipcast_store_bytes",
                "Bytes of memory that the data of the embedded store takes",
            ),
            commit_size: histogram(
                to,
                "tipcast_commit_size",
                "Gifts and other calls in one commit of the embedded store",
                &GROUP_BUCKETS,
            ),
            commit_time: histogram(
                to,
                "tipcast_commit_seconds",
                "How long a commit of the embedded store took, the disk included",
                &CALL_BUCKETS,
            ),
            redis_reconnects: counters(
                to,
                "tipcast_redis_reconnects",
                "Connections to Redis made anew after one was lost",
            ),
            bounds_met: counters(
                to,
                "tipcast_bounds_met",
                "Bounds of [limits] that somebody met, and was refused or made to wait",
            ),
            unverified_body_bytes: add(
                to,
                "tipcast_unverified_body_bytes",
                "Bytes of bodies whose signature is not checked yet",
            ),
            handovers_waiting: add(
                to,
                "tipcast_handovers_waiting",
                "Connections on their way to the thread that serves them",
            ),
            connections: add(to, "tipcast_connections", "Open connections of clients, watchers included"),
            connections_cut: counters(
                to,
                "tipcast_connections_cut",
                "Connections cut because they took too long, or because others needed their place",
            ),
            connections_refused: counters(
                to,
                "tipcast_connections_refused",
                "Connections refused before any request",
            ),
            tls_handshakes: counters(to, "tipcast_tls_handshakes", "TLS handshakes, by what became of them"),
            redis_shards: Per::new(
                to,
                "tipcast_redis_shards",
                "Primaries of Redis",
                Gauge::default as fn() -> _,
            ),
            redis_uncovered_slots: add(
                to,
                "tipcast_redis_uncovered_slots",
                "Slots of the Redis cluster that no primary has",
            ),
            audit_dropped: add(
                to,
                "tipcast_audit_dropped",
                "Lines of the audit log that were lost because its disk was too slow or refused them",
            ),
            trace_spans: counters(to, "tipcast_trace_spans", "Spans of traces, by what became of them"),
            redis_may_evict: add(
                to,
                "tipcast_redis_may_evict",
                "Servers of Redis that let go of keys when their memory is full",
            ),
            part_restarts: counters(
                to,
                "tipcast_part_restarts",
                "Threads and tasks that panicked and were started again",
            ),
            http_requests: PerPair::new(
                to,
                "tipcast_http_requests",
                "Answers by class of path and status code",
            ),
            problems: add(to, "tipcast_problems", "Answers that were problem documents, by kind"),
            registry: all,
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Says what runs here. `engine` is the store's name.
    pub fn describe(&self, engine: &'static str) {
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("engine", engine)];
        self.build.get_or_create(&labels).set(1);
    }

    /// Names the kinds of problem that can be answered, so that each is there from the start.
    pub fn expect_problems(&self, kinds: impl Iterator<Item = &'static str>) {
        kinds.for_each(|kind| drop(self.problems.get_or_create(&[("problem", kind)])));
    }

    /// Counts an answer that was a problem document of this kind. Takes a lock.
    pub fn problem(&self, kind: &'static str) {
        self.problems.get_or_create(&[("problem", kind)]).inc();
    }

    /// Everything in the text format of OpenMetrics 1.0.
    pub fn to_openmetrics(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(32 << 10);
        encode_registry(&mut text, &self.registry)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    /// Everything in the older text format of Prometheus, 0.0.4: there a counter's name is that of its
    /// samples.
    pub fn to_prometheus(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(32 << 10);
        encode_registry(&mut text, &self.registry)?;
        let counters: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.rsplit_once(' '))
            .filter(|(_, kind)| table::is_counter(kind))
            .map(|(name, _)| name)
            .collect();
        let mut out = String::with_capacity(text.len() + 1024);
        for line in text.lines() {
            let described = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE "));
            match described.and_then(|rest| rest.split_once(' ')) {
                Some((name, rest)) if counters.contains(&name) => {
                    out.push_str(&line[..7]);
                    out.push_str(name);
                    out.push_str("_total ");
                    out.push_str(rest);
                }
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        Ok(out)
    }
}

/// A duration as a histogram takes it.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn add<M: Clone + Default + prometheus_client::registry::Metric>(
    to: &mut Registry,
    name: &str,
    help: &str,
) -> M {
    let metric = M::default();
    to.register(name, help, metric.clone());
    metric
}

fn counters<L: Label>(to: &mut Registry, name: &str, help: &str) -> Per<L, Counter> {
    Per::new(to, name, help, Counter::default as fn() -> _)
}

fn histogram(to: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    to.register(name, help, histogram.clone());
    histogram
}

fn call_times() -> Histogram {
    Histogram::new(CALL_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_name_counters_as_they_should() {
        let metrics = Metrics::default();
        metrics.gifts[GiftStatus::Merged].inc_by(3);
        metrics.describe("embedded");
        let (new, old) = (metrics.to_openmetrics().unwrap(), metrics.to_prometheus().unwrap());
        for text in [&new, &old] {
            assert!(text.contains("\ntipcast_gifts_total{status=\"merged\"} 3\n"), "{text}");
            assert!(text.contains("\ntipcast_gifts_total{status=\"rejected\"} 0\n"));
            assert!(text.contains("# TYPE tipcast_publish_to_watch_seconds histogram\n"));
        }
        assert!(new.contains("# TYPE tipcast_gifts counter\n") && new.ends_with("# EOF\n"));
        assert!(old.contains("# TYPE tipcast_gifts_total counter\n") && !old.contains("# EOF"));
        assert!(old.contains("# HELP tipcast_gifts_total Gifts by"));
    }

    #[test]
    fn every_pair_of_labels_is_its_own_counter() {
        let metrics = Metrics::default();
        for route in Route::ALL {
            for class in StatusClass::ALL {
                assert_eq!(metrics.http_requests[(*route, *class)].inc(), 0, "{route:?} {class:?}");
            }
        }
        assert_eq!(StatusClass::of(101).word(), "1xx");
        assert_eq!(StatusClass::of(503).word(), "5xx");
    }
}
