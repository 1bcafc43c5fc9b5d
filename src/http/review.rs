//! The host's desk: gifts that wait for a decision, and users whose gifts are not shown.

use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, BlockEntry, BlockList, GiftResult};
use super::problem::{ApiError, invalid};
use super::{Gate, body, feed_of};
use crate::domain::block::BLOCKS_MAX;
use crate::domain::{
    Block, BlockScope, BlockWish, Blocked, Decision, FeedId, GiftId, InReview, Millis, Reviewed, json,
};

/// `GET /v1/feeds/{feed}/review`
pub(super) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let all = gate.read(gate.store.list_reviews(&feed, Millis::now())).await?;
    Ok(answers::fresh_text(StatusCode::OK, compose(&all)))
}

fn compose(all: &[InReview]) -> String {
    let mut out = String::with_capacity(32 + 512 * all.len());
    out.push_str("{\"review\":[");
    for (n, InReview { at, expires_at, gift }) in all.iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let id = &gift.id;
        let _ =
            write!(out, "{comma}{{\"id\":\"{id}\",\"at\":\"{at}\",\"expires_at\":\"{expires_at}\",\"gift\":");
        gift.push_json(&mut out);
        out.push('}');
    }
    out.push_str("]}");
    out
}

/// `POST /v1/feeds/{feed}/review/{id}`
pub(super) async fn decide(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let missing = || ApiError::NotFound("no gift of this id is, or was lately, in review".to_owned());
    let id: GiftId = req.match_info().get("id").unwrap_or_default().parse().map_err(|_| missing())?;
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let decision = Decision::parse(json::syntax(&bytes)?)?;
    match gate.run(gate.store.decide_review(&feed, &id, decision, Millis::now())).await?.outcome {
        Reviewed::Decided(answer) => Ok(answers::json(StatusCode::OK, &GiftResult::decided(&answer))),
        Reviewed::Later(it) => Ok(answers::json(StatusCode::OK, &GiftResult::later(&it))),
        Reviewed::Otherwise(decided) => Err(ApiError::Reviewed(decided)),
        Reviewed::Unknown => Err(missing()),
    }
}

/// `PUT /v1/feeds/{feed}/blocks/{user}`
pub(super) async fn block(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (scope, user) = (scope_of(&req)?, user_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let wish = BlockWish::parse(json::syntax(&bytes)?)?;
    let now = Millis::now();
    let block = Block { user, at: now, until: wish.until };
    let status = match gate.run(gate.store.block_user(&scope, &block)).await? {
        Blocked::New => StatusCode::CREATED,
        Blocked::Replaced => StatusCode::OK,
        Blocked::Full => return Err(ApiError::TooManyBlocks(BLOCKS_MAX)),
    };
    if wish.retract {
        take_back(&gate, &scope, &block.user, now).await?;
    }
    Ok(answers::json(status, &BlockEntry::from(&block)))
}

/// Takes back the rows of a user in the feeds of a scope. A feed that cannot do it holds up no other; the answer names
/// the first, and the request may be repeated.
async fn take_back(gate: &Gate, scope: &BlockScope, user: &str, now: Millis) -> Result<(), ApiError> {
    let mut failed = None;
    let mut from = async |feeds: Vec<FeedId>| {
        for feed in feeds {
            if let Err(error) = gate.run(gate.store.retract_user(&feed, user, now)).await {
                failed.get_or_insert(error);
            }
        }
    };
    match scope {
        BlockScope::Feed(feed) => from(vec![feed.clone()]).await,
        BlockScope::All => {
            // Feeds on screen at once; the walk takes all others.
            gate.run(gate.store.begin_walk(user, now)).await?;
            from(gate.live.watched().into_iter().map(|it| it.feed).collect()).await;
        }
    }
    failed.map_or(Ok(()), Err)
}

/// `DELETE /v1/feeds/{feed}/blocks/{user}`
pub(super) async fn unblock(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (scope, user) = (scope_of(&req)?, user_of(&req)?);
    if !gate.run(gate.store.unblock_user(&scope, &user, Millis::now())).await? {
        return Err(ApiError::NotFound("this user is not blocked here".to_owned()));
    }
    Ok(answers::json(StatusCode::OK, &answers::Unblocked::of(&user)))
}

/// `GET /v1/feeds/{feed}/blocks`
pub(super) async fn blocks(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let scope = scope_of(&req)?;
    let all = gate.run(gate.store.list_blocks(&scope, Millis::now())).await?;
    let blocks = all.iter().map(BlockEntry::from).collect();
    Ok(answers::fresh(StatusCode::OK, &BlockList { blocks }))
}

fn scope_of(req: &HttpRequest) -> Result<BlockScope, ApiError> {
    if req.match_info().get("feed") == Some("*") {
        return Ok(BlockScope::All);
    }
    feed_of(req).map(BlockScope::Feed)
}

fn user_of(req: &HttpRequest) -> Result<String, ApiError> {
    let user = req.match_info().get("user").unwrap_or_default();
    let legal = (1..=64).contains(&user.len());
    if legal { Ok(user.to_owned()) } else { Err(invalid("a user id is 1 to 64 bytes long")) }
}
