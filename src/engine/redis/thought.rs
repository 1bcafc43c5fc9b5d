//! What this process thinks that feeds hold: what they held when they were looked at, and what its own calls have led to
//! since, also those that are under way. `ready` makes its calls on that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::held::Held;
use super::known::Mark;
use crate::domain::{FeedId, Tag};

/// Feeds of which it is remembered what they hold.
const FEEDS: usize = 16_384;

/// Calls for which a feed is left alone at most, once somebody else came in between.
const REST: u32 = 64;

/// Calls of one feed that may be under way and still be told from what others wrote.
const UNDER_WAY: usize = 4;

/// Changes that this process made, or saw made, one after the other: `first` to `last` have this mark.
#[derive(Clone, Copy)]
struct Steps {
    first: u64,
    last: u64,
    tag: Tag,
}

/// What is thought of one feed.
#[derive(Default)]
pub(super) struct Thought {
    /// What it holds once every call under way was taken.
    pub(super) held: Option<Held>,
    /// What led there, the newest last.
    steps: Vec<Steps>,
    /// What was known when it was looked at, which the store said is its past.
    pub(super) seen: Option<Mark>,
    /// Moves whenever `held` is no longer what a call under way was made on.
    pub(super) life: u64,
    /// Moves with every change of `held`.
    pub(super) version: u64,
    /// Somebody else wrote to it: it is looked at first.
    pub(super) shared: bool,
    /// Calls that are not tried here.
    rest: u32,
    /// Others came in between: each time doubles the rest.
    pub(super) races: u32,
}

impl Thought {
    /// Whether what is known of the feed is the past of what it is thought to hold.
    pub(super) fn follows(&self, known: Option<&Mark>) -> bool {
        let Some(Mark { at, tag }) = known else { return true };
        let is_step = |step: &Steps| step.tag == *tag && (step.first..=step.last).contains(&at.seq);
        self.seen.as_ref() == known
            || self.held.as_ref().is_some_and(|held| held.mark().at.epoch == at.epoch)
                && self.steps.iter().any(is_step)
    }

    /// Changes from `first` to `last` have this mark.
    pub(super) fn step(&mut self, first: u64, last: u64, tag: Tag) {
        if self.steps.len() > UNDER_WAY {
            self.steps.remove(0);
        }
        self.steps.push(Steps { first, last, tag });
        self.version += 1;
    }

    /// Whether this call is not to be tried, because others came in between lately.
    pub(super) fn rests(&mut self) -> bool {
        let rests = self.rest > 0;
        self.rest = self.rest.saturating_sub(1);
        rests
    }

    /// Others came in between, or it is not plain: the next calls are not tried, each time twice as many.
    pub(super) fn leave_alone(&mut self) {
        self.rest = (1 << self.races.min(6)).min(REST);
        self.races += 1;
    }

    /// Calls under way are made on something else than what it holds.
    pub(super) fn forget(&mut self) {
        self.held = None;
        self.steps.clear();
        (self.life, self.version) = (self.life + 1, self.version + 1);
    }
}

/// What is thought of each feed.
#[derive(Default)]
pub(super) struct Thoughts(Mutex<HashMap<FeedId, Thought>>);

impl Thoughts {
    /// Works on what is thought of the feed.
    pub(super) fn of<T>(&self, feed: &FeedId, work: impl FnOnce(&mut Thought) -> T) -> T {
        let mut thoughts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thoughts.len() >= FEEDS && !thoughts.contains_key(feed) {
            thoughts.clear();
        }
        work(thoughts.entry(feed.clone()).or_default())
    }
}
