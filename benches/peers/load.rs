//! The load of `tipcast-bench` in other servers' words, so that they are measured with the same work by
//! the same counting: `peer_load --dialect nchan --url http://127.0.0.1:9000 --watchers 1000`.
//!
//! Each message is the text that Tipcast sends for one gift, with as many bytes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use tipcast_bench::{
    Answer, BenchError, Dialect, Greeting, LoadOptions, Meaning, TargetOptions, http_answer, mark,
    run_against,
};

#[derive(Parser)]
struct Line {
    /// How the server speaks.
    #[arg(long, value_enum)]
    dialect: Words,
    /// Where its publishers connect, if not where its watchers do.
    #[arg(long)]
    publish_at: Option<SocketAddr>,
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Words {
    /// Text messages over `/sub/FEED`, published by `POST /pub/FEED`: nchan, uWebSockets and ws with a few lines.
    Plain,
    /// NATS over WebSocket, published over its own protocol with acknowledgements.
    Nats,
    /// MQTT 3.1.1 over WebSocket at QoS 0, published over TCP at QoS 1.
    Mqtt,
    /// Socket.IO 4 over WebSocket, published by `POST /pub/FEED`.
    SocketIo,
    /// Centrifugo's JSON over WebSocket, published by its HTTP API.
    Centrifugo,
}

fn main() -> ExitCode {
    let line = Line::parse();
    let run = line.target.resolve().and_then(|target| {
        let peer = Peer { words: line.dialect, host: target.host.clone(), publish_at: line.publish_at };
        run_against(&line.load, &target, &peer)
    });
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer_load: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

struct Peer {
    words: Words,
    host: String,
    publish_at: Option<SocketAddr>,
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;

/// What Tipcast sends for one gift.
fn delta(feed: usize, n: u64) -> String {
    let (user, mark) = (n % 500, mark(n));
    format!(
        "{{\"type\":\"delta\",\"feed\":\"bench-{feed}\",\"seq\":{n},\"ops\":[{{\"op\":\"add\",\"seq\":{n},\
         \"row\":{{\"row\":\"0199f3c0-5c1e-7b3a-9d2e-{n:012x}\",\"rev\":1,\"seq\":{n},\
         \"user\":{{\"id\":\"viewer-{user:04}\",\"name\":\"Viewer {user:04}\"}},\
         \"gift\":{{\"id\":\"rose\",\"name\":\"Rose\"}},\"count\":1,\
         \"value\":{{\"amount\":150,\"currency\":\"EUR\"}},\"message\":\"{mark}\",\
         \"at\":\"2026-01-01T12:00:00.000Z\",\"updated_at\":\"2026-01-01T12:00:00.000Z\"}}}}]}}"
    )
}

/// An MQTT packet: first byte, and what follows its length.
fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![first];
    loop {
        let more = length > 127;
        out.push((length & 0x7f) as u8 | if more { 0x80 } else { 0 });
        length >>= 7;
        if !more {
            break;
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// A string as MQTT writes it.
fn string(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out
}

/// Protocol name and level, a clean session, no keepalive, no client id.
const MQTT_CONNECT: &[u8] = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00";

fn topic(feed: usize) -> String {
    format!("bench-{feed}")
}

impl Dialect for Peer {
    fn prepare(&self, feeds: usize) -> Result<Vec<u64>, BenchError> {
        Ok(vec![0; feeds])
    }

    fn watch(&self, feed: usize, out: &mut Vec<u8>) {
        let (path, more) = match self.words {
            Words::Plain => (format!("/sub/{}", topic(feed)), ""),
            Words::Nats => ("/".to_owned(), ""),
            Words::Mqtt => ("/mqtt".to_owned(), "sec-websocket-protocol: mqtt\r\n"),
            Words::Centrifugo => ("/connection/websocket".to_owned(), ""),
            Words::SocketIo => (format!("/socket.io/?EIO=4&transport=websocket&feed={}", topic(feed)), ""),
        };
        let host = &self.host;
        out.extend_from_slice(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGlwY2FzdCBiZW5jaC4uLg==\r\n{more}\r\n"
            )
            .as_bytes(),
        );
    }

    fn greet(&self, feed: usize, step: u8, frame: Option<&[u8]>) -> Greeting {
        match (self.words, step, frame) {
            (Words::Plain, ..) => Greeting::Ready,
            (Words::Nats, 0, Some(_)) => {
                let text = format!("CONNECT {{\"verbose\":false}}\r\nSUB {} 1\r\nPING\r\n", topic(feed));
                Greeting::Send(BINARY, text.into_bytes())
            }
            (Words::Nats, 1, Some(text)) if text.starts_with(b"PONG") => Greeting::Ready,
            (Words::Mqtt, 0, None) => Greeting::Send(BINARY, MQTT_CONNECT.to_vec()),
            (Words::Mqtt, 1, Some(&[0x20, ..])) => {
                let subscribe = packet(0x82, &[&[0, 1], &string(&topic(feed)), &[0]]);
                Greeting::Send(BINARY, subscribe)
            }
            (Words::Mqtt, 2, Some(&[0x90, ..])) => Greeting::Ready,
            (Words::Centrifugo, 0, None) => Greeting::Send(TEXT, b"{\"id\":1,\"connect\":{}}".to_vec()),
            (Words::Centrifugo, 1, Some(text)) if text.starts_with(b"{\"id\":1,\"connect\"") => {
                let text = format!("{{\"id\":2,\"subscribe\":{{\"channel\":\"{}\"}}}}", topic(feed));
                Greeting::Send(TEXT, text.into_bytes())
            }
            (Words::Centrifugo, 2, Some(text)) if text.starts_with(b"{\"id\":2,\"subscribe\"") => {
                Greeting::Ready
            }
            (Words::SocketIo, 0, Some(&[b'0', ..])) => Greeting::Send(TEXT, b"40".to_vec()),
            (Words::SocketIo, 1, Some(&[b'4', b'0', ..])) => Greeting::Ready,
            _ => Greeting::Wait,
        }
    }

    fn judge(&self, start: &[u8]) -> Meaning {
        match self.words {
            Words::SocketIo if start == b"2" => Meaning::Reply(b"3"),
            // Its ping is an empty command, and so is the answer.
            Words::Centrifugo if start == b"{}" => Meaning::Reply(b"{}"),
            Words::Nats if start.starts_with(b"PING") => Meaning::Reply(b"PONG\r\n"),
            _ => Meaning::Messages,
        }
    }

    fn hello(&self, out: &mut Vec<u8>) {
        match self.words {
            Words::Nats => out.extend_from_slice(b"CONNECT {\"verbose\":true}\r\n"),
            Words::Mqtt => out.extend_from_slice(MQTT_CONNECT),
            Words::Plain | Words::SocketIo | Words::Centrifugo => {}
        }
    }

    fn welcomed(&self, bytes: &[u8]) -> Option<usize> {
        match self.words {
            Words::Nats => bytes.windows(5).position(|five| five == b"+OK\r\n").map(|at| at + 5),
            Words::Mqtt => (bytes.len() >= 4).then_some(4),
            Words::Plain | Words::SocketIo | Words::Centrifugo => Some(0),
        }
    }

    fn producers_at(&self) -> Option<SocketAddr> {
        self.publish_at
    }

    fn pipelines(&self) -> bool {
        matches!(self.words, Words::Nats | Words::Mqtt)
    }

    fn publish(&self, feed: usize, marks: RangeInclusive<u64>, out: &mut Vec<u8>) {
        let n = *marks.start();
        let text = delta(feed, n);
        let (topic, length) = (topic(feed), text.len());
        match self.words {
            Words::Plain | Words::SocketIo | Words::Centrifugo => {
                let (host, kind) = (&self.host, "application/json");
                let (path, text) = match self.words {
                    Words::Centrifugo => {
                        ("/api/publish".to_owned(), format!("{{\"channel\":\"{topic}\",\"data\":{text}}}"))
                    }
                    _ => (format!("/pub/{topic}"), text),
                };
                let length = text.len();
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
                );
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            Words::Nats => out.extend_from_slice(format!("PUB {topic} {length}\r\n{text}\r\n").as_bytes()),
            Words::Mqtt => {
                let id = ((n % 65_535) as u16 + 1).to_be_bytes();
                out.extend_from_slice(&packet(0x32, &[&string(&topic), &id, text.as_bytes()]));
            }
        }
    }

    fn answer(&self, bytes: &[u8]) -> Answer {
        let taken = |bytes| Answer::Done { bytes, taken: 1, refused: 0 };
        match self.words {
            Words::Plain | Words::SocketIo | Words::Centrifugo => match http_answer(bytes) {
                None => Answer::Partial,
                // Centrifugo's errors come with status 200.
                Some((_, from, end)) if bytes[from..end].starts_with(b"{\"error\"") => {
                    Answer::Done { bytes: end, taken: 0, refused: 1 }
                }
                Some((200..300, _, end)) => taken(end),
                Some((_, _, end)) => Answer::Done { bytes: end, taken: 0, refused: 1 },
            },
            Words::Nats => match bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1) {
                None => Answer::Partial,
                Some(end) if bytes.starts_with(b"+OK") => taken(end),
                Some(end) if bytes.starts_with(b"-ERR") => Answer::Done { bytes: end, taken: 0, refused: 1 },
                Some(end) => Answer::Skip(end),
            },
            Words::Mqtt => match bytes {
                [0x40, 2, _, _, ..] => taken(4),
                _ => Answer::Partial,
            },
        }
    }
}
