//! Sources (contract section 11): where a feed's tips come from. Setting them, trying them, and taking what
//! platforms post.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::fresh_text;
use super::problem::{ApiError, invalid};
use super::{Gate, body, caller_of, feed_of};
use crate::auth::Right;
use crate::domain::{Millis, Source, SourceId, json};
use crate::engine::{Kept, SOURCES_MAX, Swapped};
use crate::random;
use crate::sources::{self, BODY_MAX, Owner, Settings};

mod pace;
pub(super) mod receive;
mod show;

pub use pace::Pace;

/// How often a change of a source is tried again that met another one.
const MAX_SWAP_ATTEMPTS: usize = 16;

/// `PUT /v1/feeds/{feed}/sources/{name}`
pub(super) async fn put(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, name) = (feed_of(&req)?, name_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let raw = json::syntax(&bytes)?;
    Settings::parse(raw)?;
    let settings = json::minified(raw.get());
    for _ in 0..MAX_SWAP_ATTEMPTS {
        let found = find(&gate, &req, &name).await?;
        let (status, to) = match &found {
            None => (
                StatusCode::CREATED,
                Source::new(
                    &feed,
                    settings.clone(),
                    [random::bytes(), random::bytes()].map(u128::from_ne_bytes),
                    Millis::now(),
                ),
            ),
            Some((_, source, _)) => (StatusCode::OK, source.set(settings.clone())),
        };
        let was = found.as_ref().map(|(_, source, _)| source.version);
        match gate.run(gate.store.swap_source(&feed, &name, was, Some(&to))).await? {
            Swapped::Done => {
                let tally = found.map(|(_, _, tally)| tally).unwrap_or_default();
                return Ok(fresh_text(status, show::to_json(&feed, &(name, to, tally), true)));
            }
            Swapped::Stale => {}
            Swapped::Full => return Err(ApiError::TooManySources(SOURCES_MAX)),
        }
    }
    Err(ApiError::Overloaded("line of those who change this source"))
}

/// `GET /v1/feeds/{feed}/sources/{name}`
pub(super) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, name) = (feed_of(&req)?, name_of(&req)?);
    let kept = find(&gate, &req, &name).await?.ok_or_else(unknown)?;
    Ok(fresh_text(StatusCode::OK, show::to_json(&feed, &kept, sees_paths(&req))))
}

/// `GET /v1/feeds/{feed}/sources`
pub(super) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let kept = gate.run(gate.store.list_sources(&feed)).await?;
    let has_path = sees_paths(&req);
    let all: Vec<_> = kept.iter().map(|kept| show::to_json(&feed, kept, has_path)).collect();
    Ok(fresh_text(StatusCode::OK, format!("{{\"sources\":[{}]}}", all.join(","))))
}

/// Whether the path of a source, which is a secret, may be shown to who asks.
fn sees_paths(req: &HttpRequest) -> bool {
    caller_of(req).identity.key().is_none_or(|key| key.may.has(Right::Policy))
}

/// `DELETE /v1/feeds/{feed}/sources/{name}`
pub(super) async fn delete(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, name) = (feed_of(&req)?, name_of(&req)?);
    for _ in 0..MAX_SWAP_ATTEMPTS {
        let (_, source, _) = find(&gate, &req, &name).await?.ok_or_else(unknown)?;
        match gate.run(gate.store.swap_source(&feed, &name, Some(source.version), None)).await? {
            Swapped::Done => return Ok(HttpResponse::NoContent().finish()),
            Swapped::Stale | Swapped::Full => {}
        }
    }
    Err(ApiError::Overloaded("line of those who change this source"))
}

/// `POST /v1/feeds/{feed}/sources/{name}/test`: what a sample would become. Does nothing.
pub(super) async fn test(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let name = name_of(&req)?;
    let (name, source, _) = find(&gate, &req, &name).await?.ok_or_else(unknown)?;
    let bytes = body::read_of_any_type(&req, payload, BODY_MAX, gate.limits.body_time).await?;
    let settings = settings_of(&source)?;
    let tried = match sources::sample(&settings, Owner { source: &name, salt: &source.salt }, &bytes) {
        Ok(event) => event.to_json(),
        Err(refusal) => refusal.to_json(),
    };
    Ok(fresh_text(StatusCode::OK, tried))
}

/// A source of the feed that the path names.
async fn find(gate: &Gate, req: &HttpRequest, name: &SourceId) -> Result<Option<Kept>, ApiError> {
    let feed = feed_of(req)?;
    let kept = gate.run(gate.store.list_sources(&feed)).await?;
    Ok(kept.into_iter().find(|(known, ..)| known == name))
}

/// The settings that the store kept.
fn settings_of(source: &Source) -> Result<Settings, ApiError> {
    Ok(Settings::parse(json::syntax(source.settings.as_bytes())?)?)
}

fn name_of(req: &HttpRequest) -> Result<SourceId, ApiError> {
    let name = req.match_info().get("name").unwrap_or_default();
    name.parse().map_err(|rule| invalid(format!("the source's name {rule}")))
}

fn unknown() -> ApiError {
    ApiError::NotFound("the feed has no source of this name; PUT makes one".to_owned())
}
