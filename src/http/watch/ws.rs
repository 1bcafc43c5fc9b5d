//! The WebSocket transport: commands in, text frames out, pings, and every close by the code table.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::dev::Payload;
use actix_ws::CloseCode;
use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;

use super::body::Transport;
use super::command::{self, Command};
use super::incoming::{Incoming, Reader, Violation};
use crate::live::frame::Frame;
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

/// Pieces of input handled at once, so that a chatty client can't keep its worker busy.
const PIECES: usize = 16;

/// One WebSocket connection's protocol state.
pub struct WebSocket {
    input: Payload,
    reader: Reader,
    unread: Bytes,
    /// At most one error frame per counted wrong command, so at most [`WRONG_MOST`].
    errors: VecDeque<Bytes>,
    /// The last ping's payload: only the newest must be answered (RFC 6455, 5.5.3).
    pong: Option<Bytes>,
    wrong: u32,
    many: bool,
    heard: Instant,
    pinged: Instant,
    farewell: VecDeque<Bytes>,
    closing_since: Option<Instant>,
    over: bool,
}

impl WebSocket {
    /// Over the bytes that follow the handshake. `many`: the client may choose feeds.
    pub fn new(input: Payload, many: bool) -> Self {
        let now = Instant::now();
        WebSocket {
            input,
            reader: Reader::default(),
            unread: Bytes::new(),
            errors: VecDeque::new(),
            pong: None,
            wrong: 0,
            many,
            heard: now,
            pinged: now,
            farewell: VecDeque::new(),
            closing_since: None,
            over: false,
        }
    }

    fn hear(&mut self, incoming: Result<Incoming, Violation>, session: &mut Session) {
        match incoming {
            Ok(Incoming::Text(text)) => self.obey(&text, session),
            Ok(Incoming::Ping(payload)) => self.pong = Some(payload),
            Ok(Incoming::Pong) => {}
            Ok(Incoming::Close(code)) => {
                // Either the answer to our close, or theirs, which is answered in kind.
                if self.closing_since.is_none() {
                    self.farewell.push_back(close_frame(code, ""));
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
        self.errors.push_back(Frame::error(code, &why).ws());
        if self.wrong >= WRONG_MOST {
            self.farewell.extend(self.errors.drain(..));
            self.close(BAD_REQUEST, "too many wrong commands");
        }
    }

    fn close(&mut self, code: CloseCode, reason: &str) {
        if self.closing_since.is_none() {
            self.farewell.push_back(close_frame(Some(code), reason));
            self.closing_since = Some(Instant::now());
        }
    }
}

impl Transport for WebSocket {
    fn listen(&mut self, session: &mut Session, cx: &mut Context<'_>) {
        for _ in 0..PIECES {
            while let Some(incoming) = self.reader.read(&mut self.unread) {
                self.hear(incoming, session);
                if self.over {
                    return;
                }
            }
            match Pin::new(&mut self.input).poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    self.heard = Instant::now();
                    self.unread = bytes;
                }
                Poll::Ready(_) => {
                    // The connection is gone; there is nobody to say anything to.
                    self.over = true;
                    self.farewell.clear();
                    return;
                }
                Poll::Pending => return,
            }
        }
        cx.waker().wake_by_ref();
    }

    fn urgent(&mut self, now: Instant) -> Option<Bytes> {
        if self.closing_since.is_none() && now.duration_since(self.heard) >= DEAD_AFTER {
            self.close(NO_PROGRESS, "no sign of life for 60 s");
        }
        if let Some(bytes) = self.farewell.pop_front() {
            return Some(bytes);
        }
        if let Some(since) = self.closing_since {
            self.over |= now.duration_since(since) >= CLOSE_WITHIN;
            return None;
        }
        if let Some(payload) = self.pong.take() {
            return Some(control_frame(0x8a, &payload));
        }
        if let Some(error) = self.errors.pop_front() {
            return Some(error);
        }
        let quiet = now.duration_since(self.heard.max(self.pinged));
        if quiet >= PING_EVERY {
            self.pinged = now;
            return Some(control_frame(0x89, b""));
        }
        None
    }

    fn spell(&self, frame: &Frame) -> Bytes {
        frame.ws()
    }

    fn goodbye(&mut self, frame: &Frame) {
        self.farewell.push_back(frame.ws());
        self.close(SHUTDOWN, "shutdown");
    }

    fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    fn is_over(&self) -> bool {
        self.over && self.farewell.is_empty()
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
pub fn too_many_connections(why: &str) -> Streamed {
    let mut bytes = BytesMut::from(&Frame::error("too_many_connections", why).ws()[..]);
    bytes.extend_from_slice(&close_frame(Some(TOO_MANY_CONNECTIONS), "too many connections"));
    Streamed(Some(bytes.freeze()))
}

/// A body of known bytes whose length is nobody's business: frames after a handshake have none.
pub struct Streamed(Option<Bytes>);

impl MessageBody for Streamed {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.get_mut().0.take().map(Ok))
    }
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

fn close_frame(code: Option<CloseCode>, reason: &str) -> Bytes {
    let mut payload = Vec::new();
    if let Some(code) = code {
        payload.extend(u16::from(code).to_be_bytes());
        payload.extend(reason.as_bytes());
    }
    control_frame(0x88, &payload)
}
