//! permessage-deflate: agreed on only where it is switched on, each frame whole by itself.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::app::{Backing, TestApp};
use crate::support::gifts::gift;

on_both_stores_and_over_tls![
    frames_are_compressed_for_those_who_ask_and_plain_for_others,
    omitted_parts_are_absent_from_compressed_frames_too,
    a_compressed_command_is_understood_and_a_bomb_is_refused,
    nothing_is_agreed_on_unless_it_is_switched_on,
];

const OFFER: &str = "permessage-deflate; client_max_window_bits";

async fn compressing() -> TestApp {
    TestApp::with(&Backing::fresh(), |config| config.http.compress = true).await
}

/// A connection of bytes, after its handshake.
struct Raw {
    stream: TcpStream,
    /// What the server agreed to.
    agreed: Option<String>,
}

impl Raw {
    async fn open(app: &TestApp, path: &str, offer: Option<&str>) -> Raw {
        let mut stream = TcpStream::connect(app.authority()).await.unwrap();
        let offer = offer.map_or_else(String::new, |offer| format!("Sec-WebSocket-Extensions: {offer}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{offer}\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let line = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("sec-websocket-extensions").then(|| value.trim().to_owned())
        });
        Raw { stream, agreed: line }
    }

    /// The first byte of the next frame, and its payload.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let first = self.stream.read_u8().await.unwrap();
        let length = match self.stream.read_u8().await.unwrap() {
            126 => self.stream.read_u16().await.unwrap().into(),
            127 => self.stream.read_u64().await.unwrap(),
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).await.unwrap();
        (first, payload)
    }

    /// The next message, how it began, and how long it was on the wire.
    async fn message(&mut self) -> (Value, u8, usize) {
        let (first, payload) = self.frame().await;
        let length = payload.len();
        let text = if first & 0x40 != 0 { inflate(payload) } else { payload };
        (serde_json::from_slice(&text).unwrap(), first, length)
    }

    async fn send(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 126);
                frame.extend((long as u16).to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload as it is.
        frame.extend([0; 4]);
        frame.extend(payload);
        self.stream.write_all(&frame).await.unwrap();
    }
}

/// Each message with a fresh window: no context is taken over.
fn inflate(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend([0, 0, 0xff, 0xff]);
    let mut out = Vec::with_capacity(1 << 20);
    Decompress::new(false).decompress_vec(&payload, &mut out, FlushDecompress::Sync).unwrap();
    out
}

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 100);
    Compress::new(Compression::best(), false).compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
    out.truncate(out.len() - 4);
    out
}

async fn frames_are_compressed_for_those_who_ask_and_plain_for_others() {
    let app = compressing().await;
    for n in 0..10 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("user{n}"))).await;
    }
    let path = "/v1/feeds/show/ws";
    let (mut asked, mut plain) =
        (Raw::open(&app, path, Some(OFFER)).await, Raw::open(&app, path, None).await);
    assert!(asked.agreed.as_ref().unwrap().contains("server_no_context_takeover"), "{:?}", asked.agreed);
    assert_eq!(plain.agreed, None);
    let ((short, first, length), (long, whole, all)) = (asked.message().await, plain.message().await);
    assert_eq!((&short, first, whole), (&long, 0xc1, 0x81));
    assert!(length * 3 < all, "{length} of {all} bytes");
    for n in 10..14 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("user{n}"))).await;
        let (one, other) = (asked.message().await, plain.message().await);
        assert_eq!((&one.0, other.1), (&other.0, 0x81));
        assert_eq!(one.0["seq"], n + 1);
    }
}

async fn omitted_parts_are_absent_from_compressed_frames_too() {
    let app = compressing().await;
    app.patch_policy("show", json!({"totals": ["all"], "dedup": "off"})).await;
    app.give("show", &gift("g0")).await;
    let mut every = Raw::open(&app, "/v1/feeds/show/ws", Some(OFFER)).await;
    let mut fewer = Raw::open(&app, "/v1/feeds/show/ws?without=totals", Some(OFFER)).await;
    let mut ops = [vec![], vec![]];
    for (raw, ops) in [&mut every, &mut fewer].into_iter().zip(&mut ops) {
        // Until the gift that it saw come, and what was counted of it.
        while ["add", "totals", "none"]
            .iter()
            .filter(|kind| ops.iter().any(|op: &Value| op["op"] == **kind))
            .count()
            < 2
        {
            let (frame, first, _) = raw.message().await;
            assert!(first == 0xc1 || frame["type"] != "snapshot");
            if frame["type"] == "snapshot" {
                app.give("show", &gift(&format!("g{}", raw.stream.local_addr().unwrap().port()))).await;
            }
            ops.extend(frame["ops"].as_array().into_iter().flatten().cloned());
        }
    }
    let kinds =
        |ops: &[Value]| ops.iter().map(|op| op["op"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let (all, few) = (kinds(&ops[0]), kinds(&ops[1]));
    assert!(all.iter().any(|op| op == "totals") && !all.iter().any(|op| op == "none"), "{all:?}");
    assert!(few.iter().any(|op| op == "none") && !few.iter().any(|op| op == "totals"), "{few:?}");
}

async fn a_compressed_command_is_understood_and_a_bomb_is_refused() {
    let app = compressing().await;
    let mut raw = Raw::open(&app, "/v1/ws", Some(OFFER)).await;
    let command = json!({ "type": "subscribe", "feed": "show" }).to_string();
    raw.send(0xc1, &deflate(command.as_bytes())).await;
    let (frame, ..) = raw.message().await;
    assert_eq!((&frame["type"], &frame["feed"]), (&json!("snapshot"), &json!("show")));

    let bomb = deflate(&vec![b' '; 1 << 20]);
    assert!(bomb.len() < 4096);
    raw.send(0xc1, &bomb).await;
    let (first, payload) = raw.frame().await;
    assert_eq!((first, u16::from_be_bytes([payload[0], payload[1]])), (0x88, 1009));
}

async fn nothing_is_agreed_on_unless_it_is_switched_on() {
    let app = TestApp::start().await;
    let mut raw = Raw::open(&app, "/v1/feeds/show/ws", Some(OFFER)).await;
    assert_eq!(raw.agreed, None);
    assert_eq!(raw.message().await.1, 0x81);
    raw.send(0xc1, b"x").await;
    let (first, payload) = raw.frame().await;
    assert_eq!((first, u16::from_be_bytes([payload[0], payload[1]])), (0x88, 1002));
}
