//! What watchers of a feed were told of how many watch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::FeedId;
use crate::live::frame::Frame;

/// See the module.
#[derive(Default)]
pub(in crate::live) struct Presence {
    told: Mutex<Told>,
    /// Counts what was told; 0 while nothing is to be told.
    version: AtomicU64,
}

#[derive(Default)]
struct Told {
    /// Whether they are told at all.
    wanted: bool,
    watchers: Option<u64>,
    frame: Option<Arc<Frame>>,
    versions: u64,
}

impl Presence {
    /// Whether watchers are to be told.
    pub(in crate::live) fn want(&self, wanted: bool) {
        let mut told = self.locked();
        told.wanted = wanted;
        if !wanted {
            (told.watchers, told.frame) = (None, None);
            self.version.store(0, Ordering::Release);
        }
    }

    /// What they know: none when they are not told, nothing in it before the first time.
    pub(in crate::live) fn known(&self) -> Option<Option<u64>> {
        let told = self.locked();
        told.wanted.then_some(told.watchers)
    }

    /// So many watch the feed. False when nobody is to be told.
    pub(super) fn tell(&self, feed: &FeedId, watchers: u64) -> bool {
        let mut told = self.locked();
        if told.wanted {
            told.versions += 1;
            told.watchers = Some(watchers);
            told.frame = Some(Arc::new(Frame::presence(feed, watchers)));
            self.version.store(told.versions, Ordering::Release);
        }
        told.wanted
    }

    /// What is to be told to a watcher who was told the version `known` last, and its version.
    pub(in crate::live) fn after(&self, known: u64) -> Option<(u64, Arc<Frame>)> {
        let version = self.version.load(Ordering::Acquire);
        if version == 0 || version == known {
            return None;
        }
        let told = self.locked();
        Some((told.versions, told.frame.clone()?))
    }

    fn locked(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
