//! `POST /in/{path}`: what a platform posts.
//!
//! Neither the path nor anything of a body is ever logged. Whatever a platform would only repeat without end is
//! answered 200 and counted; it gets an error where a repetition can help: a store that is away, or settings
//! that somebody can repair.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, web};

use super::settings_of;
use crate::domain::json::push_string;
use crate::domain::moderate::GiftRefunded;
use crate::domain::{
    FeedId, Gift, GiftId, GiftTakenBack, Millis, Outcome, Source, SourceId, SourceNote, SourceOutcome, Status,
};
use crate::engine::Refund;
use crate::http::answers;
use crate::http::door::RequestHead;
use crate::http::problem::{ApiError, invalid};
use crate::http::{Gate, body};
use crate::metrics::labels::SourceFate;
use crate::sources::{self, BODY_MAX, Event, Headers, Owner, Refusal};

/// A feed's source while it takes a delivery.
struct Intake<'a> {
    gate: &'a Gate,
    feed: &'a FeedId,
    name: SourceId,
    now: Millis,
}

/// What a refund did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenBack {
    /// The gift is taken back.
    Whole,
    /// It lost a part of its value.
    Part,
    /// It has no value, of which a part could be given back.
    NoValue,
    /// There is no such gift.
    Nothing,
}

impl GivenBack {
    /// What to say of the gift's own delivery.
    fn about_the_gift(self) -> Option<&'static str> {
        match self {
            GivenBack::Whole => Some("this payment was refunded meanwhile, and the gift is taken back"),
            GivenBack::Part => Some("a part of this payment was refunded before, and the gift lost it"),
            GivenBack::NoValue | GivenBack::Nothing => None,
        }
    }
}

struct Sent<'a>(&'a HeaderMap);

impl Headers for Sent<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }
}

/// `POST /in/{feed}/{source}`
pub(in crate::http) async fn receive(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    // Paths are secrets: a client that tries many is slowed down as with keys.
    let nothing = || match gate.door.guessed(&RequestHead::of(&req)) {
        Ok(()) => ApiError::NotFound("there is nothing here".to_owned()),
        Err(slow_down) => slow_down,
    };
    let tried = req.match_info().get("path").unwrap_or_default();
    let tried: crate::domain::SourcePath = tried.parse().map_err(|_| nothing())?;
    let kept = gate.run(gate.store.list_sources(tried.feed())).await?;
    // All are compared, whichever it is.
    let found = kept.into_iter().filter(|(_, source, _)| source.path.is(&tried)).last();
    let (name, source, _) = found.ok_or_else(nothing)?;
    gate.pace.take(tried.feed(), &name).map_err(ApiError::RateLimited)?;
    body::check_coding(&req)?;
    let (bounds, address) =
        ((BODY_MAX, gate.limits.body_time), gate.door.counted_address(&RequestHead::of(&req)));
    let body = gate.unverified.read(req.headers(), payload.into_inner(), bounds, address).await?;
    let intake = Intake { gate: &gate, feed: tried.feed(), name, now: Millis::now() };
    intake.take(&source, &Sent(req.headers()), &body.bytes).await
}

