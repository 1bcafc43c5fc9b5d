//! What operations may answer instead.

use utoipa::IntoResponses;

use crate::http::problem::Problem;

/// What every write may answer instead.
#[derive(IntoResponses)]
pub(super) enum Refusals {
    #[response(
        status = 401,
        description = "A producer key is needed",
        content_type = "application/problem+json"
    )]
    Unauthenticated(#[to_schema] Problem),
    #[response(
        status = 403,
        description = "This web page or key may not",
        content_type = "application/problem+json"
    )]
    Forbidden(#[to_schema] Problem),
    #[response(
        status = 422,
        description = "Something breaks a rule",
        content_type = "application/problem+json"
    )]
    Invalid(#[to_schema] Problem),
    #[response(
        status = 429,
        description = "Too many requests, or too many gifts wait to be shown",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    TooMany(#[to_schema] Problem),
    #[response(
        status = 503,
        description = "The store does not answer; a retry with the same id is safe",
        content_type = "application/problem+json",
        headers(("Retry-After" = u64, description = "In seconds"))
    )]
    Unavailable(#[to_schema] Problem),
}

/// What a write with a body may answer besides.
#[derive(IntoResponses)]
pub(super) enum BodyRefusals {
    #[response(status = 400, description = "The body is not JSON", content_type = "application/problem+json")]
    Syntax(#[to_schema] Problem),
    #[response(
        status = 408,
        description = "The body came too slowly",
        content_type = "application/problem+json"
    )]
    Slow(#[to_schema] Problem),
    #[response(
        status = 413,
        description = "The body is too large",
        content_type = "application/problem+json"
    )]
    TooLarge(#[to_schema] Problem),
    #[response(
        status = 415,
        description = "The body is not said to be JSON",
        content_type = "application/problem+json"
    )]
    MediaType(#[to_schema] Problem),
}
