//! Claims of drops and the holds that come of them.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, CancelledHold, ClaimResult, FoundClaim, HoldList, RetractedGift};
use super::drops::unknown;
use super::gifts::idempotency_key;
use super::moderation::{read_refund, read_retraction, refund_answer};
use super::problem::{ApiError, invalid};
use super::{Gate, body, caller_of, drop_of, feed_of, traced};
use crate::auth::Viewer;
use crate::domain::json::fault;
use crate::domain::moderate::{GiftRefunded, TakingBackBody};
use crate::domain::{
    Cancelled, Claim, ClaimRefused, Claimed, Confirmed, GiftId, HoldId, Millis, Pay, Trace, json,
};

/// `POST /v1/feeds/{feed}/drops/{drop}/claims`
pub(super) async fn claim(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let route = "POST /v1/feeds/{feed}/drops/{drop}/claims";
    traced::around(&gate.tracer, &req, route, |trace| take(&req, payload, &gate, trace)).await
}

async fn take(
    req: &HttpRequest,
    payload: web::Payload,
    gate: &Gate,
    trace: Option<Trace>,
) -> Result<HttpResponse, ApiError> {
    let (feed, drop) = (feed_of(req)?, drop_of(req)?);
    let key = idempotency_key(req)?;
    let bytes = body::read(req, payload, gate.limits.body, gate.limits.body_time).await?;
    let mut claim = Claim::parse(json::syntax(&bytes)?, key.as_ref())?;
    claim.trace = trace;
    let id = claim.id.sent().clone();
    if let Some(viewer) = caller_of(req).identity.viewer() {
        if claim.pay != Pay::Later {
            return Err(ApiError::NotYours(
                "a viewer may claim with pay: later only; the backend that was paid confirms",
            ));
        }
        only_own(viewer, &claim.user.id)?;
        claim.id = claim.id.of_viewer(&claim.user.id);
    }
    let now = Millis::now();
    if gate.run(gate.store.is_blocked(&feed, &claim.user.id, now)).await? {
        return Err(ApiError::UserBlocked);
    }
    match gate.run(gate.store.claim_drop(&feed, &drop, claim, now)).await? {
        Claimed::New(answer) | Claimed::Again(answer) => {
            Ok(answers::json(StatusCode::CREATED, &ClaimResult::from(&answer)))
        }
        Claimed::Refused(refused) => Err(refusal(refused, id)),
    }
}

/// `GET /v1/feeds/{feed}/drops/{drop}/claims/{id}`
pub(super) async fn look_up(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, claim) = (feed_of(&req)?, claim_of(&req)?);
    let story = gate.read(gate.store.look_up_claim(&feed, &claim, Millis::now())).await?;
    Ok(answers::fresh(StatusCode::OK, &FoundClaim::new(&story.ok_or_else(unknown_claim)?)))
}

/// `POST /v1/feeds/{feed}/drops/{drop}/claims/{id}/refund`
pub(super) async fn refund(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, claim) = (feed_of(&req)?, claim_of(&req)?);
    let what = read_refund(&req, payload, &gate).await?;
    refund_answer(
        gate.run(gate.store.reverse_sale(&feed, &claim, &what, Millis::now())).await?,
        "its units were not sold, so nothing was paid",
        unknown_claim,
    )
}

/// `POST /v1/feeds/{feed}/drops/{drop}/claims/{id}/retract`
pub(super) async fn retract(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, claim) = (feed_of(&req)?, claim_of(&req)?);
    let what = read_retraction(&req, payload, &gate, TakingBackBody::RetractSale).await?;
    match gate.run(gate.store.reverse_sale(&feed, &claim, &what, Millis::now())).await? {
        GiftRefunded::Done { .. } => Ok(answers::json(StatusCode::OK, &RetractedGift::DONE)),
        _ => Err(unknown_claim()),
    }
}

/// `POST /v1/feeds/{feed}/holds/{hold}/confirm`
pub(super) async fn confirm(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let route = "POST /v1/feeds/{feed}/holds/{hold}/confirm";
    traced::around(&gate.tracer, &req, route, |trace| sell(&req, &gate, trace)).await
}

