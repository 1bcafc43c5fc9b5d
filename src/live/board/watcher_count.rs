//! How many watch a feed, as its watchers see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::FeedId;
use crate::live::frame::Frame;

/// How many watch, as watchers know it.
#[derive(Default)]
pub(in crate::live) struct WatcherCount {
    announced: Mutex<Announced>,
    /// Counts announcements; 0 while none is to be made.
    version: AtomicU64,
}

#[derive(Default)]
struct Announced {
    /// Whether there are announcements at all.
    wanted: bool,
    watchers: Option<u64>,
    frame: Option<Arc<Frame>>,
    versions: u64,
}

impl WatcherCount {
    /// Whether it is to be announced.
    pub(in crate::live) fn want(&self, wanted: bool) {
        let mut announced = self.locked();
        announced.wanted = wanted;
        if !wanted {
            (announced.watchers, announced.frame) = (None, None);
            self.version.store(0, Ordering::Release);
        }
    }

    /// What was announced: `None` without announcements, nothing in it before the first.
    pub(in crate::live) fn known(&self) -> Option<Option<u64>> {
        let announced = self.locked();
        announced.wanted.then_some(announced.watchers)
    }

    /// This number watches the feed. Returns false if it is not to be announced.
    pub(super) fn announce(&self, feed: &FeedId, watchers: u64) -> bool {
        let mut announced = self.locked();
        if announced.wanted {
            announced.versions += 1;
            announced.watchers = Some(watchers);
            announced.frame = Some(Arc::new(Frame::presence(feed, watchers)));
            self.version.store(announced.versions, Ordering::Release);
        }
        announced.wanted
    }

    /// What a watcher is to get that got the version `known` last, and its version.
    pub(in crate::live) fn after(&self, known: u64) -> Option<(u64, Arc<Frame>)> {
        let version = self.version.load(Ordering::Acquire);
        if version == 0 || version == known {
            return None;
        }
        let announced = self.locked();
        Some((announced.versions, announced.frame.clone()?))
    }

    fn locked(&self) -> MutexGuard<'_, Announced> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
