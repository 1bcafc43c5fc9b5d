//! Who listens to which feed, and how far each has come on disk; and who waits for something due or to be sent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::domain::{FeedId, Position};
use crate::engine::{NOTICES, Notice, Subscription, Wakes};

/// See the module.
pub(super) struct Topics {
    by_feed: Mutex<HashMap<FeedId, Topic>>,
    /// Tells in how many milliseconds something is due.
    pub(super) wakes: broadcast::Sender<u64>,
    /// Tells in how many milliseconds a webhook has something to send.
    pub(super) job_wakes: broadcast::Sender<u64>,
}

struct Topic {
    notices: broadcast::Sender<Notice>,
    known: Option<Position>,
}

impl Default for Topics {
    fn default() -> Topics {
        Topics { by_feed: Mutex::default(), wakes: Wakes::sender(), job_wakes: Wakes::sender() }
    }
}

impl Topics {
    fn locked(&self) -> MutexGuard<'_, HashMap<FeedId, Topic>> {
        self.by_feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes of a feed from now on.
    pub(super) fn subscribe(&self, feed: &FeedId) -> Subscription {
        let mut by_feed = self.locked();
        by_feed.retain(|name, topic| name == feed || topic.notices.receiver_count() > 0);
        let topic = by_feed
            .entry(feed.clone())
            .or_insert_with(|| Topic { notices: broadcast::channel(NOTICES).0, known: None });
        Subscription::new(topic.notices.subscribe())
    }

    /// How far a feed that somebody listens to has come.
    pub(super) fn known(&self, feed: &FeedId) -> Option<Position> {
        self.locked().get(feed)?.known.clone()
    }

    /// Tells what has become durable.
    pub(super) fn tell(&self, feed: &FeedId, notice: Notice) {
        if let Some(topic) = self.locked().get_mut(feed) {
            if let Notice::Changes(changes) = &notice
                && let Some(last) = changes.last()
            {
                topic.known = Some(Position { epoch: last.epoch.clone(), seq: last.seq });
            }
            // Nobody listening is no failure.
            let _ = topic.notices.send(notice);
        }
    }
}
