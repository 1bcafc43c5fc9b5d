//! The paths of live sockets and event streams.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, SEC_WEBSOCKET_PROTOCOL};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};

use super::body::{Streamed, WatchBody};
use super::connection::Connection;
use super::handshake::{Handshake, Waiting, shake_hands, watch_options};
use super::sockets::take_over::{CanTakeOver, TakeOver};
use super::sse::EventStream;
use super::tally::Tally;
use super::watcher::Watcher;
use super::{deflate, protocol};
use crate::domain::{FeedId, Visibility};
use crate::http::caller_of;
use crate::http::door::Head;
use crate::http::door::caller::PROTOCOL;
use crate::http::door::places::{Full, WatcherPlace};
use crate::http::inbound::Peer;
use crate::http::problem::ApiError;
use crate::http::resource::resource;
use crate::http::{Gate, feed_of};
use crate::live::session::{Session, WatchOptions};
use crate::live::worker::Worker;
use crate::live::{Lease, Live};
use crate::metrics::labels::Bound;

/// How long a newcomer waits for the feed's first list before it is told to come back.
const LIST_WITHIN: Duration = Duration::from_secs(4);

/// How long a connection may take to end after it was told that there is no place.
const TURNING_AWAY: Duration = Duration::from_secs(2);

/// Registers the paths of live sockets.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(resource("/v1/feeds/{feed}/ws").route(web::get().to(one_feed)));
    cfg.service(resource("/v1/ws").route(web::get().to(many_feeds)));
    cfg.service(resource("/v1/feeds/{feed}/sse").route(web::get().to(events)));
}

/// `GET /v1/feeds/{feed}/ws`
async fn one_feed(
    req: HttpRequest,
    input: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let options = watch_options(&req)?;
    let mut answer = shake_hands(&req)?;
    agree_on_protocol(&req, &mut answer);
    let place = match place(&req, &gate) {
        Ok(place) => place,
        Err(why) => return turn_away(answer, &gate, &why),
    };
    let address = gate.door.address(&Head::of(&req));
    let admission = match gate.live.admit(address, &feed) {
        Ok(admission) => admission,
        Err(refused) => return turn_away(answer, &gate, &ApiError::TooManySubscriptions(refused.told().1)),
    };
    let deflate = gate.limits.compress && deflate::agree(&req, &mut answer);
    let lease = Some((listed(&gate.live, &feed).await?, admission));
    let waiting = Waiting::new(gate.live.metrics());
    let watcher = watcher(&req, gate, Some(&feed));
    enter(&req, input, answer, Handshake { place, lease, address, waiting, options, watcher, deflate })
}

/// `GET /v1/ws`
async fn many_feeds(
    req: HttpRequest,
    input: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let mut answer = shake_hands(&req)?;
    agree_on_protocol(&req, &mut answer);
    let place = match place(&req, &gate) {
        Ok(place) => place,
        Err(why) => return turn_away(answer, &gate, &why),
    };
    let deflate = gate.limits.compress && deflate::agree(&req, &mut answer);
    let (address, waiting) = (gate.door.address(&Head::of(&req)), Waiting::new(gate.live.metrics()));
    let options = WatchOptions::default();
    let watcher = watcher(&req, gate, None);
    enter(&req, input, answer, Handshake { place, lease: None, address, waiting, options, watcher, deflate })
}

/// The answer to a handshake that was agreed on: the socket goes to a thread of sockets, or, where the
/// server must keep it (TLS), is served as a body.
fn enter(
    req: &HttpRequest,
    input: web::Payload,
    answer: actix_http::ResponseBuilder,
    handshake: Handshake,
) -> Result<HttpResponse, ApiError> {
    if req.extensions_mut().remove::<CanTakeOver>().is_some() {
        let mut answer: HttpResponse = streamed(answer, Streamed(None))?;
        answer.extensions_mut().insert(TakeOver(handshake));
        return Ok(answer);
    }
    let (worker, tally) = (of_worker::<Worker>(req)?, of_worker::<Tally>(req)?);
    let connection = handshake.connect(&worker, &tally);
    streamed(answer, WatchBody::new(connection, Some(input.into_inner()), tally))
}

