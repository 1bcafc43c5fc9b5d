//! The server-sent events transport: frames out, nothing in.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::connection::Transport;
use super::encoding::SSE;
use super::messages::Message;
use crate::live::frame::Encoding;
use crate::live::session::Session;
use crate::metrics::labels;

/// An event stream's state.
#[derive(Default)]
pub struct EventStream {
    farewell: Option<Bytes>,
    closing: bool,
}

impl Transport for EventStream {
    fn receive(&mut self, bytes: &mut &[u8], _: &mut Session, _: Instant) {
        *bytes = &[];
    }

    fn peer_closed(&mut self) {
        self.closing = true;
        self.farewell = None;
    }

    fn urgent(&mut self, _: Instant) -> Option<Bytes> {
        self.farewell.take()
    }

    fn encoding(&self) -> Encoding {
        SSE
    }

    fn goodbye(&mut self, reason: &str, reconnect_in_ms: u64) {
        let json = Message::Goodbye { reason, reconnect_in_ms }.json();
        // A browser's event source reconnects by itself, after the time that `retry` names.
        let event = format!("retry: {reconnect_in_ms}\nevent: goodbye\ndata: {json}\n\n");
        self.farewell = Some(event.into());
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
