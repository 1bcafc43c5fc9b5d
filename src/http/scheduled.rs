//! Gifts that wait to be shown. The paths are here so that a client is told what it meets.

use actix_web::{HttpRequest, HttpResponse};

use super::feed_of;
use super::problem::ApiError;

/// `GET /v1/feeds/{feed}/scheduled`
pub(super) async fn list(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    feed_of(&req)?;
    Err(ApiError::NotImplemented("listing scheduled gifts"))
}

/// `DELETE /v1/feeds/{feed}/scheduled/{id}`
pub(super) async fn cancel(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    feed_of(&req)?;
    Err(ApiError::NotImplemented("cancelling a scheduled gift"))
}
