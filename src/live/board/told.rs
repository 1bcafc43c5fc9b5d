//! How many watch a feed, as its watchers see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::FeedId;
use crate::live::frame::Frame;

/// How many watch, as watchers know it.
#[derive(Default)]
pub(in crate::live) struct Presence {
    told: Mutex<Told>,
    /// Counts announcements; 0 while none is to be made.
    version: AtomicU64,
}

#[derive(Default)]
struct Told {
    /// Whether there are announcements at all.
    wanted: bool,
    watchers: Option<u64>,
    frame: Option<Arc<Frame>>,
    versions: u64,
}

impl Presence {
    /// Whether it is to be announced.
    pub(in crate::live) fn want(&self, wanted: bool) {
        let mut told = self.locked();
        told.wanted = wanted;
        if !wanted {
            (told.watchers, told.frame) = (None, None);
            self.version.store(0, Ordering::Release);
        }
    }

    /// What was announced: `None` without announcements, nothing in it before the first.
    pub(in crate::live) fn known(&self) -> Option<Option<u64>> {
        let told = self.locked();
        told.wanted.then_some(told.watchers)
    }

    /// This number watches the feed. Returns false if it is not to be announced.
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

    /// What a watcher is to get that got the version `known` last, and its version.
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
