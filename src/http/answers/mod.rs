//! What is answered: one struct for each shape, which is written as JSON here and described in
//! `/openapi.json`. The texts that are written most often (rows, drops, entries) are put together by `domain`,
//! and only described in `texts`.

use actix_web::HttpResponse;
use actix_web::body::MessageBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Serialize;

mod drops;
mod feeds;
mod gifts;
mod health;
mod keys;
mod moderation;
mod nodes;
mod presence;
mod reports;
mod review;
#[cfg(test)]
pub mod texts;
mod totals;
mod viewers;
pub mod words;

pub use drops::{CancelledHold, ClaimResult, FoundClaim, HoldList};
pub use feeds::FeedList;
pub use gifts::{
    CancelledGift, DueFailure, DueFailureList, GiftBatchItem, GiftBatchResult, GiftResult, GiftStatus,
    RetractedRow,
};
pub use health::{Liveness, Readiness, ReadinessStatus, ShardCounts};
#[cfg(test)]
pub use keys::AuditPage;
pub use keys::KeyList;
pub use moderation::{ControlResult, RefundedGift, RemovedRows, RetractedGift};
#[cfg(test)]
pub use nodes::NodeList;
pub use nodes::{NodeState, Series, Stats};
pub use presence::Presence;
#[cfg(test)]
pub use reports::AttemptList;
pub use reports::{
    AckResult, DeadLetter, DeadLetterList, Group, GroupList, More, NackResult, Overview, OverviewDeadLetter,
    OverviewGroup, ReplayResult, SeekResult, WatchedFeed, Webhook, WebhookList,
};
pub use review::{BlockEntry, BlockList, Unblocked};
pub use totals::{DeletedGoal, SessionResult};
pub use viewers::RevokedViewer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `answer` as JSON.
pub(super) fn json(status: StatusCode, answer: &impl Serialize) -> HttpResponse {
    written(status, serde_json::to_vec(answer))
}

/// What was spelled as JSON, or why it could not be.
pub(super) fn written(
    status: StatusCode,
    answer: serde_json::Result<impl MessageBody + 'static>,
) -> HttpResponse {
    match answer {
        Ok(bytes) => HttpResponse::build(status).insert_header((CONTENT_TYPE, JSON)).body(bytes),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            HttpResponse::InternalServerError().finish()
        }
    }
}

/// `answer` as JSON that nobody may keep, because it may be another at any moment.
pub(super) fn fresh(status: StatusCode, answer: &impl Serialize) -> HttpResponse {
    let mut answer = json(status, answer);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

/// A text that is JSON already.
pub(super) fn text(status: StatusCode, text: String) -> HttpResponse {
    HttpResponse::build(status).insert_header((CONTENT_TYPE, JSON)).body(text)
}

/// A text that is JSON already, which nobody may keep.
pub(super) fn fresh_text(status: StatusCode, text: String) -> HttpResponse {
    HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, JSON))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .body(text)
}
