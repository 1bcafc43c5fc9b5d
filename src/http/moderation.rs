//! What a host does to a show that runs: taking gifts back, commands to overlays.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::access::one_of_query;
use super::answers::{self, ControlResult, RefundedGift, RemovedRows, RetractedGift};
use super::problem::{ApiError, invalid};
use super::{Gate, audited, body, feed_of};
use crate::domain::moderate::{GiftRefunded, TakingBack, TakingBackBody};
use crate::domain::{Control, GiftId, GiftTakenBack, Millis, json};

/// `POST /v1/feeds/{feed}/control`
pub(super) async fn control(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let control = Control::parse(json::syntax(&bytes)?)?;
    audited::detail(&req, control.action.as_str());
    let missing = || ApiError::NotFound("this row is not, or no longer, in the list".to_owned());
    let at = gate.run(gate.store.send_control(&feed, &control, Millis::now())).await?.ok_or_else(missing)?;
    Ok(answers::json(StatusCode::OK, &ControlResult { seq: at.seq }))
}

/// `POST /v1/feeds/{feed}/gifts/{id}/retract`
pub(super) async fn retract_gift(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, id) = (feed_of(&req)?, gift_of(&req)?);
    let TakingBack { reason, .. } =
        read_retraction(&req, payload, &gate, TakingBackBody::RetractGift).await?;
    match gate.run(gate.store.retract_gift(&feed, &id, reason, Millis::now())).await? {
        GiftTakenBack::Done => Ok(answers::json(StatusCode::OK, &RetractedGift::DONE)),
        GiftTakenBack::Unknown => Err(forgotten()),
    }
}

/// `POST /v1/feeds/{feed}/gifts/{id}/refund`
pub(super) async fn refund_gift(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, id) = (feed_of(&req)?, gift_of(&req)?);
    let TakingBack { refunded, reason, .. } = read_refund(&req, payload, &gate).await?;
    let refunded = refunded.unwrap_or_default();
    let refund = gate.store.refund_gift(&feed, &id, refunded, reason, Millis::now());
    refund_answer(
        gate.run(refund).await?,
        "the gift has not been shown yet, so nothing was counted of it; take it back, or refund it afterwards",
        forgotten,
    )
}

/// Reads the body of a retraction, which may be left out.
pub(super) async fn read_retraction(
    req: &HttpRequest,
    payload: web::Payload,
    gate: &Gate,
    members: TakingBackBody,
) -> Result<TakingBack, ApiError> {
    let bytes = body::read_of_any_type(req, payload, gate.limits.body, gate.limits.body_time).await?;
    if bytes.is_empty() {
        return Ok(TakingBack::default());
    }
    body::check_type(req)?;
    Ok(TakingBack::parse(json::syntax(&bytes)?, members)?)
}

/// Reads the body of a refund.
pub(super) async fn read_refund(
    req: &HttpRequest,
    payload: web::Payload,
    gate: &Gate,
) -> Result<TakingBack, ApiError> {
    let bytes = body::read(req, payload, gate.limits.body, gate.limits.body_time).await?;
    Ok(TakingBack::parse(json::syntax(&bytes)?, TakingBackBody::Refund)?)
}

/// The answer to a refund. `waits` is why one is refused that comes too early, `unknown` the refusal when nothing is known of the id.
pub(super) fn refund_answer(
    refunded: GiftRefunded,
    waits: &'static str,
    unknown: impl Fn() -> ApiError,
) -> Result<HttpResponse, ApiError> {
    match refunded {
        GiftRefunded::Done { whole, refunded, row } => {
            Ok(answers::json(StatusCode::OK, &RefundedGift::new(whole, refunded, row)))
        }
        GiftRefunded::NoValue => Err(ApiError::NothingToRefund("it has no value")),
        GiftRefunded::Waits => Err(ApiError::NothingToRefund(waits)),
        GiftRefunded::Above(value) => {
            let detail = format!("is more than its value, which is {value}");
            Err(ApiError::Invalid(vec![json::fault("/refunded", detail)]))
        }
        GiftRefunded::Unknown => Err(unknown()),
    }
}

pub(super) fn forgotten() -> ApiError {
    ApiError::NotFound("no gift of this id is remembered".to_owned())
}

pub(super) fn gift_of(req: &HttpRequest) -> Result<GiftId, ApiError> {
    req.match_info().get("id").unwrap_or_default().parse().map_err(|_| forgotten())
}

/// `DELETE /v1/feeds/{feed}/rows?user=U`
pub(super) async fn retract_user(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let user = read_user(req.query_string())?;
    let removed = gate.run(gate.store.retract_user(&feed, &user, Millis::now())).await?;
    Ok(answers::json(StatusCode::OK, &RemovedRows { removed }))
}

/// Whose rows; a query that names nobody must not take back everybody's.
fn read_user(query: &str) -> Result<String, ApiError> {
    match one_of_query(query, "user") {
        Some(user) if user.len() <= 64 => Ok(user),
        _ => Err(invalid("say whose rows: ?user= with one user id of 1 to 64 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_is_named_or_nothing_is_taken_back() {
        assert_eq!(read_user("user=a%3Ab&x=1").unwrap(), "a:b");
        for bad in ["", "user=", "user", "x=1", "user=a&user=b", &format!("user={}", "x".repeat(65))] {
            assert!(matches!(read_user(bad), Err(ApiError::Invalid(_))), "{bad}");
        }
    }
}
