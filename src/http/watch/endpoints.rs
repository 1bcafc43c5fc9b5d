//! The paths of live sockets and event streams.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::http::{ConnectionType, Version};
use actix_web::{HttpRequest, HttpResponse, web};

use super::body::{Streamed, WatchBody};
use super::connection::Connection;
use super::handshake::{Accepted, Handshake, LIST_WITHIN, Only, shake_hands, watch_options};
use super::protocol;
use super::sockets::HandoverCount;
use super::sse::EventStream;
use super::tally::Tally;
use super::watcher::Watcher;
use crate::domain::{FeedId, Visibility};
use crate::http::caller_of;
use crate::http::door::RequestHead;
use crate::http::door::places::{Full, WatcherPlace};
use crate::http::inbound::stream::Waited;
use crate::http::problem::ApiError;
use crate::http::{Gate, feed_of};
use crate::live::session::Session;
use crate::live::worker::Worker;
use crate::live::{Lease, Live};
use crate::metrics::labels::Bound;

/// How long a connection may take to end after it was refused.
const TURNING_AWAY: Duration = Duration::from_secs(2);

/// `GET /v1/feeds/{feed}/ws`
pub(in crate::http) async fn one_feed(
    req: HttpRequest,
    input: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let options = watch_options(req.query_string())?;
    let accepted = shake_hands(&RequestHead::of(&req), gate.limits.compress)?;
    let place = match place(&req, &gate) {
        Ok(place) => place,
        Err(why) => return turn_away(&accepted, &gate, &why),
    };
    let address = gate.door.address(&RequestHead::of(&req));
    let admission = match gate.live.admit(address, &feed) {
        Ok(admission) => admission,
        Err(refused) => {
            return turn_away(&accepted, &gate, &ApiError::TooManySubscriptions(refused.told().1));
        }
    };
    let lease = Some(listed(&req, &gate.live, &feed).await?);
    let watcher = watcher(&req, gate.clone(), Some(&feed));
    let only = Some(Only { feed, options, admission, lease });
    let waiting = HandoverCount::new(gate.live.metrics());
    let deflate = accepted.deflate;
    serve(&req, input, &accepted, Handshake { place, only, address, waiting, watcher, deflate })
}

/// `GET /v1/ws`
pub(in crate::http) async fn many_feeds(
    req: HttpRequest,
    input: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let accepted = shake_hands(&RequestHead::of(&req), gate.limits.compress)?;
    let place = match place(&req, &gate) {
        Ok(place) => place,
        Err(why) => return turn_away(&accepted, &gate, &why),
    };
    let (address, waiting) =
        (gate.door.address(&RequestHead::of(&req)), HandoverCount::new(gate.live.metrics()));
    let watcher = watcher(&req, gate, None);
    let deflate = accepted.deflate;
    serve(&req, input, &accepted, Handshake { place, only: None, address, waiting, watcher, deflate })
}

/// A watcher whose connection the HTTP server keeps: one that asked for something else before.
fn serve(
    req: &HttpRequest,
    input: web::Payload,
    accepted: &Accepted,
    handshake: Handshake,
) -> Result<HttpResponse, ApiError> {
    let (worker, tally) = (of_worker::<Worker>(req)?, of_worker::<Tally>(req)?);
    let connection = handshake.connect(&worker, &tally);
    Ok(accepted.response().body(WatchBody::new(connection, Some(input.into_inner()), tally)))
}

/// `GET /v1/feeds/{feed}/sse`
pub(in crate::http) async fn events(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let mut options = watch_options(req.query_string())?;
    // A browser that reconnects repeats the page's URL; the id it heard last is newer.
    let last = req.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    options.since = last.and_then(|id| id.parse().ok()).or(options.since);
    let place = place(&req, &gate)?;
    let address = gate.door.address(&RequestHead::of(&req));
    let admission = gate.live.admit(address, &feed);
    let admission = admission.map_err(|refused| ApiError::TooManySubscriptions(refused.told().1))?;
    let lease = listed(&req, &gate.live, &feed).await?;
    if lease.is_private() {
        caller_of(&req).identity.may_see(feed.as_str(), Visibility::Private)?;
    }
    let (worker, tally) = (of_worker::<Worker>(&req)?, of_worker::<Tally>(&req)?);
    let mut session = Session::new(worker, address);
    session.watch(&feed, options, admission);
    let watcher = watcher(&req, gate, Some(&feed));
    session.allow(|feed| watcher.may_see(feed));
    let connection = Connection::new(session, EventStream::new(watcher), tally.clone(), place);
    let body = WatchBody::new(connection, None, tally);
    let mut answer = HttpResponse::Ok();
    answer.insert_header((CONTENT_TYPE, "text/event-stream")).insert_header((CACHE_CONTROL, "no-store"));
    // Proxies would otherwise hold events back until a buffer is full.
    answer.insert_header(("X-Accel-Buffering", "no"));
    let mut answer = answer.body(body);
    if req.version() < Version::HTTP_11 {
        // Such a client knows no chunks: the stream ends with its connection.
        answer.head_mut().no_chunking(true);
        answer.head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(answer)
}

/// Who came with the request; `only` as in [`Watcher::new`].
fn watcher(req: &HttpRequest, gate: web::Data<Gate>, only: Option<&FeedId>) -> Watcher {
    Watcher::new(gate.into_inner(), caller_of(req).identity, only)
}

/// Completes the handshake only to say that there is no place: a browser does not show its page the status
/// of a refused one. If too many are being refused, the rest get a plain 503.
fn turn_away(accepted: &Accepted, gate: &Gate, why: &ApiError) -> Result<HttpResponse, ApiError> {
    let Some(place) = gate.door.turn_away() else { return Err(ApiError::NoPlace) };
    let body = protocol::too_many_connections(&why.to_string());
    // The connection outlives its body: the server waits for the client to close, for as long.
    actix_web::rt::spawn(async move {
        tokio::time::sleep(TURNING_AWAY).await;
        drop(place);
    });
    Ok(accepted.response().body(Streamed(Some(body))))
}

/// A place for the watcher that asks.
fn place(req: &HttpRequest, gate: &Gate) -> Result<WatcherPlace, ApiError> {
    gate.door.place(&RequestHead::of(req)).map_err(|full| {
        let (bound, why) = match full {
            Full::Server => (Bound::Watchers, ApiError::NoPlace),
            Full::Address => (Bound::WatchersPerAddress, ApiError::TooManyConnections),
        };
        gate.live.metrics().bounds_met[bound].inc();
        why
    })
}

/// The feed's board, once its list is there.
async fn listed(req: &HttpRequest, live: &Arc<Live>, feed: &FeedId) -> Result<Lease, ApiError> {
    let lease = live.lease(feed);
    // One that waited before it came here is answered at once.
    let within = if req.conn_data::<Waited>().is_some() { Duration::ZERO } else { LIST_WITHIN };
    match lease.has_list(within).await {
        true => Ok(lease),
        false => Err(ApiError::Unavailable),
    }
}

/// What each worker has of its own.
fn of_worker<T: 'static>(req: &HttpRequest) -> Result<Rc<T>, ApiError> {
    req.app_data::<Rc<T>>().cloned().ok_or(ApiError::Internal)
}
