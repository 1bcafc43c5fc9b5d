//! What a watcher and the server agree on before the first frame, whichever part read the request.

use std::rc::Rc;
use std::time::Duration;

use actix_http::ws::hash_key;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use actix_web::{HttpResponse, HttpResponseBuilder, web};

use super::connection::Connection;
use super::deflate;
use super::newcomer::{Newcomer, NoRoom};
use super::protocol::WebSocket;
use super::sockets::HandoverCount;
use super::tally::Tally;
use crate::domain::FeedId;
use crate::http::Gate;
use crate::http::door::caller::PROTOCOL;
use crate::http::door::{Identity, RequestHead};
use crate::http::problem::{ApiError, invalid};
use crate::live::session::WatchOptions;
use crate::live::worker::Worker;

/// What was agreed on with a WebSocket client.
pub struct Handshake {
    pub(super) newcomer: Newcomer,
    /// It waits for its thread.
    waiting: HandoverCount,
    /// Frames are compressed.
    deflate: bool,
}

/// Why a handshake is refused.
pub(super) enum HandshakeRefusal {
    /// The request is wrong.
    Wrong(ApiError),
    /// The request is right, and could be answered so.
    NoRoom(Accepted, NoRoom),
}

impl From<ApiError> for HandshakeRefusal {
    fn from(error: ApiError) -> Self {
        HandshakeRefusal::Wrong(error)
    }
}

impl Handshake {
    /// Agrees with a client that the door let in, whichever part read its head: on what it asks for, on the protocol,
    /// and on a place. `feed`: the one that it watches. `worker`: as in [`Newcomer::admit`].
    pub(super) fn agree(
        gate: &web::Data<Gate>,
        head: &RequestHead<'_>,
        identity: Identity,
        feed: Option<FeedId>,
        worker: Option<&Worker>,
    ) -> Result<(Handshake, Accepted), HandshakeRefusal> {
        let feed = match feed {
            Some(feed) => Some((feed, watch_options(head.query)?)),
            None => None,
        };
        let accepted = shake_hands(head, gate.limits.compress)?;
        match Newcomer::admit(gate, head, identity, feed, worker) {
            Ok(newcomer) => {
                let (waiting, deflate) = (HandoverCount::new(gate.live.metrics()), accepted.deflate);
                Ok((Handshake { newcomer, waiting, deflate }, accepted))
            }
            Err(no_room) => Err(HandshakeRefusal::NoRoom(accepted, no_room)),
        }
    }

    /// The connection, served by this thread.
    pub(super) fn connect(self, worker: &Rc<Worker>, tally: &Rc<Tally>) -> Connection<WebSocket> {
        drop(self.waiting);
        let many = self.newcomer.only.is_none();
        self.newcomer.connect(worker, tally, |watcher| WebSocket::new(many, self.deflate, watcher))
    }
}

/// The answer to a handshake that is right (RFC 6455, 4.2.2).
pub(in crate::http) struct Accepted {
    key: [u8; 28],
    /// The client offered our subprotocol.
    protocol: bool,
    /// Frames are compressed.
    deflate: bool,
}

/// Judges a WebSocket handshake (RFC 6455, 4.2.1). A plain GET is answered to upgrade. `compress`: whether frames may
/// be compressed.
pub(in crate::http) fn shake_hands(head: &RequestHead<'_>, compress: bool) -> Result<Accepted, ApiError> {
    let says = |name: &'static HeaderName, word: &str| {
        let mut said = head.texts(name).flat_map(|all| all.split(','));
        said.any(|said| said.trim().eq_ignore_ascii_case(word))
    };
    if !says(&UPGRADE, "websocket") || !says(&CONNECTION, "upgrade") {
        return Err(ApiError::UpgradeRequired);
    }
    let wrong = |why: &str| ApiError::BadHandshake(why.to_owned());
    if head.single(&SEC_WEBSOCKET_VERSION) != Some(Some("13")) {
        return Err(wrong("Sec-WebSocket-Version must be 13"));
    }
    let key = head.single(&SEC_WEBSOCKET_KEY).flatten().map(str::as_bytes).unwrap_or_default();
    if !is_key(key) {
        return Err(wrong("Sec-WebSocket-Key must be 16 bytes as base64"));
    }
    // A token may stand among the subprotocols; what is agreed on is ours, never the token.
    let protocol = says(&SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    Ok(Accepted { key: hash_key(key), protocol, deflate: compress && deflate::is_offered(head) })
}

