//! A feed's policy.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers;
use super::problem::ApiError;
use super::{Gate, body, feed_of};
use crate::domain::{Millis, PolicyPatch, json};
use crate::engine::PolicyChange;

/// `GET /v1/feeds/{feed}/policy`
pub(super) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let policy = gate.run(gate.store.read_policy(&feed)).await?;
    Ok(answers::fresh(StatusCode::OK, &policy))
}

/// `PUT /v1/feeds/{feed}/policy`: what is left out goes back to the default.
pub(super) async fn put(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    change(req, payload, gate, PolicyChange::Replace).await
}

/// `PATCH /v1/feeds/{feed}/policy`: what is left out stays.
pub(super) async fn patch(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    change(req, payload, gate, PolicyChange::Merge).await
}

async fn change(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
    how: fn(PolicyPatch) -> PolicyChange,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let patch = PolicyPatch::parse(json::syntax(&bytes)?)?;
    let policy = gate.run(gate.store.set_policy(&feed, &how(patch), Millis::now())).await?;
    Ok(answers::fresh(StatusCode::OK, &policy))
}
