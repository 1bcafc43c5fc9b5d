//! One connection's watching, without I/O: what it asked for, what it is owed, in what order.
//!
//! The transport asks [`Session::next`] whenever its socket can take bytes, and polls again when
//! the worker wakes it. WebSocket and SSE differ only in how they spell the frames.

use std::net::IpAddr;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use smallvec::SmallVec;

use super::batch::FrameBatch;
use super::bounds::{Admission, Refused, Used};
use super::frame::Encoding;
use super::moment::MonoTime;
use super::wake::Wake;
pub use super::watching::WatchOptions;
use super::watching::{KEEPALIVE, Watching};
use super::worker::Worker;
use crate::domain::FeedId;
use crate::metrics::labels::Bound;

/// Feeds that one connection may watch.
pub const MAX_FEEDS: usize = 64;

/// A connection's watching. Belongs to one worker thread.
pub struct Session {
    worker: Rc<Worker>,
    /// Most sockets watch one feed, which then needs no allocation of its own.
    watches: SmallVec<[Watching; 1]>,
    /// Whose turn it is: no feed starves another on the same socket.
    turn: u32,
    /// The address that it counts for; `None` if that is not limited.
    address: Option<IpAddr>,
    /// Commands that came, of what may.
    commands: Used,
    /// Bytes of snapshots and missed changes that were sent, of what may.
    replayed: Used,
}

// An idle watcher is hardly more than one of these.
const _: () = assert!(size_of::<Watching>() <= 80 && size_of::<Session>() <= 136);

/// Why a session does not watch another feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// [`MAX_FEEDS`] are watched on this connection.
    Connection,
    /// A bound was met.
    Bound(Refused),
}

impl Session {
    /// A session that watches nothing yet. `address`: the one that it counts for; `None` if that is not limited.
    pub fn new(worker: Rc<Worker>, address: Option<IpAddr>) -> Self {
        let nothing = Used::nothing(MonoTime::now());
        Session { worker, watches: SmallVec::new(), turn: 0, address, commands: nothing, replayed: nothing }
    }

    /// Whether another command may come now: their rate is limited.
    pub fn may_command(&mut self, now: MonoTime) -> bool {
        let rate = self.worker.live().bounds().limits().commands;
        let may = self.commands.up_until(rate, now).is_none();
        match may {
            true => self.commands.charge(rate, 1, now),
            false => self.worker.live().bounds().met(Bound::Commands),
        }
        may
    }

    /// Feeds watched now.
    pub fn len(&self) -> usize {
        self.watches.len()
    }

    /// True when nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Starts to watch, from `options.since` where that is covered. Watching a feed again starts it anew.
    pub fn subscribe(&mut self, feed: &FeedId, options: WatchOptions) -> Result<(), Full> {
        self.unsubscribe(feed);
        if self.watches.len() >= MAX_FEEDS {
            return Err(Full::Connection);
        }
        let admission = self.worker.live().admit(self.address, feed).map_err(Full::Bound)?;
        self.watch(feed, options, admission);
        Ok(())
    }

    /// Starts to watch what was admitted before, for this session's address.
    pub fn watch(&mut self, feed: &FeedId, options: WatchOptions, admission: Admission) {
        let watching = Watching::new(&self.worker, feed, options);
        admission.take_over();
        self.watches.push(watching);
    }

    /// The feeds that are watched.
    pub fn feeds(&self) -> impl Iterator<Item = &FeedId> {
        self.watches.iter().map(|watching| watching.feed())
    }

    /// Says which of the watched feeds may be shown also while they are private. Nothing of a private feed is
    /// handed out before.
    pub fn allow(&mut self, may_see: impl Fn(&FeedId) -> bool) {
        for watching in &mut self.watches {
            watching.allow(may_see(watching.feed()));
        }
    }

    /// A watched feed that is private and may not be shown.
    #[inline]
    pub fn denied(&self) -> Option<&FeedId> {
        self.watches.iter().find(|watching| watching.is_denied()).map(|watching| watching.feed())
    }

    /// Stops watching a feed.
    pub fn unsubscribe(&mut self, feed: &FeedId) {
        let watched = self.watches.len();
        self.watches.retain(|watching| watching.feed() != feed);
        self.give_back(watched - self.watches.len());
    }

    fn give_back(&self, admissions: usize) {
        (0..admissions).for_each(|_| self.worker.live().bounds().give_back(self.address));
    }

    /// The address that it counts for; `None` if that is not limited.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The worker whose session this is.
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// The next frames that are owed, or pending: then `wake` is woken when there may be some. What is handed
    /// out counts as sent.
    pub fn next(&mut self, now: MonoTime, wake: &Wake) -> Poll<Rc<FrameBatch>> {
        let feeds = self.watches.len();
        for n in 0..feeds {
            let at = (self.turn as usize + n) % feeds;
            if self.watches[at].is_replaying() && self.must_pause(now).is_some() {
                continue;
            }
            if let Poll::Ready(batch) = self.watches[at].next(&self.worker, self.address, now, wake) {
                self.turn = at as u32;
                if self.watches[at].is_replaying() {
                    self.charge(&batch, now);
                }
                return Poll::Ready(batch);
            }
        }
        Poll::Pending
    }

    /// Until when nothing more is sent to watchers who are not where their feed is.
    #[inline]
    fn must_pause(&self, now: MonoTime) -> Option<MonoTime> {
        self.replayed.up_until(self.worker.live().bounds().limits().replay_bytes, now)
    }

    fn charge(&mut self, batch: &FrameBatch, now: MonoTime) {
        let rate = self.worker.live().bounds().limits().replay_bytes;
        self.replayed.charge(rate, batch.len(), now);
        if self.replayed.up_until(rate, now).is_some() {
            self.worker.live().bounds().met(Bound::ReplayBytes);
        }
    }

    /// The socket took only `sent` bytes of the newest frames: what must follow first. Frames behind
    /// that are not kept, they are handed out again, as they are then.
    pub fn unsent(&mut self, batch: &FrameBatch, encoding: Encoding, sent: usize) -> Bytes {
        let (rest, back) = batch.rest(encoding, sent);
        if let Some(seq) = back
            && let Some(watching) = self.watches.get_mut(self.turn as usize)
        {
            watching.goes_back(seq);
        }
        rest
    }

    /// When [`Session::next`] should be asked again even if nothing woke the task.
    #[inline]
    pub fn deadline(&self, now: MonoTime) -> MonoTime {
        let pause = self.must_pause(now);
        let soonest = self.watches.iter().map(|watching| match pause.filter(|_| watching.is_replaying()) {
            Some(until) => until,
            None => watching.deadline(now),
        });
        let soonest = soonest.min();
        soonest.unwrap_or_else(|| now + KEEPALIVE)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_back(self.watches.len());
    }
}
