//! What watchers are sent, encoded once: the JSON text, with the WebSocket header in front.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};

use super::KEEPALIVE_MS;
use crate::domain::drop::push_drops;
use crate::domain::{Change, Drops, Epoch, FeedId, Millis, Position, Row};

/// Each frame is compressed once for all, yet on the way to them: fast counts more than small.
const DEFLATE_LEVEL: u32 = 3;

/// How a frame goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A WebSocket text frame.
    Ws,
    /// A WebSocket text frame, compressed without context takeover where that makes it shorter.
    Deflated,
    /// A server-sent event.
    Sse,
}

impl Encoding {
    /// How many there are.
    pub const ALL: usize = 3;
}

/// One message for watchers.
#[derive(Debug)]
pub struct Frame {
    kind: &'static str,
    epoch: Epoch,
    /// The position after it.
    last: u64,
    ws: Bytes,
    json: Bytes,
    /// Made for the first who asks.
    sse: OnceLock<Bytes>,
    deflated: OnceLock<Bytes>,
    /// In a delta: where each op begins in `json`, from the first seq on.
    ops: Box<[u32]>,
}

impl Frame {
    fn new(kind: &'static str, at: &Position, json: &str, ops: Vec<u32>) -> Frame {
        let ws = text_frame(json);
        let json = ws.slice(ws.len() - json.len()..);
        let (epoch, last) = (at.epoch.clone(), at.seq);
        let (sse, deflated) = (OnceLock::new(), OnceLock::new());
        Frame { kind, epoch, last, ws, json, sse, deflated, ops: ops.into() }
    }

    /// The list at `at`.
    pub fn snapshot<'a>(
        feed: &FeedId,
        at: &Position,
        capacity: u64,
        rows: impl Iterator<Item = &'a Row>,
        drops: &Drops,
        skipped: u64,
    ) -> Frame {
        let Position { epoch, seq } = at;
        let mut json = format!(
            "{{\"type\":\"snapshot\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"capacity\":{capacity},\"rows\":["
        );
        for (n, row) in rows.enumerate() {
            if n > 0 {
                json.push(',');
            }
            row.push_json(&mut json);
        }
        json.push(']');
        push_drops(&mut json, drops.values());
        json.push_str(&format!(",\"keepalive_ms\":{KEEPALIVE_MS},\"skipped\":{skipped}}}"));
        Frame::new("snapshot", at, &json, Vec::new())
    }

    /// The watcher's own position is still covered; what it missed follows.
    pub fn resumed(feed: &FeedId, at: &Position) -> Frame {
        let Position { epoch, seq } = at;
        let json = format!(
            "{{\"type\":\"resumed\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"keepalive_ms\":{KEEPALIVE_MS}}}"
        );
        Frame::new("resumed", at, &json, Vec::new())
    }

    /// Changes in order; `changes` is not empty and has no reset.
    pub fn delta(feed: &FeedId, epoch: &Epoch, changes: &[Change]) -> Frame {
        let last = changes.last().map_or(0, |change| change.seq);
        let mut json = format!("{{\"type\":\"delta\",\"feed\":\"{feed}\",\"seq\":{last},\"ops\":[");
        let mut ops = Vec::with_capacity(changes.len());
        for change in changes {
            ops.push(json.len() as u32);
            change.push_json(&mut json);
            json.push(',');
        }
        json.pop();
        json.push_str("]}");
        Frame::new("delta", &Position { epoch: epoch.clone(), seq: last }, &json, ops)
    }

    /// One delta of what `frames`, which follow each other, hold after `seq`, which lies within the
    /// first of them.
    pub(super) fn joined<'a>(
        feed: &FeedId,
        seq: u64,
        frames: impl Iterator<Item = &'a Arc<Frame>>,
    ) -> Option<Frame> {
        let (mut all, mut at, mut epoch) = (String::new(), seq, None);
        for frame in frames {
            all.push_str(if all.is_empty() { "" } else { "," });
            all.push_str(frame.ops_after(at)?);
            at = frame.last;
            epoch = Some(frame.epoch.clone());
        }
        let json = format!("{{\"type\":\"delta\",\"feed\":\"{feed}\",\"seq\":{at},\"ops\":[{all}]}}");
        // It goes to one watcher and is never cut again: it needs no op offsets.
        Some(Frame::new("delta", &Position { epoch: epoch?, seq: at }, &json, Vec::new()))
    }

    /// The ops of a delta after `seq`, as they stand between the brackets.
    fn ops_after(&self, seq: u64) -> Option<&str> {
        let skip = usize::try_from(seq.checked_sub(self.first()? - 1)?).ok()?;
        let (from, to) = (*self.ops.get(skip)? as usize, self.json.len() - 2);
        std::str::from_utf8(self.json.get(from..to)?).ok()
    }

    /// Nothing new; the watcher should stand at `at`.
    pub fn keepalive(feed: &FeedId, at: &Position, now: Millis) -> Frame {
        let seq = at.seq;
        let json =
            format!("{{\"type\":\"keepalive\",\"feed\":\"{feed}\",\"seq\":{seq},\"server_time\":\"{now}\"}}");
        Frame::new("keepalive", at, &json, Vec::new())
    }

    /// The server is about to close.
    pub fn goodbye(reason: &str, reconnect_in_ms: u64) -> Frame {
        let json =
            format!("{{\"type\":\"goodbye\",\"reason\":\"{reason}\",\"reconnect_in_ms\":{reconnect_in_ms}}}");
        Frame::new("goodbye", &Position::start(), &json, Vec::new())
    }

    /// The watcher said something wrong. `code` is a word, `message` free text.
    pub fn error(code: &str, message: &str) -> Frame {
        let json = serde_json::json!({ "type": "error", "code": code, "message": message }).to_string();
        Frame::new("error", &Position::start(), &json, Vec::new())
    }

    /// The first seq of a delta.
    pub(super) fn first(&self) -> Option<u64> {
        (!self.ops.is_empty()).then(|| self.last + 1 - self.ops.len() as u64)
    }

    /// The position a watcher has after this frame.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes of the JSON text.
    pub(super) fn len(&self) -> usize {
        self.json.len()
    }

    /// As it goes over the wire, header included; shared by all who want it so.
    pub fn bytes(&self, encoding: Encoding) -> Bytes {
        match encoding {
            Encoding::Ws => self.ws.clone(),
            Encoding::Deflated => self.deflated.get_or_init(|| deflated(&self.json, &self.ws)).clone(),
            Encoding::Sse => self.sse(),
        }
    }

    /// Feeds' frames carry their position as the id; the JSON has no raw line break, so one `data`
    /// line holds it.
    fn sse(&self) -> Bytes {
        let event = self.sse.get_or_init(|| {
            let mut out = BytesMut::with_capacity(self.json.len() + 80);
            if !matches!(self.kind, "goodbye" | "error") {
                out.put_slice(format!("id: {}:{}\n", self.epoch, self.last).as_bytes());
            }
            out.put_slice(format!("event: {}\ndata: ", self.kind).as_bytes());
            out.put_slice(&self.json);
            out.put_slice(b"\n\n");
            out.freeze()
        });
        event.clone()
    }
}