async fn sell(req: &HttpRequest, gate: &Gate, trace: Option<Trace>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(req)?;
    let hold = hold_of(req)?;
    match gate.run(gate.store.confirm_hold(&feed, &hold, trace.as_ref(), Millis::now())).await? {
        Confirmed::New(answer) | Confirmed::Again(answer) => {
            Ok(answers::json(StatusCode::OK, &ClaimResult::from(&answer)))
        }
        Confirmed::Ended => Err(ApiError::HoldEnded),
        Confirmed::Unknown => Err(unknown_hold()),
    }
}

/// `DELETE /v1/feeds/{feed}/holds/{hold}`
pub(super) async fn cancel(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let hold = hold_of(&req)?;
    let own = caller_of(&req).identity.viewer().map(|viewer| viewer.sub.clone().unwrap_or_default());
    if let Some(sub) = own {
        // Whose a hold is does not change, so it cannot become another's after this.
        let own = gate.read(gate.store.list_holds(&feed, &sub, Millis::now())).await?;
        if !own.iter().any(|own| own.hold == hold) {
            return Err(ApiError::NotYours("this is no hold of yours, or it has ended"));
        }
    }
    match gate.run(gate.store.cancel_hold(&feed, &hold, Millis::now())).await? {
        Cancelled::Done => Ok(answers::json(StatusCode::OK, &CancelledHold::new(&hold))),
        Cancelled::Ended => Err(ApiError::HoldEnded),
        Cancelled::Unknown => Err(unknown_hold()),
    }
}

/// `GET /v1/feeds/{feed}/users/{user}/holds`
pub(super) async fn holds(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let user = req.match_info().get("user").unwrap_or_default();
    if user.is_empty() || user.len() > 64 {
        return Err(invalid("the user's id must be 1 to 64 bytes long"));
    }
    if let Some(viewer) = caller_of(&req).identity.viewer() {
        only_own(viewer, user)?;
    }
    let holds = gate.read(gate.store.list_holds(&feed, user, Millis::now())).await?;
    let holds = holds.into_iter().map(Into::into).collect();
    Ok(answers::fresh(StatusCode::OK, &HoldList { holds }))
}

/// A viewer acts for itself only.
fn only_own(viewer: &Viewer, user: &str) -> Result<(), ApiError> {
    match viewer.sub.as_deref() == Some(user) {
        true => Ok(()),
        false => {
            Err(ApiError::NotYours("a viewer acts for itself only: the user's id must be the token's sub"))
        }
    }
}

fn hold_of(req: &HttpRequest) -> Result<HoldId, ApiError> {
    req.match_info().get("hold").unwrap_or_default().parse().map_err(|_| unknown_hold())
}

fn claim_of(req: &HttpRequest) -> Result<HoldId, ApiError> {
    let claim = req.match_info().get("id").unwrap_or_default().parse().map_err(|_| unknown_claim())?;
    Ok(HoldId { drop: drop_of(req)?, claim })
}

fn unknown_claim() -> ApiError {
    ApiError::NotFound(
        "the drop has no claim of this id, or its hold ended so long ago that it is forgotten".to_owned(),
    )
}

fn unknown_hold() -> ApiError {
    ApiError::NotFound("there is no such hold, or it ended so long ago that it is forgotten".to_owned())
}

fn refusal(refused: ClaimRefused, id: GiftId) -> ApiError {
    match refused {
        ClaimRefused::UnknownDrop => unknown(),
        ClaimRefused::IdReused => ApiError::IdReused(id),
        ClaimRefused::AbovePerUser(most) => {
            ApiError::Invalid(vec![fault("/count", format!("must be at most {most}, the drop's per_user"))])
        }
        ClaimRefused::NotOpen(phase) => ApiError::DropNotOpen(phase),
        ClaimRefused::AlreadyClaimed(first) => ApiError::AlreadyClaimed(first.map(Box::new)),
        ClaimRefused::SoldOut(free) => ApiError::SoldOut(free),
        ClaimRefused::TooManyHolds(ms) => ApiError::TooManyHolds(ms.div_ceil(1000).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_is_whole_seconds_rounded_up() {
        for (ms, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2)] {
            let error = refusal(ClaimRefused::TooManyHolds(ms), "c".parse().unwrap());
            assert_eq!(error, ApiError::TooManyHolds(seconds), "{ms}");
        }
    }
}
