//! Many gifts in one request. Each is judged alone: one bad gift never refuses its neighbours.

use actix_web::http::StatusCode;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};

use super::answers::{self, GiftBatchItem, GiftBatchResult, GiftResult, GiftStatus};
use super::door::Caller;
use super::problem::ApiError;
use super::{Gate, body, feed_of, traced};
use crate::auth::signed::item_id;
use crate::domain::json::{fault, first_faults, read_list};
use crate::domain::{Gift, GiftId, Millis, Outcome, Refused, Trace};
use crate::metrics::labels;

/// The most gifts in one request; also the most that a store takes as one step.
const MAX_GIFTS: usize = 128;

/// Faults that are named of one gift, and of all gifts of a request. Beyond the latter each gift that is refused has one.
const FAULTS_OF_ITEM_MAX: usize = 16;
const FAULTS_MAX: usize = 256;

/// `POST /v1/feeds/{feed}/gifts/batch`
pub(super) async fn publish(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let route = "POST /v1/feeds/{feed}/gifts/batch";
    traced::around(&gate.tracer, &req, route, |trace| take(&req, payload, &gate, trace)).await
}

async fn take(
    req: &HttpRequest,
    payload: web::Payload,
    gate: &Gate,
    trace: Option<Trace>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(req)?;
    let bytes = body::read(req, payload, gate.limits.batch, gate.limits.body_time).await?;
    // The first was paid for at the door.
    let caller = req.extensions().get::<Caller>().cloned();
    // Gifts that name no id have the same ones when the request is sent again.
    let identity = caller.as_ref().and_then(Caller::request_identity);
    let unnamed = |index| identity.as_deref().and_then(|identity| item_id(identity, index));
    let (mut gifts, mut results) = read(&bytes, unnamed)?;
    if let Some(mut caller) = caller {
        let charged = gate.door.charge(&mut caller, results.len().saturating_sub(1));
        req.extensions_mut().insert(caller);
        charged?;
    }
    gifts.iter_mut().for_each(|gift| gift.trace = trace.clone());
    if !gifts.is_empty() {
        let outcomes = gate.run(gate.store.publish(&feed, gifts, Millis::now())).await?;
        if fill(&mut results, outcomes).is_none() {
            tracing::error!(engine = gate.store.name(), "the store gave too few outcomes for a batch");
            return Err(ApiError::Internal);
        }
    }
    let rejected = results.iter().filter(|item| matches!(item, BatchItem::Refused(_))).count();
    gate.live.metrics().gifts[labels::GiftStatus::Rejected].inc_by(rejected as u64);
    Ok(answers::written(StatusCode::OK, compose(&results).to_json()))
}

/// What becomes of one item of the request.
#[derive(Debug)]
enum BatchItem {
    /// It went to the store, whose outcome is not here yet.
    Waiting,
    Decided(Outcome),
    Refused(ApiError),
}

/// The gifts that can be published, and what becomes of every item; the n-th that waits is the n-th gift. `unnamed` gives
/// the id of an item that names none, if it is not to get a fresh one.
fn read(
    bytes: &[u8],
    unnamed: impl Fn(usize) -> Option<GiftId>,
) -> Result<(Vec<Gift>, Vec<BatchItem>), Refused> {
    let (mut gifts, mut fates, mut room) = (Vec::new(), Vec::new(), FAULTS_MAX);
    let all = read_list(bytes, "gifts", |index, item| {
        if index == 0 {
            gifts.clear();
            fates.clear();
            room = FAULTS_MAX;
        }
        if index >= MAX_GIFTS {
            return;
        }
        fates.push(match Gift::parse_item(item, unnamed(index)) {
            Ok(gift) => {
                gifts.push(gift);
                BatchItem::Waiting
            }
            Err(Refused::Invalid(faults)) => {
                // Each one that is refused says at least one reason.
                let faults = first_faults(faults, room.clamp(1, FAULTS_OF_ITEM_MAX));
                room = room.saturating_sub(faults.len());
                BatchItem::Refused(ApiError::Invalid(faults))
            }
            Err(refused) => BatchItem::Refused(refused.into()),
        });
    })?;
    if all == 0 || all > MAX_GIFTS {
        let detail = format!("must have 1 to {MAX_GIFTS} gifts; it has {all}");
        return Err(Refused::Invalid(vec![fault("/gifts", detail)]));
    }
    Ok((gifts, fates))
}

