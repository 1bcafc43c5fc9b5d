//! The WebSocket protocol of one watcher, without I/O: commands in, text frames out, pings, and every
//! close by the code table.

use std::time::Duration;

use actix_ws::CloseCode;
use bytes::Bytes;

use super::command::{self, ClientCommand};
use super::connection::Transport;
use super::encoding::{DEFLATED, WS};
use super::incoming::{FrameReader, FrameRules, Incoming, Violation};
use super::messages::SocketMessage;
use super::outgoing::{close_frame, ping, pong, text_frame};
use super::watcher::{WatchRefusal, Watcher, WatcherDue};
use crate::domain::FeedId;
use crate::live::frame::Encoding;
use crate::live::moment::MonoTime;
use crate::live::session::{Full, Session, WatchOptions};
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

/// How long a client may take to answer a close.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Wrong commands on one socket before it is closed.
const WRONG_MOST: u32 = 16;

/// Answers to commands that may wait for the client to read them; then the connection is closed.
const ANSWERS_MOST: usize = 256;

/// One WebSocket connection's protocol state.
pub struct WebSocket {
    reader: FrameReader,
    /// What goes out before the session's frames; none nearly always.
    outbox: Option<Box<Outbox>>,
    wrong: u32,
    many: bool,
    deflate: bool,
    over: bool,
    /// Frames of a feed went out.
    started: bool,
    watcher: Watcher,
    heard: MonoTime,
    pinged: MonoTime,
    closing_since: Option<MonoTime>,
}

/// What a client is outbox beside frames of feeds.
#[derive(Default)]
struct Outbox {
    /// Answers to commands (at most [`ANSWERS_MOST`]), and at the end the goodbye and the close frame.
    first: Vec<Bytes>,
    /// The last ping's payload: only the newest must be answered (RFC 6455, 5.5.3).
    pong: Option<Bytes>,
}

impl WebSocket {
    /// After the handshake. `many`: the client may choose feeds. `deflate`: permessage-deflate was
    /// agreed on, without context takeover.
    pub fn new(many: bool, deflate: bool, watcher: Watcher) -> Self {
        let now = MonoTime::now();
        let bad = watcher.bad_from_the_start();
        let mut socket = WebSocket {
            reader: FrameReader::new(FrameRules { deflate, ..FrameRules::default() }),
            outbox: None,
            wrong: 0,
            many,
            deflate,
            over: false,
            started: false,
            watcher,
            heard: now,
            pinged: now,
            closing_since: None,
        };
        if let Some(bad) = bad {
            socket.end(&bad, None);
        }
        socket
    }

    fn heed(&mut self, incoming: Result<Incoming, Violation>, session: &mut Session) {
        match incoming {
            Ok(Incoming::Text(text)) => self.obey(&text, session),
            // The rules have none.
            Ok(Incoming::Binary(_)) => {
                self.close(CloseCode::Unsupported, "binary messages are not understood")
            }
            Ok(Incoming::Ping(payload)) => self.outbox().pong = Some(payload),
            Ok(Incoming::Pong) => {}
            Ok(Incoming::Close(code)) => {
                // Either the answer to our close, or theirs, which is answered in kind.
                if self.closing_since.is_none() {
                    self.outbox().first.push(close_frame(code, ""));
                }
                self.closing_since.get_or_insert_with(MonoTime::now);
                self.over = true;
            }
            Err(Violation { code, reason }) => self.close(code, reason),
        }
    }

