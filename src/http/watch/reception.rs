//! The door for connections whose heads the threads of sockets read: a WebSocket handshake that everything speaks
//! for is agreed on here; whatever else it is goes to the HTTP server, which asks the same door again and says what
//! is wrong in the words that every request gets. Nothing is charged for what is passed on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::web;
use memchr::{memchr_iter, memmem};

use super::handshake::Handshake;
use super::newcomer::{LIST_TIMEOUT, Only};
use super::sockets::{Entrance, Judgement, Visitor};
use crate::domain::{FeedId, Millis};
use crate::http::Gate;
use crate::http::access::{RouteMatch, find};
use crate::http::door::{AccessVerdict, RequestHead};
use crate::http::inbound::Peer;
use crate::http::meter;
use crate::live::worker::Worker;

/// Lines of a head that are read here; one with more is the HTTP server's.
const MAX_HEAD_LINES: usize = 64;

/// Watchers of a feed up to which one thread serves them, which writes to that number in some milliseconds.
const TOGETHER: usize = 1024;

/// How the heads of watchers begin, as far as all of them do.
const WATCHER_HEAD_PREFIX: &[u8] = b"GET /v1/";

/// Judges a connection by what it sent.
pub(super) fn judge(
    gate: &web::Data<Gate>,
    worker: &Worker,
    visitor: &Visitor,
    received: &[u8],
) -> Judgement<Handshake> {
    let known = received.len().min(WATCHER_HEAD_PREFIX.len());
    if received[..known] != WATCHER_HEAD_PREFIX[..known] {
        return Judgement::PassOn;
    }
    let end = memmem::find(received, b"\r\n\r\n").map(|at| at + 4);
    // A bare line feed is read differently by different servers (RFC 9112, 2.2).
    let head = &received[..end.unwrap_or(received.len())];
    if memchr_iter(b'\n', head).any(|at| head[..at].last() != Some(&b'\r')) {
        return Judgement::PassOn;
    }
    let Some(read) = end else { return Judgement::More };
    let Some((handshake, answer)) = agree(gate, worker, visitor, head) else {
        return Judgement::PassOn;
    };
    let group = handshake.newcomer.only.as_ref().and_then(group_of);
    let must_wait = handshake.newcomer.awaited().is_some();
    let entrance = Entrance { handshake, answer, read, group };
    match must_wait {
        true => Judgement::Wait(Box::pin(when_listed(entrance, visitor.peer.clone(), gate.clone()))),
        false => Judgement::Enter(seated(entrance, &visitor.peer, gate)),
    }
}

/// The watchers of a feed that has few on this node are one group: a gift then wakes one thread, not all of them.
fn group_of(only: &Only) -> Option<u64> {
    (only.admission.watched < TOGETHER).then(|| {
        let mut hasher = DefaultHasher::new();
        only.feed.hash(&mut hasher);
        hasher.finish()
    })
}

/// Agrees on a handshake, when everything speaks for it. Answers what was agreed on, and the answer.
fn agree(
    gate: &web::Data<Gate>,
    worker: &Worker,
    visitor: &Visitor,
    head: &[u8],
) -> Option<(Handshake, Vec<u8>)> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEAD_LINES];
    let mut request = httparse::Request::new(&mut lines);
    if !request.parse(head).ok()?.is_complete() || request.version != Some(1) {
        return None;
    }
    let (path, query) = request.path?.split_once('?').unwrap_or((request.path?, ""));
    let head = RequestHead::read(path, query, request.headers, visitor.address);
    let feed = match find(head.method, path) {
        RouteMatch::For { feed, entry, .. } if entry.path.ends_with("/ws") => {
            feed.map(|feed| feed.parse::<FeedId>()).transpose().ok()?
        }
        _ => return None,
    };
    if head.has(&CONTENT_LENGTH) || head.has(&TRANSFER_ENCODING) {
        return None;
    }
    let AccessVerdict::Enter(caller, _) = gate.door.admit(&head, Millis::now()) else { return None };
    let agreed = Handshake::agree(gate, &head, caller.identity, feed, Some(worker));
    agreed.ok().map(|(handshake, accepted)| (handshake, accepted.bytes()))
}

/// Waits for the list of the feed; `None` if it is not there in time.
async fn when_listed(
    entrance: Entrance<Handshake>,
    peer: Arc<Peer>,
    gate: web::Data<Gate>,
) -> Option<Entrance<Handshake>> {
    let lease = entrance.handshake.newcomer.awaited();
    let is_listed = match lease {
        Some(lease) => lease.has_list(LIST_TIMEOUT).await,
        None => true,
    };
    is_listed.then(|| seated(entrance, &peer, &gate))
}

/// The connection is the watcher's from now on, and counted as answered: what waits in vain the HTTP server answers.
fn seated(mut entrance: Entrance<Handshake>, peer: &Peer, gate: &Gate) -> Entrance<Handshake> {
    let newcomer = &mut entrance.handshake.newcomer;
    meter::switched(gate.live.metrics(), newcomer.only.is_none());
    newcomer.place.keep(peer);
    entrance
}