/// How many items a body has, and how many of them are gifts; `None` if it is no batch.
pub(super) fn count(bytes: &[u8]) -> Option<(usize, usize)> {
    read(bytes, |_| None).ok().map(|(gifts, items)| (items.len(), gifts.len()))
}

/// Gives every waiting item its outcome; `None` if there are not as many as items that wait.
fn fill(items: &mut [BatchItem], outcomes: Vec<Outcome>) -> Option<()> {
    let mut outcomes = outcomes.into_iter();
    for item in items.iter_mut().filter(|item| matches!(item, BatchItem::Waiting)) {
        *item = match outcomes.next()? {
            Outcome::IdReused(id) => BatchItem::Refused(ApiError::IdReused(id)),
            Outcome::TooManyScheduled { retry_in_ms, .. } => {
                BatchItem::Refused(ApiError::schedule_full(retry_in_ms))
            }
            Outcome::TooManyInReview { retry_in_ms, .. } => {
                BatchItem::Refused(ApiError::review_full(retry_in_ms))
            }
            outcome => BatchItem::Decided(outcome),
        };
    }
    Some(())
}

fn compose(items: &[BatchItem]) -> GiftBatchResult<'_> {
    let mut batch =
        GiftBatchResult { results: Vec::with_capacity(items.len()), ..GiftBatchResult::default() };
    for (index, item) in items.iter().enumerate() {
        let taken = match item {
            BatchItem::Decided(outcome) => GiftResult::of(outcome),
            BatchItem::Waiting | BatchItem::Refused(_) => None,
        };
        let result = match (taken, item) {
            (Some(taken), _) => GiftBatchItem::taken(index, taken),
            (None, BatchItem::Refused(error)) => GiftBatchItem::rejected(index, error.problem()),
            // Every gift was given its outcome, and those that refuse were made errors.
            (None, _) => GiftBatchItem::rejected(index, ApiError::Internal.problem()),
        };
        *match (result.duplicate, result.status) {
            (Some(_), _) => &mut batch.duplicate,
            (None, GiftStatus::Accepted) => &mut batch.accepted,
            (None, GiftStatus::Merged) => &mut batch.merged,
            // Nothing is denied before it was in review.
            (None, GiftStatus::Suppressed | GiftStatus::Denied) => &mut batch.suppressed,
            (None, GiftStatus::InReview) => &mut batch.in_review,
            (None, GiftStatus::Scheduled) => &mut batch.scheduled,
            (None, GiftStatus::Rejected) => &mut batch.rejected,
        } += 1;
        batch.results.push(result);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Answer, Position, Scheduled, Status};

    fn parse(text: &str) -> Result<(Vec<Gift>, Vec<BatchItem>), Refused> {
        read(text.as_bytes(), |_| None)
    }

    fn pointers(refused: Refused) -> Vec<String> {
        match refused {
            Refused::Invalid(faults) => faults.into_iter().map(|fault| fault.pointer).collect(),
            Refused::Syntax(why) => panic!("{why}"),
        }
    }

    #[test]
    fn only_a_wrong_envelope_refuses_the_whole() {
        let many = format!("{{\"gifts\":[{}1]}}", "1,".repeat(128));
        for (body, pointer) in [
            ("[]", ""),
            ("{}", "/gifts"),
            ("{\"gifts\":{}}", "/gifts"),
            ("{\"gifts\":[]}", "/gifts"),
            (many.as_str(), "/gifts"),
            ("{\"gifts\":[1],\"extra\":1}", "/extra"),
        ] {
            assert_eq!(pointers(parse(body).unwrap_err()), [pointer], "{body}");
        }
    }

    #[test]
    fn every_item_is_judged_alone_with_pointers_of_its_own() {
        let good = r#"{"id":"a","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"}}"#;
        let body = format!(r#"{{"gifts":[7,{good},{{"user":{{"id":"u","name":"U"}}}},{good}]}}"#);
        let (gifts, mut fates) = parse(&body).unwrap();
        assert_eq!(gifts.len(), 2);
        let answer = Answer {
            status: Status::Accepted,
            id: "a".parse().unwrap(),
            at: Position { epoch: "e".parse().unwrap(), seq: 1 },
            row: "e-1".parse().ok(),
            count: None,
        };
        let outcomes = vec![Outcome::New(answer.clone()), Outcome::Duplicate(answer)];
        assert_eq!(fill(&mut fates, outcomes), Some(()));
        let json: serde_json::Value = serde_json::from_str(&compose(&fates).to_json().unwrap()).unwrap();
        let counted = ["accepted", "merged", "suppressed", "duplicate", "scheduled", "rejected"];
        assert_eq!(counted.map(|name| json[name].as_u64().unwrap()), [1, 0, 0, 1, 0, 2]);
        let results = json["results"].as_array().unwrap();
        let statuses: Vec<_> = results.iter().map(|r| r["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["rejected", "accepted", "rejected", "accepted"]);
        assert!(results.iter().enumerate().all(|(n, r)| r["index"] == n));
        assert_eq!(results[3]["duplicate"], true);
        assert_eq!(results[1].get("duplicate"), None);
        assert_eq!(results[0]["error"]["errors"][0]["pointer"], "");
        assert_eq!(results[2]["error"]["errors"][0]["pointer"], "/gift");
        assert_eq!(results[2]["error"]["status"], 422);
    }

    /// Every way in which one item can be wrong at once, and as an item of every size.
    #[test]
    fn the_answer_to_a_batch_of_nothing_but_faults_is_shorter_than_the_batch() {
        let unknown: Vec<_> =
            (0..60).map(|n| format!("\"wrong{n}\\u202e{}\":1", "\\u0007".repeat(40))).collect();
        let unknown = unknown.join(",");
        let all =
            format!("{{{unknown},\"id\":\" \",\"count\":0,\"user\":{{{unknown}}},\"gift\":{{{unknown}}}}}");
        let many = format!("{{{}}}", (0..600).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(","));
        for item in [all, many, format!("{{{unknown}}}")] {
            let body = format!("{{\"gifts\":[{}]}}", vec![item; 128].join(","));
            let (gifts, fates) = parse(&body).unwrap();
            assert!(gifts.is_empty() && fates.len() == 128);
            let answer = compose(&fates).to_json().unwrap();
            assert!(
                answer.len() < 150_000 && answer.len() < body.len(),
                "{} of {}",
                answer.len(),
                body.len()
            );
            let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
            let errors =
                json["results"].as_array().unwrap().iter().map(|r| r["error"]["errors"].as_array().unwrap());
            assert!(errors.clone().all(|errors| (1..=FAULTS_OF_ITEM_MAX + 1).contains(&errors.len())));
            assert!(errors.map(Vec::len).sum::<usize>() <= FAULTS_MAX + 3 * 128);
        }
    }

    #[test]
    fn a_reused_id_and_a_gift_too_many_are_rejected_alone_and_one_for_later_is_scheduled() {
        let mut fates = vec![BatchItem::Waiting, BatchItem::Waiting, BatchItem::Waiting, BatchItem::Waiting];
        let id = || "a".parse().unwrap();
        let it = Scheduled { id: id(), deliver_at: Millis(0) };
        let full = Outcome::TooManyScheduled { id: id(), retry_in_ms: 1_500 };
        let outcomes =
            vec![Outcome::IdReused(id()), full, Outcome::Scheduled(it.clone()), Outcome::ScheduledBefore(it)];
        fill(&mut fates, outcomes).unwrap();
        let json: serde_json::Value = serde_json::from_str(&compose(&fates).to_json().unwrap()).unwrap();
        assert_eq!(json["results"][0]["error"]["type"], "/problems/id-reused");
        assert_eq!(json["results"][1]["error"]["type"], "/problems/schedule-full");
        assert_eq!(json["results"][2]["deliver_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json["results"][3]["duplicate"], true);
        let counted = ["scheduled", "duplicate", "rejected"].map(|name| json[name].as_u64().unwrap());
        assert_eq!(counted, [1, 1, 2]);
        assert_eq!(fill(&mut [BatchItem::Waiting], vec![]), None);
    }
}
