//! Inputs that cost a parser most, of any size: a parser must take twice as long for twice as much, not four times.

/// One kind of input.
pub struct Input {
    /// The target that reads it.
    pub target: &'static str,
    /// What is nasty in it.
    pub name: &'static str,
    /// Makes one of about this many bytes.
    pub make: fn(usize) -> Vec<u8>,
}

const fn input(target: &'static str, name: &'static str, make: fn(usize) -> Vec<u8>) -> Input {
    Input { target, name, make }
}

/// Every kind.
pub const INPUTS: &[Input] = &[
    input("amount", "digits", |n| b"7".repeat(n)),
    input("amount", "zeros", |n| [b"0".repeat(n / 2), b".".to_vec(), b"0".repeat(n / 2)].concat()),
    input("amount", "exponent", |n| [b"1e".to_vec(), b"9".repeat(n)].concat()),
    input("batch", "members", |n| batch_of(members(n))),
    input("batch", "escaped-members", |n| batch_of(escaped_members(n))),
    input("batch", "same-name", |n| batch_of(same_name(n))),
    input("batch", "long-name", |n| batch_of(long_name(n))),
    input("batch", "nested", |n| batch_of(nested(n))),
    input("batch", "values", |n| batch_of(values(n))),
    input("batch", "items", |n| format!("{{\"gifts\":[{}1]}}", "1,".repeat(n / 2)).into_bytes()),
    input("batch", "bad-items", |n| items(n, &"{\"a\":{\"b\":[]},\"c\":1},".repeat(5))),
    input("batch", "lists", |n| {
        format!("{{{}\"gifts\":[1]}}", "\"gifts\":[{},1],".repeat(n / 15)).into_bytes()
    }),
    input("batch", "unfinished", |n| format!("{{\"gifts\":[{}", "{\"a\":[{},".repeat(n / 9)).into_bytes()),
    input("batch", "combining-marks", |n| batch_of(message(&"\u{301}\u{327}".repeat(n / 4)))),
    input("batch", "hazards", |n| batch_of(message(&"\u{202e}".repeat(n / 3)))),
    input("bodies", "members", |n| members(n).into_bytes()),
    input("bodies", "escaped-members", |n| escaped_members(n).into_bytes()),
    input("bodies", "same-name", |n| same_name(n).into_bytes()),
    input("bodies", "long-name", |n| long_name(n).into_bytes()),
    input("bodies", "nested", |n| nested(n).into_bytes()),
    input("bodies", "cursors", |n| format!("{{\"cursors\":[{}\"1\"]}}", "\"x\",".repeat(n / 4)).into_bytes()),
    input("bodies", "points", |n| {
        let points: String = (0..n / 12).map(|n| format!("\"c{n}\":1,")).collect();
        format!("{{\"points\":{{{points}\"EUR\":1}}}}").into_bytes()
    }),
    input("command", "members", |n| members(n).into_bytes()),
    input("command", "escaped-members", |n| escaped_members(n).into_bytes()),
    input("command", "same-escaped-name", |n| {
        format!("{{{}\"a\":1}}", "\"\\u0061\":1,".repeat(n / 11)).into_bytes()
    }),
    input("command", "nested", |n| nested(n).into_bytes()),
    input("command", "long-feed", |n| {
        format!("{{\"type\":\"subscribe\",\"feed\":\"{}\"}}", "\\u0041".repeat(n / 6)).into_bytes()
    }),
    input("forms", "fields", |n| b"a=b&".repeat(n / 4)),
    input("forms", "escapes", |n| [b"data=".to_vec(), b"%41%".repeat(n / 4)].concat()),
    input("forwarded", "addresses", |n| b"10.0.0.1, ".repeat(n / 10)),
    input("forwarded", "pairs", |n| b"for=10.0.0.1;proto=http;".repeat(n / 24)),
    input("forwarded", "commas", |n| b",".repeat(n)),
    input("forwarded", "quotes", |n| [b"for=".to_vec(), b"\"".repeat(n)].concat()),
    input("framing", "requests", |n| pieces(&b"GET / HTTP/1.1\r\n\r\n".repeat(n / 18))),
    input("framing", "header-lines", |n| {
        pieces(&[b"GET / HTTP/1.1\r\n".to_vec(), b"a:b\r\n".repeat(n / 5)].concat())
    }),
    input("framing", "chunks", |n| {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        pieces(&[head, b"1\r\nx\r\n".repeat(n / 6)].concat())
    }),
    input("framing", "long-line", |n| pieces(&[b"GET /".to_vec(), b"x".repeat(n.min(150 << 10))].concat())),
    input("framing", "trailers", |n| {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".to_vec();
        pieces(&[head, b"t: x\r\n".repeat(n / 6)].concat())
    }),
    input("gift", "members", |n| members(n).into_bytes()),
    input("gift", "escaped-members", |n| escaped_members(n).into_bytes()),
    input("gift", "same-name", |n| same_name(n).into_bytes()),
    input("gift", "long-name", |n| long_name(n).into_bytes()),
    input("gift", "nested", |n| nested(n).into_bytes()),
    input("gift", "meta", |n| format!("{{\"meta\":{}}}", members(n)).into_bytes()),
    input("gift", "escapes", |n| message(&"\\ud83d\\ude00".repeat(n / 12)).into_bytes()),
    input("gift", "digits", |n| format!("{{\"count\":{}}}", "1".repeat(n)).into_bytes()),
    input("gift", "url", |n| {
        format!(
            "{{\"user\":{{\"id\":\"u\",\"name\":\"U\",\"avatar\":\"https://a/{}\"}}}}",
            "../".repeat(n / 3)
        )
        .into_bytes()
    }),
    input("handshake", "words", |n| [b"Upgrade: ".to_vec(), b"x, ".repeat(n / 3)].concat()),
    input("handshake", "extensions", |n| {
        let head = "Upgrade: websocket\nConnection: upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n";
        format!("{head}Sec-WebSocket-Extensions: {}", "permessage-deflate; x=\"1\", ".repeat(n / 27))
            .into_bytes()
    }),
    input("handshake", "lines", |n| b"Upgrade: websocket\n".repeat(n / 19)),
    input("incoming", "pings", |n| frames(&b"\x89\x80aaaa".repeat(n / 6))),
    input("incoming", "fragments", |n| {
        frames(&[b"\x01\x80aaaa".to_vec(), b"\x00\x80aaaa".repeat(n / 6)].concat())
    }),
    input("incoming", "texts", |n| frames(&b"\x81\x81aaaa\x00".repeat(n / 7))),
    input("incoming", "too-long", |n| {
        frames(&[b"\x81\xff\0\0\0\0\x7f\xff\xff\xffaaaa".to_vec(), b"x".repeat(n)].concat())
    }),
    input("jwks", "keys", |n| {
        format!("{{\"keys\":[{}1]}}", "{\"kty\":\"oct\",\"k\":\"a\"},".repeat(n / 23)).into_bytes()
    }),
    input("jwks", "members", |n| format!("{{\"keys\":[{}]}}", members(n)).into_bytes()),
    input("jwks", "modulus", |n| {
        let modulus = "A".repeat(n);
        format!("{{\"keys\":[{{\"kty\":\"RSA\",\"n\":\"{modulus}\",\"e\":\"AQAB\"}}]}}").into_bytes()
    }),
    input("names", "letters", |n| b"a".repeat(n)),
    input("names", "position", |n| [b"e:".to_vec(), b"1".repeat(n)].concat()),
    input("names", "colons", |n| b":".repeat(n)),
    input("names", "states", |n| b"a=b,".repeat(n / 4)),
    input("path", "escapes", |n| [b"/v1/feeds/".to_vec(), b"%41".repeat(n / 3)].concat()),
    input("path", "first-escaped", |n| [b"/".to_vec(), b"%76".repeat(n / 3)].concat()),
    input("path", "segments", |n| b"/v1".repeat(n / 3)),
    input("path", "slashes", |n| [b"/v1/feeds".to_vec(), b"/".repeat(n)].concat()),
    input("query", "pairs", |n| b"a=b&".repeat(n / 4)),
    input("query", "since", |n| b"since=e%3A1&".repeat(n / 12)),
    input("query", "escapes", |n| [b"user=".to_vec(), b"%41".repeat(n / 3)].concat()),
    input("query", "number", |n| [b"max_hz=".to_vec(), b"1".repeat(n)].concat()),
    input("signatures", "standard-webhooks", |n| {
        let piece = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ";
        let head = "webhook-id: a\nwebhook-timestamp: 1800000000\nwebhook-signature: ";
        [head.as_bytes(), piece.repeat(n / piece.len()).as_bytes()].concat()
    }),
    input("signatures", "short-pieces", |n| {
        let head = "webhook-id: a\nwebhook-timestamp: 1800000000\nwebhook-signature: ";
        [head.as_bytes(), "v1, ".repeat(n / 4).as_bytes()].concat()
    }),
    input("signatures", "stripe", |n| {
        let piece = format!(",v1={}", "ab".repeat(32));
        format!("stripe-signature: t=1800000000{}", piece.repeat(n / piece.len())).into_bytes()
    }),
    input("signatures", "stripe-times", |n| {
        format!("stripe-signature: {}", "t=x,".repeat(n / 4)).into_bytes()
    }),
    input("signatures", "hex", |n| format!("x-signature: sha256={}", "ab".repeat(n / 2)).into_bytes()),
    input("source", "members", |n| members(n).into_bytes()),
    input("source", "escaped-members", |n| escaped_members(n).into_bytes()),
    input("source", "array", |n| {
        format!("{{\"data\":{{\"items\":[{}1]}}}}", "1,".repeat(n / 2)).into_bytes()
    }),
    input("source", "half-surrogates", |n| {
        format!("{{\"message_id\":\"{}\"}}", "\\ud83d".repeat(n / 6)).into_bytes()
    }),
    input("source", "form", |n| [b"data=".to_vec(), b"%7B".repeat(n / 3)].concat()),
    input("token", "dots", |n| b".".repeat(n)),
    input("token", "base64", |n| [b"eyJhbGciOiJIUzI1NiJ9.".to_vec(), b"e".repeat(n)].concat()),
    input("token", "claims", |n| format!("\n{{\"alg\":\"HS256\"}}\n{}", members(n)).into_bytes()),
    input("token", "head", |n| format!("\n{}\n{{}}", members(n)).into_bytes()),
    input("token", "feeds", |n| {
        format!("\n{{\"alg\":\"HS256\"}}\n{{\"feeds\":[{}\"b\"]}}", "\"a*\",".repeat(n / 5)).into_bytes()
    }),
];

