//! Frames that are due together, joined once for all watchers that get the same.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::frame::{Encoding, Frame};

/// Frames that go out in one write. Watchers of one thread who stand at the same position share one.
#[derive(Debug)]
pub struct FrameBatch {
    /// Not empty.
    frames: Vec<Arc<Frame>>,
    /// The frames are of the board's ring: a cursor may be put back between two of them.
    ring: bool,
    /// By [`Encoding`], when there are several frames.
    joined: [OnceCell<Bytes>; Encoding::MAX_SLOTS],
}

impl FrameBatch {
    /// One frame.
    pub(super) fn one(frame: Arc<Frame>) -> Rc<FrameBatch> {
        FrameBatch::of(vec![frame], false)
    }

    /// Several, in order; `ring`: they came from the board's ring.
    pub(super) fn of(frames: Vec<Arc<Frame>>, ring: bool) -> Rc<FrameBatch> {
        Rc::new(FrameBatch { frames, ring, joined: Default::default() })
    }

    /// How many frames.
    pub fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Changes in them; a snapshot's do not count.
    pub fn changes(&self) -> u64 {
        self.frames.iter().map(|frame| frame.ops()).sum()
    }

    /// Bytes of JSON in all.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.frames.iter().map(|frame| frame.len()).sum()
    }

    /// All of it as it goes over the wire.
    #[inline]
    pub fn bytes(&self, encoding: Encoding) -> Bytes {
        if let [frame] = &self.frames[..] {
            return frame.bytes(encoding);
        }
        let joined = self.joined[encoding.slot()].get_or_init(|| {
            let parts = self.frames.iter().map(|frame| frame.bytes(encoding));
            let mut all = BytesMut::with_capacity(parts.clone().map(|part| part.len()).sum());
            parts.for_each(|part| all.extend_from_slice(&part));
            all.freeze()
        });
        joined.clone()
    }

    /// What must still follow when the socket took only `sent` bytes, and the seq after it when the
    /// frames behind can be taken anew. What is kept is of one frame, which others share.
    pub(super) fn rest(&self, encoding: Encoding, sent: usize) -> (Bytes, Option<u64>) {
        if !self.ring {
            return (self.bytes(encoding).slice(sent..), None);
        }
        let mut begin = 0;
        for frame in &self.frames {
            let bytes = frame.bytes(encoding);
            if sent < begin + bytes.len() {
                return (bytes.slice(sent - begin..), Some(frame.last()));
            }
            begin += bytes.len();
        }
        (Bytes::new(), None)
    }

    /// The position after it.
    pub(super) fn last(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Change, Epoch, FeedId, Op, RemoveReason};

    const PLAIN: Encoding = Encoding::new(0, |frame| frame.json().clone());

    fn frame(seq: u64) -> Arc<Frame> {
        let epoch: Epoch = "e".parse().unwrap();
        let feed: FeedId = "f".parse().unwrap();
        let op = Op::Remove { row: format!("e-{seq}").parse().unwrap(), reason: RemoveReason::Retracted };
        Arc::new(Frame::delta(&feed, &epoch, &[Change { epoch: epoch.clone(), seq, prev: 0, tag: 0, op }]))
    }

    #[test]
    fn a_full_socket_ends_its_frame_and_the_cursor_returns_there() {
        let batch = FrameBatch::of((1..=3).map(frame).collect(), true);
        let all = batch.bytes(PLAIN);
        let one = frame(1).bytes(PLAIN).len();
        for sent in 0..all.len() {
            let (rest, back) = batch.rest(PLAIN, sent);
            let n = sent / one;
            assert_eq!(rest, all.slice(sent..(n + 1) * one), "{sent}");
            assert_eq!(back, Some(n as u64 + 1));
        }
        let whole = FrameBatch::of((1..=3).map(frame).collect(), false);
        assert_eq!(whole.rest(PLAIN, 5), (all.slice(5..), None));
    }
}
