//! Who listens to which feed, and how far each has come on disk; and who waits for something due or to be sent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::domain::{FeedId, Position};
use crate::engine::{Notice, Notices, Subscription, Wakes};

/// See the module.
pub(super) struct Topics {
    by_feed: Mutex<Listened>,
    /// Tells in how many milliseconds something is due.
    pub(super) wakes: broadcast::Sender<u64>,
    /// Tells in how many milliseconds a webhook has something to send.
    pub(super) job_wakes: broadcast::Sender<u64>,
}

/// Topics by feed. Those that nobody listens to any more go when there are twice as many as were left the last time.
#[derive(Default)]
struct Listened {
    topics: HashMap<FeedId, Topic>,
    tidy_at: usize,
}

#[derive(Default)]
struct Topic {
    notices: Notices,
    known: Option<Position>,
}

impl Default for Topics {
    fn default() -> Topics {
        Topics { by_feed: Mutex::default(), wakes: Wakes::sender(), job_wakes: Wakes::sender() }
    }
}

impl Topics {
    fn locked(&self) -> MutexGuard<'_, Listened> {
        self.by_feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes of a feed from now on.
    pub(super) fn subscribe(&self, feed: &FeedId) -> Subscription {
        let mut listened = self.locked();
        let Listened { topics, tidy_at } = &mut *listened;
        if topics.len() >= *tidy_at {
            topics.retain(|_, topic| topic.notices.are_heard());
            *tidy_at = 2 * topics.len().max(32);
        }
        topics.entry(feed.clone()).or_default().notices.subscribe()
    }

    /// How far a feed that somebody listens to has come.
    pub(super) fn known(&self, feed: &FeedId) -> Option<Position> {
        self.locked().topics.get(feed)?.known.clone()
    }

    /// Tells what has become durable.
    pub(super) fn tell(&self, feed: &FeedId, notice: Notice) {
        if let Some(topic) = self.locked().topics.get_mut(feed) {
            if let Notice::Changes(changes) = &notice
                && let Some(last) = changes.last()
            {
                topic.known = Some(Position { epoch: last.epoch.clone(), seq: last.seq });
            }
            topic.notices.tell(&notice);
        }
    }
}
