//! The server-sent events transport: frames out, nothing in.

use std::time::Duration;

use bytes::Bytes;

use super::connection::Transport;
use super::encoding::SSE;
use super::messages::SocketMessage;
use super::watcher::{WatchRefusal, Watcher, WatcherDue};
use crate::domain::FeedId;
use crate::live::frame::Encoding;
use crate::live::moment::MonoTime;
use crate::live::session::Session;
use crate::metrics::labels;

/// An event stream's state.
pub struct EventStream {
    farewell: Option<Bytes>,
    closing: bool,
    watcher: Watcher,
}

impl EventStream {
    /// For who watches.
    pub fn new(watcher: Watcher) -> Self {
        EventStream { farewell: None, closing: false, watcher }
    }

    fn end(&mut self, refusal: &WatchRefusal, feed: Option<&FeedId>) {
        let json = SocketMessage::Error { code: refusal.code, message: &refusal.message, feed }.json();
        self.farewell = Some(format!("event: error\ndata: {json}\n\n").into());
        self.closing = true;
    }
}

impl Transport for EventStream {
    fn receive(&mut self, bytes: &mut &[u8], _: &mut Session, _: MonoTime) {
        *bytes = &[];
    }

    fn peer_closed(&mut self) {
        self.closing = true;
        self.farewell = None;
    }

    fn judge(&mut self, session: &mut Session, now: MonoTime) {
        match self.watcher.judge_again() {
            Some(Ok(())) => session.allow(|feed| self.watcher.may_see(feed)),
            Some(Err(refusal)) => return self.end(&refusal, None),
            None => {}
        }
        // A stream cannot renew its token, so it only gets the end.
        if let Some(WatcherDue::Ended(refusal)) = self.watcher.due(now, false) {
            return self.end(&refusal, None);
        }
        if let Some(feed) = session.denied().cloned() {
            let refusal = self.watcher.refusal(&feed);
            self.end(&refusal, Some(&feed));
        }
    }

    fn sent_frames(&mut self) {}

    fn mark(&self) -> u32 {
        self.watcher.mark()
    }

    fn urgent(&mut self, _: MonoTime) -> Option<Bytes> {
        self.farewell.take()
    }

    fn encoding(&self) -> Encoding {
        SSE
    }

    fn goodbye(&mut self, reason: &str, reconnect_in_ms: u64) {
        let json = SocketMessage::Goodbye { reason, reconnect_in_ms }.json();
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

    fn deadline(&self) -> MonoTime {
        self.watcher.deadline(false).unwrap_or_else(|| MonoTime::now() + Duration::from_secs(3600))
    }
}
