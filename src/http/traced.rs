//! Posts as steps of traces.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, ResponseError};

use super::problem::ApiError;
use crate::traces::{Span, Tracer};

/// The span of a post to `route`, where traces are recorded.
pub(super) fn post(tracer: &Tracer, req: &HttpRequest, route: &'static str) -> Option<Span> {
    // Also an empty look at the headers is one that nobody needs who records nothing.
    if !tracer.is_on() {
        return None;
    }
    let headers = req.headers().get_all("traceparent").map(|it| it.to_str().unwrap_or_default());
    let mut span = tracer.request(route, headers)?;
    span.set("http.request.method", req.method().as_str());
    span.set("http.route", route.trim_start_matches("POST "));
    span.set("url.path", req.path());
    Some(span)
}

/// It was answered so.
pub(super) fn answered(span: Option<Span>, answer: &Result<HttpResponse, ApiError>) {
    let Some(mut span) = span else { return };
    let status = answer.as_ref().map_or_else(ResponseError::status_code, HttpResponse::status);
    span.set("http.response.status_code", status.as_u16());
    // A producer's mistake is no failure of the gateway.
    if status >= StatusCode::INTERNAL_SERVER_ERROR {
        span.fail(status.as_str());
    }
    span.end();
}
