//! The server-sent events transport: frames out, nothing in.

use std::collections::VecDeque;
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::body::Transport;
use crate::live::frame::Frame;
use crate::live::session::Session;
use crate::metrics::labels;

/// An event stream's state.
#[derive(Default)]
pub struct EventStream {
    farewell: VecDeque<Bytes>,
    closing: bool,
}

impl Transport for EventStream {
    fn listen(&mut self, _: &mut Session, _: &mut Context<'_>) {}

    fn urgent(&mut self, _: Instant) -> Option<Bytes> {
        self.farewell.pop_front()
    }

    fn spell(&self, frame: &Frame) -> Bytes {
        frame.sse()
    }

    fn goodbye(&mut self, frame: &Frame) {
        self.farewell.push_back(frame.sse());
        self.closing = true;
    }

    fn is_closing(&self) -> bool {
        self.closing
    }

    fn is_over(&self) -> bool {
        self.closing && self.farewell.is_empty()
    }

    fn kind(&self) -> labels::Transport {
        labels::Transport::Sse
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }
}
