//! Posts as steps of traces.

use std::future::Future;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, ResponseError};

use super::problem::ApiError;
use crate::domain::Trace;
use crate::traces::{Span, Tracer};

/// Answers a post to `route` by `answer`, as a step of a trace where traces are recorded; `answer` gets its place in it.
pub(super) async fn around<A: Future<Output = Result<HttpResponse, ApiError>>>(
    tracer: &Tracer,
    req: &HttpRequest,
    route: &'static str,
    answer: impl FnOnce(Option<Trace>) -> A,
) -> Result<HttpResponse, ApiError> {
    let span = begun(tracer, req, route);
    let answer = answer(span.as_ref().map(Span::trace)).await;
    answered(span, &answer);
    answer
}

fn begun(tracer: &Tracer, req: &HttpRequest, route: &'static str) -> Option<Span> {
    // Also an empty look at the headers is one that nobody needs who records nothing.
    if !tracer.is_on() {
        return None;
    }
    let headers = req.headers().get_all("traceparent").map(|it| it.to_str().unwrap_or_default());
    let notes = req.headers().get_all("tracestate").map(|it| it.to_str().unwrap_or("\u{7f}"));
    let mut span = tracer.request(route, headers, notes)?;
    span.set("http.request.method", req.method().as_str());
    span.set("http.route", route.trim_start_matches("POST "));
    span.set("url.path", req.path());
    Some(span)
}

/// It was answered so.
fn answered(span: Option<Span>, answer: &Result<HttpResponse, ApiError>) {
    let Some(mut span) = span else { return };
    let status = answer.as_ref().map_or_else(ResponseError::status_code, HttpResponse::status);
    span.set("http.response.status_code", status.as_u16());
    // A producer's mistake is no failure of the gateway.
    if status >= StatusCode::INTERNAL_SERVER_ERROR {
        span.fail(status.as_str());
    }
    span.end();
}