    fn obey(&mut self, text: &str, session: &mut Session) {
        if !session.may_command(self.heard) {
            let why = "commands come too fast; send fewer in a second";
            return self.refuse("slow_down", why, None, TOO_MANY_CONNECTIONS);
        }
        let command = command::parse(text);
        if let Ok(ClientCommand::Auth { credential }) = &command {
            return self.authenticate(&credential.0, session);
        }
        if !self.many {
            let why = "this socket watches one feed and takes no command but auth; use /v1/ws";
            return self.refuse("bad_command", why, None, BAD_REQUEST);
        }
        match command {
            // Obeyed above.
            Ok(ClientCommand::Auth { .. }) => {}
            Ok(ClientCommand::Subscribe { feed, since, omit, overlay }) => {
                let options = WatchOptions { since, omit, overlay, ..WatchOptions::default() };
                let (code, why, close) = match session.subscribe(&feed, options) {
                    Ok(()) => return session.allow(|feed| self.watcher.may_see(feed)),
                    Err(Full::Connection) => (
                        "too_many_feeds",
                        "64 feeds are watched on this socket; unsubscribe one first",
                        BAD_REQUEST,
                    ),
                    Err(Full::Bound(refused)) => {
                        let (code, why) = refused.explained();
                        (code, why, TOO_MANY_CONNECTIONS)
                    }
                };
                self.refuse(code, why, Some(&feed), close);
            }
            Ok(ClientCommand::Unsubscribe { feed }) => {
                session.unsubscribe(&feed);
                self.tell(&SocketMessage::Unsubscribed { feed: &feed });
            }
            Err(bad) => self.refuse("bad_command", &bad.message, bad.feed.as_ref(), BAD_REQUEST),
        }
    }

    /// Takes a token or a key. One that is no good ends a socket that waits for one that is.
    fn authenticate(&mut self, credential: &str, session: &mut Session) {
        let first = self.watcher.is_nobody();
        let only = session.feeds().next().filter(|_| !self.many);
        match self.watcher.present(credential, session.address(), only, session.feeds()) {
            Ok(expires_in_ms) => {
                session.allow(|feed| self.watcher.may_see(feed));
                // What is watched may be closed to it: then that is what the client hears.
                if self.many || session.denied().is_none() {
                    self.tell(&SocketMessage::Auth { expires_in_ms });
                }
            }
            // It would only go on to guess.
            Err(refusal) if refusal.code == "rate_limited" => self.end(&refusal, None),
            Err(refusal) if first && !self.many && session.denied().is_some() => self.end(&refusal, None),
            Err(refusal) => self.refuse(refusal.code, &refusal.message, None, BAD_REQUEST),
        }
    }

    /// Says why, and closes.
    fn end(&mut self, refusal: &WatchRefusal, feed: Option<&FeedId>) {
        self.tell(&SocketMessage::Error { code: refusal.code, message: &refusal.message, feed });
        self.close(refusal.close, refusal.code);
    }

    /// `close` is the code when there were too many of them.
    fn refuse(&mut self, code: &str, message: &str, feed: Option<&FeedId>, close: CloseCode) {
        self.tell(&SocketMessage::Error { code, message, feed });
        self.wrong += 1;
        if self.wrong >= WRONG_MOST {
            self.close(close, "too many wrong commands");
        }
    }

    fn tell(&mut self, message: &SocketMessage<'_>) {
        if self.closing_since.is_some() {
            return;
        }
        let first = &mut self.outbox().first;
        first.push(text_frame(message.json().as_bytes()));
        if first.len() >= ANSWERS_MOST {
            self.close(BAD_REQUEST, "commands come faster than their answers are read");
        }
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.outbox.get_or_insert_default()
    }

    fn close(&mut self, code: CloseCode, reason: &str) {
        if self.closing_since.is_none() {
            self.outbox().first.push(close_frame(Some(code), reason));
            self.closing_since = Some(MonoTime::now());
        }
    }
}

impl Transport for WebSocket {
    fn receive(&mut self, bytes: &mut &[u8], session: &mut Session, now: MonoTime) {
        self.heard = now;
        while !self.over
            && let Some(incoming) = self.reader.read(bytes)
        {
            self.heed(incoming, session);
        }
    }

    fn peer_closed(&mut self) {
        // There is nobody to say anything to.
        self.over = true;
        self.outbox = None;
    }

