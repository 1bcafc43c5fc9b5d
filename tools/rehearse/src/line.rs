//! A connection of the client: its request, and frames as a WebSocket or as an event stream.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use actix_http::ws::{CloseCode, CloseReason, OpCode, Parser, hash_key};
use bytes::BytesMut;
use serde_json::Value;

/// How long the client may take to send its request, or to take what it is sent.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest request and the longest frame of a client.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Headers of a request at most.
const MAX_HEADERS: usize = 64;

/// Length of the head, target, and headers with names in lower case; `None` while the head is not whole.
type Head = (usize, String, Vec<(String, String)>);

fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let httparse::Status::Complete(end) = parsed else { return Ok(None) };
    let headers = request.headers.iter();
    let headers =
        headers.map(|it| (it.name.to_ascii_lowercase(), String::from_utf8_lossy(it.value).into_owned()));
    Ok(Some((end, request.path.unwrap_or_default().to_owned(), headers.collect())))
}

/// What a client asked for.
pub struct Request {
    socket: TcpStream,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    /// Bytes behind the head.
    rest: BytesMut,
}

impl Request {
    /// Reads the head.
    pub fn read(mut socket: TcpStream) -> io::Result<Request> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SOCKET_TIMEOUT))?;
        socket.set_write_timeout(Some(SOCKET_TIMEOUT))?;
        let mut bytes = BytesMut::new();
        let mut buffer = [0; 4096];
        let (end, target, headers) = loop {
            if let Some(head) = parse_head(&bytes)? {
                break head;
            }
            match socket.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n if bytes.len() + n <= MAX_REQUEST_BYTES => bytes.extend_from_slice(&buffer[..n]),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        };
        let rest = bytes.split_off(end);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Ok(Request { path: path.to_owned(), query, headers, rest, socket })
    }

    fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    fn parameter(&self, wanted: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// The position that it offers.
    pub fn since(&self) -> Option<&str> {
        self.parameter("since").or_else(|| self.header("last-event-id")).filter(|since| !since.is_empty())
    }

    /// The token that it shows.
    pub fn token(&self) -> Option<String> {
        let bearer = self.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let pair = || {
            let all = self.header("sec-websocket-protocol")?;
            all.split(',').find_map(|one| one.trim().strip_prefix("bearer."))
        };
        self.parameter("token").or(bearer).or_else(pair).map(str::to_owned)
    }

    /// True when it asks to leave totals out.
    pub fn is_without_totals(&self) -> bool {
        self.parameter("without") == Some("totals")
    }

    /// True when it is for this feed's WebSocket or event stream.
    pub fn is_for(&self, feed: &str) -> bool {
        let rest = self.path.strip_prefix("/v1/feeds/").and_then(|rest| rest.strip_prefix(feed));
        matches!(rest, Some("/ws" | "/sse"))
    }

    /// Its address, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Answers with a status and nothing else.
    pub fn refuse(mut self, status: u16, retry_after: Option<u64>) {
        let retry = retry_after.map_or(String::new(), |seconds| format!("retry-after: {seconds}\r\n"));
        let head = format!("HTTP/1.1 {status} No\r\n{retry}content-length: 0\r\nconnection: close\r\n\r\n");
        // Whether it listens is its own business.
        let _ = self.socket.write_all(head.as_bytes());
    }

    /// Keeps it waiting.
    pub fn ignore(self) -> Line {
        Line { socket: self.socket, heard: self.rest, events: false, at: None }
    }

    /// Answers the handshake.
    pub fn accept(mut self) -> io::Result<Line> {
        let events = self.path.ends_with("/sse");
        let head = if events {
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
             access-control-allow-origin: *\r\nconnection: close\r\n\r\n"
                .to_owned()
        } else {
            let Some(key) = self.header("sec-websocket-key") else {
                return Err(io::Error::other("its request is no WebSocket handshake"));
            };
            let key = hash_key(key.as_bytes());
            let named = self.header("sec-websocket-protocol").is_some_and(|all| all.contains("tipcast.v1"));
            let protocol = if named { "sec-websocket-protocol: tipcast.v1\r\n" } else { "" };
            format!(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
                 sec-websocket-accept: {}\r\n{protocol}\r\n",
                String::from_utf8_lossy(&key)
            )
        };
        self.socket.write_all(head.as_bytes())?;
        Ok(Line { socket: self.socket, heard: self.rest, events, at: None })
    }
}

/// What came from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    Text(String),
    Pong,
    /// It closed, or is gone.
    Ended,
    Nothing,
}

