//! What watchers are sent about a feed: one JSON text each, and what transports make of it, made once for
//! all watchers.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::domain::{Change, Epoch, FeedId, FeedList, Millis, Position};

/// Silence after which a watcher gets a keepalive, as told to it, in milliseconds.
pub const KEEPALIVE_MS: u64 = 25_000;

/// A way to put frames on a wire. The transports define theirs; frames keep what it makes.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    slot: usize,
    encode: fn(&Frame) -> Bytes,
}

impl Encoding {
    /// How many there can be.
    pub const MOST: usize = 3;

    /// `slot`, below [`Encoding::MOST`], is its alone.
    pub const fn new(slot: usize, encode: fn(&Frame) -> Bytes) -> Encoding {
        assert!(slot < Encoding::MOST);
        Encoding { slot, encode }
    }

    pub(super) fn slot(self) -> usize {
        self.slot
    }
}

/// One message for watchers.
#[derive(Debug)]
pub struct Frame {
    kind: &'static str,
    epoch: Epoch,
    /// The position after it.
    last: u64,
    json: Bytes,
    /// By [`Encoding`], each made when it is first asked for.
    encoded: [OnceLock<Bytes>; Encoding::MOST],
    /// In a delta: where each op begins in `json`, from the first seq on.
    ops: Box<[u32]>,
}

impl Frame {
    fn new(kind: &'static str, at: &Position, json: String, ops: Vec<u32>) -> Frame {
        let (epoch, last) = (at.epoch.clone(), at.seq);
        Frame { kind, epoch, last, json: json.into(), encoded: Default::default(), ops: ops.into() }
    }

    /// The whole list. `skipped` is how many changes a watcher has not seen one by one.
    pub fn snapshot(feed: &FeedId, list: &FeedList, capacity: u64, skipped: u64) -> Frame {
        let Position { epoch, seq } = &list.at;
        let mut json = format!(
            "{{\"type\":\"snapshot\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"capacity\":{capacity},\"rows\":["
        );
        for (n, row) in list.rows.iter().enumerate() {
            if n > 0 {
                json.push(',');
            }
            row.push_json(&mut json);
        }
        json.push(']');
        list.push_beside(&mut json);
        json.push_str(&format!(",\"keepalive_ms\":{KEEPALIVE_MS},\"skipped\":{skipped}}}"));
        Frame::new("snapshot", &list.at, json, Vec::new())
    }

    /// The watcher's own position is still covered; what it missed follows.
    pub fn resumed(feed: &FeedId, at: &Position) -> Frame {
        let Position { epoch, seq } = at;
        let json = format!(
            "{{\"type\":\"resumed\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"keepalive_ms\":{KEEPALIVE_MS}}}"
        );
        Frame::new("resumed", at, json, Vec::new())
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
        Frame::new("delta", &Position { epoch: epoch.clone(), seq: last }, json, ops)
    }

    /// One delta of what `frames`, which follow each other, hold after `seq`, which lies within the
    /// first of them.
    pub(super) fn joined<'a>(
        feed: &FeedId,
        seq: u64,
        frames: impl Iterator<Item = &'a Frame>,
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
        Some(Frame::new("delta", &Position { epoch: epoch?, seq: at }, json, Vec::new()))
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
        Frame::new("keepalive", at, json, Vec::new())
    }

    /// How many watch. No change of the list: it moves nobody's position.
    pub(super) fn presence(feed: &FeedId, watchers: u64) -> Frame {
        let json = format!("{{\"type\":\"presence\",\"feed\":\"{feed}\",\"watchers\":{watchers}}}");
        Frame::new("presence", &Position::start(), json, Vec::new())
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

    /// Its `type`: `snapshot`, `resumed`, `delta`, `keepalive` or `presence`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The position a watcher has after this frame.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch.clone(), seq: self.last }
    }

    /// The JSON text: one object, without a line break.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// As it goes over the wire; shared by all who want it so.
    pub fn bytes(&self, encoding: Encoding) -> Bytes {
        self.encoded[encoding.slot].get_or_init(|| (encoding.encode)(self)).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
            let part = Frame::joined(&feed, 4 + from as u64, [&*whole].into_iter()).unwrap();
            assert_eq!(part.json, delta(from..3).json);
        }
        for outside in [3, 7] {
            assert!(Frame::joined(&feed, outside, [&*whole].into_iter()).is_none());
        }
        let parts = [Arc::new(delta(0..2)), Arc::new(delta(2..3))];
        assert_eq!(Frame::joined(&feed, 5, parts.iter().map(|part| &**part)).unwrap().json, delta(1..3).json);
    }
}