/// Sixteen bytes as base64.
fn is_key(key: &[u8]) -> bool {
    let mut bytes = [0; 18];
    key.len() == 24 && data_encoding::BASE64.decode_mut(key, &mut bytes).is_ok_and(|n| n == 16)
}

impl Accepted {
    fn headers(&self) -> impl Iterator<Item = (HeaderName, &str)> {
        let key = std::str::from_utf8(&self.key).unwrap_or_default();
        let always = [(UPGRADE, "websocket"), (CONNECTION, "Upgrade"), (SEC_WEBSOCKET_ACCEPT, key)];
        let protocol = self.protocol.then_some((SEC_WEBSOCKET_PROTOCOL, PROTOCOL));
        let deflate = self.deflate.then_some((SEC_WEBSOCKET_EXTENSIONS, deflate::AGREED));
        always.into_iter().chain(protocol).chain(deflate)
    }

    /// For the HTTP server to send.
    pub(super) fn response(&self) -> HttpResponseBuilder {
        let mut response = HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS);
        response.upgrade("websocket");
        for (name, value) in self.headers().filter(|(name, _)| *name != UPGRADE && *name != CONNECTION) {
            response.insert_header((name, value));
        }
        response
    }

    /// As it goes over the wire.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(320);
        out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\n");
        for (name, value) in self.headers() {
            for piece in [name.as_str(), ": ", value, "\r\n"] {
                out.extend_from_slice(piece.as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// What the query of a watcher's address asks for. A `since` that is malformed counts as none.
pub(in crate::http) fn watch_options(query: &str) -> Result<WatchOptions, ApiError> {
    let mut options = WatchOptions::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "since" => options.since = value.parse().ok(),
            "max_hz" => {
                let hz = value.parse::<f64>().ok().filter(|hz| (0.01..=1000.0).contains(hz));
                let hz = hz.ok_or_else(|| invalid("max_hz must be a number from 0.01 to 1000"))?;
                options.spacing = Duration::from_secs_f64(1.0 / hz);
            }
            "without" => {
                options.omit = value.parse().map_err(|rule| invalid(format!("without {rule}")))?;
            }
            // Of another word nobody counts anything.
            "as" => options.overlay = value == "overlay",
            _ => {}
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[(&str, &str)]) -> Result<String, &'static str> {
        let lines: Vec<_> =
            lines.iter().map(|(name, value)| httparse::Header { name, value: value.as_bytes() }).collect();
        let accepted =
            shake_hands(&RequestHead::read("/v1/ws", "", &lines, "1.2.3.4:5".parse().unwrap()), true);
        accepted.map(|it| String::from_utf8(it.bytes()).unwrap()).map_err(|why| why.kind().name)
    }

    const GOOD: [(&str, &str); 4] = [
        ("Upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn a_handshake_is_answered_as_its_rfc_says_and_names_what_was_agreed_on() {
        let answer = judged(&GOOD).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n") && answer.ends_with("\r\n\r\n"));
        // The example of RFC 6455, 1.3.
        assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
        assert!(!answer.contains("protocol: ") && !answer.contains("extensions"), "{answer}");
        let offers = [
            ("Sec-WebSocket-Protocol", "bearer.a.b.c, tipcast.v1"),
            ("Sec-WebSocket-Extensions", "permessage-deflate"),
        ];
        let answer = judged(&[&GOOD[..], &offers].concat()).unwrap();
        assert!(answer.contains("sec-websocket-protocol: tipcast.v1\r\n"), "{answer}");
        assert!(answer.contains("sec-websocket-extensions: permessage-deflate;"), "{answer}");
        assert!(!answer.contains("a.b.c"));
    }

    #[test]
    fn a_wrong_handshake_is_told_what_is_wrong() {
        for (at, wrong, name) in [
            (0, "h2c", "upgrade-required"),
            (1, "keep-alive", "upgrade-required"),
            (2, "8", "bad-handshake"),
            (3, "", "bad-handshake"),
            (3, "dGhlIHNhbXBsZSBub25jZ", "bad-handshake"),
            (3, "dGhlIHNhbXBsZSBub25jZSEh", "bad-handshake"),
            (3, "dGhlIHNhbXBsZSBub25jZQ=\u{e9}", "bad-handshake"),
        ] {
            let mut lines = GOOD;
            lines[at].1 = wrong;
            assert_eq!(judged(&lines).unwrap_err(), name, "{wrong}");
        }
        assert_eq!(judged(&[&GOOD[..], &[GOOD[2]]].concat()).unwrap_err(), "bad-handshake", "two versions");
        assert_eq!(judged(&[]).unwrap_err(), "upgrade-required");
    }
}
