//! What watchers are sent about a feed: one JSON text each, and what transports make of it, made once for
//! all watchers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::domain::change::push_none;
use crate::domain::{Change, Epoch, FeedId, FeedList, Millis, Omit, Position};

/// Silence after which a watcher gets a keepalive, as the welcome says, in milliseconds.
pub const KEEPALIVE_MS: u64 = 25_000;

/// A way to put frames on a wire. The transports define theirs; frames keep what it makes.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    slot: usize,
    encode: fn(&Frame) -> Bytes,
}

impl Encoding {
    /// How many there can be.
    pub const MAX_SLOTS: usize = 3;

    /// `slot`, below [`Encoding::MAX_SLOTS`], is its alone.
    pub const fn new(slot: usize, encode: fn(&Frame) -> Bytes) -> Encoding {
        assert!(slot < Encoding::MAX_SLOTS);
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
    /// In a snapshot: where in `json` the list is, as [`list_json`] makes it.
    list: Range<usize>,
    /// By [`Encoding`], each made when it is first asked for.
    encoded: [OnceLock<Bytes>; Encoding::MAX_SLOTS],
    /// In a delta: where each op begins in `json`, from the first seq on.
    ops: Box<[u32]>,
    /// Which of `ops`, by index, are about totals and goals.
    counted: Box<[u32]>,
    /// The delta for watchers that want none of those, made when the first of them is owed it.
    without_totals: OnceLock<Arc<Frame>>,
}

impl Frame {
    fn new(kind: &'static str, at: &Position, json: String) -> Frame {
        let (epoch, last) = (at.epoch.clone(), at.seq);
        Frame {
            kind,
            epoch,
            last,
            json: json.into(),
            list: 0..0,
            encoded: Default::default(),
            ops: Box::default(),
            counted: Box::default(),
            without_totals: OnceLock::new(),
        }
    }

    /// The whole list but what is left out. `skipped` is how many changes a watcher has not seen one by one.
    pub fn snapshot(feed: &FeedId, list: &FeedList, capacity: u64, skipped: u64, omit: Omit) -> Frame {
        let Position { epoch, seq } = &list.at;
        let mut json = format!(
            "{{\"type\":\"snapshot\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"capacity\":{capacity},"
        );
        let begin = json.len();
        push_list(&mut json, list, omit);
        let end = json.len();
        json.push_str(&format!(",\"keepalive_ms\":{KEEPALIVE_MS},\"skipped\":{skipped}}}"));
        Frame { list: begin..end, ..Frame::new("snapshot", &list.at, json) }
    }

    /// Of a snapshot: its list, as [`list_json`] makes it. The bytes are the frame's.
    pub(super) fn list(&self) -> Bytes {
        self.json.slice(self.list.clone())
    }

    /// The watcher's own position is still covered; what it missed follows.
    pub fn resumed(feed: &FeedId, at: &Position) -> Frame {
        let Position { epoch, seq } = at;
        let json = format!(
            "{{\"type\":\"resumed\",\"feed\":\"{feed}\",\"epoch\":\"{epoch}\",\"seq\":{seq},\"keepalive_ms\":{KEEPALIVE_MS}}}"
        );
        Frame::new("resumed", at, json)
    }

    /// Changes in order; `changes` is not empty and has no reset.
    pub fn delta(feed: &FeedId, epoch: &Epoch, changes: &[Change]) -> Frame {
        let last = changes.last().map_or(0, |change| change.seq);
        let mut json = format!("{{\"type\":\"delta\",\"feed\":\"{feed}\",\"seq\":{last},\"ops\":[");
        let (mut ops, mut counted) = (Vec::with_capacity(changes.len()), Vec::new());
        for (n, change) in changes.iter().enumerate() {
            if Omit::Totals.leaves_out(&change.op) {
                counted.push(n as u32);
            }
            ops.push(json.len() as u32);
            change.push_json(&mut json);
            json.push(',');
        }
        json.pop();
        json.push_str("]}");
        let at = Position { epoch: epoch.clone(), seq: last };
        Frame { ops: ops.into(), counted: counted.into(), ..Frame::new("delta", &at, json) }
    }

    /// Ops of a delta, 0 in all others.
    pub(super) fn ops(&self) -> u64 {
        self.ops.len() as u64
    }

    /// The frame for watchers that leave `omit` out: itself, unless it is a delta with any of that.
    pub(super) fn omitting(self: &Arc<Frame>, omit: Omit) -> Arc<Frame> {
        match omit {
            Omit::Totals if !self.counted.is_empty() => {
                self.without_totals.get_or_init(|| Arc::new(self.cut_totals())).clone()
            }
            _ => self.clone(),
        }
    }

    /// The same delta with the ops of totals and goals only counted.
    fn cut_totals(&self) -> Frame {
        let text = String::from_utf8_lossy(&self.json);
        let end = text.len() - 2;
        let mut json = String::with_capacity(text.len());
        json.push_str(&text[..self.ops.first().map_or(end, |first| *first as usize)]);
        let mut ops = Vec::with_capacity(self.ops.len());
        let mut counted = self.counted.iter().peekable();
        for (n, from) in self.ops.iter().enumerate() {
            ops.push(json.len() as u32);
            if counted.next_if(|at| **at as usize == n).is_some() {
                push_none(&mut json, self.last + 1 + n as u64 - self.ops.len() as u64);
            } else {
                // Between two ops is a comma.
                let to = self.ops.get(n + 1).map_or(end, |next| *next as usize - 1);
                json.push_str(&text[*from as usize..to]);
            }
            json.push(',');
        }
        json.pop();
        json.push_str("]}");
        Frame { ops: ops.into(), ..Frame::new(self.kind, &self.position(), json) }
    }