    fn judge(&mut self, session: &mut Session, now: MonoTime) {
        match self.watcher.judge_again() {
            Some(Ok(())) => session.allow(|feed| self.watcher.may_see(feed)),
            Some(Err(refusal)) => return self.end(&refusal, None),
            None => {}
        }
        match self.watcher.due(now, self.started) {
            Some(WatcherDue::Ended(refusal)) => return self.end(&refusal, None),
            Some(WatcherDue::Soon(expires_in_ms)) => self.tell(&SocketMessage::Token { expires_in_ms }),
            None => {}
        }
        while let Some(feed) = session.denied().cloned() {
            if !self.many && !self.started && self.watcher.may_wait(now) {
                return;
            }
            let refusal = self.watcher.refusal(&feed);
            if !self.many {
                return self.end(&refusal, Some(&feed));
            }
            session.unsubscribe(&feed);
            self.tell(&SocketMessage::Error {
                code: refusal.code,
                message: &refusal.message,
                feed: Some(&feed),
            });
        }
    }

    fn sent_frames(&mut self) {
        self.started = true;
    }

    fn mark(&self) -> u32 {
        self.watcher.mark()
    }

    fn urgent(&mut self, now: MonoTime) -> Option<Bytes> {
        if self.closing_since.is_none() && now.since(self.heard) >= DEAD_AFTER {
            self.close(NO_PROGRESS, "no sign of life for 60 s");
        }
        let Outbox { first, pong: pinged } =
            self.outbox.take().map_or_else(Outbox::default, |outbox| *outbox);
        if !first.is_empty() {
            self.outbox = pinged.map(|pinged| Box::new(Outbox { pong: Some(pinged), ..Outbox::default() }));
            // Together: a close frame is the last of them.
            return Some(first.concat().into());
        }
        if let Some(since) = self.closing_since {
            self.over |= now.since(since) >= CLOSE_WITHIN;
            return None;
        }
        if let Some(payload) = pinged {
            return Some(pong(&payload));
        }
        let quiet = now.since(self.heard.max(self.pinged));
        if quiet >= PING_EVERY {
            self.pinged = now;
            return Some(ping());
        }
        None
    }

    fn encoding(&self) -> Encoding {
        if self.deflate { DEFLATED } else { WS }
    }

    fn goodbye(&mut self, reason: &str, reconnect_in_ms: u64) {
        self.tell(&SocketMessage::Goodbye { reason, reconnect_in_ms });
        self.close(SHUTDOWN, "shutdown");
    }

    fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    fn is_over(&self) -> bool {
        self.over && self.outbox.as_ref().is_none_or(|outbox| outbox.first.is_empty())
    }

    fn kind(&self) -> labels::Transport {
        if self.many { labels::Transport::Many } else { labels::Transport::Ws }
    }

    fn deadline(&self) -> MonoTime {
        match self.closing_since {
            Some(since) => since + CLOSE_WITHIN,
            None => {
                let asked = self.heard.max(self.pinged) + PING_EVERY;
                let quiet = asked.min(self.heard + DEAD_AFTER);
                self.watcher.deadline(self.started).map_or(quiet, |due| due.min(quiet))
            }
        }
    }
}

/// All that a client is sent for which there is no place: the reason, and a close frame.
pub fn too_many_connections(why: &str) -> Bytes {
    let error = SocketMessage::Error { code: "too_many_connections", message: why, feed: None };
    let close = close_frame(Some(TOO_MANY_CONNECTIONS), "too many connections");
    [text_frame(error.json().as_bytes()), close].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_its_answers_is_closed_before_they_take_much_memory() {
        let mut socket = WebSocket::new(true, false, crate::http::testing::watcher().await);
        let feed: FeedId = "a".parse().unwrap();
        for _ in 0..10 * ANSWERS_MOST {
            socket.tell(&SocketMessage::Unsubscribed { feed: &feed });
        }
        assert!(socket.is_closing());
        let close = close_frame(Some(BAD_REQUEST), "commands come faster than their answers are read");
        let out = socket.urgent(MonoTime::now()).unwrap();
        assert!(out.ends_with(&close) && out.len() < 64 * ANSWERS_MOST, "{}", out.len());
        assert_eq!(socket.urgent(MonoTime::now()), None);
    }
}
