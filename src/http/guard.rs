//! Around every request: the door before it, and what all answers have in common after it.

use std::panic::AssertUnwindSafe;

use actix_http::ConnectionType;
use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpResponse, web};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::access::RouteEntry;
use super::door::rates::Budget;
use super::door::{AccessVerdict, Caller, RequestHead};
use super::payload::Body;
use super::problem::ApiError;
use super::{Gate, audited, gifts, line_end, signed};
use crate::domain::Millis;

/// Asks the door, then turns a panic of a handler into a 500. What panicked is in the log, by the panic
/// hook. (The request may not be cloned out here: its handler is found with it as its only owner.)
pub(super) async fn around(
    mut req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(gate) = req.app_data::<web::Data<Gate>>().cloned() else {
        return Err(ApiError::Internal.into());
    };
    let body = Body::of(&mut req);
    let verdict = gate.door.admit(&RequestHead::of(req.request()), Millis::now());
    let mut who = None;
    let (answer, budget) = match verdict {
        AccessVerdict::Enter(mut caller, entry) => {
            let proved = match caller.signed {
                Some(_) => Box::pin(signed::prove(&gate, &req, &body, &mut caller, entry)).await,
                None => Ok(()),
            };
            let budget = caller.budget;
            let refused = match proved {
                Ok(()) => gate.may_read(&caller).await.err(),
                Err(refused) => Some(refused),
            };
            match refused {
                Some(refused) => {
                    who = Some(caller.identity);
                    (refuse(req, refused), budget)
                }
                // What is asked for most is answered without the boxes of a handler.
                None if entry.is_answered_by_guard(req.method()) => {
                    let taken = take_gift(req, body.clone(), &gate, (&caller, entry)).await?;
                    who = Some(caller.identity);
                    (taken, budget)
                }
                None => {
                    req.extensions_mut().insert(caller);
                    req.extensions_mut().insert(entry);
                    body.lend(&mut req);
                    let answer = match AssertUnwindSafe(next.call(req)).catch_unwind().await {
                        Ok(answer) => answer?,
                        Err(_) => return Err(ApiError::Internal.into()),
                    };
                    // A batch was charged for its gifts meanwhile.
                    let charged =
                        answer.request().extensions().get::<Caller>().and_then(|caller| caller.budget);
                    (answer, charged.or(budget))
                }
            }
        }
        AccessVerdict::Preflight => (req.into_response(HttpResponse::NoContent().finish()), None),
        AccessVerdict::Refuse { why, budget, identity } => {
            who = identity;
            (refuse(req, why), budget)
        }
    };
    audited::note(&gate, &answer, who.as_ref());
    // Also an answer that was given by the head alone.
    let answer = body.before(line_end::put(answer), gate.limits.body_time).await;
    Ok(dress(&gate, answer, budget))
}

/// Has a gift taken. Boxed, so that only a connection with a gift under way has room for one.
fn take_gift<'a>(
    req: ServiceRequest,
    body: Body,
    gate: &'a Gate,
    (caller, entry): (&'a Caller, &'static RouteEntry),
) -> LocalBoxFuture<'a, Result<ServiceResponse<BoxBody>, ApiError>> {
    Box::pin(async move {
        let (req, _) = req.into_parts();
        let taken = AssertUnwindSafe(gifts::publish(&req, body, gate, caller, entry)).catch_unwind().await;
        let answer = taken.map_err(|_| ApiError::Internal)?;
        // With the error inside, for the middleware that counts.
        let answer = answer.unwrap_or_else(HttpResponse::from_error);
        Ok(ServiceResponse::new(req, answer))
    })
}

fn refuse(req: ServiceRequest, refused: ApiError) -> ServiceResponse<BoxBody> {
    // With the error inside, for the middleware that counts; `into_response` would lose it.
    ServiceResponse::new(req.into_parts().0, HttpResponse::from_error(refused))
}

fn dress(
    gate: &Gate,
    mut answer: ServiceResponse<BoxBody>,
    budget: Option<Budget>,
) -> ServiceResponse<BoxBody> {
    let (req, answer_head) = (answer.request().clone(), answer.response_mut());
    // Java's client asks for HTTP/2 with each request. actix ends such a connection behind its answer, and must say so: the next
    // request would go to nobody.
    let asks_for_more = req.head().connection_type() == ConnectionType::Upgrade;
    if asks_for_more && answer_head.status() != StatusCode::SWITCHING_PROTOCOLS {
        answer_head.head_mut().set_connection_type(ConnectionType::Close);
    }
    // What a source answers may hold text of a delivery, such as a challenge.
    if req.path().starts_with("/in/") {
        answer_head.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    gate.door.cors(&RequestHead::of(&req), answer_head.headers_mut());
    if let Some(budget) = budget {
        budget.put(answer_head.headers_mut());
    }
    answer
}
