//! Errors as they leave the server: `application/problem+json` (RFC 9457).
//!
//! [`ApiError`] is the only type that turns a refusal or a failure into a status code. What the
//! layers below say ([`Refused`], [`StoreError`]) becomes one here and nowhere else.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, CACHE_CONTROL, CONNECTION, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;

use crate::auth::BadToken;
use crate::auth::keys::Denied;
use crate::auth::signed::Unsigned;
use crate::domain::json::{fault, first_faults};
use crate::domain::{ClaimAnswer, Decision, Fault, GiftId, Phase, Refused};
use crate::engine::StoreError;
use crate::http::answers::ClaimResult;

mod detail;
mod kinds;

pub(super) use kinds::about;
pub use kinds::{KINDS, ProblemKind};

/// Faults of a body that an answer names. No body of the API has as many fields.
const FAULTS_MAX: usize = 32;

/// When a refused watcher should try again, in seconds.
const WATCHER_RETRY_S: u64 = 10;

/// When a claim that may not wait should be made again, in seconds.
const CLAIM_RETRY_S: u64 = 2;

/// When a store that is full may have room again: what expires is taken out all the time.
const STORE_FULL_RETRY_S: u64 = 10;

/// Why a request was not answered as it wished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// 400: the body is not JSON; says where it stops being JSON.
    Syntax(String),
    /// 400: the body broke off or its framing is damaged.
    BrokenBody(String),
    /// 400: the parameter of this name in the path is not percent-encoded UTF-8.
    MalformedPath(&'static str),
    /// 400: a WebSocket handshake that breaks RFC 6455; says how.
    BadHandshake(String),
    /// 401: a key is needed, or to read and watch a token; whether one came that is not right.
    Unauthenticated {
        /// Something came that is no valid key.
        tried: bool,
    },
    /// 401: a token that is no good.
    BadToken(BadToken),
    /// 401: the signature of a signed request is not right.
    BadSignature(Unsigned),
    /// 403: the key or token may not do that.
    NotAllowed(Denied),
    /// 403: a viewer acts for another, or does what only a key may.
    NotYours(&'static str),
    /// 401: a delivery to a source that does not show whose it is; says what is missing or wrong.
    Unverified(String),
    /// 409: a feed has as many sources as may be.
    TooManySources(usize),
    /// 403: there are no keys, and the request is not from a program of this machine.
    KeysNeeded,
    /// 403: a web page of an origin that is not allowed.
    ForeignOrigin,
    /// 404: there is nothing under this path or of this name; says what was looked for.
    NotFound(String),
    /// 405: the path knows other methods; holds the `Allow` header.
    MethodNotAllowed(&'static str),
    /// 408: the body did not arrive in time, in milliseconds.
    BodyTimeout(u64),
    /// 413: the body is larger than this many bytes.
    TooLarge(usize),
    /// 415: the body is not something this server reads; says what it would.
    UnsupportedMediaType(String),
    /// 422: JSON, but types or values are wrong.
    Invalid(Vec<Fault>),
    /// 422: this id came before with another payload.
    IdReused(GiftId),
    /// The period is not counted. 404 where it is read, 409 (true) where a goal would go by it.
    NotCounted(bool),
    /// 409: a feed has as many goals as may be.
    TooManyGoals,
    /// 409: a drop's total below what is taken, which is this.
    DropTotal(u64),
    /// 409: fewer units are free than claimed; this number.
    SoldOut(u64),
    /// 409: the user has what one may have; the answer to the user's first claim.
    AlreadyClaimed(Option<Box<ClaimAnswer>>),
    /// 409: too many unpaid holds; the earliest ends in this number of seconds.
    TooManyHolds(u64),
    /// 409: a signed request came before, for something else.
    Replayed,
    /// 409: the drop has not opened yet, or has closed.
    DropNotOpen(Phase),
    /// 409: a gift of which nothing can be refunded; says why.
    NothingToRefund(&'static str),
    /// 409: the hold has ended.
    HoldEnded,
    /// 409: a ledger has as many readers as may be.
    TooManyReaders,
    /// 421: the server may not be asked by this name.
    Misdirected,
    /// 426: this path speaks WebSocket only.
    UpgradeRequired,
    /// 429: too many requests; holds after how many seconds to retry.
    RateLimited(u64),
    /// 429: too many watchers from one address.
    TooManyConnections,
    /// 429: says which bound on watched feeds was met, and what to do.
    TooManySubscriptions(&'static str),
    /// 429: as many claims wait for entries as may; says whose.
    TooManyWaitingClaims(&'static str),
    /// 500: a defect of the server. The log has it, the client does not.
    Internal,
    /// 429: as many gifts of the feed wait to be shown as may; holds after how many seconds the first
    /// of them is due.
    ScheduleFull(u64),
    /// 429: as many gifts of the feed wait for review as may; holds after how many seconds time decides about the
    /// first of them.
    ReviewFull(u64),
    /// 409: something else was decided about the gift, or time has decided: this.
    Reviewed(Decision),
    /// 403: the user is blocked.
    UserBlocked,
    /// 409: as many users are blocked as may be.
    TooManyBlocks(usize),
    /// 409: this gift cannot be cancelled any more.
    AlreadyShown(GiftId),
    /// 503: the store does not answer or refuses to write. The reason is in the log, not in the answer.
    Unavailable,
    /// 503: too many watchers in all.
    NoPlace,
    /// 503: more is waiting than the server will hold; says what is full.
    Overloaded(&'static str),
    /// 503: the store has no room in memory for more.
    StoreFull,
    /// 503: the write is there, but not on as many replicas as the operator wants.
    NotReplicated,
    /// What is stored of this feed cannot be read; other feeds are not affected.
    FeedDamaged,
    /// 503: `/healthz` says no, and why.
    PartDown(String),
    /// 503: `/readyz` says no, and why.
    NotReady(String),
}

impl ApiError {
    /// No gift more may wait; the first one that does is due in this number of milliseconds.
    pub fn schedule_full(first_in_ms: u64) -> ApiError {
        ApiError::ScheduleFull(first_in_ms.div_ceil(1_000).max(1))
    }

    /// No gift more may wait for review; time decides about the first one that does in this number of milliseconds.
    pub fn review_full(first_in_ms: u64) -> ApiError {
        ApiError::ReviewFull(first_in_ms.div_ceil(1_000).max(1))
    }

    /// The row of the table of problems that this error is.
    pub fn kind(&self) -> &'static ProblemKind {
        match self {
            ApiError::Syntax(_) => &kinds::SYNTAX,
            ApiError::BrokenBody(_) => &kinds::BROKEN_BODY,
            ApiError::MalformedPath(_) => &kinds::MALFORMED_PATH,
            ApiError::BadHandshake(_) => &kinds::BAD_HANDSHAKE,
            ApiError::Unauthenticated { .. } => &kinds::UNAUTHENTICATED,
            ApiError::BadToken(BadToken::KeysUnavailable(_) | BadToken::RevocationsUnknown) => {
                &kinds::KEYS_UNAVAILABLE
            }
            ApiError::BadToken(_) => &kinds::BAD_TOKEN,
            ApiError::BadSignature(_) => &kinds::BAD_SIGNATURE,
            ApiError::NotAllowed(_) | ApiError::NotYours(_) => &kinds::NOT_ALLOWED,
            ApiError::Unverified(_) => &kinds::UNVERIFIED,
            ApiError::TooManySources(_) => &kinds::TOO_MANY_SOURCES,
            ApiError::KeysNeeded => &kinds::KEYS_NEEDED,
            ApiError::Misdirected => &kinds::MISDIRECTED,
            ApiError::ForeignOrigin => &kinds::FOREIGN_ORIGIN,
            ApiError::NotFound(_) => &kinds::NOT_FOUND,
            ApiError::MethodNotAllowed(_) => &kinds::METHOD_NOT_ALLOWED,
            ApiError::BodyTimeout(_) => &kinds::BODY_TIMEOUT,
            ApiError::TooLarge(_) => &kinds::TOO_LARGE,
            ApiError::UnsupportedMediaType(_) => &kinds::UNSUPPORTED_MEDIA_TYPE,
            ApiError::Invalid(_) => &kinds::INVALID,
            ApiError::IdReused(_) => &kinds::ID_REUSED,
            ApiError::DropTotal(_) => &kinds::DROP_TOTAL,
            ApiError::NotCounted(false) => &kinds::NOT_COUNTED,
            ApiError::NotCounted(true) => &kinds::GOAL_NOT_COUNTED,
            ApiError::TooManyGoals => &kinds::TOO_MANY_GOALS,
            ApiError::SoldOut(_) => &kinds::SOLD_OUT,
            ApiError::AlreadyClaimed(_) => &kinds::ALREADY_CLAIMED,
            ApiError::TooManyHolds(_) => &kinds::TOO_MANY_HOLDS,
            ApiError::DropNotOpen(_) => &kinds::DROP_NOT_OPEN,
            ApiError::Replayed => &kinds::REPLAYED,
            ApiError::NothingToRefund(_) => &kinds::NOTHING_TO_REFUND,
            ApiError::HoldEnded => &kinds::HOLD_ENDED,
            ApiError::TooManyReaders => &kinds::TOO_MANY_READERS,
            ApiError::UpgradeRequired => &kinds::UPGRADE_REQUIRED,
            ApiError::RateLimited(_) => &kinds::RATE_LIMITED,
            ApiError::TooManyConnections => &kinds::TOO_MANY_CONNECTIONS,
            ApiError::TooManySubscriptions(_) => &kinds::TOO_MANY_SUBSCRIPTIONS,
            ApiError::TooManyWaitingClaims(_) => &kinds::TOO_MANY_WAITING_CLAIMS,
            ApiError::Internal => &kinds::INTERNAL,
            ApiError::ScheduleFull(_) => &kinds::SCHEDULE_FULL,
            ApiError::ReviewFull(_) => &kinds::REVIEW_FULL,
            ApiError::Reviewed(_) => &kinds::REVIEWED,
            ApiError::UserBlocked => &kinds::BLOCKED,
            ApiError::TooManyBlocks(_) => &kinds::TOO_MANY_BLOCKS,
            ApiError::AlreadyShown(_) => &kinds::ALREADY_SHOWN,
            ApiError::Unavailable => &kinds::UNAVAILABLE,
            ApiError::NoPlace => &kinds::NO_PLACE,
            ApiError::Overloaded(_) => &kinds::OVERLOADED,
            ApiError::StoreFull => &kinds::STORE_FULL,
            ApiError::NotReplicated => &kinds::NOT_REPLICATED,
            ApiError::FeedDamaged => &kinds::FEED_DAMAGED,
            ApiError::PartDown(_) => &kinds::PART_DOWN,
            ApiError::NotReady(_) => &kinds::NOT_READY,
        }
    }

    fn faults(&self) -> Vec<Fault> {
        match self {
            ApiError::Invalid(faults) => faults.clone(),
            ApiError::IdReused(_) => vec![fault("/id", "came before with another payload")],
            _ => Vec::new(),
        }
    }

    /// The problem document, which is also in the results of a batch.
    pub fn problem(&self) -> Problem {
        let kind = self.kind();
        let claim = match self {
            ApiError::AlreadyClaimed(Some(first)) => Some(ClaimResult::from(&**first)),
            _ => None,
        };
        let errors = self.faults().into_iter();
        Problem {
            kind: kind.uri(),
            title: kind.title,
            status: kind.status.as_u16(),
            detail: self.detail(),
            claim,
            decision: match self {
                ApiError::Reviewed(decision) => Some(decision.as_str()),
                _ => None,
            },
            errors: errors.map(|Fault { pointer, detail }| ProblemError { pointer, detail }).collect(),
        }
    }
}

/// Why a request was not answered as it wished (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Problem {
    /// Names the kind of problem; GET it to read what it means.
    #[serde(rename = "type")]
    #[cfg_attr(test, schema(pattern = "^/problems/[a-z-]+$", example = "/problems/invalid"))]
    kind: String,
    title: &'static str,
    #[cfg_attr(test, schema(minimum = 400, maximum = 599))]
    status: u16,
    /// What is said about this occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Of already-claimed: the answer to the user's first claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ClaimResult>,
    /// Of reviewed: what was decided, approve, mask or deny.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    /// What is wrong with the body, each thing with its place: the first 32, and the first 16 of one gift in a batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false, min_items = 1))]
    errors: Vec<ProblemError>,
}

/// One thing wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ProblemError {
    /// A JSON pointer (RFC 6901) into the body; empty for the request itself.
    #[cfg_attr(test, schema(example = "/user/id"))]
    pointer: String,
    /// What is wrong and what would be right.
    detail: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().title)?;
        self.detail().map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.kind().status
    }

    fn error_response(&self) -> HttpResponse {
        let mut answer = HttpResponse::build(self.status_code());
        answer.content_type("application/problem+json");
        answer.insert_header((CACHE_CONTROL, "no-store"));
        match self {
            ApiError::MethodNotAllowed(allow) => drop(answer.insert_header((ALLOW, *allow))),
            ApiError::BadToken(BadToken::KeysUnavailable(seconds)) => {
                answer.insert_header((RETRY_AFTER, *seconds));
            }
            ApiError::BadToken(BadToken::RevocationsUnknown) => {
                answer.insert_header((RETRY_AFTER, "1"));
            }
            ApiError::BadToken(_) => {
                answer.insert_header((WWW_AUTHENTICATE, "Bearer error=\"invalid_token\""));
            }
            // Also to a key that is none: `invalid_token` is about tokens, which a client would try to renew.
            ApiError::Unauthenticated { .. } | ApiError::BadSignature(_) => {
                answer.insert_header((WWW_AUTHENTICATE, "Bearer"));
            }
            ApiError::RateLimited(seconds)
            | ApiError::ScheduleFull(seconds)
            | ApiError::ReviewFull(seconds)
            | ApiError::TooManyHolds(seconds) => {
                answer.insert_header((RETRY_AFTER, *seconds));
            }
            ApiError::TooManyConnections | ApiError::TooManySubscriptions(_) | ApiError::NoPlace => {
                answer.insert_header((RETRY_AFTER, WATCHER_RETRY_S)).force_close();
            }
            ApiError::TooManyWaitingClaims(_) => {
                answer.insert_header((RETRY_AFTER, CLAIM_RETRY_S));
            }
            ApiError::UpgradeRequired => {
                answer.insert_header((UPGRADE, "websocket")).insert_header((CONNECTION, "upgrade"));
            }
            ApiError::StoreFull => {
                answer.insert_header((RETRY_AFTER, STORE_FULL_RETRY_S));
            }
            ApiError::Unavailable
            | ApiError::Overloaded(_)
            | ApiError::NotReplicated
            | ApiError::FeedDamaged
            | ApiError::PartDown(_)
            | ApiError::NotReady(_) => {
                answer.insert_header((RETRY_AFTER, "1"));
            }
            _ => {}
        }
        answer.body(serde_json::to_vec(&self.problem()).unwrap_or_default())
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Syntax(why) => ApiError::Syntax(why),
            Refused::Invalid(faults) => ApiError::Invalid(first_faults(faults, FAULTS_MAX)),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded(what) => ApiError::Overloaded(what),
            StoreError::StoreFull(_) => ApiError::StoreFull,
            StoreError::NotReplicated(_) => ApiError::NotReplicated,
            StoreError::FeedDamaged(_) => ApiError::FeedDamaged,
            StoreError::Unavailable(_) | StoreError::Open(_) => ApiError::Unavailable,
        }
    }
}

/// A single fault that is about the request as a whole, its path or a header.
pub(crate) fn invalid(detail: impl Into<String>) -> ApiError {
    ApiError::Invalid(vec![fault("", detail)])
}

#[cfg(test)]
mod tests;
