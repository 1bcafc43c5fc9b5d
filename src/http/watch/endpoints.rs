//! The paths of live sockets and event streams.

use std::rc::Rc;
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::http::{ConnectionType, Version};
use actix_web::{HttpRequest, HttpResponse, web};

use super::body::{Streamed, WatchBody};
use super::handshake::{Accepted, Handshake, HandshakeRefusal, watch_options};
use super::newcomer::{LIST_TIMEOUT, Newcomer};
use super::protocol;
use super::sse::EventStream;
use super::tally::Tally;
use crate::domain::Visibility;
use crate::http::caller_of;
use crate::http::door::RequestHead;
use crate::http::inbound::stream::Waited;
use crate::http::problem::ApiError;
use crate::http::{Gate, feed_of, named_feed};
use crate::live::worker::Worker;

/// How long a connection may take to end after it was refused.
const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /v1/feeds/{feed}/ws` and `GET /v1/ws`, on a connection that the HTTP server keeps: one that asked for something
/// else before, or whose handshake the watchers' threads did not agree on.
pub(in crate::http) async fn socket(
    req: HttpRequest,
    input: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let feed = req.match_info().get("feed").map(named_feed).transpose()?;
    let identity = caller_of(&req).identity;
    let (handshake, accepted) = match Handshake::agree(&gate, &RequestHead::of(&req), identity, feed, None) {
        Ok(agreed) => agreed,
        Err(HandshakeRefusal::Wrong(error)) => return Err(error),
        Err(HandshakeRefusal::NoRoom(accepted, no_room)) => {
            return turn_away(&accepted, &gate, &no_room.counted(&gate));
        }
    };
    listed(&req, &handshake.newcomer).await?;
    let (worker, tally) = (of_worker::<Worker>(&req)?, of_worker::<Tally>(&req)?);
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
    let identity = caller_of(&req).identity;
    let newcomer =
        Newcomer::admit(&gate, &RequestHead::of(&req), identity.clone(), Some((feed.clone(), options)), None);
    let newcomer = newcomer.map_err(|no_room| no_room.counted(&gate))?;
    listed(&req, &newcomer).await?;
    if newcomer.is_private() {
        identity.may_see(feed.as_str(), Visibility::Private)?;
    }
    let (worker, tally) = (of_worker::<Worker>(&req)?, of_worker::<Tally>(&req)?);
    let connection = newcomer.connect(&worker, &tally, EventStream::new);
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

/// Completes the handshake only to say that there is no place: a browser does not show its page the status
/// of a refused one. If too many are being refused, the rest get a plain 503.
fn turn_away(accepted: &Accepted, gate: &Gate, why: &ApiError) -> Result<HttpResponse, ApiError> {
    let Some(place) = gate.door.turn_away() else { return Err(ApiError::NoPlace) };
    let body = protocol::too_many_connections(&why.to_string());
    // The connection outlives its body: the server waits for the client to close, for as long.
    actix_web::rt::spawn(async move {
        tokio::time::sleep(TURN_AWAY_TIMEOUT).await;
        drop(place);
    });
    Ok(accepted.response().body(Streamed(Some(body))))
}

/// Waits for the list of the newcomer's feed.
async fn listed(req: &HttpRequest, newcomer: &Newcomer) -> Result<(), ApiError> {
    let Some(lease) = newcomer.awaited() else { return Ok(()) };
    // One that waited before it came here is answered at once.
    let timeout = if req.conn_data::<Waited>().is_some() { Duration::ZERO } else { LIST_TIMEOUT };
    lease.has_list(timeout).await.then_some(()).ok_or(ApiError::Unavailable)
}

/// What each worker has of its own.
fn of_worker<T: 'static>(req: &HttpRequest) -> Result<Rc<T>, ApiError> {
    req.app_data::<Rc<T>>().cloned().ok_or(ApiError::Internal)
}