/// A connection that stands.
pub struct Line {
    socket: TcpStream,
    heard: BytesMut,
    events: bool,
    /// The position after what was sent, for event streams.
    at: Option<String>,
}

impl Line {
    /// The bytes of a frame.
    fn frame(&mut self, text: &str, op: OpCode, fin: bool) -> BytesMut {
        let mut out = BytesMut::new();
        if !self.events {
            Parser::write_message(&mut out, text, op, fin, false);
            return out;
        }
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        if let (Some(epoch), Some(seq)) = (frame["epoch"].as_str(), frame["seq"].as_u64()) {
            self.at = Some(format!("{epoch}:{seq}"));
        } else if let (Some(at), Some(seq)) = (&mut self.at, frame["seq"].as_u64()) {
            let epoch = at.split(':').next().unwrap_or_default().to_owned();
            *at = format!("{epoch}:{seq}");
        }
        let id = self.at.as_ref().map_or(String::new(), |at| format!("id: {at}\n"));
        let kind = frame["type"].as_str().unwrap_or("message");
        out.extend_from_slice(format!("event: {kind}\n{id}data: {text}\n\n").as_bytes());
        out
    }

    /// Sends a frame; in pieces of this number of bytes if that is not 0.
    pub fn send(&mut self, text: &str, pieces: usize) -> io::Result<()> {
        let bytes = self.frame(text, OpCode::Text, true);
        let pieces = if pieces == 0 { bytes.len() } else { pieces };
        for piece in bytes.chunks(pieces) {
            self.socket.write_all(piece)?;
            if piece.len() < bytes.len() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Sends a message as several frames; an event stream knows none.
    pub fn send_fragments(&mut self, text: &str) -> io::Result<()> {
        if self.events {
            return self.send(text, 0);
        }
        let third = text.len() / 3;
        let mut cuts = [third, 2 * third].map(|cut| (cut..).find(|at| text.is_char_boundary(*at)));
        let (first, second) = (cuts[0].take().unwrap_or(0), cuts[1].take().unwrap_or(text.len()));
        for (part, op, fin) in [
            (&text[..first], OpCode::Text, false),
            (&text[first..second], OpCode::Continue, false),
            (&text[second..], OpCode::Continue, true),
        ] {
            let bytes = self.frame(part, op, fin);
            self.socket.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Sends the first half of a frame.
    pub fn send_half(&mut self, text: &str) -> io::Result<()> {
        let bytes = self.frame(text, OpCode::Text, true);
        self.socket.write_all(&bytes[..bytes.len() / 2])
    }

    /// Asks whether it lives; true when that can be asked.
    pub fn ping(&mut self) -> io::Result<bool> {
        if !self.events {
            let mut out = BytesMut::new();
            Parser::write_message(&mut out, "there?", OpCode::Ping, true, false);
            self.socket.write_all(&out)?;
        }
        Ok(!self.events)
    }

    /// Closes with a code, as far as the transport has one.
    pub fn close(mut self, code: u16) {
        if !self.events {
            let mut out = BytesMut::new();
            let reason = CloseReason { code: CloseCode::from(code), description: None };
            Parser::write_close(&mut out, Some(reason), false);
            let _ = self.socket.write_all(&out);
            // What it still sends is read, or it would see a reset in place of the code.
            let until = Instant::now() + Duration::from_secs(3);
            while Instant::now() < until && self.hear(Duration::from_millis(200)) != Heard::Ended {}
        }
    }

    /// Ends without a word.
    pub fn cut(self) {
        let _ = socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// What comes next, if it comes in time.
    pub fn hear(&mut self, within: Duration) -> Heard {
        let until = Instant::now() + within;
        let mut buffer = [0; 4096];
        loop {
            if !self.events {
                match Parser::parse(&mut self.heard, true, MAX_REQUEST_BYTES) {
                    Ok(Some((_, OpCode::Text, payload))) => {
                        let text = payload.map(|it| String::from_utf8_lossy(&it).into_owned());
                        return Heard::Text(text.unwrap_or_default());
                    }
                    Ok(Some((_, OpCode::Pong, _))) => return Heard::Pong,
                    Ok(Some((_, OpCode::Close, _))) | Err(_) => return Heard::Ended,
                    Ok(Some(_)) => continue,
                    Ok(None) => {}
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Nothing;
            }
            let _ = self.socket.set_read_timeout(Some(left));
            match self.socket.read(&mut buffer) {
                Ok(0) => return Heard::Ended,
                Ok(n) => self.heard.extend_from_slice(&buffer[..n]),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Heard::Nothing;
                }
                Err(_) => return Heard::Ended,
            }
        }
    }
}
