//! Counting requests, and `GET /metrics`.

use std::time::{Duration, Instant};

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, CACHE_CONTROL};
use actix_web::{HttpRequest, HttpResponse, web};
use futures_util::future::join_all;

use super::Gate;
use super::access::{RouteMatch, find, label_of};
use super::problem::ApiError;
use crate::domain::{FeedId, Millis, Visibility};
use crate::metrics::Metrics;
use crate::metrics::labels::{GiftStatus, Label, Route, StatusClass};
use crate::supervise::LogThrottle;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long the scrape that looks gives the store.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// Looks what waits for hosts and which feeds may be named, at most every few seconds however often somebody asks. Counting notes
/// what waits ([`crate::metrics::ReviewsWaiting`]); what the store does not say in time stays as it was, or is not named.
async fn look(gate: &Gate) {
    if gate.looked.allow_more().is_none() {
        return;
    }
    let metrics = gate.live.metrics();
    let waiting = metrics.reviews_waiting.feeds().into_iter().filter_map(|feed| feed.parse::<FeedId>().ok());
    let looks = waiting.map(async |feed| gate.store.list_reviews(&feed, Millis::now()).await);
    let named = metrics.drops.feeds().into_iter().map(async |name| {
        let feed = name.parse().ok()?;
        let may = gate.limits.names_private_feeds
            || gate.store.read_policy(&feed).await.ok()?.visibility == Visibility::Public;
        may.then_some(name)
    });
    let named = tokio::time::timeout(LOOK_WITHIN, join_all(named));
    let (_, named) = tokio::join!(tokio::time::timeout(LOOK_WITHIN, join_all(looks)), named);
    metrics.drops.name(named.into_iter().flatten().flatten().collect());
}

/// `GET /metrics`
pub(super) async fn show(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    look(&gate).await;
    gate.ready.refresh(&gate.store).await;
    let metrics = gate.live.metrics();
    metrics.ready.set(i64::from(gate.is_ready(Instant::now()).is_ok()));
    let asked = req.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    let new = asked.into_iter().any(|value| value.contains("application/openmetrics-text"));
    let text = if new { metrics.to_openmetrics() } else { metrics.to_prometheus() };
    let text = text.map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        ApiError::Internal
    })?;
    Ok(HttpResponse::Ok()
        .content_type(if new { OPENMETRICS } else { PROMETHEUS })
        .insert_header((CACHE_CONTROL, "no-store"))
        .body(text))
}

/// Counts every answer.
pub(super) async fn count(
    req: ServiceRequest,
    next: impl AsyncFnOnce(ServiceRequest) -> Result<ServiceResponse<BoxBody>, actix_web::Error>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let route = label_of(req.method(), req.path());
    let gate = req.app_data::<web::Data<Gate>>().cloned();
    let begun = Instant::now();
    let answer = next(req).await;
    let (status, error) = match &answer {
        Ok(answer) => (answer.status(), answer.response().error()),
        Err(error) => (error.as_response_error().status_code(), Some(error)),
    };
    if let Some(gate) = gate {
        let problem = error.and_then(|error| error.as_error::<ApiError>());
        note(gate.live.metrics(), route, status.as_u16(), problem);
        if let Ok(answer) = &answer {
            log(&gate.refusals, answer.request(), (route, status), problem, begun.elapsed());
        }
    }
    answer
}

/// What was refused, and where: at most a line a minute for each.
pub(super) type Refusals = LogThrottle<(&'static str, &'static str)>;

/// Writes a line at `debug` about every request, and at `info` about what was refused and why. Paths and queries may hold secrets, and
/// details what strangers sent: neither is written.
fn log(
    refusals: &Refusals,
    req: &HttpRequest,
    (route, status): (Route, StatusCode),
    problem: Option<&ApiError>,
    took: Duration,
) {
    let refused = problem.filter(|_| status.is_client_error()).map(ApiError::kind);
    let count = refused.and_then(|kind| refusals.allow(&(route.word(), kind.name), 1, Instant::now()));
    if count.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let (path, feed) = match find(req.method(), req.path()) {
        RouteMatch::For { entry, feed, .. } => (entry.path, feed),
        _ => ("", None),
    };
    let feed: Option<FeedId> = feed.and_then(|feed| feed.parse().ok());
    let feed = feed.as_ref().map(FeedId::as_str);
    let (method, status, ms) = (req.method().as_str(), status.as_u16(), took.as_millis() as u64);
    if let (Some(kind), Some(count)) = (refused, count) {
        tracing::info!(method, path, feed, status, problem = kind.name, count, "refused: {}", kind.title);
    }
    tracing::debug!(method, path, feed, status, ms, problem = refused.map(|kind| kind.name), "answered");
}

/// Counts a WebSocket handshake that was agreed on before the HTTP server saw it; `many`: feeds are chosen later.
pub(super) fn switched(metrics: &Metrics, many: bool) {
    let route = if many { Route::Many } else { Route::Ws };
    note(metrics, route, StatusCode::SWITCHING_PROTOCOLS.as_u16(), None);
}

fn note(metrics: &Metrics, route: Route, status: u16, problem: Option<&ApiError>) {
    metrics.http_requests[(route, StatusClass::of(status))].inc();
    if let Some(problem) = problem {
        metrics.problem(problem.kind().name);
    }
    // A client that may not write at all, or not now, said nothing about a gift.
    let full = matches!(problem, Some(ApiError::ScheduleFull(_) | ApiError::ReviewFull(_)));
    if route == Route::Gifts && (full || matches!(status, 400 | 408 | 413 | 415 | 422)) {
        metrics.gifts[GiftStatus::Rejected].inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_where_it_belongs_and_what_strangers_make_up_is_no_label() {
        for (line, wanted) in [
            ("POST /v1/feeds/show/gifts", Route::Gifts),
            ("GET /v1/feeds/show/gifts", Route::Groups),
            ("POST /v1/feeds/show/gifts/retract", Route::Moderation),
            ("DELETE /v1/feeds/show/gifts", Route::Gifts),
            ("HEAD /readyz", Route::Operations),
            ("GET /v1", Route::Other),
            ("GET /v1/feed", Route::Other),
            ("GET /v1/feeds/a/b", Route::Other),
            ("GET /v1/feeds/a/gifts/x/y", Route::Other),
            ("GET /v1/admin", Route::Other),
            ("GET //", Route::Other),
            ("GET /static", Route::Other),
        ] {
            let (method, path) = line.split_once(' ').unwrap();
            assert_eq!(label_of(&method.parse().unwrap(), path), wanted, "{line}");
        }
    }

    #[test]
    fn a_rule_without_conditions_rejects_no_gift() {
        let metrics = Metrics::default();
        for (route, status) in [
            (Route::Gifts, 422),
            (Route::Gifts, 401),
            (Route::Gifts, 503),
            (Route::Batch, 422),
            (Route::Gifts, 201),
        ] {
            note(&metrics, route, status, None);
        }
        assert_eq!(metrics.gifts[GiftStatus::Rejected].get(), 1);
    }
}