/// An object of members with different names.
fn members(n: usize) -> String {
    let all: Vec<_> = (0..n / 12).map(|n| format!("\"m{n}\":1")).collect();
    format!("{{{}}}", all.join(","))
}

/// The same with an escape in each name.
fn escaped_members(n: usize) -> String {
    let all: Vec<_> = (0..n / 18).map(|n| format!("\"\\u006d{n}\":1")).collect();
    format!("{{{}}}", all.join(","))
}

fn same_name(n: usize) -> String {
    format!("{{{}\"user\":2}}", "\"user\":1,".repeat(n / 9))
}

/// One member whose name is similar to that of a field.
fn long_name(n: usize) -> String {
    format!("{{\"{}\":1}}", "deliver_at".repeat(n / 10))
}

fn nested(n: usize) -> String {
    format!("{{\"user\":{}1{}}}", "[{\"a\":".repeat(n / 8), "}]".repeat(n / 8))
}

fn values(n: usize) -> String {
    format!("{{\"user\":[{}1]}}", "1,".repeat(n / 2))
}

fn message(text: &str) -> String {
    format!("{{\"message\":\"{text}\"}}")
}

fn batch_of(item: String) -> Vec<u8> {
    format!("{{\"gifts\":[{item}]}}").into_bytes()
}

/// A hundred items that are as long as fit, each of nothing but faults.
fn items(n: usize, faults: &str) -> Vec<u8> {
    let item = format!("{{\"x\":[{}1]}}", faults.repeat(n / 100 / faults.len()));
    format!("{{\"gifts\":[{}]}}", vec![item; 100].join(",")).into_bytes()
}

/// A stream that is read in pieces of seven bytes too.
fn pieces(stream: &[u8]) -> Vec<u8> {
    [&[7], stream].concat()
}

/// Frames that are read in pieces of seven bytes too, with every rule on.
fn frames(stream: &[u8]) -> Vec<u8> {
    [&[3, 7], stream].concat()
}