/// `GET /v1/feeds/{feed}/sse`
async fn events(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let mut options = watch_options(&req)?;
    // A browser that reconnects repeats the page's URL; the id it heard last is newer.
    let last = req.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    options.since = last.and_then(|id| id.parse().ok()).or(options.since);
    let place = place(&req, &gate)?;
    let address = gate.door.address(&Head::of(&req));
    let admission = gate.live.admit(address, &feed);
    let admission = admission.map_err(|refused| ApiError::TooManySubscriptions(refused.told().1))?;
    let lease = listed(&gate.live, &feed).await?;
    if lease.is_private() {
        caller_of(&req).identity.may_see(feed.as_str(), Visibility::Private)?;
    }
    let (worker, tally) = (of_worker::<Worker>(&req)?, of_worker::<Tally>(&req)?);
    let mut session = Session::new(gate.live.clone(), worker.clone(), address);
    session.watch(&feed, options, admission);
    let watcher = watcher(&req, gate, Some(&feed));
    session.allow(|feed| watcher.may_see(feed));
    let connection = Connection::new(session, EventStream::new(watcher), worker, tally.clone(), place);
    let body = WatchBody::new(connection, None, tally);
    let mut answer = HttpResponse::Ok();
    answer.insert_header((CONTENT_TYPE, "text/event-stream")).insert_header((CACHE_CONTROL, "no-store"));
    // Proxies would otherwise hold events back until a buffer is full.
    answer.insert_header(("X-Accel-Buffering", "no"));
    Ok(answer.body(body))
}

/// Who came with the request; `only` as in [`Watcher::new`].
fn watcher(req: &HttpRequest, gate: web::Data<Gate>, only: Option<&FeedId>) -> Watcher {
    Watcher::new(gate.into_inner(), caller_of(req).identity, only)
}

/// A token may stand among the subprotocols; what is agreed on is ours, never the token.
fn agree_on_protocol(req: &HttpRequest, answer: &mut actix_http::ResponseBuilder) {
    let offered = req.headers().get_all(SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    if offered.flat_map(|all| all.split(',')).any(|one| one.trim() == PROTOCOL) {
        answer.insert_header((SEC_WEBSOCKET_PROTOCOL, PROTOCOL));
    }
}

/// Completes the handshake only to say that there is no place: a browser does not show its page the status
/// of a refused one. When too many are being told so, the rest get a plain 503.
fn turn_away(
    answer: actix_http::ResponseBuilder,
    gate: &Gate,
    why: &ApiError,
) -> Result<HttpResponse, ApiError> {
    let Some(place) = gate.door.turn_away() else { return Err(ApiError::NoPlace) };
    let body = protocol::too_many_connections(&why.to_string());
    // The connection outlives its body: the server waits for the client to close, for as long.
    actix_web::rt::spawn(async move {
        tokio::time::sleep(TURNING_AWAY).await;
        drop(place);
    });
    streamed(answer, Streamed(Some(body)))
}

fn streamed(
    mut answer: actix_http::ResponseBuilder,
    body: impl actix_web::body::MessageBody + 'static,
) -> Result<HttpResponse, ApiError> {
    Ok(answer.message_body(body).map_err(|_| ApiError::Internal)?.map_into_boxed_body().into())
}

/// A place for the watcher that asks.
fn place(req: &HttpRequest, gate: &Gate) -> Result<WatcherPlace, ApiError> {
    let peer = req.conn_data::<Arc<Peer>>().cloned();
    gate.door.place(&Head::of(req), peer).map_err(|full| {
        let (bound, why) = match full {
            Full::Server => (Bound::Watchers, ApiError::NoPlace),
            Full::Address => (Bound::WatchersPerAddress, ApiError::TooManyConnections),
        };
        gate.live.metrics().bounds_met[bound].inc();
        why
    })
}

/// The feed's board, once its list is there.
async fn listed(live: &Arc<Live>, feed: &FeedId) -> Result<Lease, ApiError> {
    let lease = live.lease(feed);
    match lease.has_list(LIST_WITHIN).await {
        true => Ok(lease),
        false => Err(ApiError::Unavailable),
    }
}

/// What each worker has of its own.
fn of_worker<T: 'static>(req: &HttpRequest) -> Result<Rc<T>, ApiError> {
    req.app_data::<Rc<T>>().cloned().ok_or(ApiError::Internal)
}
