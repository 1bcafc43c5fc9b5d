//! The server-sent events transport: frames out, nothing in.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::visit::Transport;
use crate::live::frame::{Encoding, Frame};
use crate::live::session::Session;
use crate::metrics::labels;

/// An event stream's state.
#[derive(Default)]
pub struct EventStream {
    farewell: Option<Bytes>,
    closing: bool,
}

impl Transport for EventStream {
    fn hear(&mut self, bytes: &mut &[u8], _: &mut Session, _: Instant) {
        *bytes = &[];
    }

    fn hung_up(&mut self) {
        self.closing = true;
        self.farewell = None;
    }

    fn urgent(&mut self, _: Instant) -> Option<Bytes> {
        self.farewell.take()
    }

    fn encoding(&self) -> Encoding {
        Encoding::Sse
    }

    fn goodbye(&mut self, frame: &Frame) {
        self.farewell = Some(frame.bytes(Encoding::Sse));
        self.closing = true;
    }

    fn is_closing(&self) -> bool {
        self.closing
    }

    fn is_over(&self) -> bool {
        self.closing && self.farewell.is_none()
    }

    fn kind(&self) -> labels::Transport {
        labels::Transport::Sse
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }
}