impl Intake<'_> {
    async fn take(
        &self,
        source: &Source,
        headers: &dyn Headers,
        body: &[u8],
    ) -> Result<HttpResponse, ApiError> {
        let settings = match settings_of(source) {
            Ok(settings) => settings,
            Err(error) => {
                let why = "its settings are not valid any more; PUT the source again, the answer says what is wrong";
                self.note(SourceNote::wrong(SourceOutcome::Refused, why)).await;
                return Err(error);
            }
        };
        let owner = Owner { source: &self.name, salt: &source.salt };
        match sources::receive(&settings, owner, headers, body, self.now) {
            Ok(Event::Gift { gift, .. }) => self.show(*gift).await,
            Ok(Event::Refund { ids, refunded }) => {
                self.refund(&ids, refunded.map_or(Refund::Whole, Refund::Part)).await
            }
            Ok(Event::Ignored(why)) => {
                self.note(SourceOutcome::Ignored.into()).await;
                Ok(status_answer("ignored", Some(&why)))
            }
            Ok(Event::Challenge(text)) => {
                self.note(SourceOutcome::Ignored.into()).await;
                Ok(HttpResponse::Ok().content_type("text/plain; charset=utf-8").body(text))
            }
            Ok(Event::Revoked(why)) => {
                self.note(SourceNote::wrong(SourceOutcome::Ignored, &why)).await;
                Ok(status_answer("ignored", Some(&why)))
            }
            Err(refusal) => {
                let outcome = match &refusal {
                    Refusal::Unverified(_) => SourceOutcome::Unverified,
                    Refusal::Unreadable(_) | Refusal::Unmapped(_) => SourceOutcome::Refused,
                };
                self.note(SourceNote::wrong(outcome, refusal.detail())).await;
                Err(match refusal {
                    Refusal::Unverified(why) => ApiError::Unverified(why),
                    Refusal::Unreadable(why) => ApiError::Syntax(why),
                    Refusal::Unmapped(why) => invalid(why),
                })
            }
        }
    }

    /// Shows a gift, unless its payment was given back already.
    async fn show(&self, gift: Gift) -> Result<HttpResponse, ApiError> {
        let id = gift.id.clone();
        if self.refund_of(&id).await? == Some(Refund::Whole) {
            self.note(SourceOutcome::Ignored.into()).await;
            return Ok(status_answer("ignored", Some("this payment was refunded")));
        }
        let outcome = match self.publish(gift).await? {
            Outcome::New(answer) => match answer.status {
                Status::Accepted => SourceOutcome::Accepted,
                Status::Merged => SourceOutcome::Merged,
                Status::Suppressed | Status::Denied => SourceOutcome::Suppressed,
            },
            Outcome::Scheduled(_) => SourceOutcome::Scheduled,
            Outcome::InReview(_) => SourceOutcome::InReview,
            // A platform may send the same payment again in other words: it is counted once.
            Outcome::Duplicate(_)
            | Outcome::ScheduledBefore(_)
            | Outcome::InReviewBefore(_)
            | Outcome::IdReused(_) => SourceOutcome::Duplicate,
            Outcome::TooManyInReview { retry_in_ms, .. } => return Err(ApiError::review_full(retry_in_ms)),
            Outcome::TooManyScheduled { retry_in_ms, .. } => {
                return Err(ApiError::schedule_full(retry_in_ms));
            }
        };
        // A refund that came while the gift was taken did not find it, but left its note before it looked; so
        // one of the two sees the other.
        let refunded = match self.refund_of(&id).await? {
            Some(refund) => self.give_back(&id, refund).await?,
            None => GivenBack::Nothing,
        };
        self.note(outcome.into()).await;
        Ok(status_answer(outcome.as_str(), refunded.about_the_gift()))
    }

    async fn publish(&self, gift: Gift) -> Result<Outcome, ApiError> {
        let mut outcomes = self.gate.run(self.gate.store.publish(self.feed, vec![gift], self.now)).await?;
        outcomes.pop().ok_or_else(|| {
            tracing::error!(engine = self.gate.store.name(), "the store gave no outcome for a gift");
            ApiError::Internal
        })
    }

    /// Refunds a payment, also one that is still to come: which of the two a platform says first does not matter.
    async fn refund(&self, ids: &[GiftId], refund: Refund) -> Result<HttpResponse, ApiError> {
        for gift in ids {
            self.gate.run(self.gate.store.record_refund(self.feed, gift, refund, self.now)).await?;
        }
        let mut done = GivenBack::Nothing;
        for id in ids {
            done = self.give_back(id, refund).await?;
            if done != GivenBack::Nothing {
                break;
            }
        }
        let (outcome, answer) = match done {
            GivenBack::Whole => (SourceOutcome::Retracted, status_answer("retracted", None)),
            GivenBack::Part => (SourceOutcome::Retracted, status_answer("refunded", None)),
            GivenBack::NoValue => {
                (SourceOutcome::Ignored, status_answer("ignored", Some("the gift has no value")))
            }
            GivenBack::Nothing => {
                let why = "no gift of this payment is known; if it comes, it is refunded then";
                (SourceOutcome::Ignored, status_answer("remembered", Some(why)))
            }
        };
        self.note(outcome.into()).await;
        Ok(answer)
    }

    /// Takes a gift back, or a part of its value. One that waits cannot lose a part of it yet: the platform asks again.
    async fn give_back(&self, id: &GiftId, refund: Refund) -> Result<GivenBack, ApiError> {
        if let Refund::Part(refunded) = refund {
            let refund = self.gate.store.refund_gift(self.feed, id, refunded, None, self.now);
            match self.gate.run(refund).await? {
                GiftRefunded::Done { whole: true, .. } => return Ok(GivenBack::Whole),
                GiftRefunded::Done { whole: false, .. } => return Ok(GivenBack::Part),
                GiftRefunded::NoValue => return Ok(GivenBack::NoValue),
                GiftRefunded::Unknown => return Ok(GivenBack::Nothing),
                GiftRefunded::Waits => {
                    return Err(ApiError::NothingToRefund("the gift has not been shown yet"));
                }
                // More than the gift shows was given back, so nothing of it is left.
                GiftRefunded::Above(_) => {}
            }
        }
        let retract = self.gate.store.retract_gift(self.feed, id, None, self.now);
        Ok(match self.gate.run(retract).await? {
            GiftTakenBack::Done => GivenBack::Whole,
            GiftTakenBack::Unknown => GivenBack::Nothing,
        })
    }

    async fn refund_of(&self, id: &GiftId) -> Result<Option<Refund>, ApiError> {
        self.gate.run(self.gate.store.read_refund(self.feed, id)).await
    }

    /// Counts the delivery. One that cannot be counted is taken all the same.
    async fn note(&self, note: SourceNote) {
        self.gate.live.metrics().source_deliveries[fate(note.outcome)].inc();
        let record = self.gate.store.record_delivery(self.feed, &self.name, &note, self.now);
        let _ = self.gate.run(record).await;
    }
}

fn status_answer(status: &str, detail: Option<&str>) -> HttpResponse {
    let mut text = format!("{{\"status\":\"{status}\"");
    if let Some(detail) = detail {
        text.push_str(",\"detail\":");
        push_string(&mut text, detail);
    }
    text.push('}');
    answers::text(StatusCode::OK, text)
}

fn fate(outcome: SourceOutcome) -> SourceFate {
    match outcome {
        SourceOutcome::Accepted => SourceFate::Accepted,
        SourceOutcome::Merged => SourceFate::Merged,
        SourceOutcome::Suppressed => SourceFate::Suppressed,
        SourceOutcome::Scheduled => SourceFate::Scheduled,
        SourceOutcome::InReview => SourceFate::InReview,
        SourceOutcome::Duplicate => SourceFate::Duplicate,
        SourceOutcome::Retracted => SourceFate::Retracted,
        SourceOutcome::Ignored => SourceFate::Ignored,
        SourceOutcome::Refused => SourceFate::Refused,
        SourceOutcome::Unverified => SourceFate::Unverified,
    }
}
