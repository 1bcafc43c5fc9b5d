//! One gift, and taking one back.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderName;
use actix_web::{HttpRequest, HttpResponse, web};

use super::access::RouteEntry;
use super::answers::{self, GiftResult, RetractedRow};
use super::door::Caller;
use super::payload::Body;
use super::problem::{ApiError, invalid};
use super::{Gate, body, feed_of, named_feed, traced};
use crate::domain::json::Json;
use crate::domain::{Gift, GiftId, Millis, Outcome, RowId, Status, Trace};

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `POST /v1/feeds/{feed}/gifts`, of a caller that access control let in.
pub(super) async fn publish(
    req: &HttpRequest,
    payload: Body,
    gate: &Gate,
    caller: &Caller,
    entry: &RouteEntry,
) -> Result<HttpResponse, ApiError> {
    let route = "POST /v1/feeds/{feed}/gifts";
    traced::around(&gate.tracer, req, route, |trace| take(req, payload, (gate, caller, entry), trace)).await
}

async fn take(
    req: &HttpRequest,
    payload: Body,
    (gate, caller, entry): (&Gate, &Caller, &RouteEntry),
    trace: Option<Trace>,
) -> Result<HttpResponse, ApiError> {
    let feed = named_feed(&entry.param(req.path(), "feed"))?;
    let key = idempotency_key(req)?;
    let bytes = body::read_json(req, payload, gate.limits.body, gate.limits.body_time).await?;
    let gifts = vec![read(&bytes, key, caller, trace)?];
    drop(bytes);
    let mut outcomes = gate.run(gate.store.publish(&feed, gifts, Millis::now())).await?;
    let Some(outcome) = outcomes.pop() else {
        tracing::error!(engine = gate.store.name(), "the store gave no outcome for a gift");
        return Err(ApiError::Internal);
    };
    answer(&outcome)
}

/// The gift of a body; `key` is the request's `Idempotency-Key`.
fn read(bytes: &[u8], key: Option<GiftId>, caller: &Caller, trace: Option<Trace>) -> Result<Gift, ApiError> {
    // The id of a signed request is that of a gift that names none, and must then be one that a gift may have.
    let webhook_id = caller.signed.as_ref().map(|signed| signed.id.parse::<GiftId>());
    let unnamed = webhook_id.as_ref().map(|id| id.clone().unwrap_or_else(|_| GiftId::mint()));
    let mut gift = Gift::parse_body(Json::read(bytes)?, key.as_ref(), unnamed.clone())?;
    if let Some(Err(rule)) = webhook_id
        && unnamed.as_ref() == Some(&gift.id)
    {
        return Err(invalid(format!("the webhook-id header is the gift's id, so it {rule}")));
    }
    gift.trace = trace;
    Ok(gift)
}

fn answer(outcome: &Outcome) -> Result<HttpResponse, ApiError> {
    let status = match outcome {
        Outcome::New(answer) if answer.status == Status::Accepted => StatusCode::CREATED,
        Outcome::Scheduled(_) | Outcome::InReview(_) => StatusCode::ACCEPTED,
        Outcome::IdReused(id) => return Err(ApiError::IdReused(id.clone())),
        Outcome::TooManyScheduled { retry_in_ms, .. } => return Err(ApiError::schedule_full(*retry_in_ms)),
        Outcome::TooManyInReview { retry_in_ms, .. } => return Err(ApiError::review_full(*retry_in_ms)),
        Outcome::New(_) | Outcome::Duplicate(_) => StatusCode::OK,
        Outcome::ScheduledBefore(_) | Outcome::InReviewBefore(_) => StatusCode::OK,
    };
    let Some(result) = GiftResult::of(outcome) else { return Err(ApiError::Internal) };
    let mut text = String::with_capacity(192);
    result.push_json(&mut text);
    Ok(answers::text(status, text))
}

/// `DELETE /v1/feeds/{feed}/rows/{row}`
pub(super) async fn retract(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let missing = || ApiError::NotFound("this row is not, or no longer, in the list".to_owned());
    let row: RowId = req.match_info().get("row").unwrap_or_default().parse().map_err(|_| missing())?;
    let at = gate.run(gate.store.retract_row(&feed, &row, Millis::now())).await?.ok_or_else(missing)?;
    Ok(answers::json(StatusCode::OK, &RetractedRow::new(&row, &at)))
}

/// The `Idempotency-Key` header, bare or as the quoted string of the IETF draft.
pub(super) fn idempotency_key(req: &HttpRequest) -> Result<Option<GiftId>, ApiError> {
    let mut found: Option<GiftId> = None;
    for value in req.headers().get_all(&IDEMPOTENCY_KEY) {
        let text = value.to_str().unwrap_or_default().trim();
        let bare = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text);
        let key = bare.parse().map_err(|rule| invalid(format!("the Idempotency-Key header {rule}")))?;
        if found.as_ref().is_some_and(|known| *known != key) {
            return Err(invalid("there are two Idempotency-Key headers that differ; send one"));
        }
        found = Some(key);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn a_key_may_be_bare_or_quoted_and_nothing_else() {
        let read = |value: &str| {
            idempotency_key(
                &TestRequest::default().insert_header(("Idempotency-Key", value)).to_http_request(),
            )
        };
        for good in ["g-1", "\"g-1\"", " g-1 "] {
            assert_eq!(read(good).unwrap().unwrap().as_str(), "g-1", "{good}");
        }
        for bad in ["", "\"\"", "\"g-1", "g 1", "\"g-1\";x", "é"] {
            assert!(matches!(read(bad), Err(ApiError::Invalid(_))), "{bad}");
        }
        assert_eq!(idempotency_key(&TestRequest::default().to_http_request()), Ok(None));
    }
}
