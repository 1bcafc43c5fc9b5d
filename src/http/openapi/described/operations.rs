//! For those who run it.

use super::params::{ProblemName, ShardOfFeed};
use crate::http::answers::{Liveness, Readiness};
use crate::http::problem::Problem;

/// Is the process alive?
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "getHealth",
    tag = "operations",
    responses((status = 200, description = "It is", body = Liveness, example = json!({"status": "alive"}))),
)]
pub(super) fn healthz() {}

/// Is it ready?
///
/// Yes only while a published probe comes back through the store. With several shards one that answers is
/// enough, unless the operator wants all of them.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "operations",
    params(ShardOfFeed),
    responses(
        (status = 200, description = "It can", body = Readiness,
            example = json!({"status": "ready", "engine": "embedded"})),
        (status = 503, description = "It cannot, and why", body = Problem, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "In seconds"))),
    ),
)]
pub(super) fn readyz() {}

/// Read the metrics
///
/// In the text format that Accept asks for: OpenMetrics 1.0 or Prometheus 0.0.4. docs/METRICS.md says what each
/// metric means.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "getMetrics",
    tag = "operations",
    responses((status = 200, description = "Metrics", content(
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    ))),
)]
pub(super) fn metrics() {}

/// What a kind of problem means
#[utoipa::path(
    get,
    path = "/problems/{name}",
    operation_id = "explainProblem",
    tag = "operations",
    params(ProblemName),
    responses(
        (status = 200, description = "A text for people", body = String, content_type = "text/plain"),
        (status = 404, description = "There is no problem of this name", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(super) fn problem() {}