/// A frame of known payload that begins with `first` (RFC 6455, 5.2).
pub fn frame(first: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len() + 10);
    out.put_u8(first);
    match payload.len() {
        short @ 0..126 => out.put_u8(short as u8),
        middle @ 126..65_536 => {
            out.put_u8(126);
            out.put_u16(middle as u16);
        }
        long => {
            out.put_u8(127);
            out.put_u64(long as u64);
        }
    }
    out.put_slice(payload);
    out.freeze()
}

/// An unmasked, final text frame.
fn text_frame(text: &str) -> Bytes {
    frame(0x81, text.as_bytes())
}

/// A text frame of permessage-deflate (RFC 7692, 7.2.1), or the plain one when that is not longer.
fn deflated(json: &[u8], plain: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(json.len() / 2 + 64);
    let mut deflate = Compress::new(Compression::new(DEFLATE_LEVEL), false);
    loop {
        let at = deflate.total_in() as usize;
        let status = deflate.compress_vec(&json[at..], &mut out, FlushCompress::Sync);
        // Room left in the output: the flush is complete.
        if status.is_err() || (out.len() < out.capacity() && deflate.total_in() as usize == json.len()) {
            break;
        }
        out.reserve(1024);
    }
    // The flush ends in an empty block whose last four bytes are left out.
    match out.strip_suffix(&[0, 0, 0xff, 0xff]) {
        Some(short) if short.len() < json.len() => frame(0xc1, short),
        _ => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Op, RemoveReason};

    #[test]
    fn deltas_are_cut_and_joined_without_a_hole() {
        let epoch: Epoch = "e".parse().unwrap();
        let feed: FeedId = "f".parse().unwrap();
        let changes: Vec<Change> = (5..8)
            .map(|seq| {
                let row = format!("e-{seq}").parse().unwrap();
                let op = Op::Remove { row, reason: RemoveReason::Retracted };
                Change { epoch: epoch.clone(), seq, prev: 0, tag: 0, op }
            })
            .collect();
        let delta = |range: std::ops::Range<usize>| Frame::delta(&feed, &epoch, &changes[range]);
        let whole = Arc::new(delta(0..3));
        assert_eq!((whole.first(), whole.last()), (Some(5), 7));
        for from in 0..3 {
            let part = Frame::joined(&feed, 4 + from as u64, [&whole].into_iter()).unwrap();
            assert_eq!(part.json, delta(from..3).json);
        }
        for outside in [3, 7] {
            assert!(Frame::joined(&feed, outside, [&whole].into_iter()).is_none());
        }
        let parts = [Arc::new(delta(0..2)), Arc::new(delta(2..3))];
        assert_eq!(Frame::joined(&feed, 5, parts.iter()).unwrap().json, delta(1..3).json);
    }

    #[test]
    fn the_header_spells_every_length() {
        for (len, header) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(text_frame(&"x".repeat(len)).len(), len + header);
        }
    }
}
