//! Many gifts in one request. Each is judged alone: one bad gift never refuses its neighbours.

use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use serde_json::value::RawValue;

use super::door::Caller;
use super::gifts::answer_json;
use super::problem::ApiError;
use super::{Gate, body, feed_of};
use crate::domain::json::{self, Object};
use crate::domain::{Gift, Millis, Outcome, Refused, Status};
use crate::metrics::labels::GiftStatus;

/// The most gifts in one request; also the most that an engine takes as one step.
const MOST: usize = 128;

/// `POST /v1/feeds/{feed}/gifts/batch`
pub(super) async fn publish(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let bytes = body::read(&req, payload, gate.limits.batch, gate.limits.body_time).await?;
    let (gifts, mut results) = read(json::syntax(&bytes)?)?;
    // The first was paid for at the door.
    let caller = req.extensions().get::<Caller>().cloned();
    if let Some(mut caller) = caller {
        let charged = gate.door.charge(&mut caller, results.len().saturating_sub(1));
        req.extensions_mut().insert(caller);
        charged?;
    }
    if !gifts.is_empty() {
        let outcomes = gate.ask(gate.engine.publish(&feed, gifts, Millis::now())).await?;
        if fill(&mut results, outcomes).is_none() {
            tracing::error!(engine = gate.engine.name(), "the engine gave too few outcomes for a batch");
            return Err(ApiError::Internal);
        }
    }
    let rejected = results.iter().filter(|fate| matches!(fate, Fate::Refused(_))).count();
    gate.live.metrics().gifts[GiftStatus::Rejected].inc_by(rejected as u64);
    Ok(answer_json(StatusCode::OK, compose(&results)))
}

/// What becomes of one item of the request.
#[derive(Debug)]
enum Fate {
    /// It went to the engine, whose outcome is not here yet.
    Waiting,
    Decided(Outcome),
    Refused(ApiError),
}

/// The gifts that can be published, and a fate for every item; the n-th waiting one is the n-th gift.
fn read(raw: &RawValue) -> Result<(Vec<Gift>, Vec<Fate>), Refused> {
    let mut faults = Vec::new();
    let items = Object::open(raw, &mut faults).and_then(|mut body| {
        let field = body.need("gifts", &mut faults);
        let items = field.and_then(|field| {
            let items = field.array(&mut faults)?;
            if items.is_empty() || items.len() > MOST {
                field.wrong(&mut faults, format!("must have 1 to {MOST} gifts; it has {}", items.len()));
            }
            Some(items)
        });
        body.close(&mut faults);
        items
    });
    let items = match items {
        Some(items) if faults.is_empty() => items,
        _ => return Err(Refused::Invalid(faults)),
    };
    let mut gifts = Vec::with_capacity(items.len());
    let fates = items.into_iter().map(|item| match Gift::parse(item, None) {
        Ok(gift) => {
            gifts.push(gift);
            Fate::Waiting
        }
        Err(refused) => Fate::Refused(refused.into()),
    });
    let fates = fates.collect();
    Ok((gifts, fates))
}

/// Gives every waiting item its outcome; none when there are not as many as items wait.
fn fill(fates: &mut [Fate], outcomes: Vec<Outcome>) -> Option<()> {
    let mut outcomes = outcomes.into_iter();
    for fate in fates.iter_mut().filter(|fate| matches!(fate, Fate::Waiting)) {
        *fate = match outcomes.next()? {
            Outcome::IdReused(id) => Fate::Refused(ApiError::IdReused(id)),
            Outcome::TooManyScheduled { retry_in_ms, .. } => {
                Fate::Refused(ApiError::schedule_full(retry_in_ms))
            }
            outcome => Fate::Decided(outcome),
        };
    }
    Some(())
}