    /// One delta of what `frames`, which follow each other, hold after `seq`, which lies within the
    /// first of them.
    pub(super) fn joined<'a>(
        feed: &FeedId,
        seq: u64,
        frames: impl Iterator<Item = &'a Arc<Frame>>,
        omit: Omit,
    ) -> Option<Frame> {
        let (mut all, mut at, mut epoch) = (String::new(), seq, None);
        for frame in frames {
            all.push_str(if all.is_empty() { "" } else { "," });
            all.push_str(frame.omitting(omit).ops_after(at)?);
            at = frame.last;
            epoch = Some(frame.epoch.clone());
        }
        let json = format!("{{\"type\":\"delta\",\"feed\":\"{feed}\",\"seq\":{at},\"ops\":[{all}]}}");
        // It goes to one watcher and is never cut again: it needs no op offsets.
        Some(Frame::new("delta", &Position { epoch: epoch?, seq: at }, json))
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
        Frame::new("keepalive", at, json)
    }

    /// How many watch. No change of the list: it moves nobody's position.
    pub(super) fn presence(feed: &FeedId, watchers: u64) -> Frame {
        let json = format!("{{\"type\":\"presence\",\"feed\":\"{feed}\",\"watchers\":{watchers}}}");
        Frame::new("presence", &Position::start(), json)
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
    #[inline]
    pub fn bytes(&self, encoding: Encoding) -> Bytes {
        self.encoded[encoding.slot].get_or_init(|| (encoding.encode)(self)).clone()
    }
}

/// What is in a list beside its position, as members of a JSON object.
pub fn list_json(list: &FeedList) -> String {
    let mut json = String::with_capacity(64 + list.rows.len() * 512);
    push_list(&mut json, list, Omit::Nothing);
    json
}

fn push_list(json: &mut String, list: &FeedList, omit: Omit) {
    json.push_str("\"rows\":[");
    for (n, row) in list.rows.iter().enumerate() {
        if n > 0 {
            json.push(',');
        }
        row.push_json(json);
    }
    json.push(']');
    list.push_beside(json, omit);
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
            let part = Frame::joined(&feed, 4 + from as u64, [&whole].into_iter(), Omit::Nothing).unwrap();
            assert_eq!(part.json, delta(from..3).json);
        }
        for outside in [3, 7] {
            assert!(Frame::joined(&feed, outside, [&whole].into_iter(), Omit::Nothing).is_none());
        }
        let parts = [Arc::new(delta(0..2)), Arc::new(delta(2..3))];
        let joined = Frame::joined(&feed, 5, parts.iter(), Omit::Nothing).unwrap();
        assert_eq!(joined.json, delta(1..3).json);
    }

    #[test]
    fn omitted_parts_are_counted_and_their_frame_is_made_once() {
        let (epoch, feed): (Epoch, FeedId) = ("e".parse().unwrap(), "f".parse().unwrap());
        let change = |seq, op| Change { epoch: epoch.clone(), seq, prev: 0, tag: 0, op };
        let removed = |seq| {
            let row = format!("e-{seq}").parse().unwrap();
            change(seq, Op::Remove { row, reason: RemoveReason::Expired })
        };
        let goal = |seq| change(seq, Op::Goal("g".parse().unwrap(), None));
        let counted = [change(5, Op::Totals(vec![])), removed(6), goal(7), goal(8), removed(9)];
        let (whole, cut) = (Arc::new(Frame::delta(&feed, &epoch, &counted)), Omit::Totals);
        let without = whole.omitting(cut);
        assert!(Arc::ptr_eq(&without, &whole.omitting(cut)));
        assert!(Arc::ptr_eq(&whole, &whole.omitting(Omit::Nothing)));
        let text = |frame: &Frame| String::from_utf8(frame.json.to_vec()).unwrap();
        let none = |seq| format!(r#"{{"op":"none","seq":{seq}}}"#);
        let row = |seq| format!(r#"{{"op":"remove","seq":{seq},"row":"e-{seq}","reason":"expired"}}"#);
        let delta =
            |ops: &[String]| format!(r#"{{"type":"delta","feed":"f","seq":9,"ops":[{}]}}"#, ops.join(","));
        let ops = [none(5), row(6), none(7), none(8), row(9)];
        assert_eq!(text(&without), delta(&ops));
        assert_eq!((without.first(), without.last()), (Some(5), 9));
        for skip in 0..5 {
            let part = Frame::joined(&feed, 4 + skip as u64, [&whole].into_iter(), cut).unwrap();
            assert_eq!(text(&part), delta(&ops[skip..]));
        }
        // A delta without anything that is left out has no second text.
        let plain = Arc::new(Frame::delta(&feed, &epoch, &[removed(1)]));
        assert!(Arc::ptr_eq(&plain, &plain.omitting(cut)));
    }
}
