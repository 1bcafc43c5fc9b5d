//! A WebSocket watcher on its way from its handshake to the thread that serves it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Wish;
use super::protocol::WebSocket;
use super::sockets::{Conversation, Serving, Sockets};
use super::visit::{Said, Tally, Visit};
use crate::http::door::places::Place;
use crate::live::calls::{Calls, Wake};
use crate::live::hub::Hub;
use crate::live::session::Session;
use crate::live::{Lease, Live};

/// What was agreed on with a client.
pub struct Guest {
    pub(super) place: Place,
    /// The feed to watch, followed already; none: the client chooses feeds later.
    pub(super) lease: Option<Lease>,
    pub(super) wish: Wish,
    /// Frames are compressed.
    pub(super) deflate: bool,
}

/// The sockets of all WebSocket watchers that the server need not keep.
pub type Guests = Sockets<Guest>;

/// Starts the threads that serve them.
pub fn serve_guests(threads: usize, live: &Arc<Live>) -> io::Result<Guests> {
    let live = live.clone();
    Sockets::start(threads, move || {
        let tally = Tally::new(live.metrics().clone());
        Hall { hub: Hub::start(live.clone()), tally }
    })
}

impl Guest {
    /// The visit, and the place that it takes.
    pub(super) fn sit(self, hub: &Rc<Hub>, tally: &Rc<Tally>) -> (Visit<WebSocket>, Place) {
        let mut session = Session::new(hub.live().clone(), hub.clone());
        let many = self.lease.is_none();
        if let Some(lease) = self.lease {
            session.subscribe(lease.feed(), self.wish.since, self.wish.spacing);
        }
        let transport = WebSocket::new(many, self.deflate);
        (Visit::new(session, transport, hub.clone(), tally.clone()), self.place)
    }
}

/// What one thread has beside its sockets.
struct Hall {
    hub: Rc<Hub>,
    tally: Rc<Tally>,
}

impl Serving<Guest, Seated> for Hall {
    fn calls(&self) -> Rc<Calls> {
        self.hub.calls().clone()
    }

    fn seat(&self, guest: Guest) -> Seated {
        let (visit, place) = guest.sit(&self.hub, &self.tally);
        Seated { visit, _place: place }
    }

    fn stretched(&self, stretch: Duration) {
        self.hub.live().metrics().fanout_stretch.observe(stretch.as_secs_f64());
    }

    fn turned(&self) {
        self.tally.flush();
    }
}

/// A visit and the place that it takes.
struct Seated {
    visit: Visit<WebSocket>,
    _place: Place,
}

impl Conversation for Seated {
    fn hear(&mut self, bytes: &[u8], now: Instant) {
        self.visit.hear(bytes, now);
    }

    fn hung_up(&mut self) {
        self.visit.hung_up();
    }

    fn say(&mut self, now: Instant, wake: &Wake) -> Poll<Option<Said>> {
        self.visit.say(now, wake)
    }

    fn unsent(&mut self, said: &Said, sent: usize) -> Bytes {
        self.visit.unsent(said, sent)
    }
}