fn compose(fates: &[Fate]) -> String {
    let [mut accepted, mut merged, mut suppressed, mut duplicate, mut scheduled, mut rejected] = [0; 6];
    let mut results = String::with_capacity(fates.len() * 128);
    for (index, fate) in fates.iter().enumerate() {
        if index > 0 {
            results.push(',');
        }
        let _ = write!(results, "{{\"index\":{index},");
        match fate {
            Fate::Decided(Outcome::New(answer)) => {
                match answer.status {
                    Status::Accepted => accepted += 1,
                    Status::Merged => merged += 1,
                    Status::Suppressed => suppressed += 1,
                }
                results.push_str(&answer.members());
            }
            Fate::Decided(Outcome::Duplicate(answer)) => {
                duplicate += 1;
                results.push_str(&answer.members());
                results.push_str(",\"duplicate\":true");
            }
            Fate::Decided(Outcome::Scheduled(it)) => {
                scheduled += 1;
                results.push_str(&it.members());
            }
            Fate::Decided(Outcome::ScheduledBefore(it)) => {
                duplicate += 1;
                results.push_str(&it.members());
                results.push_str(",\"duplicate\":true");
            }
            Fate::Refused(error) => {
                rejected += 1;
                let _ = write!(results, "\"status\":\"rejected\",\"error\":{}", error.to_json());
            }
            // `fill` leaves none of these.
            Fate::Waiting | Fate::Decided(_) => results.push_str("\"status\":\"rejected\""),
        }
        results.push('}');
    }
    format!(
        "{{\"accepted\":{accepted},\"merged\":{merged},\"suppressed\":{suppressed},\"duplicate\":{duplicate},\
         \"scheduled\":{scheduled},\"rejected\":{rejected},\"results\":[{results}]}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Answer, Position, Scheduled};

    fn parse(text: &str) -> Result<(Vec<Gift>, Vec<Fate>), Refused> {
        read(json::syntax(text.as_bytes())?)
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
    fn every_item_has_its_own_fate_and_its_own_pointers() {
        let good = r#"{"id":"a","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"}}"#;
        let body = format!(r#"{{"gifts":[7,{good},{{"user":{{"id":"u","name":"U"}}}},{good}]}}"#);
        let (gifts, mut fates) = parse(&body).unwrap();
        assert_eq!(gifts.len(), 2);
        let answer = Answer {
            status: Status::Accepted,
            id: "a".parse().unwrap(),
            at: Position { epoch: "e".parse().unwrap(), seq: 1 },
            row: "e-1".parse().unwrap(),
            count: None,
        };
        let outcomes = vec![Outcome::New(answer.clone()), Outcome::Duplicate(answer)];
        assert_eq!(fill(&mut fates, outcomes), Some(()));
        let told: serde_json::Value = serde_json::from_str(&compose(&fates)).unwrap();
        let counted = ["accepted", "merged", "suppressed", "duplicate", "scheduled", "rejected"];
        assert_eq!(counted.map(|name| told[name].as_u64().unwrap()), [1, 0, 0, 1, 0, 2]);
        let results = told["results"].as_array().unwrap();
        let statuses: Vec<_> = results.iter().map(|r| r["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["rejected", "accepted", "rejected", "accepted"]);
        assert!(results.iter().enumerate().all(|(n, r)| r["index"] == n));
        assert_eq!(results[3]["duplicate"], true);
        assert_eq!(results[1].get("duplicate"), None);
        assert_eq!(results[0]["error"]["errors"][0]["pointer"], "");
        assert_eq!(results[2]["error"]["errors"][0]["pointer"], "/gift");
        assert_eq!(results[2]["error"]["status"], 422);
    }

    #[test]
    fn a_reused_id_and_a_gift_too_many_are_rejected_alone_and_one_for_later_is_scheduled() {
        let mut fates = vec![Fate::Waiting, Fate::Waiting, Fate::Waiting, Fate::Waiting];
        let id = || "a".parse().unwrap();
        let it = Scheduled { id: id(), deliver_at: Millis(0) };
        let full = Outcome::TooManyScheduled { id: id(), retry_in_ms: 1_500 };
        let outcomes =
            vec![Outcome::IdReused(id()), full, Outcome::Scheduled(it.clone()), Outcome::ScheduledBefore(it)];
        fill(&mut fates, outcomes).unwrap();
        let told: serde_json::Value = serde_json::from_str(&compose(&fates)).unwrap();
        assert_eq!(told["results"][0]["error"]["type"], "/problems/id-reused");
        assert_eq!(told["results"][1]["error"]["type"], "/problems/schedule-full");
        assert_eq!(told["results"][2]["deliver_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(told["results"][3]["duplicate"], true);
        let counted = ["scheduled", "duplicate", "rejected"].map(|name| told[name].as_u64().unwrap());
        assert_eq!(counted, [1, 1, 2]);
        assert_eq!(fill(&mut [Fate::Waiting], vec![]), None);
    }
}
