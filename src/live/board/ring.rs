//! The last frames of a feed, of which each watcher that is not too far behind takes those after its position.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::domain::{FeedId, Omit};
use crate::live::frame::Frame;

/// Frames in the ring. A watcher further behind gets a snapshot, which is shorter than what it missed.
const MAX_FRAMES: usize = 256;

/// Bytes of JSON in the ring, the newest frame always included.
const MAX_BYTES: usize = 1 << 20;

/// Bytes a cursor takes at once; the rest waits until the socket took these.
const TAKE_BYTES: usize = 64 << 10;

/// The last changes of a feed, as frames.
#[derive(Default)]
pub(super) struct Ring {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
}

impl Ring {
    /// Adds the next frame, and lets go of the oldest where there are too many.
    pub(super) fn push(&mut self, frame: Arc<Frame>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
        while self.frames.len() > MAX_FRAMES || (self.bytes > MAX_BYTES && self.frames.len() > 1) {
            if let Some(oldest) = self.frames.pop_front() {
                self.bytes -= oldest.len();
            }
        }
    }

    /// The number of the first change that it has.
    pub(super) fn first(&self) -> Option<u64> {
        self.frames.front()?.first()
    }

    /// Adds frames that end where it begins; of those the newest that it has room for.
    pub(super) fn push_front(&mut self, frames: Vec<Arc<Frame>>) {
        for frame in frames.into_iter().rev() {
            if self.frames.len() >= MAX_FRAMES || self.bytes + frame.len() > MAX_BYTES {
                return;
            }
            self.bytes += frame.len();
            self.frames.push_front(frame);
        }
    }

    /// The list was replaced: nothing leads to it.
    pub(super) fn clear(&mut self) {
        *self = Ring::default();
    }

    /// Whether it has what comes after `seq`.
    pub(super) fn leads_on(&self, seq: u64) -> bool {
        self.frame_after(seq).is_some()
    }

    /// The index of the frame that holds `seq + 1`.
    fn frame_after(&self, seq: u64) -> Option<usize> {
        let at = self.frames.partition_point(|frame| frame.last() <= seq);
        let first = self.frames.get(at)?.first()?;
        (first <= seq + 1).then_some(at)
    }

    /// Frames after `seq` until [`TAKE_BYTES`]; the first is cut when `seq` lies within it.
    pub(super) fn following(&self, feed: &FeedId, seq: u64, omit: Omit) -> Option<Vec<Arc<Frame>>> {
        let mut ring = self.frames.range(self.frame_after(seq)?..);
        let first = ring.next()?;
        let mut bytes = first.len();
        let first = match first.first() == Some(seq + 1) {
            true => first.omitting(omit),
            false => Arc::new(Frame::joined(feed, seq, [first].into_iter(), omit)?),
        };
        let rest = ring.take_while(|frame| {
            bytes += frame.len();
            bytes <= TAKE_BYTES
        });
        Some(std::iter::once(first).chain(rest.map(|frame| frame.omitting(omit))).collect())
    }

    /// All after `seq` in one frame, unless that is longer than [`TAKE_BYTES`].
    pub(super) fn joined(&self, feed: &FeedId, seq: u64, omit: Omit) -> Option<Arc<Frame>> {
        let due = self.frames.range(self.frame_after(seq)?..);
        let bytes: usize = due.clone().map(|frame| frame.len()).sum();
        if bytes > TAKE_BYTES {
            return None;
        }
        Frame::joined(feed, seq, due, omit).map(Arc::new)
    }
}
