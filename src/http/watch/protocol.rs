//! The WebSocket protocol of one watcher, without I/O: commands in, text frames out, pings, and every
//! close by the code table.

use std::time::{Duration, Instant};

use actix_ws::CloseCode;
use bytes::{BufMut, Bytes, BytesMut};

use super::command::{self, Command};
use super::incoming::{Incoming, Reader, Rules, Violation};
use super::visit::Transport;
use crate::live::frame::{Encoding, Frame};
use crate::live::session::Session;
use crate::metrics::labels;

/// 4000: what the client asks makes no sense; it should not come back.
const BAD_REQUEST: CloseCode = CloseCode::Other(4000);

/// 4100: no sign of life; it should back off.
const NO_PROGRESS: CloseCode = CloseCode::Other(4100);

/// 4129: no place for another watcher; it should back off.
const TOO_MANY_CONNECTIONS: CloseCode = CloseCode::Other(4129);

/// 4200: the server stops; it should come back after the jitter.
const SHUTDOWN: CloseCode = CloseCode::Other(4200);

/// A client is asked for a sign of life this often.
const PING_EVERY: Duration = Duration::from_secs(25);

/// A client that sent nothing for this long, not even a pong, is gone.
const DEAD_AFTER: Duration = Duration::from_secs(58);

/// How long a client that was told to close may take to do so.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Wrong commands on one socket before it is closed.
const WRONG_MOST: u32 = 16;

/// One WebSocket connection's protocol state.
pub struct WebSocket {
    reader: Reader,
    /// What goes out before the session's frames: errors (at most one for each counted wrong command, so
    /// at most [`WRONG_MOST`]), and at the end the goodbye and the close frame.
    first: Vec<Bytes>,
    /// The last ping's payload: only the newest must be answered (RFC 6455, 5.5.3).
    pong: Option<Bytes>,
    wrong: u32,
    many: bool,
    deflate: bool,
    over: bool,
    heard: Instant,
    pinged: Instant,
    closing_since: Option<Instant>,
}

impl WebSocket {
    /// After the handshake. `many`: the client may choose feeds. `deflate`: permessage-deflate was
    /// agreed on, without context takeover.
    pub fn new(many: bool, deflate: bool) -> Self {
        let now = Instant::now();
        WebSocket {
            reader: Reader::new(Rules { deflate, ..Rules::default() }),
            first: Vec::new(),
            pong: None,
            wrong: 0,
            many,
            deflate,
            over: false,
            heard: now,
            pinged: now,
            closing_since: None,
        }
    }

    fn heed(&mut self, incoming: Result<Incoming, Violation>, session: &mut Session) {
        match incoming {
            Ok(Incoming::Text(text)) => self.obey(&text, session),
            // The rules have none.
            Ok(Incoming::Binary(_)) => {
                self.close(CloseCode::Unsupported, "binary messages are not understood")
            }
            Ok(Incoming::Ping(payload)) => self.pong = Some(payload),
            Ok(Incoming::Pong) => {}
            Ok(Incoming::Close(code)) => {
                // Either the answer to our close, or theirs, which is answered in kind.
                if self.closing_since.is_none() {
                    self.first.push(close_frame(code, ""));
                }
                self.closing_since.get_or_insert_with(Instant::now);
                self.over = true;
            }
            Err(Violation { code, reason }) => self.close(code, reason),
        }
    }

    fn obey(&mut self, text: &str, session: &mut Session) {
        let refused = match command::parse(text, self.many) {
            Ok(Command::Subscribe { feed, since }) => {
                let taken = session.subscribe(&feed, since, Duration::ZERO);
                (!taken).then(|| {
                    (
                        "too_many_feeds",
                        "64 feeds are watched on this socket; unsubscribe one first".to_owned(),
                    )
                })
            }
            Ok(Command::Unsubscribe { feed }) => {
                session.unsubscribe(&feed);
                None
            }
            Err(why) => Some(("bad_command", why)),
        };
        let Some((code, why)) = refused else { return };
        self.wrong += 1;
        self.first.push(Frame::error(code, &why).bytes(Encoding::Ws));
        if self.wrong >= WRONG_MOST {
            self.close(BAD_REQUEST, "too many wrong commands");
        }
    }

    fn close(&mut self, code: CloseCode, reason: &str) {
        if self.closing_since.is_none() {
            self.first.push(close_frame(Some(code), reason));
            self.closing_since = Some(Instant::now());
        }
    }
}

impl Transport for WebSocket {
    fn hear(&mut self, bytes: &mut &[u8], session: &mut Session, now: Instant) {
        self.heard = now;
        while !self.over
            && let Some(incoming) = self.reader.read(bytes)
        {
            self.heed(incoming, session);
        }
    }

    fn hung_up(&mut self) {
        // There is nobody to say anything to.
        self.over = true;
        self.first.clear();
        self.pong = None;
    }

    fn urgent(&mut self, now: Instant) -> Option<Bytes> {
        if self.closing_since.is_none() && now.saturating_duration_since(self.heard) >= DEAD_AFTER {
            self.close(NO_PROGRESS, "no sign of life for 60 s");
        }
        if !self.first.is_empty() {
            // Together: a close frame is the last of them.
            return Some(std::mem::take(&mut self.first).concat().into());
        }
        if let Some(since) = self.closing_since {
            self.over |= now.saturating_duration_since(since) >= CLOSE_WITHIN;
            return None;
        }
        if let Some(payload) = self.pong.take() {
            return Some(control_frame(0x8a, &payload));
        }
        let quiet = now.saturating_duration_since(self.heard.max(self.pinged));
        if quiet >= PING_EVERY {
            self.pinged = now;
            return Some(control_frame(0x89, b""));
        }
        None
    }

    fn encoding(&self) -> Encoding {
        if self.deflate { Encoding::Deflated } else { Encoding::Ws }
    }

    fn goodbye(&mut self, frame: &Frame) {
        self.first.push(frame.bytes(Encoding::Ws));
        self.close(SHUTDOWN, "shutdown");
    }

    fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    fn is_over(&self) -> bool {
        self.over && self.first.is_empty()
    }

    fn kind(&self) -> labels::Transport {
        if self.many { labels::Transport::Many } else { labels::Transport::Ws }
    }

    fn deadline(&self) -> Instant {
        match self.closing_since {
            Some(since) => since + CLOSE_WITHIN,
            None => (self.heard.max(self.pinged) + PING_EVERY).min(self.heard + DEAD_AFTER),
        }
    }
}

/// All that a watcher gets for whom there is no place: the reason, and a close.
pub fn too_many_connections(why: &str) -> Bytes {
    let mut bytes = BytesMut::from(&Frame::error("too_many_connections", why).bytes(Encoding::Ws)[..]);
    bytes.extend_from_slice(&close_frame(Some(TOO_MANY_CONNECTIONS), "too many connections"));
    bytes.freeze()
}

/// A final frame of at most 125 bytes.
fn control_frame(first: u8, payload: &[u8]) -> Bytes {
    let payload = &payload[..payload.len().min(125)];
    let mut out = BytesMut::with_capacity(2 + payload.len());
    out.put_u8(first);
    out.put_u8(payload.len() as u8);
    out.put_slice(payload);
    out.freeze()
}

/// A close frame: no code, or one and its reason, which is cut at 123 bytes.
pub fn close_frame(code: Option<CloseCode>, reason: &str) -> Bytes {
    let mut payload = Vec::new();
    if let Some(code) = code {
        payload.extend(u16::from(code).to_be_bytes());
        payload.extend(reason.as_bytes());
    }
    control_frame(0x88, &payload)
}
