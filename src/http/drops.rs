//! Drops: defining and reading them.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::fresh_text;
use super::problem::{ApiError, invalid};
use super::{Gate, body, drop_of, feed_of};
use crate::domain::drop::MAX_DROPS;
use crate::domain::{Defined, DropSpec, DropView, FeedId, Millis, json};

/// `PUT /v1/feeds/{feed}/drops/{drop}`
pub(super) async fn put(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, drop) = (feed_of(&req)?, drop_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let spec = DropSpec::parse(json::syntax(&bytes)?)?;
    match gate.run(gate.store.define_drop(&feed, &drop, &spec, Millis::now())).await? {
        Defined::New(view) => Ok(one(StatusCode::CREATED, &view)),
        Defined::Changed(view) => Ok(one(StatusCode::OK, &view)),
        Defined::BelowTaken(taken) => Err(ApiError::DropTotal(taken)),
        Defined::Full => Err(invalid(format!("the feed has {MAX_DROPS} drops, and may not have more"))),
    }
}

/// `GET /v1/feeds/{feed}/drops/{drop}`
pub(super) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, drop) = (feed_of(&req)?, drop_of(&req)?);
    let views = read(&gate, &feed).await?;
    Ok(one(StatusCode::OK, views.iter().find(|view| view.drop == drop).ok_or_else(unknown)?))
}

/// `GET /v1/feeds/{feed}/drops`
pub(super) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let views = read(&gate, &feed).await?;
    let mut text = format!("{{\"feed\":\"{feed}\",\"drops\":[");
    for (n, view) in views.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        view.push_json(&mut text);
    }
    text.push_str("]}");
    Ok(fresh_text(StatusCode::OK, text))
}

async fn read(gate: &Gate, feed: &FeedId) -> Result<Vec<DropView>, ApiError> {
    let fetch = async || gate.run(gate.store.list_drops(feed, Millis::now())).await;
    gate.drops.read(gate, feed, &(), fetch).await
}

/// There is no such drop.
pub(super) fn unknown() -> ApiError {
    ApiError::NotFound("the feed has no drop of this name".to_owned())
}

fn one(status: StatusCode, view: &DropView) -> HttpResponse {
    fresh_text(status, view.to_json())
}
