//! Section 12 of the contract: what the console reads.

use super::params::{FeedsQuery, StatsQuery};
use super::refusals::Refusals;
use crate::http::answers::{FeedList, NodeList, Stats};

/// List feeds
///
/// By name; only those that the key covers. A new feed appears within 5 s. A page may be short, or empty, and have a
/// `next`.
#[utoipa::path(
    get,
    path = "/v1/feeds",
    operation_id = "listFeeds",
    tag = "operations",
    params(FeedsQuery),
    responses((status = 200, description = "A page of feeds", body = FeedList, example = json!(
        {"feeds": [{"feed": "show", "epoch": "00w6f5hrbbqm5", "seq": 7, "watchers": 2, "rows": 3, "visibility": "public",
            "last_at": "2026-01-31T12:00:00.000Z"}], "next": "show"}
    )), Refusals),
)]
pub(super) fn feeds() {}

/// List the nodes that live
///
/// Each by its own report of at most ten seconds ago. A node that died leaves the list within 15 s. While the store does not
/// answer, the node that is asked is the only one.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    operation_id = "listNodes",
    tag = "operations",
    responses((status = 200, description = "Every node", body = NodeList, example = json!(
        {"nodes": [{"node": "web-1:8080", "version": "0.2.0", "started_at": "2026-01-31T12:00:00.000Z", "watchers": 1200,
            "feeds": 4, "gifts_per_second": 12.4, "deliveries_per_second": 9100.2, "p99_ms": 1.9, "rss_bytes": 41000000,
            "cpu": 0.12, "ready": true}]}
    )), Refusals),
)]
pub(super) fn nodes() {}

/// Read what all nodes did lately
///
/// Added up over the nodes, in steps of five seconds; percentiles are those of the slowest node.
#[utoipa::path(
    get,
    path = "/v1/stats",
    operation_id = "readStats",
    tag = "operations",
    params(StatsQuery),
    responses((status = 200, description = "The series, the newest value last", body = Stats), Refusals),
)]
pub(super) fn stats() {}
